//! How urgent an I/O is, and whether who asked for it waits for a pool that is suspended.
//!
//! The class belongs to the work, not to the block: the same write is urgent when an fsync waits
//! for it and is not when a txg is synced. So it is set where the work begins ([`in_class`]) and holds
//! for all I/O begun by polling that future, whatever lies between. What is spawned starts anew, in
//! [`IoClass::Sync`].
//!
//! The same holds for patience. A program that reads and writes files waits while its pool is suspended. A
//! command of the administrator must not, for it may be the one that ends the suspension: it runs as
//! [`impatient`] and gets an error instead. Who may fail only before having changed anything is [`impatient_until`] then.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
        CLASS.get()
    }
}

/// Whether who is polled has no time to wait.
#[derive(Clone)]
enum Impatience {
    Never,
    Always,
    /// As long as this is false.
    Until(Arc<AtomicBool>),
}

thread_local! {
    static CLASS: Cell<IoClass> = const { Cell::new(IoClass::Sync) };
    static IMPATIENCE: RefCell<Impatience> = const { RefCell::new(Impatience::Never) };
}

/// What holds on a thread while a future is polled.
enum Held {
    Class(IoClass),
    Impatience(Impatience),
}

impl Held {
    /// Has it hold; gives what held before.
    fn swap(self) -> Self {
        match self {
            Self::Class(class) => Self::Class(CLASS.replace(class)),
            Self::Impatience(impatience) => Self::Impatience(IMPATIENCE.replace(impatience)),
        }
    }

    fn again(&self) -> Self {
        match self {
            Self::Class(class) => Self::Class(*class),
            Self::Impatience(impatience) => Self::Impatience(impatience.clone()),
        }
    }
}

/// Polls a future with all its I/O in one class, or without patience.
#[must_use = "futures do nothing unless polled"]
pub struct InClass<F> {
    held: Held,
    future: Pin<Box<F>>,
}

/// All I/O that `future` begins is of `class`, except what it classes otherwise itself.
pub fn in_class<F: Future>(class: IoClass, future: F) -> InClass<F> {
    InClass { held: Held::Class(class), future: Box::pin(future) }
}

/// What `future` does ends in an error where it would have to wait for a pool that is suspended.
pub fn impatient<F: Future>(future: F) -> InClass<F> {
    InClass { held: Held::Impatience(Impatience::Always), future: Box::pin(future) }
}

/// The same until `has_changed` is true: what `future` has begun then it has to bring to its end.
pub fn impatient_until<F: Future>(has_changed: Arc<AtomicBool>, future: F) -> InClass<F> {
    InClass { held: Held::Impatience(Impatience::Until(has_changed)), future: Box::pin(future) }
}

/// Whether what is being polled on this thread would rather have an error than wait for a pool that
/// is suspended.
#[must_use]
pub fn is_impatient() -> bool {
    IMPATIENCE.with_borrow(|impatience| match impatience {
        Impatience::Never => false,
        Impatience::Always => true,
        Impatience::Until(has_changed) => !has_changed.load(Ordering::Relaxed),
    })
}

/// Puts back what held on the thread, on panics too.
struct Restore(Option<Held>);

impl Drop for Restore {
    fn drop(&mut self) {
        self.0.take().map(Held::swap);
    }
}

impl<F: Future> Future for InClass<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _restore = Restore(Some(self.held.again().swap()));
        self.future.as_mut().poll(cx)
    }
}
