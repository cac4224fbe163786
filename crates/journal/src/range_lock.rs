//! A lock over byte ranges: readers share, writers to disjoint ranges run side by side.
//!
//! One for each object. Data operations lock the bytes they touch; whatever changes an
//! attribute, a directory or an object's size locks everything, [`Span::ALL`].
//!
//! Grants are in order of arrival: a request waits for every earlier one that it collides
//! with, granted or not, so nobody starves.
//! (tests: `disjoint_writers_run_side_by_side`, `a_waiting_writer_is_not_overtaken`)
//!
//! Dropping a waiting future withdraws its request.
//! (test: `a_dropped_waiter_leaves_no_trace`)

use std::collections::VecDeque;
use std::sync::Arc;

use env::boxed;
use futures::channel::oneshot;
use parking_lot::Mutex;

/// Bytes from `start` up to and without `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u64,
    /// First byte after.
    pub end: u64,
}

impl Span {
    /// Every byte there can be.
    pub const ALL: Self = Self { start: 0, end: u64::MAX };

    /// `len` bytes from `start`.
    #[must_use]
    pub const fn new(start: u64, len: u64) -> Self {
        Self { start, end: start.saturating_add(len) }
    }

    fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

#[derive(Clone, Copy)]
struct Request {
    id: u64,
    span: Span,
    exclusive: bool,
}

impl Request {
    fn collides(&self, other: &Self) -> bool {
        (self.exclusive || other.exclusive) && self.span.overlaps(other.span)
    }
}

#[derive(Default)]
struct State {
    next_id: u64,
    granted: Vec<Request>,
    waiting: VecDeque<(Request, oneshot::Sender<RangeGuard>)>,
}

impl State {
    fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn is_free(&self, request: &Request) -> bool {
        !self.granted.iter().any(|held| held.collides(request))
    }

    /// Moves every waiter that nothing earlier stands against to the granted ones.
    fn admit(&mut self) -> Vec<(Request, oneshot::Sender<RangeGuard>)> {
        let mut admitted = Vec::new();
        let mut passed_over: Vec<Request> = Vec::new();
        for (request, sender) in std::mem::take(&mut self.waiting) {
            if self.is_free(&request) && !passed_over.iter().any(|earlier| earlier.collides(&request)) {
                self.granted.push(request);
                admitted.push((request, sender));
            } else {
                passed_over.push(request);
                self.waiting.push_back((request, sender));
            }
        }
        admitted
    }
}

/// The lock of one object.
#[derive(Clone, Default)]
pub struct RangeLock {
    state: Arc<Mutex<State>>,
}

/// Holds a range until dropped.
#[must_use]
pub struct RangeGuard {
    state: Arc<Mutex<State>>,
    id: u64,
}

impl RangeLock {
    /// Waits until nobody writes to `span`.
    #[boxed]
    pub async fn shared(&self, span: Span) -> RangeGuard {
        self.acquire(span, false).await
    }

    /// Waits until nobody reads or writes `span`.
    #[boxed]
    pub async fn exclusive(&self, span: Span) -> RangeGuard {
        self.acquire(span, true).await
    }

    /// [`Span::ALL`], exclusively: for changes of attributes, size or directory entries.
    #[boxed]
    pub async fn whole(&self) -> RangeGuard {
        self.acquire(Span::ALL, true).await
    }

    async fn acquire(&self, span: Span, exclusive: bool) -> RangeGuard {
        let receiver = {
            let mut state = self.state.lock();
            let request = Request { id: state.take_id(), span, exclusive };
            let behind = state.waiting.iter().any(|(earlier, _)| earlier.collides(&request));
            if !behind && state.is_free(&request) {
                state.granted.push(request);
                return RangeGuard { state: Arc::clone(&self.state), id: request.id };
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.push_back((request, sender));
            receiver
        };
        receiver.await.expect("a waiting request is granted before its lock goes away")
    }
}

impl Drop for RangeGuard {
    fn drop(&mut self) {
        // A waiter that has gone gives its grant back at once: another round, not a recursion.
        let mut unwanted_ids = Vec::new();
        let mut next = Some(self.id);
        while let Some(id) = next {
            let admitted = {
                let mut state = self.state.lock();
                state.granted.retain(|held| held.id != id);
                state.admit()
            };
            for (request, sender) in admitted {
                let guard = Self { state: Arc::clone(&self.state), id: request.id };
                if let Err(unwanted) = sender.send(guard) {
                    unwanted_ids.push(unwanted.id);
                    unwanted.disarm();
                }
            }
            next = unwanted_ids.pop();
        }
    }
}

impl RangeGuard {
    /// Forgets the guard without releasing its range.
    fn disarm(mut self) {
        self.id = 0;
        self.state = Arc::default();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::executor::block_on;

    use super::*;

    #[test]
    fn disjoint_writers_run_side_by_side() {
        let lock = RangeLock::default();
        let _first = block_on(lock.exclusive(Span::new(0, 10)));
        let _second = block_on(lock.exclusive(Span::new(10, 10)));
        assert!(lock.exclusive(Span::new(5, 1)).now_or_never().is_none());
        assert!(lock.shared(Span::new(19, 1)).now_or_never().is_none());
        assert!(lock.shared(Span::new(20, 1)).now_or_never().is_some());
    }

    #[test]
    fn a_waiting_writer_is_not_overtaken() {
        let lock = RangeLock::default();
        let reader = block_on(lock.shared(Span::ALL));
        let mut writer = Box::pin(lock.whole());
        assert!((&mut writer).now_or_never().is_none());
        let mut late = Box::pin(lock.shared(Span::new(3, 1)));
        assert!((&mut late).now_or_never().is_none(), "a later reader must wait behind the writer");
        drop(reader);
        let held = writer.now_or_never().expect("the writer is next");
        assert!((&mut late).now_or_never().is_none());
        drop(held);
        assert!(late.now_or_never().is_some());
    }

    #[test]
    fn a_dropped_waiter_leaves_no_trace() {
        let lock = RangeLock::default();
        let held = block_on(lock.whole());
        let mut gone = Box::pin(lock.whole());
        let mut next = Box::pin(lock.whole());
        assert!((&mut gone).now_or_never().is_none());
        assert!((&mut next).now_or_never().is_none());
        drop(gone);
        drop(held);
        drop(next.now_or_never().expect("the dropped waiter's turn passes on"));
        assert!(lock.whole().now_or_never().is_some());
    }

    #[test]
    fn a_grant_nobody_collected_is_given_back() {
        let lock = RangeLock::default();
        let held = block_on(lock.whole());
        let mut waiter = Box::pin(lock.whole());
        assert!((&mut waiter).now_or_never().is_none());
        drop(held);
        drop(waiter);
        assert!(lock.whole().now_or_never().is_some());
    }
}
