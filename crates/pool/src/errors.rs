//! Blocks of which no good copy is left: what `zpool status -v` lists.
//!
//! ```text
//!   read fails ─► last ◄───────────────┐ the scrub ends: what it did not find again is well
//!       └──────► this scrub's ─────────┘
//! ```
//! An error stays until a scrub has read everything and did not meet it again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use units::{ObjectId, ObjsetId};
use zio::Bookmark;

use crate::Pool;

/// Errors remembered; more than this calls for a restore, not for a list.
const KEPT_MAX: usize = 100_000;

/// The errors of a pool.
#[derive(Default)]
pub(crate) struct ErrorLog(Mutex<Logs>);

#[derive(Default)]
struct Logs {
    last: BTreeSet<Bookmark>,
    scrub: Option<BTreeSet<Bookmark>>,
}

impl ErrorLog {
    /// Notes an error; whether it is new.
    pub fn note(&self, bookmark: Bookmark) -> bool {
        let mut logs = self.0.lock();
        if let Some(scrub) = logs.scrub.as_mut().filter(|log| log.len() < KEPT_MAX) {
            scrub.insert(bookmark);
        }
        logs.last.len() < KEPT_MAX && logs.last.insert(bookmark)
    }

    pub fn begin_scrub(&self) {
        self.0.lock().scrub = Some(BTreeSet::new());
    }

    /// A scrub is over; if it came to its end, what it did not meet is no error any more.
    pub fn end_scrub(&self, finished: bool) {
        let mut logs = self.0.lock();
        if let Some(scrub) = logs.scrub.take().filter(|_| finished) {
            logs.last = scrub;
        }
    }

    fn all(&self) -> BTreeSet<Bookmark> {
        self.0.lock().last.clone()
    }
}

/// An object with a damaged block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedObject {
    /// Its objset; 0 is the meta-objset.
    pub objset: ObjsetId,
    /// Its number.
    pub object: ObjectId,
    /// The dataset's name, if it still exists.
    pub dataset: Option<String>,
    /// Its path from the dataset's root, if it has one.
    pub path: Option<String>,
}

impl Pool {
    /// Blocks that could not be read, from any copy.
    #[must_use]
    pub fn data_errors(&self) -> BTreeSet<Bookmark> {
        for bookmark in self.zio.take_lost() {
            self.errors.note(bookmark);
        }
        self.errors.all()
    }

    /// The objects that have such blocks, with their names as far as they are known.
    pub async fn damaged_objects(self: &Arc<Self>) -> Vec<DamagedObject> {
        let errors = self.data_errors();
        let objects: BTreeSet<(ObjsetId, ObjectId)> = errors.iter().map(|b| (b.objset, b.object)).collect();
        if objects.is_empty() {
            return Vec::new();
        }
        let names = self.names_by_objset().await;
        let mut found = Vec::new();
        for (objset, object) in objects {
            let dataset = names.get(&objset).cloned();
            let path = match &dataset {
                Some(name) => self.path_of(name, object).await,
                None => None,
            };
            found.push(DamagedObject { objset, object, dataset, path });
        }
        found
    }

    async fn names_by_objset(&self) -> BTreeMap<ObjsetId, String> {
        let mut names = BTreeMap::new();
        for head in self.dsl.list(&self.name()).await.unwrap_or_default() {
            let snapshots = self.dsl.snapshots(&head).await.unwrap_or_default();
            names.extend(snapshots.into_iter().map(|snapshot| (snapshot.objset(), snapshot.name)));
            names.insert(head.objset(), head.name);
        }
        names
    }

    /// Where a file is, if its file system can be used and the way to it is whole.
    async fn path_of(self: &Arc<Self>, dataset: &str, object: ObjectId) -> Option<String> {
        let fs = self.filesystem(dataset).await.ok()?;
        let path = fs.zfs.path_of(object).await.ok()?;
        Some(String::from_utf8_lossy(&path).into_owned())
    }
}
