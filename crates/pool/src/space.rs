//! How much room there is, for whom.
//!
//! Each synced txg changes what every dataset may still take, for all share the pool. With ten
//! thousand datasets open only those that are written to should pay for that: limits are worked out
//! when a dataset asks first after a txg, and stand until the next.
//! (test: `a_group_costs_what_is_used_and_not_what_is_open`)

pub(crate) mod deferred;
pub(crate) mod early_room;
pub(crate) mod expand;
pub(crate) mod free;
pub(crate) mod maps;
pub(crate) mod removed;
pub(crate) mod task_room;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dmu::{DmuError, Estimate, SpaceCheck, TxgGate};
use dsl::{HeadRoom, PoolSpace};
use metaslab::{Class, SpaceFigures, VdevConfig};
use parking_lot::RwLock;
use units::{ObjsetId, Psize, SECTOR_BYTES};
use zio::Zio;

use crate::DatasetProps;

/// The part of a pool kept free so that it can always be emptied: 1/32 (`spa_slop_shift`).
const SLOP_SHIFT: u32 = 5;
/// At least so much, if that is no more than half the pool (`spa_min_slop`).
const SLOP_MIN_BYTES: u64 = 128 << 20;
/// At most so much (`spa_max_slop`).
const SLOP_MAX_BYTES: u64 = 128 << 30;
/// This part of what is kept back is left to who frees in the end.
const FREEING_RESERVE: u64 = 2;
/// This part of what is kept back must be free for destroyed datasets to be freed beside a checkpoint.
const DESTROY_RESERVE: u64 = 4;
/// What a byte written may come to with copies, indirect blocks and dnodes.
pub(crate) const WORST_INFLATION: u64 = 2;

/// Space kept back in a pool of that size.
pub(crate) fn slop_bytes(capacity: u64) -> u64 {
    (capacity >> SLOP_SHIFT).min(SLOP_MAX_BYTES).max(SLOP_MIN_BYTES.min(capacity >> 1))
}

/// What one dataset may still take, in bytes, as of a synced txg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Within quotas and the pool's room.
    pub available: u64,
    /// Within the pool's room alone.
    pub pool: u64,
    /// What it refers to by now.
    pub used: u64,
    /// What a byte written to it may come to, in records.
    pub inflation: u64,
    /// The same in blocks of 512 bytes, the smallest: what a changed byte may come to at worst.
    pub worst_inflation: u64,
}

/// A dataset whose limits may be asked for.
#[derive(Clone)]
struct Watched {
    room: HeadRoom,
    record_bytes: u64,
    copies: u8,
    /// As they were worked out last, and the round that was in.
    limits: Option<(u64, Limits)>,
}

/// All open datasets.
struct AllLimits {
    of: HashMap<ObjsetId, Watched>,
    /// The most that a changed byte of any of them came to: asked for at each write, however many
    /// datasets there are.
    worst_inflation: u64,
}

/// Answers every writer whether its change fits; fed by the sync loop.
pub(crate) struct SpaceGuard {
    zio: Arc<Zio>,
    gate: Arc<TxgGate>,
    limits: RwLock<AllLimits>,
    /// Counts synced txgs: limits of an older round are worked out anew.
    round: AtomicU64,
    /// What datasets count more than once, for files share it.
    shared_bytes: AtomicU64,
    /// The next txg frees blocks of destroyed datasets.
    is_freeing: AtomicBool,
    /// The next txg frees what was kept for a checkpoint.
    is_discarding: AtomicBool,
    /// There is a checkpoint: freeing does not bring room.
    has_checkpoint: AtomicBool,
}

/// The pool's room in bytes, without logs; of special vdevs only what they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// All of it, but for vdevs that are being removed.
    pub capacity: u64,
    /// Taken, or freed so lately that it rests, or kept for the checkpoint.
    pub allocated: u64,
    /// Of that, freed by the pool but kept for its checkpoint.
    pub kept: u64,
    /// Kept back.
    pub slop: u64,
}

impl Room {
    /// What datasets may use in all, used or not. What is kept is no dataset's any more, and is not to be had.
    #[must_use]
    pub fn usable(&self) -> u64 {
        self.capacity.saturating_sub(self.slop).saturating_sub(self.kept)
    }
}

