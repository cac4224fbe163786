//! How much room there is, for whom.

use std::collections::HashMap;
use std::sync::Arc;

use dmu::{DmuError, Estimate, SpaceCheck, TxgGate};
use metaslab::Class;
use parking_lot::RwLock;
use units::ObjsetId;
use zio::Zio;

/// The part of a pool kept free so that it can always be emptied: 1/32 (`spa_slop_shift`).
const SLOP_SHIFT: u32 = 5;
/// At least so much, if that is no more than half the pool (`spa_min_slop`).
const SLOP_MIN_BYTES: u64 = 128 << 20;
/// At most so much (`spa_max_slop`).
const SLOP_MAX_BYTES: u64 = 128 << 30;
/// What a byte written may come to with copies, indirect blocks and dnodes.
const WORST_INFLATION: u64 = 2;

/// Space kept back in a pool of that size.
pub(crate) fn slop_bytes(capacity: u64) -> u64 {
    (capacity >> SLOP_SHIFT).min(SLOP_MAX_BYTES).max(SLOP_MIN_BYTES.min(capacity >> 1))
}

/// What limits one dataset, as of the last synced group.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    /// Room left below the tightest quota of the dataset and those above it.
    pub under_quota: Option<u64>,
}

/// Answers every writer; fed by the sync loop.
pub(crate) struct SpaceGuard {
    zio: Arc<Zio>,
    gate: Arc<TxgGate>,
    limits: RwLock<HashMap<ObjsetId, Limits>>,
}

/// The pool's room in bytes, without logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// All of it.
    pub capacity: u64,
    /// Taken.
    pub allocated: u64,
    /// Kept back.
    pub slop: u64,
}

impl Room {
    /// What datasets may still take.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.capacity.saturating_sub(self.allocated).saturating_sub(self.slop)
    }
}

impl SpaceGuard {
    pub fn new(zio: Arc<Zio>, gate: Arc<TxgGate>) -> Arc<Self> {
        Arc::new(Self { zio, gate, limits: RwLock::default() })
    }

    pub fn room(&self) -> Room {
        let figures = self.zio.with_allocator(|allocator| allocator.space(Class::Normal));
        let capacity = figures.capacity.get();
        Room { capacity, allocated: figures.allocated.get(), slop: slop_bytes(capacity) }
    }

    pub fn set_limits(&self, objset: ObjsetId, limits: Limits) {
        self.limits.write().insert(objset, limits);
    }

    pub fn forget(&self, objset: ObjsetId) {
        self.limits.write().remove(&objset);
    }
}

impl SpaceCheck for SpaceGuard {
    fn check(&self, objset: ObjsetId, estimate: &Estimate) -> Result<(), DmuError> {
        let coming = (self.gate.dirty_bytes() + estimate.write_bytes).saturating_mul(WORST_INFLATION);
        let room = self.room();
        // Who frees in the end may use half of what is kept back.
        let slop = if estimate.frees { room.slop / 2 } else { room.slop };
        let left = room.capacity.saturating_sub(room.allocated).saturating_sub(slop);
        if coming > left {
            return Err(DmuError::NoSpace);
        }
        let limits = self.limits.read().get(&objset).copied().unwrap_or_default();
        match limits.under_quota {
            Some(left) if !estimate.frees && coming > left => Err(DmuError::QuotaExceeded),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::slop_bytes;

    #[test]
    fn a_small_pool_keeps_half_back_and_a_large_one_a_thirty_second() {
        assert_eq!(slop_bytes(100 << 20), 50 << 20);
        assert_eq!(slop_bytes(1 << 30), 128 << 20);
        assert_eq!(slop_bytes(64 << 30), 2 << 30);
        assert_eq!(slop_bytes(1 << 50), 128 << 30);
    }
}
