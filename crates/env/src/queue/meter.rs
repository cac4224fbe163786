//! What a queue counts: how long I/Os waited and took, how large they were, how many wait now.
//!
//! `zpool iostat` tells I/Os apart by OpenZFS's priorities, which know reads from writes; the queue's own classes say how
//! urgent a piece of work is, whatever it does. [`Priority::of`] says which is which:
//!
//! ```text
//!   class \ op   read         write         discard
//!   Sync         sync_read    sync_write    trim       users' reads and log blocks; what nobody classed: labels, too
//!   Async        async_read   async_write   trim       what a txg writes, and reads for that
//!   Prefetch     async_read   async_write   trim       OpenZFS prefetches as asynchronous reads
//!   Scrub        scrub        async_write   trim       scrub, resilver, evacuation, initialize: all their reads count as
//!                                                      scrub, for they wait in one lane; their writes as OpenZFS has them
//! ```
//! Of OpenZFS's priorities only `rebuild` has no counterpart: no resilver here goes by the order of space maps.
//!
//! One request to the device is one count, as in OpenZFS: requests that were joined count once, with the size of the
//! whole, and with the wait of the one that waited longest. Only what succeeded is counted. Three times are told:
//!
//! ```text
//!   asked for ──────── wait ────────► a place at the device ──────── device ────────► answered
//!   └─────────────────────────────────── total ──────────────────────────────────────┘
//! ```
//! A flush does not queue and is none of these (its leaf counts it).

use std::sync::Arc;
use std::time::Duration;

use units::{Histogram, Latencies, SizeHistogram, Sizes};

use super::class::IoClass;

/// What is done to a device, as far as the queue minds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoOp {
    /// Bytes are read.
    Read,
    /// Bytes are written, stable or not.
    Write,
    /// Bytes are forgotten.
    Discard,
}

/// OpenZFS's priorities, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Reads that somebody waits for.
    SyncRead,
    /// Writes that somebody waits for.
    SyncWrite,
    /// Reads of txgs, and ahead of who may want them.
    AsyncRead,
    /// Writes of txgs, and of whoever has time.
    AsyncWrite,
    /// Reads of whoever has time: scrub, resilver.
    Scrub,
    /// What devices are to forget.
    Trim,
}

impl Priority {
    /// All, in OpenZFS's order.
    pub const ALL: [Self; 6] =
        [Self::SyncRead, Self::SyncWrite, Self::AsyncRead, Self::AsyncWrite, Self::Scrub, Self::Trim];

    /// What an I/O of a class counts as; see the table above.
    #[must_use]
    pub const fn of(class: IoClass, op: IoOp) -> Self {
        match (op, class) {
            (IoOp::Discard, _) => Self::Trim,
            (IoOp::Read, IoClass::Sync) => Self::SyncRead,
            (IoOp::Write, IoClass::Sync) => Self::SyncWrite,
            (IoOp::Read, IoClass::Async | IoClass::Prefetch) => Self::AsyncRead,
            (IoOp::Read, IoClass::Scrub) => Self::Scrub,
            (IoOp::Write, IoClass::Async | IoClass::Prefetch | IoClass::Scrub) => Self::AsyncWrite,
        }
    }
}

/// The counters of one priority.
#[derive(Debug, Default)]
struct Counted {
    /// Of those that waited: most do not.
    waits: Histogram,
    alone: SizeHistogram,
    joined: SizeHistogram,
}

/// The counters of one device's queue since its leaf came into the pool: they outlive the queue, which is a new one
/// whenever the device is opened. All additions are relaxed.
#[derive(Debug, Default)]
pub struct QueueStats {
    priorities: [Counted; 6],
    read: Timed,
    write: Timed,
}

/// How long I/Os took. What went straight on took as long as the device did: two additions count it, of its size and of this,
/// where one that waited has four.
#[derive(Debug, Default)]
struct Timed {
    straight: Histogram,
    waited_total: Histogram,
    waited_device: Histogram,
}

/// One request that the device has answered well.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub class: IoClass,
    pub op: IoOp,
    /// How many requests went as this one.
    pub requests: usize,
    /// Its size as the device was asked, with gaps that were read for the sake of what lies around them.
    pub bytes: u64,
    /// `None` where a place was free.
    pub wait: Option<Duration>,
    pub device: Duration,
}

impl QueueStats {
    pub(super) fn note(&self, done: Done) {
        let counted = &self.priorities[Priority::of(done.class, done.op) as usize];
        let sizes = if done.requests > 1 { &counted.joined } else { &counted.alone };
        sizes.note(done.bytes);
        if let Some(wait) = done.wait {
            counted.waits.note(wait);
        }
        let timed = match done.op {
            IoOp::Read => &self.read,
            IoOp::Write => &self.write,
            IoOp::Discard => return,
        };
        match done.wait {
            None => timed.straight.note(done.device),
            Some(wait) => {
                timed.waited_device.note(done.device);
                timed.waited_total.note(wait + done.device);
            }
        }
    }

    /// All counters at this moment.
    #[must_use]
    pub fn snapshot(&self) -> QueueSnapshot {
        QueueSnapshot {
            priorities: self.priorities.each_ref().map(Counted::snapshot),
            read: self.read.snapshot(),
            write: self.write.snapshot(),
        }
    }
}

impl Counted {
    fn snapshot(&self) -> PrioritySnapshot {
        let (mut waits, alone, joined) =
            (self.waits.snapshot(), self.alone.snapshot(), self.joined.snapshot());
        waits.counts[0] += (alone.total() + joined.total()).saturating_sub(waits.total());
        PrioritySnapshot { waits, alone, joined }
    }
}

impl Timed {
    fn snapshot(&self) -> Times {
        let straight = self.straight.snapshot();
        let mut times = Times { total: straight, device: straight };
        times.total += self.waited_total.snapshot();
        times.device += self.waited_device.snapshot();
        times
    }
}

/// A moment's reading of [`QueueStats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSnapshot {
    /// In the order of [`Priority::ALL`].
    pub priorities: [PrioritySnapshot; 6],
    /// How long reads took.
    pub read: Times,
    /// How long writes took.
    pub write: Times,
}

/// What was done at one priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrioritySnapshot {
    /// How long I/Os waited for a place at the device; most of them not at all.
    pub waits: Latencies,
    /// Sizes of those that went as they were asked for.
    pub alone: Sizes,
    /// Sizes of those that were made of several requests.
    pub joined: Sizes,
}

/// How long I/Os took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// From the request to the answer.
    pub total: Latencies,
    /// At the device alone.
    pub device: Latencies,
}

/// How many I/Os of a priority there are at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InQueue {
    /// Requests that wait for a place at the device.
    pub pending: u64,
    /// I/Os that the device has.
    pub active: u64,
}

/// What time it is: [`crate::Env::now`], or a test's.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Where a queue counts, and by which clock.
#[derive(Clone)]
pub struct Meter {
    /// What time it is.
    pub clock: Clock,
    /// Where it is counted.
    pub stats: Arc<QueueStats>,
}

impl Meter {
    /// For a queue whose times nobody minds.
    #[must_use]
    pub fn timeless() -> Self {
        Self { clock: Arc::new(|| Duration::ZERO), stats: Arc::default() }
    }
}
