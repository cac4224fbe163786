use std::time::Duration;

use env::{Device, DeviceError, Durability, Env, FaultOp, OpenMode};
use units::LeafOffset;

use super::{SECTOR, open, put, sectors, world};
use crate::Mischief;

#[test]
fn what_is_written_is_read_back() {
    let sim = world(1, &["/a"]);
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        put(&*disk, 3, 2, 9, Durability::Cached).await.expect("written");
        let back = disk.read(LeafOffset::new(2 * 512), 4 * SECTOR).await.expect("read");
        assert_eq!(sectors(&back), [0, 9, 9, 0]);
    });
}

#[test]
fn opening_follows_the_rules_of_real_devices() {
    let sim = world(1, &["/a"]);
    sim.run_until(async {
        let first = open(&sim.env(), "/a").await;
        let second = sim.open("/a".as_ref(), OpenMode::ReadWrite).await.err();
        assert!(matches!(second, Some(DeviceError::InUse { .. })));
        drop(first);
        open(&sim.env(), "/a").await;
        let missing = sim.open("/b".as_ref(), OpenMode::ReadWrite).await.err();
        assert!(matches!(missing, Some(DeviceError::Missing { .. })));
    });
}

#[test]
fn requests_that_do_not_fit_are_refused_and_leave_no_trace() {
    let sim = world(1, &["/a"]);
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        assert!(matches!(
            put(&*disk, 2047, 2, 1, Durability::Cached).await,
            Err(DeviceError::OutOfRange { .. })
        ));
        let odd = disk.read(LeafOffset::new(1), SECTOR).await;
        assert!(matches!(odd, Err(DeviceError::OutOfRange { .. })));
    });
    assert!(sim.recording().is_empty());
}

#[test]
fn a_request_goes_on_when_nobody_waits_for_it() {
    let sim = world(1, &["/a"]);
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        let mut write = Box::pin(put(&*disk, 0, 1, 5, Durability::Cached));
        assert!(futures::poll!(&mut write).is_pending());
        drop(write);
        sim.sleep(Duration::from_secs(1)).await;
    });
    assert_eq!(sim.disk("/a").peek(0, 1), [5]);
}

#[test]
fn a_request_never_polled_never_happens() {
    let sim = world(1, &["/a"]);
    let disk = sim.disk("/a");
    drop(disk.flush());
    assert!(sim.recording().is_empty());
}

#[test]
fn ordered_failures_happen_once() {
    let sim = world(1, &["/a"]);
    let handle = sim.disk("/a");
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        handle.faults().fail_nth(FaultOp::Write, 2);
        handle.faults().fail_nth(FaultOp::Read, 1);
        handle.faults().fail_nth(FaultOp::Flush, 1);
        put(&*disk, 0, 1, 1, Durability::Stable).await.expect("the first passes");
        assert!(matches!(
            put(&*disk, 0, 1, 2, Durability::Stable).await,
            Err(DeviceError::Io { op: "write", .. })
        ));
        assert!(disk.read(LeafOffset::new(0), SECTOR).await.is_err());
        assert!(disk.flush().await.is_err());
        disk.flush().await.expect("over");
        put(&*disk, 0, 1, 3, Durability::Stable).await.expect("over");
        assert_eq!(disk.read(LeafOffset::new(0), SECTOR).await.expect("over")[0], 3);
    });
}

#[test]
fn a_failed_write_leaves_nothing_all_or_its_first_sectors() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let sim = world(seed, &["/a"]);
        sim.disk("/a").faults().fail_nth(FaultOp::Write, 1);
        sim.run_until(async {
            let disk = open(&sim.env(), "/a").await;
            put(&*disk, 0, 3, 1, Durability::Cached).await.expect_err("ordered");
        });
        seen.insert(sectors(&sim.disk("/a").peek(0, 3 * SECTOR)));
    }
    let expected = [vec![0, 0, 0], vec![1, 0, 0], vec![1, 1, 0], vec![1, 1, 1]];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn a_disk_disappears_with_requests_under_way_and_comes_back() {
    let sim = world(1, &["/a"]);
    let handle = sim.disk("/a");
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        put(&*disk, 0, 1, 1, Durability::Stable).await.expect("written");
        let mut write = Box::pin(put(&*disk, 0, 1, 2, Durability::Stable));
        assert!(futures::poll!(&mut write).is_pending());
        handle.faults().disappear();
        assert!(matches!(write.await, Err(DeviceError::Gone)));
        assert!(matches!(disk.flush().await, Err(DeviceError::Gone)));
        assert!(matches!(disk.read(LeafOffset::new(0), SECTOR).await, Err(DeviceError::Gone)));
        handle.faults().heal();
        let back = disk.read(LeafOffset::new(0), SECTOR).await.expect("back again");
        assert!([1, 2].contains(&back[0]));
    });
}

#[test]
fn silent_mischief_does_what_its_name_says() {
    let sim = world(1, &["/a"]);
    let handle = sim.disk("/a");
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        handle.misbehave(1, Mischief::FlipBit);
        handle.misbehave(2, Mischief::Forget);
        handle.misbehave(3, Mischief::Misdirect { by: 4 * 512 });
        for at in [10, 20, 30, 40] {
            put(&*disk, at, 1, 0xff, Durability::Stable).await.expect("acknowledged all the same");
        }
    });
    let zeros: u32 = handle.peek(10 * 512, SECTOR).iter().map(|byte| byte.count_zeros()).sum();
    assert_eq!(zeros, 1);
    assert_eq!(sectors(&handle.peek(20 * 512, SECTOR)), [0]);
    assert_eq!(sectors(&handle.peek(30 * 512, SECTOR)), [0]);
    assert_eq!(sectors(&handle.peek(34 * 512, SECTOR)), [0xff]);
    assert_eq!(sectors(&handle.peek(40 * 512, SECTOR)), [0xff]);
    handle.rot(40 * 512, &[1, 2, 3]);
    assert_eq!(handle.peek(40 * 512, 4), [1, 2, 3, 0xff]);
}

#[test]
fn mischief_at_the_end_of_a_disk_stays_on_it() {
    let sim = world(1, &["/a"]);
    sim.disk("/a").misbehave(1, Mischief::Misdirect { by: 512 });
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        put(&*disk, 2047, 1, 7, Durability::Stable).await.expect("acknowledged");
    });
    assert_eq!(sim.disk("/a").peek(0, 1), [7]);
}
