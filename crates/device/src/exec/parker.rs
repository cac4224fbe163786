//! One thread's wake-up state.
//!
//! ```text
//!   RUNNING ──wake──► NOTIFIED            no system call: the thread looks before it waits
//!   PARKED  ──wake──► NOTIFIED + unpark   it sleeps in a futex, nothing in flight
//!   IN_RING ──wake──► NOTIFIED + eventfd  it sleeps in io_uring_enter
//! ```
//! Only the owner leaves RUNNING for PARKED or IN_RING, by compare-and-swap, so a wake
//! that came first turns the wait into a no-op.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Wake;
use std::thread::Thread;
use std::time::Duration;

const RUNNING: u8 = 0;
const NOTIFIED: u8 = 1;
const PARKED: u8 = 2;
const IN_RING: u8 = 3;

/// Wakes one thread, from anywhere.
pub(crate) struct Parker {
    state: AtomicU8,
    thread: Thread,
    /// Readable when the thread must leave its ring. Set when the thread gets a ring.
    eventfd: OnceLock<Arc<OwnedFd>>,
}

impl Parker {
    /// For the calling thread.
    pub(crate) fn new() -> Self {
        Self { state: AtomicU8::new(RUNNING), thread: std::thread::current(), eventfd: OnceLock::new() }
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
        if !self.enter(PARKED) {
            return;
        }
        match timeout {
            Some(span) => std::thread::park_timeout(span),
            None => std::thread::park(),
        }
        self.leave(PARKED);
    }

    /// Runs `wait`, which sleeps in a ring that watches [`Parker::eventfd`]; `wait` is told
    /// whether it may sleep at all.
    pub(crate) fn park_in_ring(&self, wait: impl FnOnce(bool)) {
        let may_sleep = self.enter(IN_RING);
        wait(may_sleep);
        if may_sleep {
            self.leave(IN_RING);
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
            IN_RING => self.ring_the_bell(),
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
