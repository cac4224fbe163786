//! One state of a pool, opened for reading.

use std::collections::BTreeSet;
use std::sync::Arc;

use dmu::{Objset, ObjsetContext, ObjsetProps, TxgGate};
use dsl::Dsl;
use env::Env;
use ondisk::mos::{DIRECTORY, directory};
use ondisk::{NvList, ObjsetType, config};
use units::{ObjsetId, Txg};

use crate::contents::read_whole;
use crate::datasets::{FoundDataset, FoundDatasets, component, find_datasets};
use crate::file_tree::{FileSlot, FileTree};
use crate::names::{ReadNames, read_names};
use crate::objects::{ObjectSlot, ObjectTable};
use crate::{FoundRoot, FoundState, Geometry, RescueError, RescueView};

/// The largest size of a configuration.
const CONFIG_BYTES_MAX: u64 = 16 << 20;
/// The name of a pool whose name is lost.
const UNKNOWN_NAME: &str = "pool";

/// The meta-objset of a state, and the devices below it.
pub struct PoolRoot {
    view: RescueView,
    state: FoundState,
    name: String,
    /// The datasets that a scan found without a meta-objset.
    bare: Option<Vec<FoundDataset>>,
}

impl PoolRoot {
    /// Opens a state. If the configuration in the meta-objset can be read, it determines the
    /// arrangement of the devices, because labels may be older and options may be wrong.
    ///
    /// # Errors
    /// The reason why the root cannot be read; [`RescueError::Layout`].
    pub async fn open(
        env: &Arc<dyn Env>,
        geometry: &Geometry,
        state: &FoundState,
    ) -> Result<Result<Self, String>, RescueError> {
        let mut view = RescueView::open(env, geometry).await?;
        let first = match First::read(&view, state).await {
            Ok(first) => first,
            Err(why) => return Ok(Err(why)),
        };
        let refined = first.config.as_ref().and_then(|config| geometry.refined(config));
        if let Some(refined) = refined {
            // If the devices cannot be opened by this configuration, the present arrangement stays.
            if let Ok(better) = RescueView::open(env, &refined).await
                && First::read(&better, state).await.is_ok()
            {
                view = better;
            }
        }
        if let Some(salt) = first.salt {
            view.zio().set_salt(salt);
        }
        load_mappings(&view, state).await;
        let stored = first.config.as_ref().and_then(|config| config.get_str(config::POOL_NAME));
        let name = component(stored.or(geometry.pool.as_deref()).unwrap_or(UNKNOWN_NAME).as_bytes());
        Ok(Ok(Self { view, state: state.clone(), name, bare: None }))
    }

    /// Opens the datasets that a scan found without a meta-objset. Objsets with the same origin are
    /// one dataset at several times; the newest readable one is used.
    pub async fn of_roots(view: RescueView, roots: &[FoundRoot]) -> Option<Self> {
        let mut bare: Vec<FoundDataset> = Vec::new();
        let mut known = BTreeSet::new();
        for (number, found) in (1..).zip(roots) {
            let Ok(table) = ObjectTable::open(view.zio(), ObjsetId::new(number), &found.root).await else {
                continue;
            };
            let Some(origin) = origin_of(table).await else { continue };
            if known.insert(origin) {
                bare.push(FoundDataset {
                    name: format!("{UNKNOWN_NAME}/%objset-{number}"),
                    object: number,
                    root: found.root,
                    created_secs: 0,
                    bytes: 0,
                });
            }
        }
        let newest = roots.first().filter(|_| !bare.is_empty())?;
        let state = FoundState { txg: newest.txg, written_secs: None, root: newest.root, copies: 0 };
        Some(Self { view, state, name: UNKNOWN_NAME.to_owned(), bare: Some(bare) })
    }

    /// Returns the open devices.
    #[must_use]
    pub fn view(&self) -> &RescueView {
        &self.view
    }

    /// Returns the state.
    #[must_use]
    pub fn state(&self) -> &FoundState {
        &self.state
    }

    /// Returns the name of the pool.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns all datasets that can be found.
    ///
    /// # Errors
    /// The reason why the root can no longer be read.
    pub async fn datasets(&self) -> Result<FoundDatasets, String> {
        if let Some(bare) = &self.bare {
            return Ok(FoundDatasets { datasets: bare.clone(), lost_objects: 0 });
        }
        let mos = ObjectTable::open(self.view.zio(), ObjsetId::MOS, &self.state.root).await?;
        Ok(find_datasets(&mos, &self.name).await)
    }
}

/// Returns a value that identifies the dataset of an objset: the number and creation time of its
/// root directory, or the size of the volume.
async fn origin_of(table: ObjectTable<'_>) -> Option<Vec<u8>> {
    if table.kind() == ObjsetType::Zvol {
        let facts = names_of(&table, 2).await;
        return Some(facts.word("size")?.to_le_bytes().to_vec());
    }
    let tree = FileTree::open(table).await;
    let FileSlot::Found(root) = tree.file(tree.root()?).await else { return None };
    let times = root.attributes.created;
    Some([root.object.to_le_bytes(), times.secs.to_le_bytes(), u64::from(times.nanos).to_le_bytes()].concat())
}

/// The data that is read before the devices are known with certainty.
struct First {
    config: Option<NvList>,
    salt: Option<[u8; 32]>,
}

impl First {
    async fn read(view: &RescueView, state: &FoundState) -> Result<Self, String> {
        let mos = ObjectTable::open(view.zio(), ObjsetId::MOS, &state.root).await?;
        let names = names_of(&mos, DIRECTORY.get()).await;
        let config = match names.word(directory::CONFIG) {
            Some(object) => packed_list(&mos, object).await,
            None => None,
        };
        let salt = names.get(directory::CHECKSUM_SALT).and_then(|value| value.bytes()?.try_into().ok());
        Ok(Self { config, salt })
    }
}

async fn names_of(mos: &ObjectTable<'_>, object: u64) -> ReadNames {
    match mos.get(object).await {
        ObjectSlot::Found(image) => read_names(&mos.tree(object, &image)).await,
        ObjectSlot::Free | ObjectSlot::Lost(_) => ReadNames::default(),
    }
}

/// Reads a packed nvlist, whose length is in the bonus buffer.
async fn packed_list(mos: &ObjectTable<'_>, object: u64) -> Option<NvList> {
    let ObjectSlot::Found(image) = mos.get(object).await else { return None };
    let len = u64::from_le_bytes(*image.bonus.first_chunk()?);
    let len = usize::try_from(len.min(CONFIG_BYTES_MAX)).ok()?;
    NvList::decode(&read_whole(&mos.tree(object, &image), len).await?).ok()
}

/// Loads the mappings of removed vdevs, if they can be read.
async fn load_mappings(view: &RescueView, state: &FoundState) {
    if !view.vdevs().tops().iter().any(|top| top.is_removed() || top.config().leaving.is_some()) {
        return;
    }
    let context = ObjsetContext {
        id: ObjsetId::MOS,
        zio: Arc::clone(view.zio()),
        gate: TxgGate::new(Txg::new(state.txg), 0),
        props: ObjsetProps::mos(),
    };
    let Ok(mos) = Objset::open(context, state.root).await else { return };
    let Ok(dsl) = Dsl::open(mos).await else { return };
    // If a mapping cannot be loaded, reads of the blocks on that vdev fail.
    let _ = evacuation::load(&dsl, view.vdevs()).await;
}
