//! Counters of a vdev: how much I/O, how long it took, how often it failed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use units::{Histogram, Latencies};

/// Kind of I/O that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes of a device's volatile cache.
    Flush,
}

/// Operations, bytes and time of one kind of I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoTotals {
    /// Operations completed, failed ones too.
    pub ops: u64,
    /// Bytes moved by those that succeeded.
    pub bytes: u64,
    /// Sum of the time each took, in nanoseconds.
    pub nanos: u64,
}

/// A moment's reading of [`VdevStats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatsSnapshot {
    /// Reads.
    pub read: IoTotals,
    /// Writes.
    pub write: IoTotals,
    /// Flushes.
    pub flush: IoTotals,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes and flushes that failed.
    pub write_errors: u64,
    /// Reads that brought something else than was written.
    pub checksum_errors: u64,
    /// Requests that took longer than 30 seconds.
    pub slow_ios: u64,
    /// Bytes written to repair bad copies.
    pub healed_bytes: u64,
    /// I/Os under way.
    pub in_flight: u64,
    /// How long flushes took, those that failed too.
    pub flush_times: Latencies,
}

#[derive(Debug, Default)]
struct Totals {
    ops: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
}

impl Totals {
    fn add(&self, bytes: u64, took: Duration) {
        self.ops.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        self.nanos.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    fn read(&self) -> IoTotals {
        IoTotals {
            ops: self.ops.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            nanos: self.nanos.load(Relaxed),
        }
    }
}

/// Counters of one vdev, since it was opened or cleared.
#[derive(Debug, Default)]
pub struct VdevStats {
    read: Totals,
    write: Totals,
    flush: Totals,
    read_errors: AtomicU64,
    write_errors: AtomicU64,
    checksum_errors: AtomicU64,
    slow_ios: AtomicU64,
    healed_bytes: AtomicU64,
    in_flight: AtomicU64,
    flush_times: Histogram,
}

/// Counts an I/O as under way until dropped.
pub(crate) struct InFlight<'a>(&'a AtomicU64);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl VdevStats {
    /// All counters at this moment.
    #[must_use]
    pub fn snapshot(&self) -> StatsSnapshot {
        StatsSnapshot {
            read: self.read.read(),
            write: self.write.read(),
            flush: self.flush.read(),
            read_errors: self.read_errors.load(Relaxed),
            write_errors: self.write_errors.load(Relaxed),
            checksum_errors: self.checksum_errors.load(Relaxed),
            slow_ios: self.slow_ios.load(Relaxed),
            healed_bytes: self.healed_bytes.load(Relaxed),
            in_flight: self.in_flight.load(Relaxed),
            flush_times: self.flush_times.snapshot(),
        }
    }

    /// Reads and writes at this moment.
    #[must_use]
    pub fn reads_and_writes(&self) -> (IoTotals, IoTotals) {
        (self.read.read(), self.write.read())
    }

    /// Sets the error counters back to zero (`zpool clear`).
    pub fn clear_errors(&self) {
        self.read_errors.store(0, Relaxed);
        self.write_errors.store(0, Relaxed);
        self.checksum_errors.store(0, Relaxed);
        self.slow_ios.store(0, Relaxed);
    }

    pub(crate) fn begin(&self) -> InFlight<'_> {
        self.in_flight.fetch_add(1, Relaxed);
        InFlight(&self.in_flight)
    }

    pub(crate) fn load(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    pub(crate) fn done(&self, kind: IoKind, bytes: u64, took: Duration) {
        match kind {
            IoKind::Read => self.read.add(bytes, took),
            IoKind::Write => self.write.add(bytes, took),
            IoKind::Flush => {
                self.flush.add(0, took);
                self.flush_times.note(took);
            }
        }
    }

    pub(crate) fn failed(&self, kind: IoKind) {
        match kind {
            IoKind::Read => self.read_errors.fetch_add(1, Relaxed),
            IoKind::Write | IoKind::Flush => self.write_errors.fetch_add(1, Relaxed),
        };
    }

    pub(crate) fn bad_checksum(&self) {
        self.checksum_errors.fetch_add(1, Relaxed);
    }

    pub(crate) fn slow(&self) {
        self.slow_ios.fetch_add(1, Relaxed);
    }

    pub(crate) fn healed(&self, bytes: u64) {
        self.healed_bytes.fetch_add(bytes, Relaxed);
    }
}
