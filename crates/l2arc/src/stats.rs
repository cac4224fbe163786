//! What a cache device, and all of them together, did so far.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the cache devices of a pool did since it was opened (OpenZFS counts the same as `l2_*` in `arcstats`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheDeviceStats {
    /// Blocks that were read from a device (`l2_hits`).
    pub hits: u64,
    /// Blocks that were looked for and are on none (`l2_misses`).
    pub misses: u64,
    /// Blocks that a device was asked for and that it did not have as they were written (`l2_cksum_bad`).
    pub wrong_bytes: u64,
    /// Blocks that a device could not read, or not in time; the pool was asked (`l2_io_error`).
    pub failed_reads: u64,
    /// Blocks written.
    pub written: u64,
    /// Bytes of blocks that were read from a device (`l2_read_bytes`).
    pub read_bytes: u64,
    /// Bytes of blocks written (`l2_write_bytes`).
    pub written_bytes: u64,
    /// Bytes of blocks that left memory and that a device had already (`evict_l2_cached`).
    pub offered_again_bytes: u64,
    /// Blocks that left memory and that nobody had time to write.
    pub dropped: u64,
    /// Blocks that were found on devices when they were opened (`l2_rebuild_bufs`).
    pub rebuilt: u64,
    /// Blocks there now.
    pub blocks: u64,
    /// Bytes of those, as they are stored (`l2_asize`).
    pub bytes: u64,
    /// Memory that it takes to know where they are (`l2_hdr_size`).
    pub memory_bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) wrong_bytes: AtomicU64,
    pub(crate) failed_reads: AtomicU64,
    pub(crate) written: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) offered_again_bytes: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) rebuilt: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self) -> CacheDeviceStats {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        CacheDeviceStats {
            hits: read(&self.hits),
            misses: read(&self.misses),
            wrong_bytes: read(&self.wrong_bytes),
            failed_reads: read(&self.failed_reads),
            written: read(&self.written),
            read_bytes: read(&self.read_bytes),
            written_bytes: read(&self.written_bytes),
            offered_again_bytes: read(&self.offered_again_bytes),
            dropped: read(&self.dropped),
            rebuilt: read(&self.rebuilt),
            ..CacheDeviceStats::default()
        }
    }
}

pub(crate) fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Relaxed);
}
