//! What the cache did, and what it holds.
//!
//! OpenZFS counts the same as `arcstats`; the names in brackets below are those. Its two queues of
//! blocks, used once (`mru`) and used again (`mfu`), are here `small` with `cold`, and `main`.

use std::ops::{AddAssign, SubAssign};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why a block is read before anybody asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// A reader goes from block to block (`predictive_prefetch`).
    Predicted,
    /// A walk will come to it (`prescient_prefetch`).
    Planned,
}

/// What came of looking for blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    /// Blocks that were in memory (`hits`).
    pub hits: u64,
    /// Blocks that were being read already, and were waited for (`iohits`).
    pub joined: u64,
    /// Blocks that had to be read (`misses`).
    pub misses: u64,
}

/// Bytes of blocks by what the blocks hold: the lengths of buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachedBytes {
    /// File data.
    pub data: u64,
    /// All else.
    pub metadata: u64,
}

impl CachedBytes {
    pub(super) fn of(is_data: bool, bytes: u64) -> Self {
        if is_data { Self { data: bytes, metadata: 0 } } else { Self { data: 0, metadata: bytes } }
    }

    /// Both.
    #[must_use]
    pub fn total(self) -> u64 {
        self.data + self.metadata
    }
}

impl AddAssign for CachedBytes {
    fn add_assign(&mut self, other: Self) {
        self.data += other.data;
        self.metadata += other.metadata;
    }
}

impl SubAssign for CachedBytes {
    fn sub_assign(&mut self, other: Self) {
        self.data -= other.data;
        self.metadata -= other.metadata;
    }
}

/// What the cache holds now, and what passed through its queues. Each shard has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCensus {
    /// Blocks (`hash_elements`).
    pub blocks: u64,
    /// Blocks that were used once or not at all since they came.
    pub small: CachedBytes,
    /// Blocks that were used again.
    pub main: CachedBytes,
    /// Blocks that are there only as they are stored; a use brings them to `main`.
    pub cold: CachedBytes,
    /// What blocks that are gone, and are remembered, took when they went.
    pub ghosts: CachedBytes,
    /// Blocks as they are stored; of one that is stored unpacked, the only form there is (`compressed_size`).
    pub stored_bytes: u64,
    /// The same blocks unpacked (`uncompressed_size`).
    pub logical_bytes: u64,
    /// Unpacked forms beside the stored ones (`overhead_size`).
    pub unpacked_bytes: u64,
    /// Hits on `small` and `cold`.
    pub small_hits: u64,
    /// Hits on `main`.
    pub main_hits: u64,
    /// Blocks that came back while they were remembered.
    pub ghost_hits: u64,
    /// First hits on blocks that were read ahead of a reader.
    pub predicted_hits: u64,
    /// First hits on blocks that were read ahead of a walk.
    pub planned_hits: u64,
    /// Blocks that had to leave (`deleted`).
    pub evicted: u64,
    /// Bytes of those that left `small` or `cold` and that a cache device may have.
    pub evicted_small_bytes: u64,
    /// The same of `main`.
    pub evicted_main_bytes: u64,
    /// Bytes of those that no cache device may have.
    pub evicted_barred_bytes: u64,
}

impl AddAssign<&Self> for CacheCensus {
    fn add_assign(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.small += other.small;
        self.main += other.main;
        self.cold += other.cold;
        self.ghosts += other.ghosts;
        self.stored_bytes += other.stored_bytes;
        self.logical_bytes += other.logical_bytes;
        self.unpacked_bytes += other.unpacked_bytes;
        self.small_hits += other.small_hits;
        self.main_hits += other.main_hits;
        self.ghost_hits += other.ghost_hits;
        self.predicted_hits += other.predicted_hits;
        self.planned_hits += other.planned_hits;
        self.evicted += other.evicted;
        self.evicted_small_bytes += other.evicted_small_bytes;
        self.evicted_main_bytes += other.evicted_main_bytes;
        self.evicted_barred_bytes += other.evicted_barred_bytes;
    }
}

