//! Finds the state that is rescued.
//!
//! | what is left | what is opened |
//! |---|---|
//! | uberblocks whose root verifies | the newest of their states |
//! | meta-objsets, found by a scan | the newest of their states |
//! | objsets of datasets, found by a scan | the newest objset of each dataset, without its name |

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use env::Env;
use units::ObjsetId;

use crate::objects::{ObjectTable, TablePart};
use crate::states::{read_labels, states_of};
use crate::{FoundState, Geometry, LayoutHint, PoolRoot, RescueError, RescueView, ScanProgress, Scanner};

/// The devices to search, and the options of the search.
#[derive(Clone, Debug, Default)]
pub struct RescueSearch {
    /// The devices.
    pub devices: Vec<PathBuf>,
    /// The arrangement of the devices, for devices without labels.
    pub hint: LayoutHint,
    /// Only the state of this txg.
    pub txg: Option<u64>,
    /// True if the devices are scanned although there are uberblocks.
    pub scan: bool,
}

/// How much of a state is readable.
#[derive(Clone, Debug)]
pub struct StateSurvey {
    /// The state.
    pub state: FoundState,
    /// Why nothing of the state can be read. `None` if a part can be read.
    pub unreadable: Option<String>,
    /// The number of datasets and snapshots.
    pub datasets: u64,
    /// The number of datasets whose objects can be read at least in part.
    pub readable_datasets: u64,
    /// The number of files and other objects in all datasets.
    pub objects: u64,
    /// The number of objects whose dnodes cannot be read.
    pub lost_objects: u64,
}

impl RescueSearch {
    /// Opens the newest state that leads to at least one dataset.
    ///
    /// # Errors
    /// [`RescueError::Nothing`]; those of [`read_labels`] and [`Geometry::possible`].
    pub async fn open(
        &self,
        env: &Arc<dyn Env>,
        progress: &dyn ScanProgress,
    ) -> Result<PoolRoot, RescueError> {
        let devices = read_labels(env, &self.devices).await?;
        let possible = Geometry::possible(&devices, &self.hint)?;
        if !self.scan {
            let states = states_of(&devices);
            for geometry in &possible {
                if let Some(root) = self.first_of(env, geometry, &states).await? {
                    return Ok(root);
                }
            }
        }
        self.scanned(env, &possible, progress).await
    }

    /// Opens the first of these states that leads to a dataset.
    async fn first_of(
        &self,
        env: &Arc<dyn Env>,
        geometry: &Geometry,
        states: &[FoundState],
    ) -> Result<Option<PoolRoot>, RescueError> {
        for state in states.iter().filter(|state| self.txg.is_none_or(|txg| state.txg == txg)) {
            let Ok(root) = PoolRoot::open(env, geometry, state).await? else { continue };
            if leads_to_datasets(&root).await {
                return Ok(Some(root));
            }
        }
        Ok(None)
    }

    async fn scanned(
        &self,
        env: &Arc<dyn Env>,
        possible: &[Geometry],
        progress: &dyn ScanProgress,
    ) -> Result<PoolRoot, RescueError> {
        for geometry in possible {
            let Ok(view) = RescueView::open(env, geometry).await else { continue };
            let found = Scanner::new(&view, progress).run().await;
            if let Some(root) = self.first_of(env, geometry, &found.states()).await? {
                return Ok(root);
            }
            if let Some(root) = PoolRoot::of_roots(view, &found.datasets).await
                && self.txg.is_none_or(|txg| txg == root.state().txg)
            {
                return Ok(root);
            }
        }
        let what = "no state of a pool can be read from these devices";
        Err(RescueError::Nothing { what })
    }

    /// Counts how much of each state is readable, without reading the contents of files.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub async fn survey(
        &self,
        env: &Arc<dyn Env>,
        progress: &dyn ScanProgress,
    ) -> Result<Vec<StateSurvey>, RescueError> {
        let devices = read_labels(env, &self.devices).await?;
        let possible = Geometry::possible(&devices, &self.hint)?;
        let mut states = if self.scan { Vec::new() } else { states_of(&devices) };
        let mut geometry = None;
        for one in &possible {
            if self.first_of(env, one, &states).await?.is_some() {
                geometry = Some(one);
                break;
            }
        }
        if geometry.is_none() {
            for one in &possible {
                let Ok(view) = RescueView::open(env, one).await else { continue };
                let found = Scanner::new(&view, progress).run().await.states();
                if self.first_of(env, one, &found).await?.is_some() {
                    (geometry, states) = (Some(one), found);
                    break;
                }
            }
        }
        let mut known = BTreeMap::new();
        let mut surveys = Vec::with_capacity(states.len());
        for state in states {
            surveys.push(match geometry {
                Some(geometry) => survey_of(env, geometry, &state, &mut known).await?,
                None => unreadable(state, "no arrangement of the devices fits".into()),
            });
        }
        Ok(surveys)
    }
}

/// True if the objects of any dataset can be read.
async fn leads_to_datasets(root: &PoolRoot) -> bool {
    let Ok(found) = root.datasets().await else { return false };
    for dataset in &found.datasets {
        let id = ObjsetId::new(dataset.object);
        if ObjectTable::open(root.view().zio(), id, &dataset.root).await.is_ok() {
            return true;
        }
    }
    false
}

fn unreadable(state: FoundState, why: String) -> StateSurvey {
    StateSurvey {
        state,
        unreadable: Some(why),
        datasets: 0,
        readable_datasets: 0,
        objects: 0,
        lost_objects: 0,
    }
}

/// Objects and lost objects below a root, by the checksum of the root, because most roots are
/// shared with the previous state.
type Counted = BTreeMap<[u64; 4], Option<(u64, u64)>>;

async fn survey_of(
    env: &Arc<dyn Env>,
    geometry: &Geometry,
    state: &FoundState,
    known: &mut Counted,
) -> Result<StateSurvey, RescueError> {
    let root = match PoolRoot::open(env, geometry, state).await? {
        Ok(root) => root,
        Err(why) => return Ok(unreadable(state.clone(), why)),
    };
    let found = match root.datasets().await {
        Ok(found) => found,
        Err(why) => return Ok(unreadable(state.clone(), why)),
    };
    let mut survey = StateSurvey {
        state: state.clone(),
        unreadable: None,
        datasets: found.datasets.len() as u64,
        readable_datasets: 0,
        objects: 0,
        lost_objects: found.lost_objects,
    };
    for dataset in &found.datasets {
        let key = dataset.root.checksum();
        let counted = match known.get(&key) {
            Some(counted) => *counted,
            None => {
                let id = ObjsetId::new(dataset.object);
                let table = ObjectTable::open(root.view().zio(), id, &dataset.root).await.ok();
                let counted = match table {
                    Some(table) => Some(count(&table).await),
                    None => None,
                };
                *known.entry(key).or_insert(counted)
            }
        };
        if let Some((objects, lost)) = counted {
            survey.readable_datasets += 1;
            survey.objects += objects;
            survey.lost_objects += lost;
        }
    }
    Ok(survey)
}

async fn count(table: &ObjectTable<'_>) -> (u64, u64) {
    let (mut objects, mut lost, mut block) = (0, 0, 0);
    while let Some((part, next)) = table.part_at(block).await {
        match part {
            TablePart::Objects(found) => objects += found.len() as u64,
            TablePart::Lost(range) => lost += range.end - range.start,
        }
        block = next;
    }
    (objects, lost)
}
