//! How urgent an I/O is, and whether who asked for it waits for a pool that is suspended.
//!
//! The class belongs to the work, not to the block: the same write is urgent when an fsync waits
//! for it and is not when a txg is synced. So it is set where the work begins ([`in_class`]) and holds
//! for all I/O begun by polling that future, whatever lies between. What is spawned starts anew, in
//! [`IoClass::Sync`].
//!
//! The same holds for patience. A program that reads and writes files waits while its pool is suspended. A
//! command of the administrator must not, for it may be the one that ends the suspension: it runs as
//! [`impatient`] and gets an error instead.

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
        CURRENT.get().class
    }
}

/// On whose behalf a thread polls.
#[derive(Clone, Copy)]
struct Asker {
    class: IoClass,
    is_impatient: bool,
}

thread_local! {
    static CURRENT: Cell<Asker> = const { Cell::new(Asker { class: IoClass::Sync, is_impatient: false }) };
}

/// What a future changes about the asker while it is polled.
#[derive(Clone, Copy)]
enum Change {
    Class(IoClass),
    Impatience,
}

impl Change {
    fn apply(self, asker: Asker) -> Asker {
        match self {
            Self::Class(class) => Asker { class, ..asker },
            Self::Impatience => Asker { is_impatient: true, ..asker },
        }
    }
}

/// Polls a future with all its I/O in one class, or without patience.
#[must_use = "futures do nothing unless polled"]
pub struct InClass<F> {
    change: Change,
    future: Pin<Box<F>>,
}

/// All I/O that `future` begins is of `class`, except what it classes otherwise itself.
pub fn in_class<F: Future>(class: IoClass, future: F) -> InClass<F> {
    InClass { change: Change::Class(class), future: Box::pin(future) }
}

/// What `future` does ends in an error where it would have to wait for a pool that is suspended.
pub fn impatient<F: Future>(future: F) -> InClass<F> {
    InClass { change: Change::Impatience, future: Box::pin(future) }
}

/// Whether what is being polled on this thread would rather have an error than wait for a pool that
/// is suspended.
#[must_use]
pub fn is_impatient() -> bool {
    CURRENT.get().is_impatient
}

/// Puts the thread's asker back, on panics too.
struct Restore(Asker);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl<F: Future> Future for InClass<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let before = CURRENT.get();
        CURRENT.set(self.change.apply(before));
        let _restore = Restore(before);
        self.future.as_mut().poll(cx)
    }
}
