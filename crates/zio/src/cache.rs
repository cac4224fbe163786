//! Blocks kept in memory, verified; decompressed while they are in use, as they are stored when not.
//!
//! Replacement is S3-FIFO: queues, and a counter of two bits for each block. A hit touches only the
//! counter, so that threads hold a shard's lock for the length of a lookup, where LRU would move the
//! block each time, and ARC would adapt a target besides; and one pass over much data cannot drive
//! out what is used again and again.
//!
//! ```text
//!              unknown                       two uses
//!   insert ───────────────► small ─────────────────────────► main ◄──┐ used since:
//!      │                      │ fewer                         │ ─────┘ another round
//!      │ a ghost              ▼                               ▼ not used
//!      └────────► main      cold: only the bytes as stored ◄──┘
//!                             │  a use unpacks them again, into main
//!                             ▼
//!                           ghosts: no bytes, only which blocks they were
//!                             └─ the bytes: to a cache device, if there is one (`l2arc`)
//! ```
//! A block that was read compressed, to half its size or less, keeps the stored bytes beside the
//! unpacked ones, and when it turns cold only those: a cache of text holds several times its size.
//! Each shard does all of this by itself, under its own short lock.
//!
//! Memory is one budget: what is dirty takes from the cache's room, all but a first part of it.
//!
//! ```text
//!   dirty    ├─ beside ─┼──────── taken ────────┤
//!   cache               │◄── shrinks by that ───┼───────────── limit ─┤   never below a quarter
//! ```
//!
//! Invariants
//! - The bytes held, both forms counted, never exceed the limit.
//!   (tests: `the_cache_stays_within_its_bytes`, `a_shard_equals_its_plain_twin`)
//! - Nor do they, with what is dirty, exceed the limit by more than may be dirty beside it.
//!   (test: `what_is_dirty_takes_from_the_room`)
//! - A freed or rewritten block is never found again: places are used anew, so a key also has
//!   birth and checksum. (test: `a_place_used_again_is_another_block`)
//! - A scan does not evict what is used often. (test: `a_scan_leaves_hot_blocks_in_place`)

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use env::{IO_ALIGN_BYTES, IoBuf};
use l2arc::SecondCache;
use ondisk::Blkptr;
use parking_lot::Mutex;

use counters::Counters;
pub(crate) use counters::LookupOutcome;
pub use counters::{Ahead, CacheCensus, CacheStats, CachedBytes, Lookups};
pub(crate) use shard::{Found, Key};
use shard::{New, Shard};

use crate::Keep;

mod counters;
mod shard;
#[cfg(test)]
mod tests;

const SHARDS: usize = 16;
/// Bytes that may be dirty beside a full cache, unless [`crate::Zio::set_memory`] says otherwise.
pub const DIRTY_BESIDE_CACHE_BYTES: u64 = 128 << 20;
/// Part of the limit that what is dirty leaves: without its metadata a pool could not sync.
const LEFT_FRACTION: u64 = 4;
/// Shrinking by this much means one shard more to look at.
const SHRINK_STEP_BYTES: u64 = 64 << 10;

/// The cache.
pub(crate) struct Cache {
    shards: [Mutex<Shard>; SHARDS],
    limit_bytes: AtomicU64,
    /// Bytes that may be dirty without taking from those.
    beside_bytes: AtomicU64,
    /// Those that dirty data has taken.
    taken_bytes: AtomicU64,
    /// Those that it takes to know what is on cache devices.
    second_bytes: AtomicU64,
    second: Arc<SecondCache>,
    /// The shard to shrink next.
    turn: AtomicUsize,
    counters: Counters,
    blocks: AtomicU64,
    blocks_most: AtomicU64,
}

/// File data, for the figures.
fn is_data(bp: &Blkptr) -> bool {
    bp.level().get() == 0 && !bp.object_type().is_metadata()
}

