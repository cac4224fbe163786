//! What went wrong, and what was done about it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters since the pool was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZioStats {
    /// Blocks that no copy of could be read, or none with the right checksum.
    pub lost_reads: u64,
    /// Copies that were wrong and have been written anew.
    pub repaired_copies: u64,
    /// Blocks that went elsewhere because a vdev failed to take them.
    pub moved_writes: u64,
    /// Blocks, or parts of some, that were written as gangs for want of a long enough run.
    pub gang_blocks: u64,
    /// Log blocks that found no room on a log device, and went to the main pool.
    pub log_blocks_in_main: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) lost_reads: AtomicU64,
    pub(crate) repaired_copies: AtomicU64,
    pub(crate) moved_writes: AtomicU64,
    pub(crate) gang_blocks: AtomicU64,
    pub(crate) log_blocks_in_main: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self) -> ZioStats {
        ZioStats {
            lost_reads: self.lost_reads.load(Relaxed),
            repaired_copies: self.repaired_copies.load(Relaxed),
            moved_writes: self.moved_writes.load(Relaxed),
            gang_blocks: self.gang_blocks.load(Relaxed),
            log_blocks_in_main: self.log_blocks_in_main.load(Relaxed),
        }
    }
}

/// Counts one more.
pub(crate) fn one_more(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
