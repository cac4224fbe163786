//! Blocks of which no good copy is left: what `zpool status -v` lists.
//!
//! ```text
//!   read fails ─► is it alive? ─► last ◄───────┐ the scrub ends: what it did not find again is well
//!                     └────► this scrub's ─────┘
//! ```
//! An error stays until a scrub has read everything and did not meet it again. The next txg stores
//! what is new ([`dsl::ErrorLog`]), so that errors outlive an export.
//!
//! A reader may hold a blkptr longer than its block lives; it then reads something else, and starts
//! anew from the tree. Such a failure is no error: only what the tree still leads to is noted.
//!
//! Invariants
//! - An error that was noted is known to the next import.
//!   (test: `errors_outlive_an_export_until_a_scrub_finds_them_gone`)
//! - A block that is not in use any more is no error.
//!   (test: `a_block_that_was_freed_is_no_error`)

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dmu::Tx;
use dsl::{BlockError, ErrorLog};
use env::boxed;
use parking_lot::Mutex;
use units::{ObjectId, ObjsetId, Txg};
use zio::{Bookmark, Damaged};

use crate::{Pool, PoolError};

/// Errors remembered; more than this calls for a restore, not for a list.
const KEPT_MAX: usize = 100_000;

/// Blocks, and when they were written, if that is known.
type Found = BTreeMap<Bookmark, Option<Txg>>;

/// The errors of a pool.
#[derive(Default)]
pub(crate) struct Errors(Mutex<Logs>);

#[derive(Default)]
struct Logs {
    last: Found,
    scrub: Option<Found>,
    unsaved_last: Found,
    unsaved_scrub: Found,
}

impl Errors {
    /// Notes an error; whether it is new.
    pub fn note(&self, bookmark: Bookmark, birth: Txg) -> bool {
        let mut logs = self.0.lock();
        let logs = &mut *logs;
        if let Some(scrub) = logs.scrub.as_mut().filter(|log| log.len() < KEPT_MAX)
            && scrub.insert(bookmark, Some(birth)).is_none()
        {
            logs.unsaved_scrub.insert(bookmark, Some(birth));
        }
        let is_new = logs.last.len() < KEPT_MAX && logs.last.insert(bookmark, Some(birth)).is_none();
        if is_new {
            logs.unsaved_last.insert(bookmark, Some(birth));
        }
        is_new
    }

    /// Whether something is not stored yet.
    pub fn has_unsaved(&self) -> bool {
        let logs = self.0.lock();
        !logs.unsaved_last.is_empty() || !logs.unsaved_scrub.is_empty()
    }

    fn take_unsaved(&self) -> [(ErrorLog, Found); 2] {
        let mut logs = self.0.lock();
        let last = std::mem::take(&mut logs.unsaved_last);
        [(ErrorLog::Last, last), (ErrorLog::Scrub, std::mem::take(&mut logs.unsaved_scrub))]
    }

    fn begin_scrub(&self) {
        let mut logs = self.0.lock();
        (logs.scrub, logs.unsaved_scrub) = (Some(Found::new()), Found::new());
    }

    /// A scrub is over; if it came to its end, what it did not meet is no error any more.
    fn end_scrub(&self, finished: bool) {
        let mut logs = self.0.lock();
        if let Some(scrub) = logs.scrub.take().filter(|_| finished) {
            logs.last = scrub;
        }
    }

    /// A block can be read again, or is gone.
    pub fn forget(&self, bookmark: &Bookmark) {
        let mut logs = self.0.lock();
        logs.last.remove(bookmark);
        logs.unsaved_last.remove(bookmark);
    }

    /// Returns all errors that are not of a scrub that is under way. From then on, the errors count
    /// as stored.
    pub fn take_all_last(&self) -> Vec<BlockError> {
        let mut logs = self.0.lock();
        logs.unsaved_last.clear();
        logs.last.iter().map(|(bookmark, birth)| block_error((*bookmark, *birth))).collect()
    }

    /// What an earlier import had stored.
    fn put_stored(&self, log: ErrorLog, stored: Vec<BlockError>) {
        let mut logs = self.0.lock();
        let into = match log {
            ErrorLog::Last => &mut logs.last,
            ErrorLog::Scrub => logs.scrub.get_or_insert_default(),
        };
        for error in stored.into_iter().take(KEPT_MAX) {
            let bookmark = Bookmark::new(error.objset, error.object, error.level, error.block);
            into.entry(bookmark).or_insert(error.birth);
        }
    }

