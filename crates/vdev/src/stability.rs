//! Records the flushes and stable writes of a device, and whether a flush of the device can be
//! trusted.
//!
//! A flush that fails means that earlier writes may be lost, without naming them. A stable write is
//! a write and a flush in one request, so its failure means the same. The system reports such a
//! loss only once: the next flush succeeds although the data is lost. So neither request is
//! retried, and after a failure every flush fails until the device is reopened and the writes that
//! may be lost are repeated.
//!
//! A device may carry out other requests between the loss and its report:
//!
//! ```text
//!   stable write A   ├──────── lost ──────────┤ fails
//!   flush B                         ├──────┤·····  nothing left to flush; waits for A and fails
//! ```
//! So a flush ends only when every stable write and every flush that began before it has ended.
//! These requests are [`Shared`]: the flush also drives a request whose caller no longer polls it.
//!
//! Invariants
//! - After a failure, no flush succeeds until the device is reopened.
//!   (tests: `a_stable_write_that_fails_is_not_tried_again_and_no_flush_counts_after_it`,
//!   `a_flush_that_failed_for_a_label_fails_for_a_commit_too`)
//! - A flush that began after a loss fails, however late the loss is reported, and whichever
//!   request receives the report.
//!   (tests: `a_flush_does_not_end_before_the_stable_writes_that_began_before_it`,
//!   `a_stable_write_that_nobody_waits_for_is_not_forgotten`)

use std::sync::Arc;

use env::{BoxFuture, DeviceError, Shared};
use parking_lot::Mutex;
use units::LeafOffset;

type Answer = Result<(), DeviceError>;

/// The record of one device. All clones share one record.
#[derive(Clone, Default)]
pub(crate) struct Stability(Arc<Mutex<StabilityRecord>>);

#[derive(Default)]
struct StabilityRecord {
    has_failed: bool,
    under_way: Vec<Shared<Answer>>,
}

impl Stability {
    /// True if a flush or a stable write has failed since the device was opened.
    pub(crate) fn has_failed(&self) -> bool {
        self.0.lock().has_failed
    }

    /// The device was reopened. The caller repeats the writes that may be lost.
    pub(crate) fn begin_anew(&self) {
        *self.0.lock() = StabilityRecord::default();
    }

    /// The device was closed. Later flushes do not wait for its unanswered requests.
    pub(crate) fn let_go(&self) {
        // A request may hold the last reference to the device, and must not be dropped under the
        // lock.
        drop(std::mem::take(&mut self.0.lock().under_way));
    }

    /// Performs a stable write.
    pub(crate) fn write(&self, io: BoxFuture<'static, Answer>) -> BoxFuture<'static, Answer> {
        let (shared, _) = self.begin(io);
        Box::pin(shared)
    }

    /// Performs a flush, which covers all writes that ended before it.
    pub(crate) fn flush(&self, io: BoxFuture<'static, Answer>) -> BoxFuture<'static, Answer> {
        let (shared, earlier) = self.begin(io);
        let record = self.clone();
        Box::pin(async move {
            let answer = shared.await;
            for other in earlier {
                // A failure is in the record.
                _ = other.await;
            }
            if record.has_failed() { answer.and(Err(FLUSH_LOST)) } else { answer }
        })
    }

    /// Registers a request. Returns the request, and the earlier requests that have not ended.
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

/// The error of a flush after an earlier flush or stable write has failed: `EIO`.
const FLUSH_LOST: DeviceError = DeviceError::Io { op: "flush", offset: LeafOffset::new(0), len: 0, errno: 5 };

/// True if earlier writes may be lost when a flush or a stable write ends with this error. Nothing
/// else decides this.
const fn may_have_lost(error: &DeviceError) -> bool {
    match error {
        DeviceError::Io { .. } | DeviceError::TimedOut | DeviceError::Gone => true,
        // The request did not reach the device.
        DeviceError::OutOfRange { .. }
        | DeviceError::Missing { .. }
        | DeviceError::InUse { .. }
        | DeviceError::NotADevice { .. }
        | DeviceError::Open { .. } => false,
    }
}

#[cfg(test)]
mod tests;
