//! A thread that waits for what others left behind.
//!
//! When `block_on` returns while some of its I/O or timers are unfinished (a straggler
//! that lost a race, a future handed to another thread), nobody would collect their
//! completions until that thread runs futures again. The keeper does. A ring goes back
//! home once it is idle, and its thread does not end before.

use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};

use super::parker::signal;
use super::ring::Ring;
use super::timer::{Alarm, Key, Timers};

#[derive(Default)]
struct Stable {
    rings: Vec<Ring>,
    abroad: usize,
}

/// Where a thread's rings come back to.
#[derive(Default)]
pub(crate) struct Home {
    stable: Mutex<Stable>,
    all_back: Condvar,
}

impl Home {
    /// A ring that has come back.
    pub(crate) fn take_ring(&self) -> Option<Ring> {
        self.stable.lock().rings.pop()
    }

    /// Blocks until no ring is with the keeper.
    pub(crate) fn wait_for_all(&self) {
        let mut stable = self.stable.lock();
        while stable.abroad > 0 {
            self.all_back.wait(&mut stable);
        }
    }

    fn lend(&self) {
        self.stable.lock().abroad += 1;
    }

    fn welcome(&self, ring: Ring) {
        let mut stable = self.stable.lock();
        stable.abroad -= 1;
        stable.rings.push(ring);
        self.all_back.notify_all();
    }
}

type Ward = (Ring, Arc<Home>);

#[derive(Default)]
struct Inbox {
    wards: Vec<Ward>,
    timers: Timers,
}

struct Keeper {
    inbox: Mutex<Inbox>,
    eventfd: OwnedFd,
}

/// Takes over a ring with flights in it.
pub(crate) fn adopt(ring: Ring, home: &Arc<Home>) {
    home.lend();
    tell(|inbox| inbox.wards.push((ring, Arc::clone(home))));
}

/// Takes over the alarms somebody still waits for.
pub(crate) fn adopt_timers(timers: &mut Timers) {
    tell(|inbox| timers.move_into(&mut inbox.timers));
}

/// Serves an alarm for a thread that runs no futures of its own.
pub(crate) fn add_timer(key: Key, alarm: Alarm) {
    tell(|inbox| inbox.timers.insert(key, alarm));
}

fn tell(news: impl FnOnce(&mut Inbox)) {
    let keeper = keeper();
    news(&mut keeper.inbox.lock());
    signal(&keeper.eventfd);
}

/// Starts the keeper's thread, if that was not done before: once it is needed there may be none to be
/// had.
///
/// # Panics
/// When the system gives no thread.
pub(crate) fn start() {
    keeper();
}

fn keeper() -> &'static Keeper {
    static KEEPER: OnceLock<Keeper> = OnceLock::new();
    KEEPER.get_or_init(|| {
        let eventfd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd can be made");
        let run = || run(KEEPER.wait());
        std::thread::Builder::new().name("sawmill-keeper".into()).spawn(run).expect("a thread can be made");
        Keeper { inbox: Mutex::default(), eventfd }
    })
}

fn run(keeper: &'static Keeper) {
    let mut wards: Vec<Ward> = Vec::new();
    let mut timers = Timers::default();
    loop {
        let mut wakers = Vec::new();
        {
            let mut inbox = keeper.inbox.lock();
            wards.append(&mut inbox.wards);
            inbox.timers.move_into(&mut timers);
        }
        timers.fire_due(&mut wakers);
        wards = serve(wards, &mut wakers);
        wakers.into_iter().for_each(Waker::wake);
        wait(keeper, &wards, timers.until_next());
    }
}

/// Collects completions; rings that are done go home, the others are returned.
fn serve(wards: Vec<Ward>, wakers: &mut Vec<Waker>) -> Vec<Ward> {
    let mut kept = Vec::with_capacity(wards.len());
    for (mut ring, home) in wards {
        ring.turn(false, None, wakers);
        if ring.is_idle() {
            home.welcome(ring);
        } else {
            kept.push((ring, home));
        }
    }
    kept
}

fn wait(keeper: &Keeper, wards: &[Ward], timeout: Option<Duration>) {
    let timeout = timeout.map(|span| Timespec {
        tv_sec: span.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: span.subsec_nanos().into(),
    });
    let mut fds = vec![PollFd::new(&keeper.eventfd, PollFlags::IN)];
    fds.extend(wards.iter().map(|(ring, _)| PollFd::from_borrowed_fd(ring.fd(), PollFlags::IN)));
    // Interrupted or not, the loop looks at everything again.
    let _ = rustix::event::poll(&mut fds, timeout.as_ref());
    if !fds[0].revents().is_empty() {
        let _ = rustix::io::read(&keeper.eventfd, &mut [0_u8; 8]);
    }
}