impl SpaceGuard {
    pub fn new(zio: Arc<Zio>, gate: Arc<TxgGate>) -> Arc<Self> {
        let limits = RwLock::new(AllLimits { of: HashMap::new(), worst_inflation: WORST_INFLATION });
        Arc::new(Self {
            zio,
            gate,
            limits,
            round: AtomicU64::new(0),
            shared_bytes: AtomicU64::new(0),
            is_freeing: AtomicBool::new(false),
            is_discarding: AtomicBool::new(false),
            has_checkpoint: AtomicBool::new(false),
        })
    }

    /// The space of a class as datasets count it: without parity.
    fn figures(&self, class: Class) -> SpaceFigures {
        self.zio.with_allocator(|allocator| allocator.deflated_space(class))
    }

    /// The same where blocks of data may go: not on a vdev that is being removed.
    fn open_figures(&self) -> SpaceFigures {
        self.zio.with_allocator(|allocator| allocator.deflated_open_space(Class::Normal))
    }

    pub fn room(&self) -> Room {
        let (normal, special, dedup) =
            (self.figures(Class::Normal), self.figures(Class::Special), self.figures(Class::Dedup));
        // What special vdevs have left is nobody's to count on: only what they hold counts, on both sides.
        let beside = special.taken().get() + dedup.taken().get();
        let open = self.open_figures().capacity.get();
        let capacity = open + beside;
        let allocated = normal.taken().get() + beside;
        let kept = normal.kept.get() + special.kept.get() + dedup.kept.get();
        Room { capacity, allocated, kept, slop: slop_bytes(open) }
    }

    /// The pool's space as the dataset layer counts it.
    pub fn pool_space(&self) -> PoolSpace {
        let usable_bytes = self.room().usable() + self.shared_bytes.load(Ordering::Relaxed);
        PoolSpace { usable_bytes }
    }

