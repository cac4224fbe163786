use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures::channel::oneshot;
use futures::executor::{LocalPool, LocalSpawner};
use futures::future::join_all;
use futures::task::LocalSpawnExt;
use parking_lot::Mutex;
use units::{Latencies, LeafOffset, Sizes};

use super::lanes::*;
use super::*;
use crate::{BoxFuture, BufSlice, Device, DeviceError, DeviceInfo, Durability, IoBuf, RamDevice};

const KIB: u64 = 1024;

/// What a device was asked: 'r', 'w' or 's' (stable), place, length.
type Call = (char, u64, u64);

/// RAM that answers only when told to.
#[derive(Clone)]
struct Held {
    ram: RamDevice,
    calls: Arc<Mutex<Vec<Call>>>,
    holds: Arc<Mutex<VecDeque<oneshot::Sender<()>>>>,
    /// Reads and writes that touch this byte fail.
    bad: Option<u64>,
}

impl Held {
    fn new(bad: Option<u64>) -> Self {
        Self { ram: RamDevice::new(8 << 20), calls: Arc::default(), holds: Arc::default(), bad }
    }

    fn hold(&self, call: Call) -> BoxFuture<'static, ()> {
        self.calls.lock().push(call);
        let (sender, receiver) = oneshot::channel();
        self.holds.lock().push_back(sender);
        Box::pin(async move { receiver.await.expect("answered") })
    }

    fn check(&self, op: &'static str, offset: LeafOffset, len: u64) -> Result<(), DeviceError> {
        let is_bad = self.bad.is_some_and(|bad| (offset.get()..offset.get() + len).contains(&bad));
        if is_bad { Err(DeviceError::Io { op, offset, len, errno: 5 }) } else { Ok(()) }
    }

    /// Lets the oldest go.
    fn answer(&self) {
        let oldest = self.holds.lock().pop_front().expect("something is in flight");
        // Nobody may be interested any more.
        let _ = oldest.send(());
    }

    fn in_flight(&self) -> usize {
        self.holds.lock().len()
    }

    fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls.lock())
    }
}

impl Device for Held {
    fn info(&self) -> DeviceInfo {
        self.ram.info()
    }

    fn read(&self, offset: LeafOffset, len: usize) -> BoxFuture<'static, Result<IoBuf, DeviceError>> {
        let held = self.clone();
        Box::pin(async move {
            held.hold(('r', offset.get(), len as u64)).await;
            held.check("read", offset, len as u64)?;
            held.ram.read(offset, len).await
        })
    }

    fn write(
        &self,
        offset: LeafOffset,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> BoxFuture<'static, Result<(), DeviceError>> {
        let held = self.clone();
        Box::pin(async move {
            let len = slices.iter().map(|slice| slice.bytes().len() as u64).sum();
            let op = if durability == Durability::Stable { 's' } else { 'w' };
            held.hold((op, offset.get(), len)).await;
            held.check("write", offset, len)?;
            held.ram.write(offset, slices, durability).await
        })
    }

    fn flush(&self) -> BoxFuture<'static, Result<(), DeviceError>> {
        self.ram.flush()
    }
}

/// A queue before a device that answers when told, and tasks that use it.
struct World {
    held: Held,
    queued: Rc<Queued>,
    pool: LocalPool,
    done: Rc<RefCell<Vec<u64>>>,
    /// What the queue's clock shows, in nanoseconds.
    now: Arc<AtomicU64>,
    stats: Arc<QueueStats>,
}

impl World {
    fn new(bounds: Bounds) -> Self {
        Self::with_bad(bounds, None)
    }

    fn with_bad(bounds: Bounds, bad: Option<u64>) -> Self {
        let held = Held::new(bad);
        let (now, stats) = (Arc::new(AtomicU64::new(0)), Arc::<QueueStats>::default());
        let shown = Arc::clone(&now);
        let clock: Clock = Arc::new(move || Duration::from_nanos(shown.load(Ordering::Relaxed)));
        let meter = Meter { clock, stats: Arc::clone(&stats) };
        let queued = Rc::new(Queued::new(Arc::new(held.clone()), bounds, meter));
        Self { held, queued, pool: LocalPool::new(), done: Rc::default(), now, stats }
    }

    fn spawner(&self) -> LocalSpawner {
        self.pool.spawner()
    }

