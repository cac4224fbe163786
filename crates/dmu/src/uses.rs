//! How much a dataset is used: what clients read and write, and what they unlink. OpenZFS counts the
//! same for each objset (`dataset_kstats.c`).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How much a dataset was used since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UseCounts {
    /// Reads (`reads`).
    pub reads: u64,
    /// Bytes of those (`nread`).
    pub read_bytes: u64,
    /// Writes (`writes`).
    pub writes: u64,
    /// Bytes of those (`nwritten`).
    pub written_bytes: u64,
    /// Files that lost their last name and wait to be freed, or waited (`nunlinks`).
    pub unlinks: u64,
    /// Of those, files that have been freed (`nunlinked`).
    pub unlinked: u64,
}

/// Counts as clients work.
#[derive(Debug, Default)]
pub struct UseCounters {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    unlinks: AtomicU64,
    unlinked: AtomicU64,
}

impl UseCounters {
    /// Counts a read that gave so many bytes.
    pub fn note_read(&self, bytes: usize) {
        self.reads.fetch_add(1, Relaxed);
        self.read_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts a write of so many bytes.
    pub fn note_write(&self, bytes: usize) {
        self.writes.fetch_add(1, Relaxed);
        self.written_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts a file that has lost its last name and is to be freed later.
    pub fn note_unlink(&self) {
        self.unlinks.fetch_add(1, Relaxed);
    }

    /// Counts the end of such a file.
    pub fn note_unlinked(&self) {
        self.unlinked.fetch_add(1, Relaxed);
    }

    /// The counts so far.
    #[must_use]
    pub fn counts(&self) -> UseCounts {
        UseCounts {
            reads: self.reads.load(Relaxed),
            read_bytes: self.read_bytes.load(Relaxed),
            writes: self.writes.load(Relaxed),
            written_bytes: self.written_bytes.load(Relaxed),
            unlinks: self.unlinks.load(Relaxed),
            unlinked: self.unlinked.load(Relaxed),
        }
    }
}