impl Cache {
    /// An empty cache for at most `limit_bytes`.
    pub(crate) fn new(limit_bytes: u64) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            limit_bytes: AtomicU64::new(limit_bytes),
            beside_bytes: AtomicU64::new(DIRTY_BESIDE_CACHE_BYTES),
            taken_bytes: AtomicU64::new(0),
            second_bytes: AtomicU64::new(0),
            second: Arc::default(),
            turn: AtomicUsize::new(0),
            counters: Counters::default(),
            blocks: AtomicU64::new(0),
            blocks_most: AtomicU64::new(0),
        }
    }

    pub(crate) fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Relaxed)
    }

    fn room(&self) -> usize {
        let limit = self.limit_bytes();
        let taken = self.taken_bytes.load(Relaxed) + self.second_bytes.load(Relaxed);
        let left = limit.saturating_sub(taken).max(limit / LEFT_FRACTION);
        usize::try_from(left).unwrap_or(usize::MAX) / SHARDS
    }

    /// So much is dirty: takes that from the room, and gives it back when it is less again. To be
    /// called at each change; what has to go then goes from a few shards in turn.
    pub(crate) fn make_room_for(&self, dirty_bytes: u64) {
        let taken = dirty_bytes.saturating_sub(self.beside_bytes.load(Relaxed));
        let before = self.taken_bytes.swap(taken, Relaxed);
        if taken <= before {
            return;
        }
        let shards =
            usize::try_from((taken - before).div_ceil(SHRINK_STEP_BYTES)).unwrap_or(SHARDS).min(SHARDS);
        let first = self.turn.fetch_add(shards, Relaxed);
        let room = self.room();
        for turn in first..first + shards {
            self.shrink(&self.shards[turn % SHARDS], room);
        }
    }

    fn shrink(&self, shard: &Mutex<Shard>, room: usize) {
        let left = self.changed(shard, |shard| {
            shard.shrink_to(room);
            shard.take_left()
        });
        self.second.offer(left);
    }

    /// Changes a shard, and counts the blocks that came and went.
    fn changed<T>(&self, shard: &Mutex<Shard>, change: impl FnOnce(&mut Shard) -> T) -> T {
        let mut shard = shard.lock();
        let before = shard.blocks();
        let out = change(&mut shard);
        let after = shard.blocks();
        drop(shard);
        if after > before {
            let blocks = self.blocks.fetch_add(after - before, Relaxed) + (after - before);
            self.blocks_most.fetch_max(blocks, Relaxed);
        } else if after < before {
            self.blocks.fetch_sub(before - after, Relaxed);
        }
        out
    }

    /// The cache devices behind it.
    pub(crate) fn second(&self) -> &Arc<SecondCache> {
        &self.second
    }

    /// Takes from the room what memory it takes to know what is on cache devices, from the next block on.
    pub(crate) fn count_second(&self) {
        self.second_bytes.store(self.second.memory_bytes(), Relaxed);
    }

    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        &self.shards[key.spread() % SHARDS]
    }

    /// The block, if it is there: a hit or a miss of somebody who wants it at once.
    pub(crate) fn get(&self, bp: &Blkptr) -> Option<Found> {
        let found = self.find(bp, LookupOutcome::Hit);
        if found.is_none() {
            self.count(bp, LookupOutcome::Miss);
        }
        found
    }

    /// The block, if it is there, which is counted as told. One that is not there is not counted.
    pub(crate) fn find(&self, bp: &Blkptr, as_outcome: LookupOutcome) -> Option<Found> {
        let key = Key::of(bp);
        let waited = matches!(as_outcome, LookupOutcome::Joined(_));
        let found = self.shard(&key).lock().get(&key, waited)?;
        self.count(bp, as_outcome);
        if matches!(found, Found::Packed(_)) {
            self.counters.packed_hits.fetch_add(1, Relaxed);
        }
        Some(found)
    }

    /// Counts what came of a lookup of somebody who wants the block at once.
    pub(crate) fn count(&self, bp: &Blkptr, outcome: LookupOutcome) {
        self.counters.count(is_data(bp), outcome);
    }

    /// Counts what came of a lookup of somebody who reads ahead.
    pub(crate) fn count_ahead(&self, bp: &Blkptr, ahead: Ahead, outcome: LookupOutcome) {
        self.counters.count_ahead(is_data(bp), ahead, outcome);
    }

    /// Whether the block is there; no use of it.
    pub(crate) fn has(&self, bp: &Blkptr) -> bool {
        let key = Key::of(bp);
        self.shard(&key).lock().has(&key)
    }

    /// Keeps a block, and the bytes it is stored as if those are much fewer; one larger than a
    /// shard is not kept.
    pub(crate) fn insert(&self, bp: &Blkptr, keep: Keep, data: &Arc<IoBuf>, packed: Option<&Arc<IoBuf>>) {
        if keep == Keep::No {
            return;
        }
        let key = Key::of(bp);
        // Buffers are whole pages: the packed form of a short block saves none.
        let packed = packed.filter(|packed| packed.len().next_multiple_of(IO_ALIGN_BYTES) <= data.len() / 2);
        let may_leave = keep == Keep::Yes && SecondCache::may_have(bp);
        let origin = (may_leave && self.second.has_devices()).then(|| Box::new(*bp));
        let new = New { data, packed, origin, is_data: is_data(bp), may_leave };
        let left = self.changed(self.shard(&key), |shard| {
            shard.insert(key, new, self.room());
            shard.take_left()
        });
        self.second.offer(left);
    }

    /// Notes that a block was read ahead: its first hit is told apart.
    pub(crate) fn note_ahead(&self, bp: &Blkptr, ahead: Ahead) {
        let key = Key::of(bp);
        self.shard(&key).lock().note_ahead(&key, ahead);
    }

    /// Forgets a block.
    pub(crate) fn forget(&self, bp: &Blkptr) {
        let key = Key::of(bp);
        self.changed(self.shard(&key), |shard| shard.forget(&key));
    }

    /// Sets how much may be dirty beside the cache; counts from the next change on.
    pub(crate) fn set_beside(&self, beside_bytes: u64) {
        self.beside_bytes.store(beside_bytes, Relaxed);
    }

    /// Sets another limit, and evicts down to it.
    pub(crate) fn set_limit(&self, limit_bytes: u64) {
        self.limit_bytes.store(limit_bytes, Relaxed);
        let room = self.room();
        for shard in &self.shards {
            self.shrink(shard, room);
        }
    }

    /// Drops all blocks. Blocks that nobody has read before come in as usual meanwhile.
    pub(crate) fn empty(&self) {
        for shard in &self.shards {
            self.shrink(shard, 0);
        }
    }

    /// What it did so far.
    pub(crate) fn stats(&self) -> CacheStats {
        let mut stats = CacheStats {
            limit_bytes: self.limit_bytes(),
            small_limit_bytes: self.limit_bytes() / shard::SMALL_FRACTION as u64,
            blocks_most: self.blocks_most.load(Relaxed),
            ..self.counters.read()
        };
        for shard in &self.shards {
            let shard = shard.lock();
            let (bytes, packed_bytes) = shard.held();
            stats.bytes += bytes as u64;
            stats.packed_bytes += packed_bytes as u64;
            stats.census += &shard.census();
        }
        stats.beside_bytes = stats.census.blocks * shard::BESIDE_BYTES as u64;
        stats
    }
}
