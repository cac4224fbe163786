//! What a thread owns while it runs futures, and how it waits.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::mem::ManuallyDrop;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use io_uring::squeue::Entry128;

use super::flight::Flight;
use super::helpers;
use super::keeper::{self, Home};
use super::parker::Parker;
use super::ring::Ring;
use super::timer::{Alarm, Key, Timers};
use super::watch::Watch;

thread_local! {
    static LOCAL: RefCell<Local> = RefCell::new(Local::new());
}

/// What to do with a single operation when nothing else goes on in this thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lone {
    /// A plain system call: this thread would only sleep meanwhile. Cheaper than a ring,
    /// and much cheaper where the kernel would hand the work to a thread of its own. A wake
    /// in the meantime is seen when the call returns; who races a request against time arms
    /// a timer, and so gets the ring.
    Inline,
    /// Through the ring: other tasks of this thread may become ready meanwhile.
    ByRing,
}

struct Local {
    /// How many executors are at work on this thread, one inside the other.
    depth: u32,
    parker: Arc<Parker>,
    staged: VecDeque<Flight>,
    ring: Option<Ring>,
    ring_was_refused: bool,
    /// A loop's, for commands, which may be under way for ever: nobody waits for it to be idle.
    commands: Option<ManuallyDrop<Ring<Entry128>>>,
    timers: Timers,
    home: Arc<Home>,
    /// A loop's: it waits with this.
    watch: Option<Arc<Watch>>,
}

impl Local {
    fn new() -> Self {
        Self {
            depth: 0,
            parker: Arc::new(Parker::new()),
            staged: VecDeque::new(),
            ring: None,
            ring_was_refused: false,
            commands: None,
            timers: Timers::default(),
            home: Arc::default(),
            watch: None,
        }
    }

    /// The one staged operation, when there is nothing else this thread could wait for.
    fn take_lone(&mut self) -> Option<Flight> {
        let ring_is_idle = self.ring.as_ref().is_none_or(|ring| ring.is_idle());
        // What the driver of a file says comes to this thread alone.
        let hears_commands = self.commands.as_ref().is_some_and(|commands| !commands.is_idle());
        let is_one = self.staged.len() == 1 && !self.staged[0].is_command() && !hears_commands;
        let alone = is_one && ring_is_idle && self.timers.is_empty() && !self.parker.is_notified();
        if alone { self.staged.pop_front() } else { None }
    }

    /// Submits, collects, fires; sleeps if there is nothing of all that and no wake.
    fn turn(&mut self, may_sleep: bool, wakers: &mut Vec<Waker>) {
        self.timers.fire_due(wakers);
        self.unstage(wakers);
        match self.watch.clone() {
            Some(watch) => self.wait_with(&watch, may_sleep, wakers),
            None => self.wait(may_sleep && wakers.is_empty(), wakers),
        }
        self.timers.fire_due(wakers);
    }

    fn wait(&mut self, may_sleep: bool, wakers: &mut Vec<Waker>) {
        let timeout = self.timers.until_next();
        match &mut self.ring {
            Some(ring) if !ring.is_idle() => {
                let turn = |unwoken| ring.turn(may_sleep && unwoken, timeout, wakers);
                self.parker.park_away(turn);
            }
            _ if may_sleep => self.parker.park(timeout),
            _ => {}
        }
    }

    fn wait_with(&mut self, watch: &Watch, may_sleep: bool, wakers: &mut Vec<Waker>) {
        self.look_at_ring(wakers);
        if may_sleep && wakers.is_empty() {
            let parker = Arc::clone(&self.parker);
            parker.try_without_sleep(|| {
                watch.wait(Some(Duration::ZERO), wakers);
                self.look_at_ring(wakers);
                !wakers.is_empty()
            });
        }
        if may_sleep && wakers.is_empty() {
            let timeout = self.timers.until_next();
            self.parker.park_away(|unwoken| {
                watch.wait(if unwoken { timeout } else { Some(Duration::ZERO) }, wakers);
            });
            self.look_at_ring(wakers);
        } else {
            watch.wait(Some(Duration::ZERO), wakers);
        }
    }

    /// Submits to the ring and collects from it, without waiting.
    fn look_at_ring(&mut self, wakers: &mut Vec<Waker>) {
        if let Some(ring) = self.ring.as_mut().filter(|ring| !ring.is_idle()) {
            ring.turn(false, None, wakers);
        }
        if let Some(commands) = self.commands.as_mut().filter(|commands| !commands.is_idle()) {
            commands.turn(false, None, wakers);
        }
    }

    fn unstage(&mut self, wakers: &mut Vec<Waker>) {
        if self.staged.is_empty() {
            return;
        }
        if self.staged.iter().any(Flight::goes_by_ring) {
            self.ensure_ring();
        }
        if self.staged.iter().any(Flight::is_command) {
            self.ensure_commands();
        }
        for flight in self.staged.drain(..) {
            if flight.is_command() {
                match &mut self.commands {
                    Some(commands) => commands.add(flight),
                    // Says that there is no such thing.
                    None => wakers.extend(flight.run_to_end()),
                }
                continue;
            }
            match &mut self.ring {
                Some(ring) if flight.goes_by_ring() => ring.add(flight),
                _ => wakers.extend(helpers::take(flight)),
            }
        }
    }