    fn write(&mut self, class: IoClass, offset: u64, len: u64, durability: Durability) {
        let mut buf = IoBuf::zeroed(len as usize);
        buf.fill((offset / 512 % 251) as u8);
        let io = self.queued.write(LeafOffset::new(offset), vec![buf.into()], durability);
        let done = Rc::clone(&self.done);
        let task = in_class(class, async move {
            io.await.expect("written");
            done.borrow_mut().push(offset);
        });
        self.spawner().spawn_local(task).expect("spawned");
        self.pool.run_until_stalled();
    }

    fn small(&mut self, class: IoClass, offset: u64) {
        self.write(class, offset, 512, Durability::Cached);
    }

    /// It is so late.
    fn at(&self, nanos: u64) {
        self.now.store(nanos, Ordering::Relaxed);
    }

    fn answer(&mut self) {
        self.held.answer();
        self.pool.run_until_stalled();
    }
}

fn bounds(total: usize, min: usize, max: usize) -> Bounds {
    Bounds { total, classes: [Bound { min, max, max_beside_sync: max }; 4] }
}

/// Places far enough apart that nothing is merged.
fn far(n: u64) -> u64 {
    n * 128 * KIB
}

#[test]
fn the_more_urgent_goes_first_and_equals_in_turn() {
    let mut world = World::new(bounds(1, 0, 1));
    world.small(IoClass::Scrub, far(0));
    for (n, class) in [
        (1, IoClass::Scrub),
        (2, IoClass::Prefetch),
        (3, IoClass::Async),
        (4, IoClass::Sync),
        (5, IoClass::Async),
        (6, IoClass::Sync),
    ] {
        world.small(class, far(n));
    }
    for _ in 0..7 {
        assert_eq!(world.held.in_flight(), 1);
        world.answer();
    }
    assert_eq!(*world.done.borrow(), [0, 4, 6, 3, 5, 2, 1].map(far));
}

#[test]
fn each_class_is_bound_and_yields_to_synchronous_io() {
    let mut classes = [Bound { min: 1, max: 3, max_beside_sync: 2 }; 4];
    classes[0] = Bound { min: 1, max: 4, max_beside_sync: 4 };
    let mut world = World::new(Bounds { total: 10, classes });
    (0..5).for_each(|n| world.small(IoClass::Async, far(n)));
    assert_eq!(world.held.in_flight(), 3, "its own bound");
    world.small(IoClass::Sync, far(10));
    assert_eq!(world.held.in_flight(), 4);
    world.answer();
    assert_eq!(world.held.in_flight(), 3, "two beside the synchronous one");
    world.answer();
    world.answer();
    assert_eq!(world.held.in_flight(), 3, "all five have begun");
    world.answer();
    assert_eq!(world.held.in_flight(), 2, "only the last two are left");
}

/// Who writes a log asks for the next block a moment after the last is stable: the device is not filled up in between.
#[test]
fn a_class_yields_until_the_device_is_calm() {
    let mut classes = [Bound { min: 1, max: 3, max_beside_sync: 1 }; 4];
    classes[0] = Bound { min: 1, max: 4, max_beside_sync: 4 };
    let mut world = World::new(Bounds { total: 10, classes });
    world.small(IoClass::Sync, far(0));
    world.answer();
    let calm = 32;
    (1..=calm + 4).for_each(|n| world.small(IoClass::Async, far(n)));
    for _ in 0..calm {
        assert_eq!(world.held.in_flight(), 1, "one, though nothing urgent is under way");
        world.answer();
    }
    assert_eq!(world.held.in_flight(), 3, "its own bound again");
    (0..4).for_each(|_| world.answer());
    assert_eq!(world.held.in_flight(), 0);
}

#[test]
fn no_class_starves_beside_a_more_urgent_one() {
    let mut world = World::new(bounds(2, 1, 2));
    (0..20).for_each(|n| world.small(IoClass::Sync, far(n)));
    world.small(IoClass::Scrub, far(30));
    assert_eq!(world.held.in_flight(), 3, "two, and the minimum of the scrub");
    (0..3).for_each(|_| world.answer());
    assert!(world.done.borrow().contains(&far(30)));
}

/// How often each time was noted, by the end of its bucket in nanoseconds.
fn times(counted: &Latencies) -> Vec<(u64, u64)> {
    counted.counts.iter().zip(0..).filter(|(n, _)| **n > 0).map(|(n, shift)| (1 << shift, *n)).collect()
}

