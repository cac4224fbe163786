//! An io_uring, and everything the kernel holds through it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};
use slab::Slab;

use super::flight::{Answered, Flight};
use super::helpers;

/// Submissions a ring takes at once; more wait in its backlog.
const ENTRIES: u32 = 128;
/// After this many calls in a row for which the kernel lacked memory, requests that are not
/// submitted yet are done with plain system calls.
const REFUSALS_MAX: u32 = 3;
/// The pause after the first such call, and how often the pause doubles: up to 13 ms.
const FIRST_PAUSE: Duration = Duration::from_micros(100);
const PAUSE_DOUBLINGS: u32 = 7;
/// Marks completions of the poll on the thread's event counter.
const BELL: u64 = u64::MAX;

/// Whether this kernel lets us have a ring with all we use. Asked once.
pub(crate) fn is_available() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| probe().unwrap_or(false))
}

pub(crate) fn probe() -> io::Result<bool> {
    let uring = new_uring::<squeue::Entry>()?;
    let mut probe = Probe::new();
    uring.submitter().register_probe(&mut probe)?;
    let codes = [
        opcode::Read::CODE,
        opcode::Write::CODE,
        opcode::Writev::CODE,
        opcode::Fsync::CODE,
        opcode::Fallocate::CODE,
        opcode::PollAdd::CODE,
    ];
    let params = uring.params();
    Ok(params.is_feature_ext_arg()
        && params.is_feature_nodrop()
        && codes.iter().all(|&code| probe.is_supported(code)))
}

fn new_uring<S: Submission>() -> io::Result<IoUring<S>> {
    // Completions are handled when the thread enters the kernel anyway, without an
    // interrupt to it (Linux 5.19); older kernels refuse the flag.
    let builder = IoUring::<S>::builder;
    builder().setup_coop_taskrun().setup_taskrun_flag().build(ENTRIES).or_else(|_| builder().build(ENTRIES))
}

/// What a ring takes: submissions of the usual kind, or such that have room for commands.
pub(crate) trait Submission: squeue::EntryMarker {
    /// That of a flight.
    fn of(flight: &mut Flight) -> Self;
}

impl Submission for squeue::Entry {
    fn of(flight: &mut Flight) -> Self {
        flight.entry()
    }
}

impl Submission for squeue::Entry128 {
    fn of(flight: &mut Flight) -> Self {
        flight.command_entry()
    }
}

/// A ring with its flights. Flights own their buffers until the kernel has answered:
/// neither dropping the waiting future nor dropping the ring frees them earlier.
pub(crate) struct Ring<S: Submission = squeue::Entry> {
    uring: IoUring<S>,
    flights: Slab<Flight>,
    backlog: VecDeque<Flight>,
    eventfd: Arc<OwnedFd>,
    bell_is_armed: bool,
    /// The number of calls in a row for which the kernel lacked memory.
    refusals: u32,
}

impl<S: Submission> Ring<S> {
    /// A ring that also watches `eventfd`.
    pub(crate) fn new(eventfd: Arc<OwnedFd>) -> io::Result<Self> {
        Ok(Self {
            uring: new_uring()?,
            flights: Slab::new(),
            backlog: VecDeque::new(),
            eventfd,
            bell_is_armed: false,
            refusals: 0,
        })
    }

    /// Takes a flight, to be submitted at the next [`Ring::turn`].
    pub(crate) fn add(&mut self, flight: Flight) {
        self.backlog.push_back(flight);
    }

    /// Nothing submitted and unanswered, nothing to submit.
    pub(crate) fn is_idle(&self) -> bool {
        self.flights.is_empty() && self.backlog.is_empty()
    }

