//! Is there room?

use std::sync::Arc;

use crate::{Dataset, Dir};

/// The pool's space, as far as datasets are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSpace {
    /// What data can take in all: free or not, after redundancy, less what waits to be freed.
    pub size_bytes: u64,
    /// Bytes changed in memory and not yet on disk, all datasets together, an upper estimate.
    pub inflight_bytes: u64,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceVerdict {
    /// It fits.
    Fits,
    /// A quota or refquota is used up.
    QuotaExceeded,
    /// The pool is full.
    NoSpace,
}

const SLOP_MIN_BYTES: u64 = 128 << 20;
const SLOP_MAX_BYTES: u64 = 128 << 30;

/// What of a pool of this size is kept back, so that its full state can be left again: 1/32,
/// at least 128 MiB but never more than half, at most 128 GiB.
#[must_use]
pub fn slop_bytes(size_bytes: u64) -> u64 {
    (size_bytes >> 5).min(SLOP_MAX_BYTES).max((size_bytes >> 1).min(SLOP_MIN_BYTES))
}

impl PoolSpace {
    /// What may be used: all but the slop, or all but half of it for changes that free more
    /// than they take.
    fn usable(&self, frees: bool) -> u64 {
        let slop = slop_bytes(self.size_bytes);
        self.size_bytes.saturating_sub(if frees { slop / 2 } else { slop })
    }
}

impl Dir {
    /// Bytes that can still be written below here: what the pool has, less what quotas of the
    /// dir and its ancestors forbid, plus what is reserved for them and not used.
    #[must_use]
    pub fn available(self: &Arc<Self>, pool: &PoolSpace) -> u64 {
        let parents = self.parent().map(|parent| parent.available(pool));
        let phys = self.phys();
        let used = phys.used_bytes.get();
        let quota = if phys.quota.get() == 0 { u64::MAX } else { phys.quota.get() };
        match parents {
            Some(parents) => {
                let reserved = phys.reserved.get().saturating_sub(used);
                parents.saturating_add(reserved).min(quota.saturating_sub(used))
            }
            None => quota.min(pool.usable(false)).saturating_sub(used),
        }
    }
}

impl Dataset {
    /// Bytes that can still be written to it.
    #[must_use]
    pub fn available(&self, pool: &PoolSpace) -> u64 {
        let phys = self.phys();
        let reserved = self.refreservation().saturating_sub(phys.unique_bytes.get());
        let available = self.dir().available(pool).saturating_add(reserved);
        match self.refquota() {
            0 => available,
            quota => available.min(quota.saturating_sub(phys.referenced_bytes.get())),
        }
    }

    /// Whether a change that writes about `write_bytes` may begin. As in OpenZFS, quotas are
    /// checked against what is used already: the change that crosses one still goes through.
    /// `frees`: it gives back more than it takes in the end.
    #[must_use]
    pub fn check_space(&self, write_bytes: u64, frees: bool, pool: &PoolSpace) -> SpaceVerdict {
        let refquota = self.refquota();
        let inflight = pool.inflight_bytes;
        let full = |used: u64, quota: u64| {
            used >= quota || used.saturating_add(inflight) >= quota.saturating_add(quota >> 5)
        };
        if !frees && refquota != 0 && full(self.phys().referenced_bytes.get(), refquota) {
            return SpaceVerdict::QuotaExceeded;
        }
        for dir in self.dir().ancestry() {
            let phys = dir.phys();
            let quota = phys.quota.get();
            if !frees && quota != 0 && full(phys.used_bytes.get(), quota) {
                return SpaceVerdict::QuotaExceeded;
            }
            if dir.parent().is_none() {
                let needed = phys.used_bytes.get().saturating_add(inflight).saturating_add(write_bytes);
                if needed > pool.usable(frees) && !self.covered(write_bytes) {
                    return SpaceVerdict::NoSpace;
                }
            }
        }
        SpaceVerdict::Fits
    }

    /// Whether a write is paid for already: reserved here and not used.
    fn covered(&self, write_bytes: u64) -> bool {
        let refreserved = self.refreservation().saturating_sub(self.phys().unique_bytes.get());
        let reserved = self.dir().ancestry().map(|dir| {
            let phys = dir.phys();
            phys.reserved.get().saturating_sub(phys.used_bytes.get())
        });
        reserved.chain([refreserved]).max().unwrap_or(0) >= write_bytes.max(1)
    }
}