/// How often each size was noted, by what its bucket begins with.
fn sizes(counted: &Sizes) -> Vec<(u64, u64)> {
    let each = counted.counts.iter().enumerate().filter(|(_, n)| **n > 0);
    each.map(|(bucket, n)| (Sizes::start_bytes(bucket), *n)).collect()
}

#[test]
fn what_waits_and_what_is_joined_is_counted_where_it_belongs() {
    let mut world = World::new(bounds(1, 0, 1));
    world.at(1_000);
    world.write(IoClass::Sync, far(30), 8192, Durability::Stable);
    // Three that wait and go as one: the first of them longest.
    for (nanos, n) in [(2_000, 0), (3_000, 1), (3_500, 2)] {
        world.at(nanos);
        world.write(IoClass::Async, n * 4096, 4096, Durability::Cached);
    }
    world.write(IoClass::Async, far(20), 512, Durability::Cached);
    let active = |priority: Priority| world.queued.now()[priority as usize];
    assert_eq!(active(Priority::SyncWrite), InQueue { pending: 0, active: 1 });
    assert_eq!(active(Priority::AsyncWrite), InQueue { pending: 4, active: 0 });
    world.at(10_000);
    world.answer();
    assert_eq!(world.queued.now()[Priority::AsyncWrite as usize], InQueue { pending: 1, active: 1 });
    world.at(11_000);
    world.answer();
    world.answer();
    let counted = world.stats.snapshot();
    let of = |priority: Priority| counted.priorities[priority as usize];
    let sync = of(Priority::SyncWrite);
    assert_eq!(
        (times(&sync.waits), sizes(&sync.alone), sizes(&sync.joined)),
        (vec![(1, 1)], vec![(8192, 1)], vec![])
    );
    let txg = of(Priority::AsyncWrite);
    assert_eq!(
        (sizes(&txg.alone), sizes(&txg.joined)),
        (vec![(512, 1)], vec![(8192, 1)]),
        "12 KiB are in 8K"
    );
    assert_eq!(times(&txg.waits), [(8192, 2)], "8,000 ns, and 11,000 - 3,500");
    // 9,000; 1,000 and none at all; together with what they waited: 9,000 each, and 7,500.
    assert_eq!(times(&counted.write.device), [(1, 1), (1024, 1), (16_384, 1)]);
    assert_eq!(times(&counted.write.total), [(8192, 1), (16_384, 2)]);
    assert_eq!(counted.read, Times::default());
}

#[test]
fn every_class_counts_as_one_of_openzfs_priorities() {
    use Priority::{AsyncRead, AsyncWrite, Scrub, SyncRead, SyncWrite, Trim};
    let of = |class| [IoOp::Read, IoOp::Write, IoOp::Discard].map(|op| Priority::of(class, op));
    assert_eq!(
        IoClass::ALL.map(of),
        [
            [SyncRead, SyncWrite, Trim],
            [AsyncRead, AsyncWrite, Trim],
            [AsyncRead, AsyncWrite, Trim],
            [Scrub, AsyncWrite, Trim]
        ]
    );
    assert!(Priority::ALL.iter().enumerate().all(|(place, priority)| *priority as usize == place));
}

#[test]
fn what_fails_or_is_given_up_is_not_counted_and_nobody_is_left_in_the_queue() {
    let mut world = World::with_bad(bounds(1, 0, 1), Some(100));
    let answers = read_all(&mut world, &[(0, 512)]);
    assert!(answers[0].is_err());
    assert_eq!(world.stats.snapshot().priorities[Priority::SyncRead as usize], PrioritySnapshot::default());
    world.small(IoClass::Sync, far(1));
    let mut dropped = world.queued.read(LeafOffset::new(far(2)), 512);
    world.pool.run_until(async { assert!(futures::poll!(&mut dropped).is_pending()) });
    assert_eq!(world.queued.now()[Priority::SyncRead as usize], InQueue { pending: 1, active: 0 });
    drop(dropped);
    world.answer();
    assert_eq!(world.queued.now(), [InQueue::default(); 6]);
}

