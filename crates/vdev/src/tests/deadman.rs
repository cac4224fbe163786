//! Devices that do not answer.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use env::{BufSlice, DeviceError, Durability, IoBuf};
use futures::FutureExt;
use futures::executor::block_on;
use units::{VdevId, VdevOffset};

use super::world::World;
use crate::*;

const SIZE: u64 = 64 << 20;
const PLACE: Address = Address::now(VdevId::new(0), VdevOffset::new(1 << 20));
const LIMIT: Duration = Duration::from_secs(5);

fn tree(world: &std::sync::Arc<World>, paths: &[&str]) -> VdevTree {
    let paths = paths.iter().map(Into::into).collect();
    let spec = NewVdev {
        paths,
        ashift: None,
        bias: crate::Bias::None,
        create_txg: 4,
        parity: 0,
        ..NewVdev::default()
    };
    block_on(VdevTree::create(world.env(), &[spec])).expect("devices that work")
}

fn bytes(byte: u8) -> Vec<BufSlice> {
    vec![BufSlice::from(IoBuf::copy_of(&[byte; 4096]))]
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    future.poll_unpin(&mut Context::from_waker(Waker::noop()))
}

fn read(tree: &VdevTree) -> Result<u8, VdevError> {
    block_on(tree.read(PLACE, 4096, &|_| true)).map(|bytes| bytes[0])
}

#[test]
fn an_answer_after_its_time_counts_for_nothing() {
    let world = World::with(&["a"], SIZE);
    let tree = tree(&world, &["a"]);
    world.hang("a").set(true);
    let mut write = Box::pin(tree.write(PLACE, bytes(7), Durability::Stable));
    assert!(poll(&mut write).is_pending());
    let now = world.env().now();
    assert!(tree.give_up_overdue(now, |_| LIMIT).is_empty(), "it has time left");
    assert!(poll(&mut write).is_pending());
    let lost = tree.give_up_overdue(now + 2 * LIMIT, |_| LIMIT);
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].state(), (VdevState::Unavail, VdevAux::OpenFailed), "nobody else has what it has");
    assert!(tree.give_up_overdue(now + 3 * LIMIT, |_| LIMIT).is_empty(), "it is out already");
    world.hang("a").set(false);
    let Poll::Ready(Err(error)) = poll(&mut write) else { panic!("it was answered too late") };
    assert!(matches!(error, VdevError::Leaf { source: DeviceError::TimedOut, .. }) && error.is_absence());
    assert!(read(&tree).is_err(), "nothing is asked of it");
}

#[test]
fn a_side_of_a_mirror_that_does_not_answer_is_done_without() {
    let world = World::with(&["a", "b"], SIZE);
    let tree = tree(&world, &["a", "b"]);
    world.hang("b").set(true);
    let mut write = Box::pin(tree.write(PLACE, bytes(7), Durability::Stable));
    assert!(poll(&mut write).is_pending());
    let lost = tree.give_up_overdue(world.env().now() + 2 * LIMIT, |_| LIMIT);
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].state(), (VdevState::Faulted, VdevAux::IoFailure));
    assert!(lost[0].is_stale());
    assert!(matches!(poll(&mut write), Poll::Ready(Ok(()))), "the other side has it");
    assert_eq!(read(&tree).expect("the other side"), 7);
    block_on(tree.write(PLACE, bytes(8), Durability::Stable)).expect("nobody waits for it any more");
}

#[test]
fn a_device_that_does_not_tell_who_it_is_is_not_waited_for() {
    let world = World::with(&["a", "b"], SIZE);
    let tree = tree(&world, &["a", "b"]);
    let leaf = tree.leaves()[1].clone();
    let before = tree.reopened();
    world.hang("b").set_reads(true);
    let error = block_on(tree.reopen(leaf.guid(), None, || units::Txg::new(9))).expect_err("it hangs");
    assert!(matches!(error, VdevError::Open { source: DeviceError::TimedOut, .. }), "{error}");
    assert_eq!((tree.reopened(), leaf.is_usable()), (before + 1, false));
}
