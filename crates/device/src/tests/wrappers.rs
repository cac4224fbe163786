use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join;

use super::{at, env, filled, holds};
use crate::{Delayed, Delays, Options, RealEnv};
use env::{Device, DeviceError, Durability, Env, FaultOp, Faults, Faulty, OpenMode, RamDevice};

/// Long enough that a busy machine does not take it for nothing.
const DELAY: Duration = Duration::from_millis(300);

#[test]
fn memory_keeps_what_was_written_across_openings() {
    let env = env();
    let ram = RamDevice::new(1 << 20);
    env.register("ram:a", Arc::new(ram.clone()));
    env.block_on(async {
        let device = env.open(Path::new("ram:a"), OpenMode::ReadWrite).await.expect("opened");
        // Across a chunk's border.
        device.write(at((64 << 10) - 512), filled(5, 1024), Durability::Cached).await.expect("written");
        let second = env.open(Path::new("ram:a"), OpenMode::ReadWrite).await.err();
        assert!(matches!(second, Some(DeviceError::InUse { .. })));
        drop(device);
        let again = env.open(Path::new("ram:a"), OpenMode::ReadWrite).await.expect("opened again");
        assert!(holds(&*again, (64 << 10) - 512, 1024, 5).await);
        assert!(holds(&ram, 0, (64 << 10) - 512, 0).await);
        assert!(matches!(again.read(at(1 << 20), 512).await, Err(DeviceError::OutOfRange { .. })));
    });
}

#[test]
fn nothing_happens_until_a_future_is_polled() {
    let ram = RamDevice::new(1 << 20);
    drop(ram.write(at(0), filled(5, 512), Durability::Stable));
    assert!(env().block_on(holds(&ram, 0, 512, 0)));
}

#[test]
fn a_delayed_device_has_one_arm() {
    let env = env();
    let device = Delayed::new(Arc::new(RamDevice::new(1 << 20)), DELAY);
    env.block_on(async {
        let began = Instant::now();
        device.write(at(0), filled(1, 512), Durability::Cached).await.expect("written");
        assert!(holds(&device, 0, 512, 1).await);
        assert!(began.elapsed() < DELAY, "cached I/O does not wait");
        let (first, second) =
            join(device.write(at(0), filled(2, 512), Durability::Stable), device.flush()).await;
        first.and(second).expect("both succeed");
        assert!(began.elapsed() >= 2 * DELAY);
    });
}

#[test]
fn delays_are_read_from_text() {
    let delays: Delays = "/dev/a=8ms, ram:b=250us,/x=y=1.5s".parse().expect("well formed");
    assert_eq!(delays.of(Path::new("/dev/a")), Some(Duration::from_millis(8)));
    assert_eq!(delays.of(Path::new("ram:b")), Some(Duration::from_micros(250)));
    assert_eq!(delays.of(Path::new("/x=y")), Some(Duration::from_millis(1500)));
    assert_eq!(delays.of(Path::new("/dev/c")), None);
    assert_eq!("".parse(), Ok(Delays::default()));
    for wrong in ["a", "=8ms", "a=", "a=8", "a=8m", "a=-1ms", "a=1e999s", "a=NaNms"] {
        assert!(wrong.parse::<Delays>().is_err(), "{wrong}");
    }
}

#[test]
fn the_environment_delays_the_devices_it_is_told_to() {
    let delays = "ram:slow=300ms".parse().expect("well formed");
    let env = RealEnv::new(Options { delays, ..Options::default() });
    for path in ["ram:slow", "ram:fast"] {
        env.register(path, Arc::new(RamDevice::new(1 << 20)));
        let began = Instant::now();
        env.block_on(async {
            let device = env.open(Path::new(path), OpenMode::ReadWrite).await.expect("opened");
            device.flush().await.expect("flushed");
        });
        assert_eq!(began.elapsed() >= DELAY, path == "ram:slow");
    }
}

#[test]
fn faults_come_when_ordered_and_not_otherwise() {
    let faults = Faults::none();
    let device = Faulty::new(Arc::new(RamDevice::new(1 << 20)), faults.clone());
    env().block_on(async {
        let write = |byte| device.write(at(0), filled(byte, 512), Durability::Cached);
        write(1).await.expect("no fault ordered yet");
        faults.fail_nth(FaultOp::Write, 2);
        write(2).await.expect("the first passes");
        assert!(matches!(write(3).await, Err(DeviceError::Io { op: "write", len: 512, errno: 5, .. })));
        assert!(holds(&device, 0, 512, 2).await, "a failed write did nothing");
        write(4).await.expect("only one was to fail");

        faults.fail_all(FaultOp::Flush);
        for _ in 0..3 {
            assert!(matches!(device.flush().await, Err(DeviceError::Io { op: "flush", .. })));
        }
        assert!(holds(&device, 0, 512, 4).await, "reads go on");

        faults.disappear();
        assert!(matches!(device.read(at(0), 512).await, Err(DeviceError::Gone)));
        assert!(matches!(write(5).await, Err(DeviceError::Gone)));
        faults.heal();
        write(6).await.expect("healed");
        device.flush().await.expect("healed");
        assert_eq!(faults.seen(FaultOp::Write), 6);
        assert_eq!(faults.seen(FaultOp::Flush), 4);

        faults.disappear_at(3);
        write(7).await.expect("not yet");
        device.flush().await.expect("nor now");
        assert!(matches!(write(8).await, Err(DeviceError::Gone)));
        assert!(matches!(device.flush().await, Err(DeviceError::Gone)));
        faults.heal();
        assert!(holds(&device, 0, 512, 7).await, "back, as it was");
    });
}