    /// Notes how much datasets count more than once.
    pub fn set_shared(&self, bytes: u64) {
        self.shared_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Notes whether the next txg will free blocks of destroyed datasets.
    pub fn set_freeing(&self, is_freeing: bool) {
        self.is_freeing.store(is_freeing, Ordering::Release);
    }

    /// Notes whether there is a checkpoint, and whether the next txg will free what was kept for one.
    pub fn set_checkpoint(&self, is_there: bool, is_discarding: bool) {
        self.has_checkpoint.store(is_there, Ordering::Release);
        self.is_discarding.store(is_discarding, Ordering::Release);
    }

    /// Whether so little is left beside a checkpoint that destroyed datasets are not freed until it is discarded: that
    /// takes room to write down, and gives none back.
    pub fn must_not_free(&self) -> bool {
        let free = self.open_figures().free.get();
        self.has_checkpoint.load(Ordering::Acquire) && free < self.room().slop / DESTROY_RESERVE
    }

    /// Whether the meta-objset may grow by so much: half of what is kept back is for who frees.
    pub fn has_task_room(&self, coming_bytes: u64) -> bool {
        let kept = self.room().slop / FREEING_RESERVE;
        self.open_figures().free.get() >= kept.saturating_add(self.inflight()).saturating_add(coming_bytes)
    }

    fn inflight(&self) -> u64 {
        self.gate.bytes_to_write().saturating_mul(WORST_INFLATION)
    }

    /// What the dataset may still take, changes not yet on disk counted in.
    pub fn available(&self, objset: ObjsetId) -> u64 {
        self.limits(objset).map_or(0, |limits| limits.available).saturating_sub(self.inflight())
    }

    /// What the dataset refers to.
    pub fn used(&self, objset: ObjsetId) -> u64 {
        self.limits(objset).map_or(0, |limits| limits.used)
    }

    /// Limits a dataset from now on; or goes on doing so with other properties.
    pub fn watch(&self, objset: ObjsetId, room: HeadRoom, props: &DatasetProps) {
        let (record_bytes, copies) = (props.record_bytes.into(), props.copies);
        let worst_inflation = self.inflation(copies, SECTOR_BYTES);
        let mut all = self.limits.write();
        all.worst_inflation = all.worst_inflation.max(worst_inflation);
        all.of.insert(objset, Watched { room, record_bytes, copies, limits: None });
    }

    /// A txg has synced: from now on all limits are to be worked out anew.
    pub fn outdate(&self) {
        self.round.fetch_add(1, Ordering::AcqRel);
    }

    fn limits(&self, objset: ObjsetId) -> Option<Limits> {
        let round = self.round.load(Ordering::Acquire);
        let old = {
            let all = self.limits.read();
            let watched = all.of.get(&objset)?;
            match watched.limits {
                Some((of, limits)) if of == round => return Some(limits),
                _ => watched.clone(),
            }
        };
        let limits = self.work_out(&old.room, old.record_bytes, old.copies);
        let mut all = self.limits.write();
        all.worst_inflation = all.worst_inflation.max(limits.worst_inflation);
        if let Some(watched) = all.of.get_mut(&objset) {
            watched.limits = Some((round, limits));
        }
        Some(limits)
    }

    fn work_out(&self, room: &HeadRoom, record_bytes: u64, copies: u8) -> Limits {
        let space = self.pool_space();
        Limits {
            available: room.available(&space),
            pool: room.of_pool(&space),
            used: room.referenced_bytes(),
            inflation: self.inflation(copies, record_bytes),
            worst_inflation: self.inflation(copies, SECTOR_BYTES),
        }
    }

    /// All copies of a block as they are charged, by its size, and what points to them.
    fn inflation(&self, copies: u8, block_bytes: u64) -> u64 {
        let charged = |vdev: VdevConfig| vdev.deflated(vdev.allocated(Psize::new(block_bytes))).get();
        let charged_bytes = self.zio.with_allocator(|allocator| {
            let vdevs = allocator.vdevs(Class::Normal).iter();
            vdevs.filter_map(|&id| allocator.vdev_config(id)).map(charged).max()
        });
        let blocks = charged_bytes.unwrap_or(0).div_ceil(block_bytes);
        (blocks * u64::from(copies) + 1).max(WORST_INFLATION)
    }

    /// What all changes under way may come to. Too much only means that a txg syncs early when
    /// little room is left.
    fn inflight_at_worst(&self) -> u64 {
        self.gate.bytes_to_write().saturating_mul(self.limits.read().worst_inflation)
    }

    pub fn forget(&self, objset: ObjsetId) {
        self.limits.write().of.remove(&objset);
    }

    /// Whether a change fits if so much is under way, and so much of the pool is really free:
    /// what datasets count leaves out what was freed lately and rests.
    fn verdict(
        &self,
        objset: ObjsetId,
        estimate: &Estimate,
        inflight: u64,
        free: u64,
    ) -> Result<(), DmuError> {
        let limits = self.limits(objset);
        let inflation = limits.map_or(WORST_INFLATION, |limits| limits.inflation);
        let coming = inflight.saturating_add(estimate.write_bytes.saturating_mul(inflation));
        // Who frees in the end may use half of what is kept back, and quotas do not hinder.
        if estimate.frees {
            let reserve = self.room().slop / FREEING_RESERVE;
            // What a checkpoint needs does not come back: then half of it stays.
            let has_checkpoint = self.has_checkpoint.load(Ordering::Acquire);
            let needed = if has_checkpoint { coming.saturating_add(reserve) } else { coming.min(reserve) };
            return if free < needed { Err(DmuError::NoSpace) } else { Ok(()) };
        }
        match limits {
            _ if free < coming => Err(DmuError::NoSpace),
            // What is reserved for the dataset is available to it, however full the rest of the pool is.
            Some(limits) if coming < limits.available => Ok(()),
            Some(limits) if coming < limits.pool => Err(DmuError::QuotaExceeded),
            Some(_) => Err(DmuError::NoSpace),
            None => Ok(()),
        }
    }
}

impl SpaceCheck for SpaceGuard {
    fn check(&self, objset: ObjsetId, estimate: &Estimate) -> Result<(), DmuError> {
        let figures = self.open_figures();
        self.verdict(objset, estimate, self.inflight_at_worst(), figures.free.get())
    }

    fn may_fit_later(&self, objset: ObjsetId, estimate: &Estimate) -> bool {
        let is_discarding = self.is_discarding.load(Ordering::Acquire);
        if self.gate.has_frees() || self.is_freeing.load(Ordering::Acquire) || is_discarding {
            return true;
        }
        let figures = self.open_figures();
        self.verdict(objset, estimate, 0, figures.free.get() + figures.resting.get()).is_ok()
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
