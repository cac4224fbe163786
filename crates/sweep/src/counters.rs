//! What trims came to (OpenZFS: `trim_extents_written` and the names beside it in the kstat `iostats`).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Runs of free bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Since the pool was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrimCounts {
    /// Discarded.
    pub discarded: Runs,
    /// Left as they were, because they were too small.
    pub skipped: Runs,
    /// Not discarded, because the device failed.
    pub failed: Runs,
}

#[derive(Debug, Default)]
struct RunCounters {
    count: AtomicU64,
    bytes: AtomicU64,
}

impl RunCounters {
    fn add(&self, bytes: u64) {
        self.count.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    fn read(&self) -> Runs {
        Runs { count: self.count.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }
}

/// Counts what several walks do at once.
#[derive(Debug, Default)]
pub struct TrimCounters {
    discarded: RunCounters,
    skipped: RunCounters,
    failed: RunCounters,
}

impl TrimCounters {
    /// Counts a run that is too small.
    pub fn skipped(&self, bytes: u64) {
        self.skipped.add(bytes);
    }

    /// Counts a run that a device was told to forget.
    pub fn ended(&self, bytes: u64, is_done: bool) {
        let counters = if is_done { &self.discarded } else { &self.failed };
        counters.add(bytes);
    }

    /// Returns all counts at this moment.
    #[must_use]
    pub fn counts(&self) -> TrimCounts {
        TrimCounts {
            discarded: self.discarded.read(),
            skipped: self.skipped.read(),
            failed: self.failed.read(),
        }
    }
}
