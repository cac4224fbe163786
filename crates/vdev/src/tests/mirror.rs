use std::sync::Arc;

use env::{BufSlice, Device, Durability, FaultOp, IoBuf};
use futures::executor::block_on;
use units::{LeafOffset, VdevId, VdevOffset};

use super::world::World;
use crate::*;

const SIZE: u64 = 64 << 20;
const PLACE: VdevOffset = VdevOffset::new(1 << 20);

fn mirror() -> (Arc<World>, VdevTree) {
    let world = World::with(&["a", "b"], SIZE);
    let spec = NewVdev {
        paths: vec!["a".into(), "b".into()],
        ashift: None,
        bias: crate::Bias::None,
        create_txg: 4,
        parity: 0,
        ..NewVdev::default()
    };
    let tree = block_on(VdevTree::create(world.env(), &[spec])).expect("two devices");
    (world, tree)
}

fn write(tree: &VdevTree, byte: u8) -> Result<(), VdevError> {
    let slices = vec![BufSlice::from(IoBuf::copy_of(&[byte; 4096]))];
    block_on(tree.write(Address::now(VdevId::new(0), PLACE), slices, Durability::Cached))
}

fn read(tree: &VdevTree, byte: u8) -> Result<IoBuf, VdevError> {
    let verify = |bytes: &[u8]| bytes.iter().all(|found| *found == byte);
    block_on(tree.read(Address::now(VdevId::new(0), PLACE), 4096, &verify))
}

/// Reads without asking what it is.
fn read_blindly(tree: &VdevTree) -> u8 {
    block_on(tree.read(Address::now(VdevId::new(0), PLACE), 4096, &|_| true)).expect("a child")[0]
}

fn on_disk(world: &World, path: &str) -> u8 {
    let at = PLACE.on_leaf().expect("in range");
    block_on(world.ram(path).read(at, 512)).expect("in range")[0]
}

fn spoil(world: &World, path: &str) {
    let slice = BufSlice::from(IoBuf::copy_of(&[0xee; 512]));
    let at = LeafOffset::new(PLACE.on_leaf().expect("in range").get());
    block_on(world.ram(path).write(at, vec![slice], Durability::Cached)).expect("in range");
}

#[test]
fn a_bad_copy_is_healed_from_its_sibling() {
    for bad in ["a", "b"] {
        let (world, tree) = mirror();
        write(&tree, 7).expect("both");
        spoil(&world, bad);
        for _ in 0..2 {
            // Whichever child comes first: after both turns the bad one was asked.
            assert_eq!(read(&tree, 7).expect("one good copy").len(), 4096);
            let leaf = tree.leaves().into_iter().find(|leaf| leaf.path().to_str() == Some(bad)).expect("it");
            if leaf.stats().snapshot().checksum_errors == 0 {
                // Force the bad child to be asked first.
                for other in tree.leaves() {
                    other.set_stale(other.guid() != leaf.guid());
                }
            }
        }
        assert_eq!(on_disk(&world, bad), 7, "{bad} was repaired");
        let sums: u64 = tree.leaves().iter().map(|leaf| leaf.stats().snapshot().checksum_errors).sum();
        assert_eq!(sums, 1);
        let healed: u64 = tree.leaves().iter().map(|leaf| leaf.stats().snapshot().healed_bytes).sum();
        assert_eq!(healed, 4096);
    }
}

