//! What a device has been asked to make stable, and whether a flush of it can be believed.
//!
//! A flush that fails says that writes done before it may be lost, and not which. A stable write is a write and a flush
//! in one request, so a stable write that fails says the same. The system reports such a loss once: whoever asks again is
//! told that all is well. So neither is tried again, and after a failure of either no flush counts until the device is
//! opened anew and what may be lost was written again.
//!
//! A device may carry out other requests between the loss and its report:
//!
//! ```text
//!   stable write A   ├──────── lost ──────────┤ fails
//!   flush B                         ├──────┤·····  nothing left to flush; waits for A, and fails with it
//! ```
//! So a flush ends only when each stable write and each flush that began before it has ended. They are [`Shared`]: the
//! flush moves on those that nobody waits for any more.
//!
//! Invariants
//! - After a failure no flush succeeds until the device is opened anew.
//!   (tests: `a_stable_write_that_fails_is_not_tried_again_and_no_flush_counts_after_it`,
//!   `a_flush_that_failed_for_a_label_fails_for_a_commit_too`)
//! - A flush that began after a loss fails, however late the loss is reported, and to whom.
//!   (tests: `a_flush_does_not_end_before_the_stable_writes_that_began_before_it`,
//!   `a_stable_write_that_nobody_waits_for_is_not_forgotten`)

use std::sync::Arc;

use env::{BoxFuture, DeviceError, Shared};
use parking_lot::Mutex;
use units::LeafOffset;

type Answer = Result<(), DeviceError>;

/// The record of one device. Clones are the same record.
#[derive(Clone, Default)]
pub(crate) struct Stability(Arc<Mutex<Record>>);

#[derive(Default)]
struct Record {
    has_failed: bool,
    under_way: Vec<Shared<Answer>>,
}

impl Stability {
    /// True if a flush or a stable write has failed since the device was opened.
    pub(crate) fn has_failed(&self) -> bool {
        self.0.lock().has_failed
    }

    /// The device is opened anew. Whoever opened it writes again what may be lost.
    pub(crate) fn begin_anew(&self) {
        *self.0.lock() = Record::default();
    }

    /// The device is let go. No later flush asks for the requests that it has not answered.
    pub(crate) fn let_go(&self) {
        // A request may be the last that holds the device: that is dropped without the lock.
        drop(std::mem::take(&mut self.0.lock().under_way));
    }

    /// Does a stable write.
    pub(crate) fn write(&self, io: BoxFuture<'static, Answer>) -> BoxFuture<'static, Answer> {
        let (shared, _) = self.begin(io);
        Box::pin(shared)
    }

    /// Does a flush, which speaks for all writes that were done before it.
    pub(crate) fn flush(&self, io: BoxFuture<'static, Answer>) -> BoxFuture<'static, Answer> {
        let (shared, earlier) = self.begin(io);
        let record = self.clone();
        Box::pin(async move {
            let answer = shared.await;
            for other in earlier {
                // The record has what became of it.
                _ = other.await;
            }
            if record.has_failed() { answer.and(Err(FLUSH_LOST)) } else { answer }
        })
    }

    /// Registers a request; gives those that began before it and have not ended.
    fn begin(&self, io: BoxFuture<'static, Answer>) -> (Shared<Answer>, Vec<Shared<Answer>>) {
        let record = self.clone();
        let shared = Shared::new(async move {
            let answer = io.await;
            if answer.as_ref().is_err_and(may_have_lost) {
                record.0.lock().has_failed = true;
            }
            answer
        });
        let mut record = self.0.lock();
        record.under_way.retain(|request| request.answer().is_none());
        let earlier = record.under_way.clone();
        record.under_way.push(shared.clone());
        (shared, earlier)
    }
}

/// What a flush ends with when an earlier flush or stable write has failed: `EIO`.
const FLUSH_LOST: DeviceError = DeviceError::Io { op: "flush", offset: LeafOffset::new(0), len: 0, errno: 5 };

/// Whether a flush or stable write that ended so may have taken earlier writes with it. This is the only place that
/// decides it.
const fn may_have_lost(error: &DeviceError) -> bool {
    match error {
        DeviceError::Io { .. } | DeviceError::TimedOut | DeviceError::Gone => true,
        // The device has not seen the request.
        DeviceError::OutOfRange { .. }
        | DeviceError::Missing { .. }
        | DeviceError::InUse { .. }
        | DeviceError::NotADevice { .. }
        | DeviceError::Open { .. } => false,
    }
}

#[cfg(test)]
mod tests;
