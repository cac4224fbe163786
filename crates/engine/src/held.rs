//! A pool that the daemon holds open.

use crate::CachedPool;
use crate::cachefile::CacheFile;
use crate::{absent, vdevs};
use parking_lot::Mutex;
use pool::Pool;
use std::collections::BTreeSet;
use std::sync::Arc;
use units::Guid;

/// A pool and what holds for this import of it only.
pub struct Held {
    /// The pool.
    pub pool: Arc<Pool>,
    /// Directory that its mount points are under.
    pub altroot: Option<String>,
    /// Tells this import of the pool from all others.
    pub load_guid: u64,
    /// Where it is remembered.
    cache_file: Mutex<CacheFile>,
    /// Leaves that are about to be taken out of use.
    leaving: Mutex<BTreeSet<Guid>>,
}

impl Held {
    /// A pool, and what holds for this import.
    pub fn new(pool: Arc<Pool>, altroot: Option<String>, cache_file: CacheFile, load_guid: u64) -> Self {
        Self { pool, altroot, load_guid, cache_file: Mutex::new(cache_file), leaving: Mutex::default() }
    }

    /// Where it is remembered.
    pub fn cache_file(&self) -> CacheFile {
        self.cache_file.lock().clone()
    }

    /// Says where it is to be remembered.
    pub fn set_cache_file(&self, file: CacheFile) {
        *self.cache_file.lock() = file;
    }

    /// Records that a leaf is about to be taken out of use, if the other leaves can do without it.
    /// Writes that are acknowledged after that may be missing on the leaf.
    pub fn begin_leaving(&self, leaf: Guid) {
        let vdevs = self.pool.vdevs();
        if vdevs.leaf(leaf).is_ok_and(|leaf| vdevs.can_do_without(&leaf)) {
            self.leaving.lock().insert(leaf);
        }
    }

    /// Records that the leaf is out of use, or stays in use.
    pub fn end_leaving(&self, leaf: Guid) {
        self.leaving.lock().remove(&leaf);
    }

    /// What the daemon's own list keeps of it.
    pub fn cached(&self) -> Option<CachedPool> {
        if self.cache_file() != CacheFile::Own {
            return None;
        }
        let leaves = self.pool.vdevs().leaves();
        let devices = leaves.iter().map(|leaf| leaf.path().to_string_lossy().into_owned()).collect();
        let left = self.pool.left();
        let lost = self.pool.vdevs().tops().into_iter().filter(|top| top.is_log() && !top.is_usable());
        Some(CachedPool {
            name: self.pool.name(),
            guid: self.pool.guid().get(),
            devices,
            has_temporary_name: self.pool.has_temporary_name(),
            altroot: self.altroot.clone(),
            readonly: self.pool.is_read_only(),
            hostid: left.hostid,
            txg: left.txg.get(),
            behind: left.behind.union(&self.leaving.lock()).map(|guid| guid.get()).collect(),
            missing_since_secs: None,
            lost_logs: lost.map(|top| top.guid().get()).collect(),
            layout: Some(absent::layout(vdevs::root(&self.pool))),
            opening: None,
        })
    }
}
