//! How urgent an I/O is.
//!
//! The class belongs to the work, not to the block: the same write is urgent when an fsync waits
//! for it and is not when a transaction group is synced. So it is set where the work begins
//! ([`in_class`]) and holds for all I/O begun by polling that future, whatever lies between.
//! What is spawned starts anew, in [`IoClass::Sync`].

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Classes in order of urgency: a device serves the earlier first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IoClass {
    /// Somebody waits for exactly this: reads of users, log blocks. What nobody classed.
    Sync,
    /// Transaction groups.
    Async,
    /// Reads that somebody may want soon.
    Prefetch,
    /// Scrub, resilver, and whatever else has all the time in the world.
    Scrub,
}

impl IoClass {
    /// All, most urgent first.
    pub const ALL: [Self; 4] = [Self::Sync, Self::Async, Self::Prefetch, Self::Scrub];

    /// The class of what is being polled on this thread.
    #[must_use]
    pub fn current() -> Self {
        CURRENT.get()
    }
}

thread_local! {
    static CURRENT: Cell<IoClass> = const { Cell::new(IoClass::Sync) };
}

/// Polls a future with all its I/O in one class.
#[must_use = "futures do nothing unless polled"]
pub struct InClass<F> {
    class: IoClass,
    future: Pin<Box<F>>,
}

/// All I/O that `future` begins is of `class`, except what it classes otherwise itself.
pub fn in_class<F: Future>(class: IoClass, future: F) -> InClass<F> {
    InClass { class, future: Box::pin(future) }
}

/// Puts the thread's class back, on panics too.
struct Restore(IoClass);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl<F: Future> Future for InClass<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _restore = Restore(CURRENT.replace(self.class));
        self.future.as_mut().poll(cx)
    }
}
