//! Vdevs that are asked how long a write takes.

use std::time::Duration;

use env::{BufSlice, Device, Durability, FaultOp, IoBuf};
use futures::executor::block_on;
use units::{LABEL_START_BYTES, LeafOffset, VdevId};

use super::world::{Event, World};
use crate::*;

const SIZE: u64 = 64 << 20;
const PROBED: usize = 4096;

fn tree(world: &std::sync::Arc<World>, paths: &[&str]) -> VdevTree {
    let paths = paths.iter().map(Into::into).collect();
    let spec = NewVdev {
        paths,
        ashift: None,
        bias: crate::Bias::Log,
        create_txg: 4,
        parity: 0,
        ..NewVdev::default()
    };
    block_on(VdevTree::create(world.env(), &[spec])).expect("devices that work")
}

fn content(world: &World, path: &str) -> Vec<u8> {
    block_on(world.ram(path).read(LeafOffset::new(0), SIZE as usize)).expect("memory").to_vec()
}

fn time_write(tree: &VdevTree) -> Result<Option<Duration>, VdevError> {
    block_on(tree.top(VdevId::new(0)).expect("there is one").time_write())
}

#[test]
fn who_asks_how_long_a_write_takes_changes_nothing() {
    let world = World::with(&["a", "b"], SIZE);
    let tree = tree(&world, &["a", "b"]);
    // Somebody keeps something where no pool does.
    let loader = vec![BufSlice::from(IoBuf::copy_of(&[7; PROBED]))];
    let place = LeafOffset::new(LABEL_START_BYTES - PROBED as u64);
    block_on(world.ram("b").write(place, loader, Durability::Cached)).expect("memory");
    let before = ["a", "b"].map(|path| content(&world, path));
    let known = world.record().len();
    let took = time_write(&tree).expect("they work");
    assert!(took.is_some_and(|took| !took.is_zero()), "the clock goes on with each look at it");
    assert!(before == ["a", "b"].map(|path| content(&world, path)));
    let events = world.record().split_off(known);
    assert_eq!(events.len(), 2, "one write to each");
    for event in events {
        let Event::Write { offset, bytes, .. } = event else { panic!("a write, and stable by itself") };
        assert_eq!((offset, bytes.len()), (place, PROBED));
    }
}

#[test]
fn who_fails_when_asked_is_out_as_after_any_write() {
    let world = World::with(&["a", "b"], SIZE);
    let tree = tree(&world, &["a", "b"]);
    world.faults("b").fail_all(FaultOp::Read);
    assert!(time_write(&tree).expect("a answers").is_some());
    assert!(tree.leaves()[1].is_usable(), "a read that failed is no reason");
    world.faults("b").heal();
    world.faults("b").fail_all(FaultOp::Write);
    assert!(time_write(&tree).expect("a is enough").is_some());
    assert_eq!(tree.leaves()[1].state(), (VdevState::Faulted, VdevAux::IoFailure));
}