/// What the cache did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Blocks that were found by whoever wants them at once.
    pub hits: u64,
    /// Blocks that were not.
    pub misses: u64,
    /// Hits on blocks that were only there as they are stored.
    pub packed_hits: u64,
    /// Lookups of file data by whoever wants it at once.
    pub data: Lookups,
    /// The same of all else.
    pub metadata: Lookups,
    /// Lookups of file data by whoever reads ahead.
    pub data_ahead: Lookups,
    /// The same of all else.
    pub metadata_ahead: Lookups,
    /// Blocks that were waited for while they were read ahead of a reader.
    pub predicted_joined: u64,
    /// The same of a walk.
    pub planned_joined: u64,
    /// Blocks read ahead of readers.
    pub predicted: u64,
    /// Blocks read ahead of walks.
    pub planned: u64,
    /// Bytes held now, what lies beside the blocks included.
    pub bytes: u64,
    /// Bytes beside the blocks: keys, queues (`hdr_size`).
    pub beside_bytes: u64,
    /// Those of `bytes` that are blocks as they are stored.
    pub packed_bytes: u64,
    /// Most bytes that may be held.
    pub limit_bytes: u64,
    /// Of those, what [`CacheCensus::small`] may have before the oldest block of it has to prove itself.
    pub small_limit_bytes: u64,
    /// Most blocks that were there at a time.
    pub blocks_most: u64,
    /// What is in which queue.
    pub census: CacheCensus,
}

/// Counts of lookups that many threads make.
#[derive(Debug, Default)]
struct LookupCounters {
    hits: AtomicU64,
    joined: AtomicU64,
    misses: AtomicU64,
}

impl LookupCounters {
    fn count(&self, outcome: LookupOutcome) {
        let counter = match outcome {
            LookupOutcome::Hit => &self.hits,
            LookupOutcome::Joined(_) => &self.joined,
            LookupOutcome::Miss => &self.misses,
        };
        counter.fetch_add(1, Relaxed);
    }

    fn read(&self) -> Lookups {
        Lookups {
            hits: self.hits.load(Relaxed),
            joined: self.joined.load(Relaxed),
            misses: self.misses.load(Relaxed),
        }
    }
}

/// What came of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupOutcome {
    Hit,
    /// The block was being read ahead for this reason.
    Joined(Ahead),
    Miss,
}

/// All counters that belong to no shard.
#[derive(Debug, Default)]
pub(super) struct Counters {
    data: LookupCounters,
    metadata: LookupCounters,
    data_ahead: LookupCounters,
    metadata_ahead: LookupCounters,
    predicted: AtomicU64,
    planned: AtomicU64,
    predicted_joined: AtomicU64,
    planned_joined: AtomicU64,
    pub(super) packed_hits: AtomicU64,
}

impl Counters {
    /// Counts a lookup of somebody who wants the block at once.
    pub(super) fn count(&self, is_data: bool, outcome: LookupOutcome) {
        let counters = if is_data { &self.data } else { &self.metadata };
        counters.count(outcome);
        match outcome {
            LookupOutcome::Joined(Ahead::Predicted) => _ = self.predicted_joined.fetch_add(1, Relaxed),
            LookupOutcome::Joined(Ahead::Planned) => _ = self.planned_joined.fetch_add(1, Relaxed),
            LookupOutcome::Hit | LookupOutcome::Miss => {}
        }
    }

    /// Counts a lookup of somebody who reads ahead.
    pub(super) fn count_ahead(&self, is_data: bool, ahead: Ahead, outcome: LookupOutcome) {
        let counters = if is_data { &self.data_ahead } else { &self.metadata_ahead };
        counters.count(outcome);
        if outcome == LookupOutcome::Miss {
            let reads = match ahead {
                Ahead::Predicted => &self.predicted,
                Ahead::Planned => &self.planned,
            };
            reads.fetch_add(1, Relaxed);
        }
    }

    /// The counters; what belongs to shards is left out.
    pub(super) fn read(&self) -> CacheStats {
        let (data, metadata) = (self.data.read(), self.metadata.read());
        CacheStats {
            hits: data.hits + data.joined + metadata.hits + metadata.joined,
            misses: data.misses + metadata.misses,
            packed_hits: self.packed_hits.load(Relaxed),
            data,
            metadata,
            data_ahead: self.data_ahead.read(),
            metadata_ahead: self.metadata_ahead.read(),
            predicted_joined: self.predicted_joined.load(Relaxed),
            planned_joined: self.planned_joined.load(Relaxed),
            predicted: self.predicted.load(Relaxed),
            planned: self.planned.load(Relaxed),
            ..CacheStats::default()
        }
    }
}