#[test]
fn no_good_copy_is_an_error_that_names_the_place() {
    let (world, tree) = mirror();
    write(&tree, 7).expect("both");
    spoil(&world, "a");
    spoil(&world, "b");
    match read(&tree, 7) {
        Err(VdevError::Checksum { vdev, offset, len }) => {
            assert_eq!((vdev, offset, len), (VdevId::new(0), PLACE, 4096));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(tree.tops()[0].stats().snapshot().checksum_errors, 1);
}

#[test]
fn a_read_error_on_one_child_is_answered_and_repaired_by_the_other() {
    let (world, tree) = mirror();
    write(&tree, 9).expect("both");
    for path in ["a", "b"] {
        world.faults(path).fail_range(FaultOp::Read, 1, 2); // the read and its retry
    }
    // Both fail their first two reads; the second round finds all well.
    assert!(matches!(read(&tree, 9), Err(VdevError::Leaf { .. })));
    assert_eq!(read(&tree, 9).expect("healthy again")[0], 9);
    world.faults("a").fail_range(FaultOp::Read, 1, 2);
    let leaves = tree.leaves();
    leaves[1].set_stale(true); // a is asked first
    assert_eq!(read(&tree, 9).expect("b has it")[0], 9);
    assert_eq!(leaves[0].stats().snapshot().healed_bytes, 4096);
    assert_eq!(leaves[0].state().0, VdevState::Online);
}

#[test]
fn one_failed_write_is_retried_before_anyone_is_blamed() {
    let (world, tree) = mirror();
    world.faults("a").fail_nth(FaultOp::Write, 1);
    write(&tree, 1).expect("retried");
    assert_eq!(tree.state().0, VdevState::Online);
    assert_eq!((on_disk(&world, "a"), on_disk(&world, "b")), (1, 1));
}

#[test]
fn a_stable_write_that_fails_is_not_tried_again_and_no_flush_counts_after_it() {
    let world = World::with(&["a"], SIZE);
    let spec = NewVdev { paths: vec!["a".into()], create_txg: 4, ..NewVdev::default() };
    let tree = block_on(VdevTree::create(world.env(), &[spec])).expect("a device");
    let (leaf, place) = (tree.leaves()[0].clone(), LeafOffset::new(8 << 20));
    let slices = || vec![BufSlice::from(IoBuf::copy_of(&[2; 4096]))];
    block_on(leaf.write(place, slices(), Durability::Cached)).expect("in the cache");
    let asked = world.faults("a").seen(FaultOp::Write);
    world.faults("a").fail_nth(FaultOp::Write, 1);
    block_on(leaf.write(place, slices(), Durability::Stable))
        .expect_err("it may have taken the cache with it");
    assert_eq!(world.faults("a").seen(FaultOp::Write), asked + 1, "a second try would hide that");
    assert_eq!(leaf.stats().snapshot().write_errors, 1, "the first error counts");
    assert!(leaf.is_suspect() && leaf.has_failed());
    for _ in 0..2 {
        block_on(leaf.flush()).expect_err("what was in the cache may be gone");
    }
    let stable = block_on(leaf.write(place, slices(), Durability::Stable));
    stable.expect("a stable write vouches for nothing but itself");
    assert!(leaf.is_suspect(), "and makes good nothing else");
}

#[test]
fn a_child_that_fails_a_stable_write_is_out_and_the_other_goes_on() {
    let (world, tree) = mirror();
    world.faults("b").fail_nth(FaultOp::Write, 1);
    let slices = vec![BufSlice::from(IoBuf::copy_of(&[2; 4096]))];
    block_on(tree.write(Address::now(VdevId::new(0), PLACE), slices, Durability::Stable)).expect("a has it");
    assert_eq!(tree.leaves()[1].state(), (VdevState::Faulted, VdevAux::IoFailure));
    assert_eq!(tree.leaves()[1].stats().snapshot().write_errors, 1);
    block_on(tree.flush([VdevId::new(0)])).expect("a is stable");
}

#[test]
fn a_write_that_one_child_missed_is_never_read_from_it() {
    let (world, tree) = mirror();
    write(&tree, 1).expect("both");
    world.faults("a").fail_all(FaultOp::Write);
    write(&tree, 2).expect("b has it");
    world.faults("a").heal();
    assert_eq!((on_disk(&world, "a"), on_disk(&world, "b")), (1, 2));
    for _ in 0..8 {
        assert_eq!(read_blindly(&tree), 2);
    }
    assert_eq!(tree.leaves()[0].state(), (VdevState::Faulted, VdevAux::IoFailure));
    assert_eq!(tree.state().0, VdevState::Degraded);
    assert_eq!(tree.take_changed().len(), 1, "labels are to say so");
}

#[test]
fn a_write_that_no_child_took_is_an_error_and_the_children_stay() {
    let (world, tree) = mirror();
    write(&tree, 1).expect("both");
    for path in ["a", "b"] {
        world.faults(path).fail_all(FaultOp::Write);
    }
    assert!(matches!(write(&tree, 2), Err(VdevError::Leaf { .. })));
    assert_eq!(read(&tree, 1).expect("what was there")[0], 1);
    assert_eq!(tree.state().0, VdevState::Degraded);
}

#[test]
fn a_child_that_fails_a_flush_serves_no_more_reads() {
    let (world, tree) = mirror();
    write(&tree, 3).expect("both");
    world.faults("b").fail_nth(FaultOp::Flush, 1);
    block_on(tree.flush([VdevId::new(0)])).expect("a is stable");
    spoil(&world, "b"); // what a lost cache may look like
    for _ in 0..8 {
        assert_eq!(read_blindly(&tree), 3);
    }
    assert_eq!(tree.leaves()[1].state().0, VdevState::Faulted);
}

#[test]
fn a_flush_that_fails_everywhere_is_an_error_and_ends_all_use() {
    let (world, tree) = mirror();
    write(&tree, 3).expect("both");
    for path in ["a", "b"] {
        world.faults(path).fail_nth(FaultOp::Flush, 1);
    }
    assert!(block_on(tree.flush([VdevId::new(0)])).is_err());
    assert_eq!(tree.state(), (VdevState::Unavail, VdevAux::NoReplicas));
    assert!(block_on(tree.flush([VdevId::new(0)])).is_err(), "a second try proves nothing");
    assert!(write(&tree, 4).is_err());
}

#[test]
fn a_device_that_is_gone_does_not_stop_the_mirror() {
    let (world, tree) = mirror();
    world.faults("a").disappear();
    write(&tree, 5).expect("b");
    assert_eq!(tree.leaves()[0].state(), (VdevState::Unavail, VdevAux::OpenFailed));
    assert_eq!(read(&tree, 5).expect("b")[0], 5);
}

#[test]
fn a_reopened_child_is_read_last_until_it_is_whole() {
    let (world, tree) = mirror();
    let pool = super::tree::pool_config();
    block_on(init_labels(&tree, &tree.tops()[0], &pool)).expect("labels");
    world.faults("a").fail_all(FaultOp::Write);
    write(&tree, 6).expect("b");
    world.faults("a").heal();
    let guid = tree.leaves()[0].guid();
    block_on(tree.reopen(guid, None, || units::Txg::new(9))).expect("it is still there");
    assert_eq!(tree.state().0, VdevState::Online);
    for _ in 0..8 {
        assert_eq!(read_blindly(&tree), 6, "a is stale");
    }
    write(&tree, 8).expect("both");
    assert_eq!(on_disk(&world, "a"), 8, "but it gets what is new");
    tree.resilvered(guid, units::Txg::new(9)).expect("known");
    assert!(!tree.leaves()[0].is_stale());
}

#[test]
fn short_blocks_fill_whole_sectors_and_ends_are_guarded() {
    let world = World::with(&["a"], SIZE);
    let spec = NewVdev {
        paths: vec!["a".into()],
        ashift: Some(units::Ashift::new(12)),
        bias: crate::Bias::None,
        create_txg: 4,
        parity: 0,
        ..NewVdev::default()
    };
    let tree = block_on(VdevTree::create(world.env(), &[spec])).expect("a device");
    let slices = vec![BufSlice::from(IoBuf::copy_of(&[5; 512])), BufSlice::from(IoBuf::copy_of(&[6; 512]))];
    block_on(tree.write(Address::now(VdevId::new(0), PLACE), slices, Durability::Stable)).expect("written");
    let got = block_on(tree.read(Address::now(VdevId::new(0), PLACE), 1024, &|_| true)).expect("read");
    assert_eq!((got.len(), got[511], got[512]), (1024, 5, 6));
    assert_eq!(tree.leaves()[0].stats().snapshot().write.bytes, 4096);
    let end = VdevOffset::new(tree.tops()[0].config().asize);
    for offset in [end, VdevOffset::new(u64::MAX)] {
        let outside = block_on(tree.read(Address::now(VdevId::new(0), offset), 512, &|_| true));
        assert!(matches!(outside, Err(VdevError::OutOfRange { .. })));
    }
}

#[test]
fn a_probe_prefers_the_right_copy_and_blames_nobody_when_there_is_none() {
    let (world, tree) = mirror();
    let probe = |byte: u8| {
        let verify = move |bytes: &[u8]| bytes.iter().all(|found| *found == byte);
        block_on(tree.probe(Address::now(VdevId::new(0), PLACE), 4096, &verify)).map(|buf| buf[0])
    };
    assert_eq!(probe(9).expect("zeros"), 0);
    write(&tree, 9).expect("both");
    spoil(&world, "a");
    tree.leaves()[1].set_stale(true); // a is asked first
    assert_eq!(probe(9).expect("b has it"), 9);
    let errors: Vec<_> = tree.leaves().iter().map(|leaf| leaf.stats().snapshot().checksum_errors).collect();
    assert_eq!(errors, [1, 0], "only of the copy that should have been right");
    assert_eq!(on_disk(&world, "a"), 9);
    world.faults("a").fail_all(FaultOp::Read);
    world.faults("b").fail_all(FaultOp::Read);
    assert!(probe(9).is_err());
}

#[test]
fn a_scrub_looks_at_every_child_and_repairs_it() {
    let (world, tree) = mirror();
    write(&tree, 4).expect("both");
    let scrub = || {
        let verify = |bytes: &[u8]| bytes.iter().all(|found| *found == 4);
        block_on(tree.scrub(Address::now(VdevId::new(0), PLACE), 4096, &verify))
    };
    assert_eq!(scrub().expect("both are right"), 0);
    for path in ["a", "b"] {
        spoil(&world, path);
        assert_eq!(scrub().expect("the other is right"), 1);
        assert_eq!(on_disk(&world, path), 4);
    }
    spoil(&world, "a");
    spoil(&world, "b");
    assert!(matches!(scrub(), Err(VdevError::Checksum { .. })));
}