    /// For `poll(2)`: readable when there are completions.
    // JUSTIFICATION: io-uring gives out a raw number only, rustix's poll takes a borrowed one.
    #[expect(unsafe_code, reason = "a raw descriptor is borrowed")]
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor belongs to `self.uring`, which closes it only when dropped,
        // and the result borrows `self`.
        unsafe { BorrowedFd::borrow_raw(self.uring.as_raw_fd()) }
    }

    /// Submits what waits, collects what has ended and, if `may_sleep` and nothing has,
    /// sleeps until something does, the event counter rises or `timeout` has passed. One
    /// system call at most, unless the backlog is longer than the queue.
    pub(crate) fn turn(&mut self, may_sleep: bool, timeout: Option<Duration>, wakers: &mut Vec<Waker>) {
        if self.collect(wakers) && self.backlog.is_empty() {
            return;
        }
        while self.fill(wakers) {
            self.enter(0, None);
            self.collect(wakers);
        }
        let sleeps = may_sleep && wakers.is_empty() && !self.flights.is_empty();
        if sleeps && !self.bell_is_armed {
            self.arm_bell();
        }
        if sleeps || self.needs_enter() {
            self.enter(usize::from(sleeps), timeout);
        }
        self.collect(wakers);
    }

    /// Moves the backlog into the submission queue. Returns true if some of it did not fit. One
    /// place is left for the bell. While the kernel lacks memory for submissions, requests that are
    /// not in the queue yet are done with plain system calls.
    fn fill(&mut self, wakers: &mut Vec<Waker>) -> bool {
        while let Some(flight) = self.backlog.pop_front() {
            if self.refusals >= REFUSALS_MAX && !flight.is_command() {
                wakers.extend(helpers::take(flight));
                continue;
            }
            let queue = self.uring.submission();
            if queue.len() + 1 >= queue.capacity() {
                drop(queue);
                self.backlog.push_front(flight);
                return true;
            }
            drop(queue);
            self.launch(flight);
        }
        false
    }

    fn launch(&mut self, flight: Flight) {
        let key = self.flights.insert(flight);
        let mut entry = S::of(&mut self.flights[key]);
        entry.set_user_data(key as u64);
        self.push(&entry);
    }

    fn arm_bell(&mut self) {
        // Readable events (POLLIN), again and again, without being asked again.
        let fd = types::Fd(self.eventfd.as_raw_fd());
        let entry = opcode::PollAdd::new(fd, 1).multi(true).build().user_data(BELL);
        self.push(&entry.into());
        self.bell_is_armed = true;
    }

    // JUSTIFICATION: handing the kernel pointers that it uses after this call returns cannot
    // be checked by the compiler, and the io-uring crate has no safe way. Without a ring, a
    // thread has one request under way: a mirror's two writes take the sum of their times
    // instead of the longer one, and a wake across threads, which helpers would cost twice,
    // takes 24 µs (`benches/lone_write.rs`).
    #[expect(unsafe_code, reason = "a submission's pointers outlive this call")]
    fn push(&mut self, entry: &S) {
        // SAFETY: an entry comes from `launch` or `arm_bell`. The latter's has no pointers.
        // The former's point into heap memory owned by a flight that already lies in
        // `self.flights`: a read's buffer and a command's areas, owned by it alone; a write's slices,
        // shared and never written while shared; the array of parts. None of these moves when the
        // flight does, or is touched by us, until `collect` removes the flight after the
        // kernel's completion for its key, or `drop` has seen all completions. The flight
        // holds its file open as long.
        let pushed = unsafe { self.uring.submission().push(entry) };
        assert!(pushed.is_ok(), "room was made in the submission queue");
    }

    fn needs_enter(&mut self) -> bool {
        let queue = self.uring.submission();
        !queue.is_empty() || queue.cq_overflow() || queue.taskrun()
    }

    fn enter(&mut self, want: usize, timeout: Option<Duration>) {
        let span = timeout.map(types::Timespec::from);
        let mut args = types::SubmitArgs::new();
        if let Some(span) = &span {
            args = args.timespec(span);
        }
        match self.submit(want, &args) {
            Ok(_) => self.refusals = 0,
            Err(error) => match SubmitRefusal::of(&error) {
                Some(SubmitRefusal::Passing) => {}
                // The submissions stay in the queue and the caller returns soon. The pause keeps
                // the caller from busy waiting.
                Some(SubmitRefusal::Shortage) => {
                    std::thread::sleep(FIRST_PAUSE * (1 << self.refusals.min(PAUSE_DOUBLINGS)));
                    self.refusals += 1;
                }
                None => panic!("io_uring_enter: {error}"),
            },
        }
    }

    #[cfg(not(test))]
    fn submit(&self, want: usize, args: &types::SubmitArgs<'_, '_>) -> io::Result<usize> {
        self.uring.submitter().submit_with_args(want, args)
    }

    /// Submits the queue, unless a test has ordered a refusal.
    #[cfg(test)]
    fn submit(&self, want: usize, args: &types::SubmitArgs<'_, '_>) -> io::Result<usize> {
        match ordered::take() {
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            None => self.uring.submitter().submit_with_args(want, args),
        }
    }

    /// Lands all flights the kernel has answered; whether there was any, or the bell rang.
    fn collect(&mut self, wakers: &mut Vec<Waker>) -> bool {
        let mut any = false;
        for completion in self.uring.completion() {
            any = true;
            if completion.user_data() == BELL {
                self.bell_is_armed = cqueue::more(completion.flags());
                continue;
            }
            let flight = self.flights.remove(completion.user_data() as usize);
            match flight.answer(completion.result()) {
                Answered::Landed(waker) => wakers.extend(waker),
                Answered::Again(flight) => self.backlog.push_back(flight),
                Answered::Refused(flight) => wakers.extend(helpers::take(flight)),
            }
        }
        any
    }
}

/// Why the kernel did not accept the submissions, unless the reason is an error of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SubmitRefusal {
    /// A signal, the timeout, or queues that must be emptied first.
    Passing,
    /// The kernel lacks memory.
    Shortage,
}

impl SubmitRefusal {
    fn of(error: &io::Error) -> Option<Self> {
        use rustix::io::Errno;
        match Errno::from_raw_os_error(error.raw_os_error()?) {
            Errno::INTR | Errno::TIME | Errno::BUSY => Some(Self::Passing),
            Errno::AGAIN | Errno::NOMEM | Errno::NOBUFS => Some(Self::Shortage),
            _ => None,
        }
    }
}

/// Ends the process if dropped: a panic passed by.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        std::process::abort();
    }
}

impl<S: Submission> Drop for Ring<S> {
    fn drop(&mut self) {
        // Unwinding out of here would free buffers that the kernel may still write to.
        let bomb = Bomb;
        let mut wakers = Vec::new();
        while !self.is_idle() {
            self.turn(true, None, &mut wakers);
            wakers.drain(..).for_each(Waker::wake);
        }
        std::mem::forget(bomb);
    }
}

/// Refusals that a test has ordered for the rings of its thread.
#[cfg(test)]
pub(crate) mod ordered {
    use std::cell::Cell;

    thread_local! {
        static REFUSALS: Cell<(u32, i32)> = const { Cell::new((0, 0)) };
    }

    /// Makes the next `count` calls fail with this error number.
    pub(crate) fn refuse(count: u32, errno: i32) {
        REFUSALS.set((count, errno));
    }

    pub(super) fn take() -> Option<i32> {
        let (left, errno) = REFUSALS.get();
        REFUSALS.set((left.saturating_sub(1), errno));
        (left > 0).then_some(errno)
    }

    /// Returns the number of ordered refusals that remain.
    pub(crate) fn left() -> u32 {
        REFUSALS.get().0
    }
}