#[test]
fn neighbours_that_wait_are_written_as_one() {
    let mut world = World::new(bounds(1, 0, 1));
    world.small(IoClass::Sync, far(60));
    for n in [3, 1, 2, 9] {
        world.write(IoClass::Async, n * 4096, 4096, Durability::Cached);
    }
    world.write(IoClass::Async, 4 * 4096, 4096, Durability::Stable);
    world.write(IoClass::Scrub, 10 * 4096, 4096, Durability::Cached);
    world.held.take_calls();
    (0..5).for_each(|_| world.answer());
    let expected =
        [('w', 4096, 3 * 4096), ('w', 9 * 4096, 4096), ('s', 4 * 4096, 4096), ('w', 10 * 4096, 4096)];
    assert_eq!(world.held.take_calls(), expected);
    assert_eq!(world.queued.merged(), 2);
    assert_eq!(world.done.borrow().len(), 7);
    for n in [1, 2, 3, 4, 9, 10] {
        let read = world.held.ram.read(LeafOffset::new(n * 4096), 4096);
        let bytes = world.pool.run_until(read).expect("read");
        assert!(bytes.iter().all(|&byte| u64::from(byte) == n * 8 % 251), "block {n}");
    }
}

#[test]
fn a_merged_write_is_a_quarter_of_a_mebibyte_at_most() {
    let mut world = World::new(bounds(1, 0, 1));
    world.small(IoClass::Sync, far(60));
    (0..3).for_each(|n| world.write(IoClass::Async, n * 128 * KIB, 128 * KIB, Durability::Cached));
    world.held.take_calls();
    (0..3).for_each(|_| world.answer());
    assert_eq!(world.held.take_calls(), [('w', 0, 256 * KIB), ('w', 256 * KIB, 128 * KIB)]);
}

fn numbered(len: u64) -> IoBuf {
    let mut buf = IoBuf::zeroed(len as usize);
    buf.iter_mut().enumerate().for_each(|(n, byte)| *byte = (n / 512 % 251) as u8);
    buf
}

/// Reads these places, all waiting for one place at the device; gives the answers.
fn read_all(world: &mut World, places: &[(u64, u64)]) -> Vec<Result<IoBuf, DeviceError>> {
    let ram = world.held.ram.clone();
    let fill = ram.write(LeafOffset::new(0), vec![numbered(4 << 20).into()], Durability::Cached);
    world.pool.run_until(fill).expect("filled");
    world.small(IoClass::Sync, 7 << 20);
    let reads = places.iter().map(|&(offset, len)| world.queued.read(LeafOffset::new(offset), len as usize));
    let (sender, mut receiver) = oneshot::channel();
    let all = join_all(reads);
    world.spawner().spawn_local(async move { sender.send(all.await).expect("awaited") }).expect("spawned");
    world.pool.run_until_stalled();
    world.held.take_calls();
    while world.held.in_flight() > 0 {
        world.answer();
    }
    receiver.try_recv().expect("still there").expect("answered")
}

#[test]
fn reads_with_small_gaps_between_them_go_as_one_and_get_their_own_bytes() {
    let mut world = World::new(bounds(1, 0, 1));
    // Neighbours, one behind a gap, one behind too large a gap, one too large itself.
    let places =
        [(8192, 4096), (4096, 4096), (28 * KIB, 512), (100 * KIB, 512), (101 * KIB - 512, 128 * KIB)];
    let answers = read_all(&mut world, &places);
    for (&(offset, len), answer) in places.iter().zip(answers) {
        let all = numbered(4 << 20);
        assert_eq!(answer.expect("read")[..], all[offset as usize..(offset + len) as usize]);
    }
    let expected = [('r', 4096, 24 * KIB + 512), ('r', 100 * KIB, 512), ('r', 101 * KIB - 512, 128 * KIB)];
    assert_eq!(world.held.take_calls(), expected);
}

#[test]
fn a_merged_read_that_fails_is_an_error_only_for_the_bad_part() {
    let mut world = World::with_bad(bounds(1, 0, 1), Some(8192 + 100));
    let answers = read_all(&mut world, &[(4096, 4096), (8192, 4096), (12288, 4096)]);
    let outcomes: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(outcomes, [true, false, true]);
}

