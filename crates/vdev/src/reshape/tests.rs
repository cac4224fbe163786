use std::sync::Arc;

use env::{BufSlice, DeviceError, Durability, FaultOp, IoBuf};
use futures::FutureExt;
use futures::executor::block_on;
use units::{Txg, VdevOffset};

use crate::node::tests::{Nested, VDEV};
use crate::*;

const BLOCK: [u8; 2048] = [0x5a; 2048];

#[test]
fn a_change_keeps_every_other_leaf_and_its_notes() {
    let mut nested = Nested::new(3, 1);
    let before = nested.tree.leaves();
    before[2].add_to_dtl(Txg::new(5)..=Txg::new(6));
    before[0].stats().bad_checksum();
    nested.top().set_config(|config| config.metaslab_array = 77);
    nested.write(0, &BLOCK).expect("all are there");
    let new = nested.put_beside(before[1].guid(), NodeKind::Replacing, 7);
    assert_eq!(nested.top().node().children()[1].kind(), NodeKind::Replacing);
    assert_eq!(new.dtl().bounds(), Some(Txg::new(1)..=Txg::new(7)), "it has nothing yet");
    new.set_stale(false);
    assert!(nested.tree.finished().is_some_and(|leaf| Arc::ptr_eq(&leaf, &before[1])));
    let gone = nested.tree.take_out(before[1].guid()).expect("the new one is whole");
    assert!(Arc::ptr_eq(&gone, &before[1]) && gone.device().is_some());
    let after = nested.tree.leaves();
    assert!(Arc::ptr_eq(&after[0], &before[0]) && Arc::ptr_eq(&after[1], &new));
    assert!(Arc::ptr_eq(&after[2], &before[2]));
    assert_eq!(after[2].dtl().bounds(), Some(Txg::new(5)..=Txg::new(6)));
    assert_eq!(after[0].stats().snapshot().checksum_errors, 1);
    let top = nested.top();
    assert_eq!((top.config().metaslab_array, top.stats().snapshot().write.ops), (77, 1));
    assert!(nested.tree.take_changed().contains(&VDEV), "the configuration is to be written");
    assert!(nested.tree.take_out(after[0].guid()).is_err(), "a child of a raidz stays");
}

#[test]
fn a_group_of_one_child_is_that_child_with_the_guid_of_the_vdev() {
    let mut nested = Nested::new(1, 0);
    let (old, guid) = (nested.tree.leaves()[0].clone(), nested.top().guid());
    let new = nested.put_beside(guid, NodeKind::Mirror, 7);
    let mirror = nested.top();
    assert_eq!((mirror.kind(), mirror.leaves().len()), (NodeKind::Mirror, 2));
    assert_ne!(mirror.guid(), guid, "a mirror has a guid of its own");
    new.set_stale(false);
    nested.tree.take_out(old.guid()).expect("the new one is whole");
    let lone = nested.top();
    assert_eq!(
        (lone.kind(), lone.guid(), lone.leaves()[0].guid()),
        (NodeKind::Leaf, mirror.guid(), mirror.guid())
    );
    assert_eq!(nested.tree.guid_sum(), nested.tree.root().guid.get().wrapping_add(mirror.guid().get()));
    // A third child of a mirror stands beside the others, not in a mirror of its own.
    let second = nested.put_beside(lone.guid(), NodeKind::Mirror, 8);
    nested.put_beside(second.guid(), NodeKind::Mirror, 9);
    assert_eq!(nested.top().node().children().len(), 3);
}

#[test]
fn a_leaf_that_is_required_is_not_taken_out() {
    let mut nested = Nested::new(2, 0);
    let [a, b] = ["a", "b"].map(|path| nested.guid(path));
    let new = nested.put_beside(b, NodeKind::Replacing, 7);
    let leaf = |guid| nested.tree.leaf(guid).expect("in the tree");
    leaf(a).add_to_dtl(Txg::new(3)..=Txg::new(3));
    assert!(nested.tree.finished().is_none(), "the new one lacks everything");
    let is_refused = || matches!(nested.tree.take_out(b), Err(VdevError::NoReplica { .. }));
    assert!(is_refused(), "txg 3 is nowhere else");
    // Its device is gone, and may come back: what only it has is not given up without being asked for.
    leaf(b).set_state(VdevState::Unavail, VdevAux::OpenFailed);
    assert!(is_refused(), "only it can bring txg 3 back");
    leaf(b).set_state(VdevState::Online, VdevAux::None);
    nested.tree.take_out(new.guid()).expect("nobody needs the new one");
    assert_eq!(nested.top().node().children().len(), 2);
    nested.tree.take_out(a).expect("b has everything");
    assert!(nested.tree.take_out(nested.top().guid()).is_err(), "the last one stays");
}

