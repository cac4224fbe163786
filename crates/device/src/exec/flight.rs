//! An operation on its way, and the future that waits for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use io_uring::squeue;
use parking_lot::Mutex;
use rustix::io::Errno;

use super::local;
use super::op::{Op, Progress, Work};

/// An ended operation: its buffers back, and how it went.
pub(crate) type Outcome = (Work, Result<(), Errno>);

#[derive(Default)]
struct Landing {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

/// An operation that a ring (or the stage before it) owns, buffers and all. The waiting
/// future shares only the landing, so it may be dropped at any time.
pub(crate) struct Flight {
    op: Op,
    landing: Arc<Mutex<Landing>>,
    route: Route,
}

impl Flight {
    /// Whether it goes by a ring, where there is one.
    pub(crate) fn goes_by_ring(&self) -> bool {
        matches!(self.route, Route::Ring | Route::RingThread)
    }

    /// Whether it goes by the ring for commands, and no other way.
    pub(crate) fn is_command(&self) -> bool {
        self.route == Route::Command
    }

    /// The submission for a ring for commands.
    pub(crate) fn command_entry(&mut self) -> squeue::Entry128 {
        self.op.command_entry()
    }

    /// The submission for a ring.
    pub(crate) fn entry(&mut self) -> squeue::Entry {
        let entry = self.op.entry();
        if self.route == Route::RingThread { entry.flags(squeue::Flags::ASYNC) } else { entry }
    }

    /// Takes the kernel's answer.
    pub(crate) fn answer(mut self, answer: i32) -> Answered {
        match self.op.advance(answer) {
            Progress::More => Answered::Again(self),
            Progress::NotBegun(_) => Answered::Refused(self),
            Progress::Ended(result) => Answered::Landed(self.land(result)),
        }
    }

    /// Does the operation by plain system calls, here and now.
    pub(crate) fn run_to_end(mut self) -> Option<Waker> {
        let result = self.op.run_to_end();
        self.land(result)
    }

    fn land(self, result: Result<(), Errno>) -> Option<Waker> {
        let mut landing = self.landing.lock();
        landing.outcome = Some((self.op.into_work(), result));
        landing.waker.take()
    }
}

/// What becomes of a flight after an answer of the kernel.
pub(crate) enum Answered {
    /// It has ended; whoever waits for it is to be woken.
    Landed(Option<Waker>),
    /// It is to be submitted again, for the rest.
    Again(Flight),
    /// The ring cannot do it: [`super::helpers`] can.
    Refused(Flight),
}

/// How an operation may be done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// By the polling thread's ring.
    Ring,
    /// The same, on a thread of the kernel's: to submit it would hold up the polling thread.
    RingThread,
    /// By threads that make plain system calls: no ring to be had, or not for this.
    Helpers,
    /// By a plain system call when first polled: memory behind it.
    Inline,
    /// By the polling loop's ring for commands.
    Command,
}

enum State {
    New(Option<(Op, Route)>),
    Flying(Arc<Mutex<Landing>>),
}

/// Waits for one operation. Nothing happens until it is polled; once polled, the
/// operation runs to its end whether or not anyone waits.
pub(crate) struct IoFuture(State);

impl IoFuture {
    /// An operation to be begun at the first poll.
    pub(crate) fn new(op: Op, route: Route) -> Self {
        Self(State::New(Some((op, route))))
    }
}

impl Future for IoFuture {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        match &mut self.0 {
            State::New(op) => {
                let (mut op, route) = op.take().expect("not polled again after its end");
                if route == Route::Inline || !local::is_inside() {
                    let result = op.run_to_end();
                    return Poll::Ready((op.into_work(), result));
                }
                let landing =
                    Arc::new(Mutex::new(Landing { outcome: None, waker: Some(cx.waker().clone()) }));
                local::stage(Flight { op, landing: Arc::clone(&landing), route });
                self.0 = State::Flying(landing);
                Poll::Pending
            }
            State::Flying(landing) => {
                let mut landing = landing.lock();
                if let Some(outcome) = landing.outcome.take() {
                    return Poll::Ready(outcome);
                }
                match &mut landing.waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    none => *none = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
        }
    }
}
