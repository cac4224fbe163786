//! One block to one blkptr and back: compress, checksum, allocate, retry, cache.
//!
//! ```text
//!   write   data ─► compress ─► checksum ─► allocate 1–3 places ─► write all ─► blkptr
//!                                               ▲                     │ a vdev failed
//!                                               └──── elsewhere ◄─────┘
//!   read    blkptr ─► cache? ─► copy 1, 2, 3 until the checksum holds ─► decompress ─► cache
//!                         │        └─► bad ones are noted, to be repaired with the next txg
//!                         └─► a cache device, if it has the block (`l2arc`)
//! ```
//! Nothing here knows what a block means. The layers above hand in bytes and a
//! [`WritePolicy`] and keep the blkptr; they free the old one when its txg syncs.
//!
//! Invariants
//! - A blkptr that [`Zio::write`] returns has all its copies written, or the write failed and
//!   nothing stays allocated. (test: `a_write_that_fails_leaves_nothing_allocated`)
//! - Bytes that do not match the blkptr's checksum never reach a reader.
//!   (test: `a_damaged_block_is_an_error_that_names_it`)
//! - Every vdev that took a cached write is reported by [`Zio::take_unflushed`] after the write
//!   was. (test: `vdevs_with_cached_writes_are_known_until_taken`)
#![forbid(unsafe_code)]

mod block_faults;
mod bookmark;
mod cache;
mod copies;
mod early;
pub mod embedded;
mod error;
mod flights;
mod gang;
mod home;
mod leaks;
mod log;
mod mend;
mod pack;
mod packers;
mod pointer_forms;
mod policy;
mod read;
mod scrub;
mod second;
mod space;
mod stats;
mod suspension;
mod unstable;
mod write;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use codec::Salt;
use metaslab::Allocator;
use parking_lot::Mutex;
use units::{Txg, VdevId};
use vdev::{Run, VdevTree};

use crate::block_faults::BlockFaults;
use crate::cache::Cache;
use crate::copies::Copies;
use crate::flights::Flights;
use crate::leaks::Leaks;
use crate::packers::Packers;
use crate::scrub::Damage;
use crate::stats::Counters;
use crate::unstable::Unstable;

pub use block_faults::{BlockFault, BlockFaultKind, FaultyBlocks};
pub use bookmark::Bookmark;
pub use cache::{Ahead, CacheCensus, CacheStats, CachedBytes, DIRTY_BESIDE_CACHE_BYTES, Lookups};
pub use copies::RunCopy;
pub use early::{PackedEarly, Placed, Unplaced};
pub use error::ZioError;
pub use leaks::Leak;
pub use pointer_forms::PointerForms;
pub use policy::{Keep, LogHint, WritePolicy};
pub use scrub::{Damaged, Scrubbed};
pub use stats::{AheadStats, BlockTraffic, ZioStats};
pub use suspension::{FailMode, Suspension, SuspensionWatch, Tries};

/// A pool's blocks.
pub struct Zio {
    vdevs: Arc<VdevTree>,
    allocator: Mutex<Allocator>,
    cache: Cache,
    unflushed: Mutex<BTreeSet<VdevId>>,
    salt: Mutex<Option<Salt>>,
    counters: Counters,
    damage: Damage,
    lost: Damage,
    flights: Flights,
    packers: Packers,
    /// Bytes being read ahead.
    ahead_bytes: AtomicU64,
    /// Longest run that is asked for, see [`Zio::set_longest_run`].
    longest_run: AtomicU64,
    forms: Mutex<PointerForms>,
    suspension: Suspension,
    unstable: Unstable,
    copies: Copies,
    /// What was freed on removed vdevs, by txg.
    obsolete: Mutex<BTreeMap<Txg, Vec<Run>>>,
    leaks: Leaks,
    faults: BlockFaults,
}

