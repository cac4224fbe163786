//! What changes had to wait for. OpenZFS counts the same as `dmu_tx`, for all pools together.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Changes since the pool was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeStats {
    /// Changes that joined a txg (`dmu_tx_assigned`).
    pub joined: u64,
    /// Changes that found the pool suspended (`dmu_tx_suspended`).
    pub suspended: u64,
    /// Changes that were slowed down because much was dirty (`dmu_tx_dirty_delay`).
    pub delayed: u64,
    /// Changes that waited because as much was dirty as may be (`dmu_tx_dirty_over_max`).
    pub over_limit: u64,
    /// Changes that waited because the open txg lets many blocks go already (`dmu_tx_dirty_frees_delay`).
    pub frees_delayed: u64,
    /// Changes that a quota does not allow (`dmu_tx_quota`).
    pub over_quota: u64,
}

/// Counts as changes come.
#[derive(Debug, Default)]
pub(crate) struct ChangeCounters {
    pub joined: AtomicU64,
    pub suspended: AtomicU64,
    pub delayed: AtomicU64,
    pub over_limit: AtomicU64,
    pub frees_delayed: AtomicU64,
    pub over_quota: AtomicU64,
}

impl ChangeCounters {
    pub fn read(&self) -> ChangeStats {
        ChangeStats {
            joined: self.joined.load(Relaxed),
            suspended: self.suspended.load(Relaxed),
            delayed: self.delayed.load(Relaxed),
            over_limit: self.over_limit.load(Relaxed),
            frees_delayed: self.frees_delayed.load(Relaxed),
            over_quota: self.over_quota.load(Relaxed),
        }
    }
}

/// Counts one more.
pub(crate) fn one_more(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
