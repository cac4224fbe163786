use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use shuttle::thread;
use units::LeafOffset;

use crate::parker::Parker;
use crate::queue::{Bound, Bounds, Meter, Queued, has_place};
use crate::rests::Rests;
use crate::sync::{AtomicBool, AtomicU32, Mutex, Ordering};
use crate::{BoxFuture, BufSlice, Device, DeviceError, DeviceInfo, Durability, IoBuf, Shared};

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
fn whoever_waits_for_shared_work_is_told() {
    try_orders(|| {
        let (work, say) = work(2);
        let shared = Shared::new(work);
        let waiters: Vec<_> =
            (0..3).map(|_| shared.clone()).map(|shared| thread::spawn(move || wait_for(shared))).collect();
        let says = thread::spawn(say);
        waiters.into_iter().chain([says]).for_each(|thread| thread.join().expect("it ends"));
    });
}

/// A wake may reach a waiter while it polls, and find everybody else outside; it may leave then.
#[test]
fn a_waiter_that_leaves_takes_nobody_with_it() {
    try_orders(|| {
        let (work, say) = work(1);
        let shared = Shared::new(work);
        let (leaver, stays) = (shared.clone(), shared);
        let stays = thread::spawn(move || wait_for(stays));
        let leaves = thread::spawn(move || {
            let waker = Waker::from(Arc::new(Unpark(thread::current())));
            let _ = leaver.poll(&Context::from_waker(&waker));
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
    try_orders(|| is_woken(|parker| parker.park_away(|may_sleep| ring(parker, may_sleep))));
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

/// A log as its txgs see it: records whose txg is still held open, those that a txg may take, and whether txgs attend.
#[derive(Default)]
struct Log {
    rests: Rests,
    records: Mutex<(u32, u32)>,
    is_attended: AtomicBool,
}

impl Log {
    fn attend(&self) {
        self.is_attended.store(true, Ordering::SeqCst);
    }

    fn let_go(&self) {
        let mut records = self.records.lock();
        *records = (records.0 - 1, records.1 + 1);
    }

    /// A record is assigned by somebody who holds its txg open, until the log is awake or before that.
    fn assign(&self, lets_go_first: bool) {
        self.records.lock().0 += 1;
        if lets_go_first {
            self.let_go();
        }
        self.rests.awaken(|| self.attend());
        if !lets_go_first {
            self.let_go();
        }
    }

    /// What a txg does with a log.
    fn sync(&self) {
        if self.is_attended.load(Ordering::SeqCst) {
            self.records.lock().1 = 0;
            let leave = || self.is_attended.store(false, Ordering::SeqCst);
            self.rests.rest(|| *self.records.lock() == (0, 0), leave, || self.attend());
        }
    }
}

fn assign_and_sync(lets_go_first: bool) {
    let log = Arc::new(Log::default());
    log.attend();
    let writers = (0..2).map(|_| {
        let log = Arc::clone(&log);
        thread::spawn(move || (0..2).for_each(|_| log.assign(lets_go_first)))
    });
    let mut threads: Vec<_> = writers.collect();
    let txgs = Arc::clone(&log);
    threads.push(thread::spawn(move || (0..3).for_each(|_| txgs.sync())));
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    let (is_attended, records) = (log.is_attended.load(Ordering::SeqCst), *log.records.lock());
    assert!(is_attended || records == (0, 0), "records that no txg knows of");
}

#[test]
fn a_log_with_something_to_do_is_attended_to() {
    try_orders(|| assign_and_sync(false));
}

/// Then the log may come to rest between the two steps of its waking.
#[test]
#[should_panic(expected = "records that no txg knows of")]
fn a_writer_that_lets_go_of_its_txg_before_the_log_is_awake_is_found() {
    try_orders(|| assign_and_sync(true));
}

type Say = Box<dyn FnOnce() + Send>;

/// A device whose reads end when another thread says so.
#[derive(Default)]
struct Disk(Mutex<Vec<Say>>);

impl Device for Disk {
    fn info(&self) -> DeviceInfo {
        unreachable!("nobody asks")
    }

    fn read(&self, _: LeafOffset, len: usize) -> BoxFuture<'static, Result<IoBuf, DeviceError>> {
        let (work, say) = work(1);
        self.0.lock().push(Box::new(say));
        Box::pin(async move {
            work.await;
            Ok(IoBuf::zeroed(len))
        })
    }

    fn write(
        &self,
        _: LeafOffset,
        _: Vec<BufSlice>,
        _: Durability,
    ) -> BoxFuture<'static, Result<(), DeviceError>> {
        unreachable!("nobody writes")
    }

    fn flush(&self) -> BoxFuture<'static, Result<(), DeviceError>> {
        unreachable!("nobody flushes")
    }

    fn discard(&self, _: LeafOffset, _: u64) -> BoxFuture<'static, Result<(), DeviceError>> {
        unreachable!("nobody discards")
    }
}

/// Notes that it was called, and lets nobody run meanwhile: `futures` wakes with a lock held that no model knows of.
#[derive(Default)]
struct Note(std::sync::atomic::AtomicBool);

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Polls until it is done, whenever it was called; who is never called exceeds the steps of a schedule.
fn poll_when_called<T>(mut work: BoxFuture<'_, T>) -> T {
    let note = Arc::new(Note::default());
    let waker = Waker::from(Arc::clone(&note));
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        while !note.0.swap(false, Ordering::SeqCst) {
            thread::yield_now();
        }
    }
}

/// Three read, at places that go together or not, of which one may leave at once; a fourth thread is the device.
fn read_all(apart_bytes: u64, one_leaves: bool) {
    let bound = Bound { min: 1, max: 1, max_beside_sync: 1 };
    let disk = Arc::new(Disk::default());
    let (device, bounds) = (Arc::clone(&disk) as Arc<dyn Device>, Bounds { total: 1, classes: [bound; 4] });
    let queued = Arc::new(Queued::new(device, bounds, Meter::timeless()));
    let left = Arc::new(AtomicU32::new(3));
    let mut threads: Vec<_> = (0..3)
        .map(|number: u64| {
            let (queued, left) = (Arc::clone(&queued), Arc::clone(&left));
            thread::spawn(move || {
                let mut read = queued.read(LeafOffset::new(number * apart_bytes), 512);
                if one_leaves && number == 1 {
                    let _ = read.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                } else {
                    assert_eq!(poll_when_called(read).expect("it reads").len(), 512);
                }
                left.fetch_sub(1, Ordering::SeqCst);
            })
        })
        .collect();
    threads.push(thread::spawn(move || {
        while left.load(Ordering::SeqCst) > 0 {
            let say = disk.0.lock().pop();
            match say {
                Some(say) => say(),
                None => thread::yield_now(),
            }
        }
    }));
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    assert!(has_place(&queued), "a place was not given back");
}

#[test]
fn a_place_is_given_back_and_nobody_waits_for_ever() {
    try_orders(|| read_all(1 << 30, false));
    try_orders(|| read_all(1 << 30, true));
}

#[test]
fn neighbours_that_go_together_all_get_their_answer() {
    try_orders(|| read_all(512, false));
    try_orders(|| read_all(512, true));
}