/// Writes three neighbours of which the second is bad. Returns the calls to the device and the
/// result of each write.
fn write_merged_with_bad(durability: Durability) -> (Vec<Call>, Vec<bool>) {
    let mut world = World::with_bad(bounds(1, 0, 1), Some(8192 + 100));
    world.small(IoClass::Sync, far(60));
    let outcomes: Rc<RefCell<Vec<bool>>> = Rc::default();
    for n in [1, 2, 3] {
        let io = world.queued.write(LeafOffset::new(n * 4096), vec![IoBuf::zeroed(4096).into()], durability);
        let outcomes = Rc::clone(&outcomes);
        let task = async move {
            let outcome = io.await.is_ok();
            outcomes.borrow_mut().push(outcome);
        };
        world.spawner().spawn_local(in_class(IoClass::Sync, task)).expect("spawned");
    }
    world.pool.run_until_stalled();
    world.held.take_calls();
    while world.held.in_flight() > 0 {
        world.answer();
    }
    let outcomes = outcomes.borrow().clone();
    (world.held.take_calls(), outcomes)
}

#[test]
fn a_merged_cached_write_that_fails_is_an_error_only_for_the_bad_part() {
    let (calls, outcomes) = write_merged_with_bad(Durability::Cached);
    assert_eq!(calls.len(), 1 + 3, "together, and then each by itself: {calls:?}");
    assert_eq!(outcomes.iter().filter(|is_ok| **is_ok).count(), 2, "{outcomes:?}");
}

#[test]
fn a_merged_stable_write_that_fails_fails_for_all_and_is_not_asked_for_again() {
    let (calls, outcomes) = write_merged_with_bad(Durability::Stable);
    assert_eq!(calls, [('s', 4096, 3 * 4096)]);
    assert_eq!(outcomes, [false; 3]);
}

#[test]
fn dropped_futures_give_their_places_back() {
    let mut world = World::new(bounds(1, 0, 1));
    let read = |world: &World, n| world.queued.read(LeafOffset::new(far(n)), 512);
    let mut first = read(&world, 0);
    let mut waiting = read(&world, 1);
    let mut called = read(&world, 2);
    world.pool.run_until(async {
        for read in [&mut first, &mut waiting, &mut called] {
            assert!(futures::poll!(read).is_pending());
        }
    });
    drop(waiting);
    assert_eq!(world.queued.0.lanes.lock().waiting(), 1);
    // Calls up the last one, which is dropped before it has looked.
    drop(first);
    drop(called);
    world.held.holds.lock().clear();
    world.small(IoClass::Sync, far(3));
    world.answer();
    assert_eq!(*world.done.borrow(), [far(3)]);
}

#[test]
fn a_class_holds_for_all_that_a_future_polls_and_ends_with_it() {
    let inner = async { IoClass::current() };
    let outer = in_class(IoClass::Scrub, async move {
        let before = IoClass::current();
        (before, in_class(IoClass::Async, inner).await, IoClass::current())
    });
    let classes = LocalPool::new().run_until(outer);
    assert_eq!(classes, (IoClass::Scrub, IoClass::Async, IoClass::Scrub));
    assert_eq!(IoClass::current(), IoClass::Sync);
}

/// Ready when polled a second time.
async fn yield_now() {
    let mut is_first = true;
    poll_fn(|cx| match std::mem::take(&mut is_first) {
        true => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        false => Poll::Ready(()),
    })
    .await;
}

#[test]
fn who_has_changed_something_is_patient_from_that_instant_on() {
    let has_changed = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&has_changed);
    let work = impatient_until(has_changed, async move {
        let before = is_impatient();
        in_class(IoClass::Scrub, async { flag.store(true, Ordering::Relaxed) }).await;
        let after = is_impatient();
        yield_now().await;
        (before, after, is_impatient(), impatient(async { is_impatient() }).await)
    });
    let told = LocalPool::new().run_until(work);
    assert_eq!(told, (true, false, false, true));
    assert!(!is_impatient());
}

#[test]
fn requests_of_other_kinds_are_no_neighbours() {
    let mut lanes: Lanes<()> = Lanes::new(bounds(1, 1, 1));
    assert!(lanes.try_start(IoClass::Async, IoOp::Write));
    let write = Job::Write(vec![BufSlice::from(numbered(4096))], Durability::Cached);
    lanes.wait(
        IoClass::Async,
        Request { offset: LeafOffset::new(4096), job: write, came: Duration::ZERO },
        (),
    );
    for offset in [0, far(1)] {
        let read = Request { offset: LeafOffset::new(offset), job: Job::Read(4096), came: Duration::ZERO };
        lanes.wait(IoClass::Async, read, ());
    }
    lanes.ended(IoClass::Async, IoOp::Write);
    let (_, group) = lanes.next().expect("a place is free");
    assert_eq!(group.len(), 1, "the write goes alone, between two reads");
}
