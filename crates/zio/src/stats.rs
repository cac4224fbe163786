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

/// Reading ahead, since the pool was opened (OpenZFS counts the same as `zfetchstats`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AheadStats {
    /// Reads that went on where one before had ended (`hits`).
    pub streams_continued: u64,
    /// Reads that continued no known stream. Each of these reads begins a stream (`misses`).
    pub streams_begun: u64,
    /// Blocks read ahead (`io_issued`).
    pub issued: u64,
    /// Blocks that are being read ahead now (`io_active`).
    pub active: u64,
}

/// Blocks that passed between the cache and the devices since the pool was opened, in bytes as they are stored. Scrubs and
/// the log are left out. (OpenZFS: `arc_read_count` and the three after it in `iostats`.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockTraffic {
    /// Blocks read.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Blocks written; one of several copies counts once.
    pub writes: u64,
    /// Their bytes.
    pub written_bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) block_reads: AtomicU64,
    pub(crate) block_read_bytes: AtomicU64,
    pub(crate) block_writes: AtomicU64,
    pub(crate) block_written_bytes: AtomicU64,
    pub(crate) streams_continued: AtomicU64,
    pub(crate) streams_begun: AtomicU64,
    pub(crate) lost_reads: AtomicU64,
    pub(crate) repaired_copies: AtomicU64,
    pub(crate) moved_writes: AtomicU64,
    pub(crate) gang_blocks: AtomicU64,
    pub(crate) log_blocks_in_main: AtomicU64,
}

impl Counters {
    pub(crate) fn block_was_read(&self, bytes: u64) {
        one_more(&self.block_reads);
        self.block_read_bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn block_was_written(&self, bytes: u64) {
        one_more(&self.block_writes);
        self.block_written_bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn traffic(&self) -> BlockTraffic {
        BlockTraffic {
            reads: self.block_reads.load(Relaxed),
            read_bytes: self.block_read_bytes.load(Relaxed),
            writes: self.block_writes.load(Relaxed),
            written_bytes: self.block_written_bytes.load(Relaxed),
        }
    }

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
