//! A pool that the daemon holds open.

use crate::daemon::CachedPool;
use pool::Pool;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A pool and what holds for this import of it only.
pub struct Held {
    /// The pool.
    pub pool: Arc<Pool>,
    /// Directory that its mount points are under.
    pub altroot: Option<String>,
    /// `cachefile=none`: not to be brought back.
    forgotten: AtomicBool,
}

impl Held {
    /// A pool, and what holds for this import.
    pub fn new(pool: Arc<Pool>, altroot: Option<String>, forgotten: bool) -> Self {
        Self { pool, altroot, forgotten: AtomicBool::new(forgotten) }
    }

    /// Whether it is not to be brought back.
    pub fn is_forgotten(&self) -> bool {
        self.forgotten.load(Ordering::Relaxed)
    }

    /// Says whether it is to be brought back.
    pub fn set_forgotten(&self, forgotten: bool) {
        self.forgotten.store(forgotten, Ordering::Relaxed);
    }

    /// What the cache file keeps of it.
    pub fn cached(&self) -> Option<CachedPool> {
        if self.is_forgotten() {
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
            altroot: self.altroot.clone(),
            readonly: self.pool.is_read_only(),
            hostid: left.hostid,
            txg: left.txg.get(),
            missing_since_secs: None,
            lost_logs: lost.map(|top| top.guid().get()).collect(),
        })
    }
}
