//! What a pool's memory is for.
//!
//! ```text
//!   memory ─┬─ in flight: blocks on their way to disks, packed beside what they were
//!           ├─ beside: dirty data, a first part
//!           └─ cache, from which dirty data takes what is more than that
//! ```
//! A pool is opened with so much and may be given more or less while it is open: a daemon's pools share
//! one budget.
//!
//! Invariants
//! - The parts are the memory, and what may be dirty leaves a third of it to the cache.
//!   (test: `the_parts_of_a_pools_memory_are_all_of_it`)

use std::sync::atomic::Ordering::Relaxed;

use dmu::TxgGate;
use zio::Zio;

use crate::{Pool, Tuning};

/// Of the memory, so much is for blocks on their way to disks,
const IN_FLIGHT_FRACTION: u64 = 16;
/// up to what keeps every disk busy.
const IN_FLIGHT_MAX_BYTES: u64 = dmu::IN_FLIGHT_BYTES;
/// And so much for what is dirty beside the cache, up to [`zio::DIRTY_BESIDE_CACHE_BYTES`].
const BESIDE_FRACTION: u64 = 4;
/// What may be dirty with hardly any cache: a stream's txgs are large enough then that flushes and
/// labels at their ends take a tenth of the time, see `docs/decisions/2026-11-22-dirty-data.md`.
const DIRTY_BASE_BYTES: u64 = 192 << 20;
/// And more with a larger cache: this part of it,
const DIRTY_CACHE_FRACTION: u64 = 2;
/// up to OpenZFS's `zfs_dirty_data_max_max`.
const DIRTY_MAX_BYTES: u64 = 4 << 30;

/// The parts of a pool's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryParts {
    pub cache_bytes: u64,
    /// Dirty data that take nothing from the cache.
    pub beside_bytes: u64,
    /// All dirty data, at most.
    pub dirty_bytes: u64,
    pub in_flight_bytes: u64,
}

impl MemoryParts {
    /// As a pool was told: so much in all, or so much for the cache.
    pub fn of(tuning: &Tuning) -> Self {
        let (in_flight_bytes, beside_bytes, cache_bytes) = match tuning.memory_bytes {
            Some(memory) => {
                let in_flight = (memory / IN_FLIGHT_FRACTION).min(IN_FLIGHT_MAX_BYTES);
                let beside = (memory / BESIDE_FRACTION).min(zio::DIRTY_BESIDE_CACHE_BYTES);
                (in_flight, beside, memory - in_flight - beside)
            }
            None => (IN_FLIGHT_MAX_BYTES, zio::DIRTY_BESIDE_CACHE_BYTES, tuning.cache_bytes),
        };
        let wanted = DIRTY_BASE_BYTES + cache_bytes / DIRTY_CACHE_FRACTION;
        let shared = cache_bytes.saturating_add(beside_bytes) / 3 * 2;
        let dirty_bytes = tuning.dirty_limit_bytes.unwrap_or(wanted.min(shared).min(DIRTY_MAX_BYTES));
        Self { cache_bytes, beside_bytes, dirty_bytes, in_flight_bytes }
    }

    /// Has a pool's parts heed it.
    pub fn apply(&self, zio: &Zio, gate: &TxgGate) {
        gate.set_dirty_limit(self.dirty_bytes);
        gate.set_in_flight(self.in_flight_bytes);
        zio.set_memory(self.cache_bytes, self.beside_bytes);
    }
}

impl Pool {
    /// Gives the pool so much memory from now on, for everything that it keeps there.
    pub fn set_memory(&self, bytes: u64) {
        let tuning = Tuning { memory_bytes: Some(bytes), ..self.tuning.clone() };
        self.memory_bytes.store(bytes, Relaxed);
        MemoryParts::of(&tuning).apply(&self.zio, &self.gate);
    }

    /// The memory that the pool was given, in bytes; none where only its cache was.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        Some(self.memory_bytes.load(Relaxed)).filter(|bytes| *bytes > 0)
    }
}

/// What the cache has of a pool's memory of so many bytes.
#[must_use]
pub fn cache_part(memory_bytes: u64) -> u64 {
    MemoryParts::of(&Tuning { memory_bytes: Some(memory_bytes), ..Tuning::default() }).cache_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_dirty_follows_the_cache() {
        let limit =
            |cache_bytes| MemoryParts::of(&Tuning { cache_bytes, ..Tuning::default() }).dirty_bytes >> 20;
        assert_eq!([limit(256 << 20), limit(1 << 30), limit(3 << 30)], [256, 704, 1728]);
        assert_eq!(limit(0), 85, "two thirds of what may be dirty beside a cache");
        assert_eq!(limit(u64::MAX), 4096);
        for cache_mib in [0, 1, 64, 256, 1024, 100_000] {
            let beside = zio::DIRTY_BESIDE_CACHE_BYTES >> 20;
            assert!(limit(cache_mib << 20) * 3 <= (cache_mib + beside) * 2, "a third is left to the cache");
        }
        let said = Tuning { dirty_limit_bytes: Some(300_000), ..Tuning::default() };
        assert_eq!(MemoryParts::of(&said).dirty_bytes, 300_000);
    }

    #[test]
    fn the_parts_of_a_pools_memory_are_all_of_it() {
        for mib in [0, 1, 32, 104, 512, 3072, 1 << 20] {
            let memory = mib << 20;
            let parts = MemoryParts::of(&Tuning { memory_bytes: Some(memory), ..Tuning::default() });
            assert_eq!(parts.cache_bytes + parts.beside_bytes + parts.in_flight_bytes, memory);
            assert!(parts.dirty_bytes <= (parts.cache_bytes + parts.beside_bytes) / 3 * 2, "{parts:?}");
        }
        let small = MemoryParts::of(&Tuning { memory_bytes: Some(96 << 20), ..Tuning::default() });
        assert_eq!((small.cache_bytes >> 20, small.beside_bytes >> 20), (66, 24));
        assert_eq!((small.dirty_bytes >> 20, small.in_flight_bytes >> 20), (60, 6));
    }
}