    /// All errors that are known.
    pub fn all(&self) -> BTreeSet<Bookmark> {
        self.0.lock().last.keys().copied().collect()
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
    /// Blocks that could not be read, from any copy. Only looks: what reads met since the last txg is noted
    /// with the next, and no txg is held up. So a block that is freed just now may be told of once.
    #[boxed]
    pub async fn data_errors(&self) -> BTreeSet<Bookmark> {
        let mut all = self.errors.all();
        for lost in self.zio.lost() {
            if self.is_in_use(&lost).await {
                all.insert(lost.bookmark);
            }
        }
        all
    }

    /// Takes in what reads could not read since the last time. The caller syncs a txg.
    pub(crate) async fn gather_errors(&self) {
        for lost in self.zio.take_lost() {
            if self.is_in_use(&lost).await && self.errors.note(lost.bookmark, lost.bp.birth()) {
                tracing::warn!(block = %lost.bookmark, "lost");
                self.tell_lost(lost.bookmark);
            }
        }
    }

    /// Whether the pool still has the block. A tree that cannot be followed to it has it no less.
    async fn is_in_use(&self, lost: &Damaged) -> bool {
        match self.objset_in_use(lost.bookmark.objset) {
            Some(objset) => objset.is_alive(&lost.bookmark, &lost.bp).await.unwrap_or(true),
            None => self.dsl.dataset(ObjectId::new(lost.bookmark.objset.get())).await.is_ok(),
        }
    }

    /// Stores what is new. An error log that is damaged itself must not stop the pool.
    pub(crate) async fn store_errors(&self, tx: &Tx) {
        for (log, found) in self.errors.take_unsaved() {
            let errors: Vec<BlockError> = found.into_iter().map(block_error).collect();
            if let Err(error) = self.dsl.add_errors(tx, log, &errors).await {
                tracing::error!(%error, "errors will not be known to the next import");
            }
        }
    }

    /// A scrub begins: what one before it left behind is of no use.
    pub(crate) async fn begin_scrub_errors(&self, tx: &Tx) -> Result<(), PoolError> {
        self.errors.begin_scrub();
        Ok(self.dsl.clear_errors(tx, ErrorLog::Scrub).await?)
    }

    /// A scrub is over.
    pub(crate) async fn end_scrub_errors(&self, tx: &Tx, finished: bool) -> Result<(), PoolError> {
        self.store_errors(tx).await;
        self.errors.end_scrub(finished);
        match finished {
            true => Ok(self.dsl.rotate_errors(tx).await?),
            false => Ok(self.dsl.clear_errors(tx, ErrorLog::Scrub).await?),
        }
    }

    /// What was found before this import.
    pub(crate) async fn load_errors(&self, scrubbing: bool) {
        let logs = [Some(ErrorLog::Last), scrubbing.then_some(ErrorLog::Scrub)];
        for log in logs.into_iter().flatten() {
            match self.dsl.errors(log).await {
                Ok(stored) => self.errors.put_stored(log, stored),
                Err(error) => tracing::warn!(%error, "the log of errors cannot be read"),
            }
        }
    }

    /// The objects that have such blocks, with their names as far as they are known.
    #[boxed]
    pub async fn damaged_objects(self: &Arc<Self>) -> Vec<DamagedObject> {
        let errors = self.data_errors().await;
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

    /// Where a file is, if its file system can be used and the way to it is whole. One that nobody uses
    /// is not opened for that, for its log would be replayed: it is looked at as its last txg left it.
    async fn path_of(self: &Arc<Self>, dataset: &str, object: ObjectId) -> Option<String> {
        let fs = match self.live_filesystem(dataset).await {
            Some(live) => live,
            None => self.snapshot_filesystem(dataset).await.ok()?,
        };
        let path = fs.zfs.path_of(object).await.ok()?;
        Some(String::from_utf8_lossy(&path).into_owned())
    }
}

fn block_error((bookmark, birth): (Bookmark, Option<Txg>)) -> BlockError {
    let Bookmark { objset, object, level, block } = bookmark;
    BlockError { objset, object, level, block, birth }
}
