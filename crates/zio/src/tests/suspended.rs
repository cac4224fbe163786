//! I/O that waits for devices.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use env::{FaultOp, IoBuf, IoClass, impatient, in_class};
use futures::FutureExt;
use futures::executor::block_on;
use units::Txg;

use super::world::World;
use crate::{Bookmark, FailMode, SuspensionWatch, WritePolicy, Zio, ZioError};

const TXG: Txg = Txg::new(10);

/// Counts suspensions, and those that ended.
#[derive(Clone, Default)]
struct Count(Arc<[AtomicUsize; 2]>);

impl Count {
    fn get(&self) -> [usize; 2] {
        [self.0[0].load(SeqCst), self.0[1].load(SeqCst)]
    }
}

impl SuspensionWatch for Count {
    fn suspended(&self, _cause: &(dyn Error + Send + Sync + 'static), _mode: FailMode) {
        self.0[0].fetch_add(1, SeqCst);
    }

    fn resumed(&self) {
        self.0[1].fetch_add(1, SeqCst);
    }
}

/// A pool of one disk whose writes fail.
fn failing() -> (Arc<World>, Zio, Count) {
    let (world, zio) = World::pool(&["a"]);
    let count = Count::default();
    zio.suspension().engage(Box::new(count.clone()));
    world.faults("a").fail_all(FaultOp::Write);
    (world, zio, count)
}

async fn write(zio: &Zio, byte: u8) -> Result<ondisk::Blkptr, ZioError> {
    let mut data = IoBuf::zeroed(4096);
    data.fill(byte);
    let (bookmark, policy) = (Bookmark::default(), WritePolicy::default());
    in_class(IoClass::Async, zio.write(TXG, &bookmark, Arc::new(data), &policy)).await
}

#[test]
fn a_write_waits_until_its_vdev_is_back() {
    let (world, zio, count) = failing();
    let mut writes: Vec<_> = (1..=3).map(|byte| Box::pin(write(&zio, byte))).collect();
    assert!(writes.iter_mut().all(|write| write.now_or_never().is_none()));
    assert!(zio.suspension().is_suspended());
    zio.suspension().resume();
    assert!(zio.suspension().until_settled().now_or_never().is_none(), "they are yet to be tried");
    assert!(writes.iter_mut().all(|write| write.now_or_never().is_none()), "it fails still");
    assert!(zio.suspension().until_settled().now_or_never().is_some());
    assert_eq!(count.get(), [1, 0], "one suspension, whatever is tried");
    world.faults("a").heal();
    zio.suspension().resume();
    for (write, byte) in writes.into_iter().zip(1..) {
        let bp = block_on(write).expect("the disk works");
        let data = block_on(zio.read(&bp, &Bookmark::default())).expect("it is there");
        assert!(data.iter().all(|&read| read == byte));
    }
    assert_eq!(count.get(), [1, 1]);
    assert!(!zio.suspension().is_suspended());
}

/// The first metaslab of a disk of 64 MiB.
const FIRST_METASLAB: std::ops::Range<u64> = 4 << 20..20 << 20;

#[test]
fn a_block_goes_elsewhere_at_once_when_its_place_takes_no_writes() {
    let (world, zio) = World::pool(&["a"]);
    let count = Count::default();
    zio.suspension().engage(Box::new(count.clone()));
    world.faults("a").fail_within(FaultOp::Write, FIRST_METASLAB);
    let asked = world.faults("a").seen(FaultOp::Write);
    for byte in 1..=20 {
        let bp = write(&zio, byte).now_or_never().expect("nothing waits").expect("there are other places");
        let on_disk = bp.dva(0).offset.get() + FIRST_METASLAB.start;
        assert!(!FIRST_METASLAB.contains(&on_disk), "block {byte} is said to be at {on_disk:#x}");
        let data = block_on(zio.read(&bp, &Bookmark::default())).expect("it is there");
        assert!(data.iter().all(|&read| read == byte));
    }
    let tries = world.faults("a").seen(FaultOp::Write) - asked;
    assert_eq!(
        tries,
        20 + 2,
        "the bad place is tried and tried again once, and its metaslab left alone then"
    );
    assert_eq!(count.get(), [0, 0]);
    // If all places are bad, some are tried, and then the pool is suspended.
    world.faults("a").fail_all(FaultOp::Write);
    let mut waiting = Box::pin(write(&zio, 1));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert_eq!(count.get(), [1, 0]);
}

#[test]
fn bad_places_are_passed_by_where_there_is_no_other_metaslab() {
    let (world, zio) = World::pool(&["a"]);
    for metaslab in 0..3 {
        let start = FIRST_METASLAB.start + metaslab * (16 << 20);
        world.faults("a").fail_within(FaultOp::Write, start..start + (32 << 10));
    }
    for byte in 1..=5 {
        let written = write(&zio, byte).now_or_never().expect("nothing waits");
        written.expect("there are good places behind the bad ones");
    }
}

#[test]
fn what_waits_fails_when_the_pool_is_given_up() {
    let (_world, zio, count) = failing();
    let mut waiting = Box::pin(write(&zio, 1));
    assert!(waiting.as_mut().now_or_never().is_none());
    zio.suspension().give_up();
    assert!(matches!(waiting.now_or_never(), Some(Err(ZioError::Write { .. }))));
    assert!(matches!(write(&zio, 2).now_or_never(), Some(Err(_))), "nor does anything wait later");
    assert_eq!(count.get(), [1, 1]);
}

#[test]
fn a_request_that_is_dropped_suspends_nothing_any_more() {
    let (_world, zio, count) = failing();
    let mut waiting = Box::pin(write(&zio, 1));
    assert!(waiting.as_mut().now_or_never().is_none());
    drop(waiting);
    assert!(!zio.suspension().is_suspended());
    assert!(zio.suspension().until_settled().now_or_never().is_some());
    assert_eq!(count.get(), [1, 1]);
}

#[test]
fn readers_wait_for_a_disk_that_is_away_unless_they_are_not_to() {
    let (world, zio, _) = failing();
    world.faults("a").heal();
    let bp = block_on(write(&zio, 1)).expect("the disk works");
    zio.forget_unstable();
    zio.set_cache_limit(0);
    world.faults("a").disappear();
    let bookmark = Bookmark::default();
    let read = || Box::pin(zio.read(&bp, &bookmark));
    assert!(matches!(impatient(read()).now_or_never(), Some(Err(ZioError::Read { .. }))));
    assert!(matches!(in_class(IoClass::Scrub, read()).now_or_never(), Some(Err(ZioError::Read { .. }))));
    assert!(!zio.suspension().is_suspended() && !zio.has_lost());
    assert!(read().now_or_never().is_none(), "it waits");
    zio.suspension().set_mode(FailMode::Continue);
    assert!(matches!(read().now_or_never(), Some(Err(ZioError::Read { .. }))));
}