#[test]
fn a_spare_goes_when_its_device_is_back_and_whole() {
    let mut nested = Nested::new(3, 1);
    let b = nested.tree.leaves()[1].clone();
    let spare = nested.put_beside(b.guid(), NodeKind::Spare, 7);
    spare.set_stale(false);
    assert!(nested.tree.finished().is_none(), "a spare at work stays at work");
    b.set_config(|config| config.unspare = true);
    b.add_to_dtl(Txg::new(7)..=Txg::new(8));
    assert!(nested.tree.finished().is_none());
    b.set_stale(false);
    assert!(nested.tree.finished().is_some_and(|leaf| Arc::ptr_eq(&leaf, &spare)));
}

/// A write that began before the change is on the old leaves only. Were it forgotten, a repair of its place
/// in the new shape would bring back what it overwrote.
#[test]
fn a_write_in_the_old_shape_forbids_a_repair_in_the_new_one() {
    let mut nested = Nested::new(2, 0);
    let old_shape = nested.top();
    let writing = block_on(old_shape.ledger.places.write(0..4096));
    nested.put_beside(nested.guid("b"), NodeKind::Replacing, 7);
    let new_shape = nested.top();
    assert!(!Arc::ptr_eq(&old_shape, &new_shape));
    assert!(!new_shape.ledger.places.claim(1024..2048).begin(), "a write is under way there");
    drop(writing);
    // And the other way round: a repair in the old shape holds up a write in the new one.
    let claim = old_shape.ledger.places.claim(0..2048);
    assert!(claim.begin());
    let slices = vec![BufSlice::from(IoBuf::copy_of(&BLOCK))];
    let mut write =
        Box::pin(nested.tree.write(Address::now(VDEV, VdevOffset::new(0)), slices, Durability::Cached));
    assert!((&mut write).now_or_never().is_none(), "the repair is under way");
    drop(claim);
    block_on(write).expect("all are there");
}

#[test]
fn a_failure_in_the_old_shape_is_judged_by_the_new_one() {
    let io = || VdevError::Leaf {
        vdev: VDEV,
        guid: units::Guid::new(1),
        path: "x".into(),
        source: DeviceError::Gone,
    };
    // The old device had the write when it was taken out; the one that stays did not.
    let mut nested = Nested::new(1, 0);
    let old = nested.tree.leaves()[0].clone();
    let new = nested.put_beside(old.guid(), NodeKind::Replacing, 7);
    let both = nested.top();
    new.set_stale(false);
    nested.tree.take_out(old.guid()).expect("the new one is whole");
    let settled = both.settle(&[old.clone(), new.clone()], vec![Ok(()), Err(io())]);
    assert!(settled.is_err(), "it is only where nobody will look");
    // Who came in since cannot have the write, whatever its health.
    let mut nested = Nested::new(1, 0);
    let old = nested.tree.leaves()[0].clone();
    let alone = nested.top();
    let new = nested.put_beside(old.guid(), NodeKind::Mirror, 7);
    new.set_stale(false);
    assert!(alone.settle(std::slice::from_ref(&old), vec![Err(io())]).is_err(), "it is nowhere");
    assert_ne!(old.state().0, VdevState::Faulted);
}

/// The device that holds what no other has yet fails one write: it stays, and what it missed is known.
#[test]
fn the_old_device_stays_in_use_when_it_fails_before_the_new_one_is_whole() {
    let mut nested = Nested::new(1, 0);
    nested.write(0, &BLOCK).expect("it is there");
    let old = nested.tree.leaves()[0].clone();
    let new = nested.put_beside(old.guid(), NodeKind::Replacing, 7);
    nested.world.faults("a").fail_all(FaultOp::Write);
    nested.write(1 << 20, &BLOCK).expect("the new one has it");
    nested.world.faults("a").heal();
    assert_eq!(old.state().0, VdevState::Degraded, "what was there before is nowhere else");
    nested.tree.note_dtls(Txg::new(8));
    assert_eq!(old.dtl().bounds(), Some(Txg::new(7)..=Txg::new(8)));
    for at in [0, 1 << 20] {
        nested.read(at, &BLOCK).expect("each is on one of them");
    }
    assert!(nested.tree.finished().is_none());
    assert_eq!(nested.scrub(0, &BLOCK).expect("the old one has it"), 1);
    nested.scrub(1 << 20, &BLOCK).expect("the new one has it");
    assert!(nested.tree.resilvered(new.guid(), Txg::new(8)).expect("known"));
    assert!(nested.tree.finished().is_some(), "now the old one may go");
}
