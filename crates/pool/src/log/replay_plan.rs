//! What an import would replay, told without doing it.
//!
//! The logs of a pool imported for reading only are walked to their ends, as claim and replay would
//! walk them. A log on a device that does not answer ends early: what lay behind cannot be known, and
//! would be lost if the pool were imported without that device.

use std::collections::BTreeMap;
use std::sync::Arc;

use env::boxed;
use ondisk::zil::{LogRecord, TxType};
use units::{ObjectId, VdevId};
use zil::{LogLoss, WalkedRecord};

use crate::log::look::DatasetLog;
use crate::log::loss::Reach;
use crate::{Filesystem, Pool, PoolError};

/// What would be replayed into one dataset.
#[derive(Debug, Default)]
pub struct ReplayPlan {
    /// The dataset.
    pub dataset: String,
    /// Log blocks that would be read.
    pub blocks: u64,
    /// Bytes that these have.
    pub block_bytes: u64,
    /// Records that would be replayed.
    pub records: u64,
    /// Records that have been replayed, or whose txg was synced.
    pub done: u64,
    /// Changes of names, by kind.
    pub names: BTreeMap<&'static str, u64>,
    /// Changes of the contents and attributes of objects.
    pub objects: BTreeMap<ObjectId, ObjectPlan>,
    /// Why the log ends before its end.
    pub stopped: Option<Stopped>,
    /// What seems to lie behind the place where it ends.
    pub loss: Option<LogLoss>,
    /// Paths of the objects that this is about.
    pub loss_paths: BTreeMap<ObjectId, Vec<u8>>,
    /// Objects that the log makes: the directory and the name of each.
    made: BTreeMap<ObjectId, (ObjectId, Vec<u8>)>,
}

/// How deep directories are followed that the log makes.
const DEPTH_MAX: usize = 1024;

/// What would be replayed into one object.
#[derive(Debug, Default)]
pub struct ObjectPlan {
    /// Its path, as the records or the last synced txg have it.
    pub path: Option<Vec<u8>>,
    /// Changes by kind.
    pub changes: BTreeMap<&'static str, u64>,
    /// Bytes written.
    pub bytes: u64,
}

/// Why a log ends early.
#[derive(Debug)]
pub enum Stopped {
    /// The vdev of the next block is missing.
    Missing(VdevId),
    /// The next block is damaged, or its records are.
    Damaged(String),
}

impl ReplayPlan {
    fn add(&mut self, log: &DatasetLog, record: &WalkedRecord<'_>) {
        if log.is_done(record) {
            self.done += 1;
            return;
        }
        self.records += 1;
        let kind = TxType::from_raw(record.txtype()).map_or("unknown", TxType::name);
        match record.decode() {
            Ok((_, decoded)) => self.add_change(kind, &decoded),
            Err(error) => self.stopped = Some(Stopped::Damaged(error.to_string())),
        }
    }

    fn add_change(&mut self, kind: &'static str, record: &LogRecord) {
        let Some(object) = record.object() else {
            *self.names.entry(kind).or_default() += 1;
            self.made.extend(record.made().map(|made| (made.object, (made.dir, made.name.clone()))));
            return;
        };
        let plan = self.objects.entry(object).or_default();
        *plan.changes.entry(kind).or_default() += 1;
        plan.bytes += match record {
            LogRecord::Write(write) | LogRecord::Write2(write) => write.length,
            LogRecord::CloneRange(clone) => clone.length,
            _ => 0,
        };
    }
}

impl Pool {
    /// What an import would replay, by dataset. Of a pool imported for reading only.
    ///
    /// # Errors
    /// When a dataset cannot be read.
    #[boxed]
    pub async fn replay_plan(self: &Arc<Self>) -> Result<Vec<ReplayPlan>, PoolError> {
        let mut plans = Vec::new();
        for log in self.logs().await? {
            let mut plan = self.plan_of(&log).await;
            self.name_objects(&mut plan).await;
            plans.push(plan);
        }
        Ok(plans)
    }

    async fn plan_of(&self, log: &DatasetLog) -> ReplayPlan {
        let mut plan = ReplayPlan { dataset: log.name.clone(), ..ReplayPlan::default() };
        let mut walk = log.walk();
        while plan.stopped.is_none() {
            let block = match walk.next().await {
                Ok(Some(block)) => block,
                Ok(None) => break,
                Err(error) => {
                    plan.stopped = Some(Stopped::Damaged(error.to_string()));
                    break;
                }
            };
            let vdev = block.bp.dva(0).vdev;
            if !block.is_written() {
                let is_missing = self.vdevs.unusable().contains(&vdev);
                plan.stopped = is_missing.then_some(Stopped::Missing(vdev));
                break;
            }
            plan.blocks += 1;
            plan.block_bytes += block.bp.psize().get();
            for record in block.records() {
                match record {
                    Ok(record) => plan.add(log, &record),
                    Err(error) => plan.stopped = Some(Stopped::Damaged(error.to_string())),
                }
            }
        }
        if !matches!(plan.stopped, Some(Stopped::Missing(_))) {
            let (place, newest) = (walk.place(), walk.newest_record());
            plan.loss = self.loss_behind(&place, newest, &log.header, Reach::Far).await;
        }
        plan
    }

    /// Finds the paths of objects. Volumes have none.
    async fn name_objects(self: &Arc<Self>, plan: &mut ReplayPlan) {
        let Ok(fs) = self.filesystem(&plan.dataset).await else { return };
        for (&object, changes) in &mut plan.objects {
            changes.path = path_of(&fs, &plan.made, object).await;
        }
        for &object in plan.loss.iter().flat_map(|loss| loss.objects.keys()) {
            if let Some(path) = path_of(&fs, &plan.made, object).await {
                plan.loss_paths.insert(object, path);
            }
        }
    }
}

/// The path of an object: up through directories that the log makes, and on through those that are
/// there.
async fn path_of(
    fs: &Filesystem,
    made: &BTreeMap<ObjectId, (ObjectId, Vec<u8>)>,
    object: ObjectId,
) -> Option<Vec<u8>> {
    let (mut at, mut below) = (object, Vec::new());
    for _ in 0..DEPTH_MAX {
        let Some((dir, name)) = made.get(&at) else {
            let above = fs.zfs.path_of(at).await.ok()?;
            let above = if above == b"/" && !below.is_empty() { Vec::new() } else { above };
            return Some([above, below].concat());
        };
        below = [b"/", name.as_slice(), &below].concat();
        at = *dir;
    }
    None
}
