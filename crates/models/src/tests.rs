use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use shuttle::thread;

use crate::parker::Parker;
use crate::step::Step;
use crate::sync::{AtomicBool, AtomicU32, Mutex, Ordering};

/// Schedules tried of each.
const SCHEDULES: usize = 3000;
/// Threads of a schedule that are seldom interrupted: most faults need few switches.
const SWITCHES: usize = 3;

/// Tries random schedules, and those with few switches at any places.
fn try_orders(what: fn()) {
    shuttle::check_random(what, SCHEDULES);
    shuttle::check_pct(what, SCHEDULES, SWITCHES);
}

/// Wakes a thread that waits in [`wait_for`].
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn wait_for(work: impl Future<Output = ()>) {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut work = pin!(work);
    while work.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        thread::park();
    }
}

/// Work that goes on once somebody says so, some times over; and who says so.
fn work(times: u32) -> (impl Future<Output = ()> + Send, impl FnOnce() + Send) {
    let said = Arc::new((AtomicU32::new(0), Mutex::<Option<Waker>>::default()));
    let listens = Arc::clone(&said);
    let work = poll_fn(move |cx: &mut Context<'_>| {
        *listens.1.lock() = Some(cx.waker().clone());
        if listens.0.load(Ordering::SeqCst) == times { Poll::Ready(()) } else { Poll::Pending }
    });
    let say = move || {
        for _ in 0..times {
            said.0.fetch_add(1, Ordering::SeqCst);
            let waker = said.1.lock().take();
            waker.into_iter().for_each(Waker::wake);
        }
    };
    (work, say)
}

#[test]
fn whoever_waits_for_a_step_is_told() {
    try_orders(|| {
        let (work, say) = work(2);
        let step = Step::new(work);
        let waiters: Vec<_> =
            (0..3).map(|_| step.clone()).map(|step| thread::spawn(move || wait_for(step))).collect();
        let says = thread::spawn(say);
        waiters.into_iter().chain([says]).for_each(|thread| thread.join().expect("it ends"));
    });
}

/// A wake may reach a waiter while it polls, and find everybody else outside: if it leaves then, it says so to another,
/// as a commit does that gives up its seat.
#[test]
fn a_waiter_that_leaves_and_rouses_another_takes_nobody_with_it() {
    try_orders(|| {
        let (work, say) = work(1);
        let step = Step::new(work);
        let (leaver, stays) = (step.clone(), step);
        let stays = thread::spawn(move || wait_for(stays));
        let other = stays.thread().clone();
        let leaves = thread::spawn(move || {
            let waker = Waker::from(Arc::new(Unpark(thread::current())));
            let _ = leaver.poll(&Context::from_waker(&waker));
            other.unpark();
        });
        let says = thread::spawn(say);
        [leaves, stays, says].into_iter().for_each(|thread| thread.join().expect("it ends"));
    });
}

/// What an executor's thread does: polls, looks whether it was woken, sleeps.
fn sleep_until(parker: &Parker, done: &AtomicBool, sleep: impl Fn(&Parker)) {
    loop {
        parker.begin_poll();
        if done.load(Ordering::SeqCst) {
            return;
        }
        while !parker.is_notified() {
            sleep(parker);
        }
    }
}

/// One thread sleeps, another wakes it.
fn is_woken(sleep: fn(&Parker)) {
    let done = Arc::new(AtomicBool::new(false));
    let slot: Arc<Mutex<Option<Arc<Parker>>>> = Arc::default();
    let (says, sleepers) = (Arc::clone(&done), Arc::clone(&slot));
    let sleeper = thread::spawn(move || {
        let parker = Arc::new(Parker::new());
        parker.eventfd().expect("a descriptor is free");
        *sleepers.lock() = Some(Arc::clone(&parker));
        sleep_until(&parker, &done, sleep);
    });
    let waker = thread::spawn(move || {
        let parker = loop {
            let found = slot.lock().clone();
            match found {
                Some(parker) => break parker,
                None => thread::yield_now(),
            }
        };
        parker.notify();
        says.store(true, Ordering::SeqCst);
        parker.notify();
    });
    [sleeper, waker].into_iter().for_each(|thread| thread.join().expect("it ends"));
}

#[test]
fn a_wake_is_never_missed() {
    try_orders(|| is_woken(|parker| parker.park(None)));
}

#[test]
fn a_wake_is_never_missed_in_a_ring() {
    try_orders(|| is_woken(|parker| parker.park_in_ring(|may_sleep| ring(parker, may_sleep))));
}

/// Waits as a ring does: for the bell, if it may sleep at all.
fn ring(parker: &Parker, may_sleep: bool) {
    let bell = parker.eventfd().expect("it is there");
    let has_rung = || {
        let mut fds = [rustix::event::PollFd::new(&bell, rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&now)).expect("it can be asked") > 0
    };
    while may_sleep && !has_rung() {
        thread::yield_now();
    }
    if has_rung() {
        let _ = rustix::io::read(&bell, &mut [0; 8]);
    }
}