    fn ensure_ring(&mut self) {
        if self.ring.is_some() || self.ring_was_refused {
            return;
        }
        self.ring = self.home.take_ring();
        if self.ring.is_none() {
            let eventfd = self.parker.eventfd().map_err(std::io::Error::from);
            self.ring = eventfd.and_then(Ring::new).ok();
        }
        if let (Some(watch), Some(ring)) = (&self.watch, &self.ring)
            && watch.add_ring(ring.fd()).is_err()
        {
            // Its completions would not be heard of.
            self.ring = None;
        }
        self.ring_was_refused = self.ring.is_none();
    }

    fn ensure_commands(&mut self) {
        let Some(watch) = self.watch.as_ref().filter(|_| self.commands.is_none()) else { return };
        let ring = self.parker.eventfd().map_err(io::Error::from).and_then(Ring::new);
        self.commands = ring.ok().filter(|ring| watch.add_ring(ring.fd()).is_ok()).map(ManuallyDrop::new);
    }

    /// Gives what is unfinished to the keeper: this thread is about to do other things.
    fn leave_behind(&mut self, wakers: &mut Vec<Waker>) {
        if !self.staged.is_empty() || self.ring.as_ref().is_some_and(|ring| !ring.is_idle()) {
            self.turn(false, wakers);
        }
        if let Some(ring) = self.ring.take_if(|ring| !ring.is_idle()) {
            keeper::adopt(ring, &self.home);
        }
        if !self.timers.is_empty() {
            keeper::adopt_timers(&mut self.timers);
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        // The kernel cancels requests whose thread ends before they were begun.
        self.home.wait_for_all();
        if let Some(commands) = self.commands.take_if(|commands| commands.is_idle()) {
            drop(ManuallyDrop::into_inner(commands));
        }
    }
}

fn with<T>(act: impl FnOnce(&mut Local) -> T) -> T {
    LOCAL.with(|local| act(&mut local.borrow_mut()))
}

/// Whether this thread runs futures just now.
pub(crate) fn is_inside() -> bool {
    with(|local| local.depth > 0)
}

/// Whether somebody would be held up if this thread waited in a system call. May be asked at any time.
pub(crate) fn must_not_wait() -> bool {
    // It is borrowed while the thread does what its futures asked for.
    LOCAL.try_with(|local| local.try_borrow().map_or(true, |local| local.depth > 0)).unwrap_or(false)
}

/// Leaves a flight to be submitted when this thread waits next.
pub(crate) fn stage(flight: Flight) {
    with(|local| local.staged.push_back(flight));
}

/// Lets this thread's waits serve an alarm; gives it back if the thread runs no futures.
pub(crate) fn add_timer(key: Key, alarm: Alarm) -> Result<(), Alarm> {
    with(|local| {
        if local.depth == 0 {
            return Err(alarm);
        }
        local.timers.insert(key, alarm);
        Ok(())
    })
}

/// Forgets an alarm, if it is this thread's.
pub(crate) fn remove_timer(key: &Key) {
    // While the thread ends there is nothing to forget any more.
    let _ = LOCAL.try_with(|local| local.borrow_mut().timers.remove(key));
}

/// Makes this thread a loop: from now on it waits for files, too.
///
/// # Errors
/// When the system gives no descriptors.
pub(crate) fn become_loop() -> io::Result<()> {
    with(|local| {
        let watch = Watch::new(&*local.parker.eventfd()?)?;
        local.watch = Some(Arc::new(watch));
        Ok(())
    })
}

/// What this thread waits with, if it is a loop.
pub(crate) fn watch() -> Option<Arc<Watch>> {
    with(|local| local.watch.clone())
}

/// While it lives, this thread runs futures.
pub(crate) struct Inside {
    parker: Arc<Parker>,
}

impl Inside {
    /// Begins; may be nested.
    pub(crate) fn enter() -> Self {
        with(|local| {
            local.depth += 1;
            Self { parker: Arc::clone(&local.parker) }
        })
    }

    /// What wakes this thread.
    pub(crate) fn parker(&self) -> &Arc<Parker> {
        &self.parker
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut wakers = Vec::new();
        with(|local| {
            local.depth -= 1;
            if local.depth == 0 {
                local.leave_behind(&mut wakers);
            }
        });
        wakers.into_iter().for_each(Waker::wake);
        // An executor further out may have been woken while this one took its wakes.
        self.parker.notify();
    }
}

/// One step of waiting on this thread: see [`Local::turn`]. Returns after every event.
pub(crate) fn turn(lone: Lone, may_sleep: bool) {
    if lone == Lone::Inline && run_lone() {
        return;
    }
    // Wakers run, and are dropped, after the borrow: they may run code that comes back here.
    let mut wakers = Vec::new();
    with(|local| local.turn(may_sleep, &mut wakers));
    wakers.into_iter().for_each(Waker::wake);
}

/// Does the one thing that this thread could wait for by a plain system call; false when it is not that simple.
pub(crate) fn run_lone() -> bool {
    let flight = with(Local::take_lone);
    let is_lone = flight.is_some();
    flight.and_then(Flight::run_to_end).into_iter().for_each(Waker::wake);
    is_lone
}

/// Polls `future` on this thread until it is ready.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let inside = Inside::enter();
    let waker = Waker::from(Arc::clone(inside.parker()));
    let mut cx = Context::from_waker(&waker);
    loop {
        inside.parker().begin_poll();
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        turn(Lone::Inline, true);
        while !inside.parker().is_notified() {
            turn(Lone::Inline, true);
        }
    }
}
