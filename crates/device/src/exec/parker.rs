//! One thread's wake-up state.
//!
//! ```text
//!   RUNNING ──wake──► NOTIFIED            no system call: the thread looks before it waits
//!   PARKED  ──wake──► NOTIFIED + unpark   it sleeps in a futex, nothing in flight
//!   AWAY    ──wake──► NOTIFIED + eventfd  it sleeps in io_uring_enter or epoll_wait
//! ```
//! Only the owner leaves RUNNING for PARKED or AWAY, by compare-and-swap, so a wake
//! that came first turns the wait into a no-op.
//! (tests of every order of the threads' steps: `crates/models`, `a_wake_is_never_missed`)
//!
//! Sleeping in a futex and being woken from it costs more than many waits are long: see
//! [`Patience`] and `docs/decisions/2026-11-21-executor.md`.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::task::Wake;
use std::time::Duration;

use crate::sync::{AtomicU8, AtomicU32, Instant, Ordering, thread};

const RUNNING: u8 = 0;
const NOTIFIED: u8 = 1;
const PARKED: u8 = 2;
const AWAY: u8 = 3;

/// Wakes one thread, from anywhere.
pub(crate) struct Parker {
    state: AtomicU8,
    thread: thread::Thread,
    /// Readable when the thread must leave its ring. Set when the thread gets a ring.
    eventfd: OnceLock<Arc<OwnedFd>>,
    patience: Patience,
}

/// Whether a thread lets others run for a moment before it sleeps.
///
/// It does while that is what its waits are like. Where it was in vain it sleeps at once, twice as
/// often each time, up to [`SKIPS_MAX`] waits; one that ends in time makes it patient again.
#[derive(Default)]
pub(crate) struct Patience {
    /// Waits to be slept through at once, until the next attempt.
    left: AtomicU32,
    /// What `left` was set to last.
    skips: AtomicU32,
}

/// What it spends on that: about half of what a sleep and a wake across threads cost.
pub(crate) const ATTEMPT: Duration = Duration::from_micros(25);
/// What it costs to let another thread run.
const SWITCH: Duration = Duration::from_micros(2);
/// One attempt in so many waits costs a thousandth of a wait for a disk.
const SKIPS_MAX: u32 = 64;

impl Patience {
    /// Whether this wait is to be attempted. Like all of this only for the thread that waits.
    pub(crate) fn is_due(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        left == 0
    }

    pub(crate) fn learn(&self, was_in_time: bool) {
        let skips = self.skips.load(Ordering::Relaxed);
        let skips = if was_in_time { 0 } else { (skips * 2).clamp(1, SKIPS_MAX) };
        self.skips.store(skips, Ordering::Relaxed);
        self.left.store(skips, Ordering::Relaxed);
    }
}

impl Parker {
    /// For the calling thread.
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU8::new(RUNNING),
            thread: thread::current(),
            eventfd: OnceLock::new(),
            patience: Patience::default(),
        }
    }

    /// The event counter that ends a wait in a ring, made at first use.
    pub(crate) fn eventfd(&self) -> Result<Arc<OwnedFd>, rustix::io::Errno> {
        if let Some(fd) = self.eventfd.get() {
            return Ok(Arc::clone(fd));
        }
        let fd = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?;
        Ok(Arc::clone(self.eventfd.get_or_init(|| Arc::new(fd))))
    }

    /// Forgets a wake; to be called before polling, never after.
    pub(crate) fn begin_poll(&self) {
        self.state.swap(RUNNING, Ordering::SeqCst);
    }

    /// Whether somebody woke this thread since [`Parker::begin_poll`].
    pub(crate) fn is_notified(&self) -> bool {
        self.state.load(Ordering::SeqCst) == NOTIFIED
    }

    /// Sleeps until woken or until `timeout` has passed; returns at once when already woken.
    pub(crate) fn park(&self, timeout: Option<Duration>) {
        if timeout.is_none() {
            self.try_without_sleep(|| false);
        }
        if !self.enter(PARKED) {
            return;
        }
        match timeout {
            Some(span) => thread::park_timeout(span),
            None => thread::park(),
        }
        self.leave(PARKED);
    }

    /// Waits for a moment without sleeping, where that has proved worth while: until woken, or until `has_come`.
    pub(crate) fn try_without_sleep(&self, has_come: impl FnMut() -> bool) {
        if self.patience.is_due() {
            let was_in_time = self.comes_soon(has_come);
            self.patience.learn(was_in_time);
        }
    }

    /// Lets other threads run until woken or until `has_come`, at the expense of [`ATTEMPT`]. What they do in the
    /// meantime is no expense, but for the switch to them and back.
    fn comes_soon(&self, mut has_come: impl FnMut() -> bool) -> bool {
        let (mut spent, mut since) = (Duration::ZERO, Instant::now());
        while !self.is_notified() && !has_come() {
            if spent > ATTEMPT {
                return false;
            }
            thread::yield_now();
            let now = Instant::now();
            spent += (now - since).min(SWITCH);
            since = now;
        }
        true
    }

    /// Runs `wait`, which sleeps in a ring or an epoll that watches [`Parker::eventfd`]; `wait` is told
    /// whether it may sleep at all.
    pub(crate) fn park_away(&self, wait: impl FnOnce(bool)) {
        let may_sleep = self.enter(AWAY);
        wait(may_sleep);
        if may_sleep {
            self.leave(AWAY);
        }
    }

    fn enter(&self, place: u8) -> bool {
        self.state.compare_exchange(RUNNING, place, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn leave(&self, place: u8) {
        // When this fails, a wake has put NOTIFIED there: keep it.
        let _ = self.state.compare_exchange(place, RUNNING, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Wakes the thread; costs a system call only when it sleeps.
    pub(crate) fn notify(&self) {
        match self.state.swap(NOTIFIED, Ordering::SeqCst) {
            PARKED => self.thread.unpark(),
            AWAY => self.ring_the_bell(),
            _ => {}
        }
    }

    fn ring_the_bell(&self) {
        let fd = self.eventfd.get().expect("a thread in a ring has an eventfd");
        signal(fd);
    }
}

/// Adds one to an event counter.
#[expect(clippy::host_endian_bytes, reason = "the kernel takes the machine's own order")]
pub(crate) fn signal(eventfd: &impl AsFd) {
    // The counter would have to stand at 2^64 - 2 for this to fail.
    let _ = rustix::io::write(eventfd, &1_u64.to_ne_bytes());
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.notify();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.notify();
    }
}
