//! Requests that a device has not answered, and what ends them if it never does.
//!
//! ```text
//!   request ─► device ──answered──────────────────────────► Ok, or the device's error
//!                │
//!                └─ not within its time (VdevTree::give_up_overdue) ─► the leaf is out of use,
//!                                        all its requests end: DeviceError::TimedOut
//! ```
//! A request that is given up cannot be called back: the device may still carry it out, at any time. So
//! nothing may be written there until it has answered, or an old write could land on newer bytes. What sees
//! to that is that the device of a leaf that is out of use is let go of, and that nobody can open it again for
//! writing while a request is under way there ([`env::Env::open`]).
//!
//! The time is looked at from outside, now and then, and not by a timer for each request: that would cost a
//! request on a fast device more than the device takes.
//!
//! Invariants
//! - A request that was given up is never reported done, though it be answered before its task runs.
//!   (test: `an_answer_after_its_time_counts_for_nothing`)
//! - Nothing is written to a device that has not answered yet.
//!   (test: `a_device_that_hangs_is_opened_again_once_it_has_answered`)

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use env::{BoxFuture, DeviceError};
use parking_lot::Mutex;
use slab::Slab;

use crate::{Leaf, LeafEvent, Top, VdevError, VdevTree};

/// A request under way: since when, and whom to wake when it is given up.
struct Request {
    since: Duration,
    waker: Waker,
    is_given_up: bool,
}

/// The requests of one leaf that its device has not answered.
#[derive(Default)]
pub(crate) struct Unanswered(Mutex<Slab<Request>>);

impl Unanswered {
    /// Does `io`, which began at `since`, to its end, or until it is given up.
    pub(crate) fn watch<'a, T>(
        &'a self,
        since: Duration,
        io: BoxFuture<'static, Result<T, DeviceError>>,
    ) -> Watched<'a, T> {
        Watched { unanswered: self, since, io, key: None }
    }

    /// For how long the oldest has been waiting, or since a time that does not count had passed; not at all if so many as `held`
    /// wait for something else than their device, and those are all.
    pub(crate) fn longest(&self, now: Duration, not_before: Duration, held: usize) -> Duration {
        let requests = self.0.lock();
        if requests.len() <= held {
            return Duration::ZERO;
        }
        let since = requests.iter().map(|(_, request)| request.since.max(not_before)).min();
        since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// Ends them all.
    pub(crate) fn give_up(&self) {
        let wakers: Vec<_> = {
            let mut requests = self.0.lock();
            let give_up = |(_, request): (usize, &mut Request)| {
                request.is_given_up = true;
                request.waker.clone()
            };
            requests.iter_mut().map(give_up).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Notes who waits; whether there is still something to wait for.
    fn note(&self, key: &mut Option<usize>, since: Duration, cx: &Context<'_>) -> bool {
        let mut requests = self.0.lock();
        let Some(request) = key.and_then(|key| requests.get_mut(key)) else {
            *key = Some(requests.insert(Request { since, waker: cx.waker().clone(), is_given_up: false }));
            return true;
        };
        request.waker.clone_from(cx.waker());
        !request.is_given_up
    }

    /// Forgets a request; whether it was given up.
    fn end(&self, key: &mut Option<usize>) -> bool {
        let request = key.take().map(|key| self.0.lock().remove(key));
        request.is_some_and(|request| request.is_given_up)
    }
}

/// A request that may be given up.
pub(crate) struct Watched<'a, T> {
    unanswered: &'a Unanswered,
    since: Duration,
    io: BoxFuture<'static, Result<T, DeviceError>>,
    key: Option<usize>,
}

impl<T> Future for Watched<'_, T> {
    type Output = Result<T, DeviceError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { unanswered, since, io, key } = &mut *self;
        let answer = io.as_mut().poll(cx);
        let is_awaited = match &answer {
            Poll::Pending => unanswered.note(key, *since, cx),
            Poll::Ready(_) => !unanswered.end(key),
        };
        if is_awaited { answer } else { Poll::Ready(Err(DeviceError::TimedOut)) }
    }
}

impl<T> Drop for Watched<'_, T> {
    fn drop(&mut self) {
        self.unanswered.end(&mut self.key);
    }
}

impl VdevTree {
    /// Gives up the leaves that have not answered a request within the `limit` of their vdev at the time
    /// `now`: each is out of use, and every request to it ends. Gives those that were in use until now.
    pub fn give_up_overdue(&self, now: Duration, limit: impl Fn(&Top) -> Duration) -> Vec<Arc<Leaf>> {
        let mut lost = Vec::new();
        let opened = self.fence().opened();
        // Who waits before a fence that is closed does not wait for a device.
        let longest = |leaf: &Leaf| leaf.unanswered().longest(now, opened, leaf.post().held());
        for top in self.tops() {
            let limit = limit(&top);
            for leaf in top.leaves().iter().filter(|leaf| longest(leaf) > limit) {
                if leaf.is_usable() {
                    leaf.tell(LeafEvent::Unanswered { waited: longest(leaf) });
                    put_out_of_use(&top, leaf, limit);
                    lost.push(Arc::clone(leaf));
                }
                leaf.give_up();
            }
        }
        lost
    }
}

fn put_out_of_use(top: &Top, leaf: &Arc<Leaf>, limit: Duration) {
    let path = leaf.path();
    tracing::warn!(guid = leaf.guid().get(), path = %path.display(), ?limit, "device has not answered");
    let source = DeviceError::TimedOut;
    let error = VdevError::Leaf { vdev: leaf.vdev(), guid: leaf.guid(), path, source };
    // Whether its vdev can do without it or not, nothing more is asked of it.
    if let Err(error) = top.settle(std::slice::from_ref(leaf), vec![Err(error)]) {
        tracing::warn!(%error, "its vdev cannot do without it");
    }
    top.mark_changed();
}