impl Zio {
    /// Blocks on these vdevs, none of which can be allocated from until [`Self::add_vdev`]; keeps
    /// at most `cache_bytes` of them in memory.
    #[must_use]
    pub fn new(vdevs: Arc<VdevTree>, cache_bytes: u64) -> Self {
        Self {
            vdevs,
            allocator: Mutex::new(Allocator::new()),
            cache: Cache::new(cache_bytes),
            unflushed: Mutex::default(),
            salt: Mutex::new(None),
            counters: Counters::default(),
            damage: Damage::default(),
            lost: Damage::default(),
            flights: Flights::default(),
            packers: Packers::default(),
            ahead_bytes: AtomicU64::new(0),
            longest_run: AtomicU64::new(u64::MAX),
            forms: Mutex::default(),
            suspension: Suspension::default(),
            unstable: Unstable::default(),
            copies: Copies::default(),
            obsolete: Mutex::default(),
            leaks: Leaks::default(),
            faults: BlockFaults::default(),
        }
    }

    /// The vdevs below.
    #[must_use]
    pub fn vdevs(&self) -> &Arc<VdevTree> {
        &self.vdevs
    }

    /// Where I/O waits for devices to come back.
    #[must_use]
    pub fn suspension(&self) -> &Suspension {
        &self.suspension
    }

    /// Sets the pool's salt, which some checksums need.
    pub fn set_salt(&self, salt: [u8; 32]) {
        *self.salt.lock() = Some(Salt::new(salt));
    }

    /// The pool's salt, if it was set.
    #[must_use]
    pub fn salt(&self) -> Option<[u8; 32]> {
        self.salt.lock().as_ref().map(|salt| *salt.bytes())
    }

    /// Has longer blocks written as gangs though there is room, so that tests meet gangs
    /// everywhere (OpenZFS has `metaslab_force_ganging` for the same).
    pub fn set_longest_run(&self, bytes: u64) {
        self.longest_run.store(bytes, Relaxed);
    }

    /// Tells what block pointers may be in this pool; without, they are what they always were.
    pub fn set_pointer_forms(&self, forms: PointerForms) {
        *self.forms.lock() = forms;
    }

    /// What block pointers may be in this pool.
    #[must_use]
    pub fn pointer_forms(&self) -> PointerForms {
        *self.forms.lock()
    }

    /// Has reads of blocks fail from now on.
    pub fn inject(&self, fault: &Arc<BlockFault>) {
        self.faults.add(fault);
    }

    /// Ends what [`Self::inject`] began.
    pub fn stop_injecting(&self, fault: &Arc<BlockFault>) {
        self.faults.remove(fault);
    }

    /// Forgets what was read: reads are from devices again, cache devices included.
    pub fn empty_cache(&self) {
        self.cache.empty();
    }

    /// Sets the most bytes that the cache may hold.
    pub fn set_cache_limit(&self, bytes: u64) {
        self.cache.set_limit(bytes);
    }

    /// The most bytes that the cache may hold.
    #[must_use]
    pub fn cache_limit_bytes(&self) -> u64 {
        self.cache.limit_bytes()
    }

    /// Sets how much memory there is for the cache, and beside it for what is dirty.
    pub fn set_memory(&self, cache_bytes: u64, beside_bytes: u64) {
        self.cache.set_beside(beside_bytes);
        self.cache.set_limit(cache_bytes);
    }

    /// Tells how many bytes are changed and not on disk: beyond what may be dirty beside the cache they
    /// take from its room, so that both together stay within a bound.
    pub fn make_room_for(&self, dirty_bytes: u64) {
        self.cache.make_room_for(dirty_bytes);
    }

    /// What the cache did so far.
    #[must_use]
    pub fn cache_stats(&self) -> CacheStats {
        self.cache.stats()
    }

    /// Counts a read of an object that continues another one, or begins a stream.
    pub fn note_stream(&self, is_continued: bool) {
        let counter = match is_continued {
            true => &self.counters.streams_continued,
            false => &self.counters.streams_begun,
        };
        stats::one_more(counter);
    }

    /// What was read ahead so far.
    #[must_use]
    pub fn ahead_stats(&self) -> AheadStats {
        let cache = self.cache.stats();
        AheadStats {
            streams_continued: self.counters.streams_continued.load(Relaxed),
            streams_begun: self.counters.streams_begun.load(Relaxed),
            issued: cache.data_ahead.misses + cache.metadata_ahead.misses,
            active: self.flights.len() as u64,
        }
    }

    /// Returns what passed between the cache and the devices so far.
    #[must_use]
    pub fn block_traffic(&self) -> BlockTraffic {
        self.counters.traffic()
    }

    /// What went wrong so far, and was made good.
    #[must_use]
    pub fn stats(&self) -> ZioStats {
        self.counters.read()
    }
}
