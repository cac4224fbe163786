use std::path::Path;
use std::task::{Context, Poll, Waker};

use env::OpenMode;
use futures::executor::block_on;

use super::*;
use crate::tests::world::{Event as Told, World};

const LEN: usize = 4096;

/// A device in memory behind a fence. The clock counts a microsecond at each look.
fn fenced(world: &Arc<World>) -> (Fenced, Arc<Fence>) {
    let device = block_on(world.env().open(Path::new("a"), OpenMode::ReadWrite)).expect("there is one");
    let (post, fence) = (Arc::new(Post::default()), Arc::new(Fence::default()));
    assert!(post.fence.set(Arc::clone(&fence)).is_ok());
    (Fenced { device, post, env: world.env() }, fence)
}

fn write(fenced: &Fenced) -> BoxFuture<'static, Result<(), DeviceError>> {
    let slices = vec![BufSlice::from(IoBuf::zeroed(LEN))];
    fenced.write(LeafOffset::new(0), slices, Durability::Stable)
}

fn poll(io: &mut BoxFuture<'static, Result<(), DeviceError>>) -> Poll<Result<(), DeviceError>> {
    io.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn writes(world: &World) -> usize {
    world.record().iter().filter(|told| matches!(told, Told::Write { .. })).count()
}

const LONG: Duration = Duration::from_secs(1000);

#[test]
fn nothing_is_written_after_the_time_until_it_is_extended() {
    let world = World::with(&["a"], 1 << 20);
    let (device, fence) = fenced(&world);
    block_on(write(&device)).expect("without a limit");
    fence.extend(world.env().now(), LONG);
    block_on(write(&device)).expect("in time");
    assert_eq!(writes(&world), 2);
    // The time has run out without anybody having looked.
    fence.extend(world.env().now(), Duration::from_nanos(1));
    let mut late = [write(&device), device.flush(), device.discard(LeafOffset::new(0), LEN as u64)];
    assert!(late.iter_mut().all(|io| poll(io).is_pending()));
    assert_eq!(device.post.held(), 3, "they wait for the fence, and not for the device");
    let told = world.record().len();
    assert_eq!(writes(&world), 2, "it was written all the same");
    assert!(block_on(device.read(LeafOffset::new(0), LEN)).is_ok(), "reads do no harm");
    fence.extend(world.env().now(), LONG);
    assert!(late.iter_mut().all(|io| matches!(poll(io), Poll::Ready(Ok(())))));
    assert!(writes(&world) == 3 && world.record().len() > told && device.post.held() == 0);
}

#[test]
fn what_was_done_too_late_is_not_told() {
    let world = World::with(&["a"], 1 << 20);
    let (device, fence) = fenced(&world);
    fence.extend(world.env().now(), LONG);
    let hang = world.hang("a");
    hang.set(true);
    let mut io = write(&device);
    assert!(poll(&mut io).is_pending());
    fence.close();
    hang.set(false);
    assert!(poll(&mut io).is_pending(), "it was told too late");
    assert_eq!(writes(&world), 1, "what the device has, it does");
    fence.extend(world.env().now(), LONG);
    assert!(matches!(poll(&mut io), Poll::Ready(Ok(()))));
}

#[test]
fn who_waits_for_a_pool_that_is_given_up_gets_an_error() {
    let world = World::with(&["a"], 1 << 20);
    let (device, fence) = fenced(&world);
    fence.close();
    let mut io = write(&device);
    assert!(poll(&mut io).is_pending());
    fence.give_up();
    assert!(matches!(poll(&mut io), Poll::Ready(Err(DeviceError::Gone))));
    assert_eq!(writes(&world), 0);
}
