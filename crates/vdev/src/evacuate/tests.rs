use env::{BufSlice, Device, Durability, FaultOp, IoBuf};
use futures::executor::block_on;
use units::{Asize, ObjectId, VdevOffset};

use super::*;
use crate::tests::world::World;
use crate::{Address, Bias, Leaving, NewVdev};

const SIZE: u64 = 64 << 20;
const LEN: usize = 8 << 10;
const FROM: Run = Run { vdev: VdevId::new(1), offset: VdevOffset::new(1 << 20), len: LEN as u64 };
const TO: Run = Run { vdev: VdevId::new(0), offset: VdevOffset::new(3 << 20), len: LEN as u64 };
const ALL: &[Range<usize>] = std::slice::from_ref(&WHOLE);
const WHOLE: Range<usize> = 0..LEN;

/// Vdevs of these leaves each.
fn tree(vdevs: [&[&str]; 2]) -> (Arc<World>, VdevTree) {
    let world = World::with(&vdevs.concat(), SIZE);
    let spec = |paths: &&[&str]| NewVdev {
        paths: paths.iter().map(Into::into).collect(),
        ashift: None,
        bias: Bias::None,
        create_txg: 4,
        parity: 0,
        ..NewVdev::default()
    };
    let specs: Vec<_> = vdevs.iter().map(spec).collect();
    let tree = block_on(VdevTree::create(world.env(), &specs)).expect("devices");
    (world, tree)
}

fn pattern() -> Vec<u8> {
    (0..LEN).map(|at| (at / 512) as u8 + 1).collect()
}

fn fill(tree: &VdevTree, run: Run) {
    let slice = BufSlice::from(IoBuf::copy_of(&pattern()));
    block_on(tree.write(run.address(Txg::new(9)), vec![slice], Durability::Cached)).expect("all leaves");
}

/// Changes one sector behind everybody's back.
fn spoil(world: &World, path: &str, sector: u64) {
    let at = FROM.offset.on_leaf().expect("in range").get() + 512 * sector;
    let slice = BufSlice::from(IoBuf::copy_of(&[0xee; 512]));
    block_on(world.ram(path).write(units::LeafOffset::new(at), vec![slice], Durability::Cached))
        .expect("fits");
}

fn on_leaf(world: &World, path: &str) -> Vec<u8> {
    block_on(world.ram(path).read(TO.offset.on_leaf().expect("in range"), LEN)).expect("fits").to_vec()
}

#[test]
fn a_run_is_copied_to_every_leaf() {
    for (new, old) in [(&["c"][..], &["a"][..]), (&["c", "d"], &["a"]), (&["c"], &["a", "b"])] {
        let (world, tree) = tree([new, old]);
        fill(&tree, FROM);
        block_on(tree.copy(FROM, TO, ALL)).expect("all is well");
        assert!(new.iter().all(|path| on_leaf(&world, path) == pattern()));
    }
}

#[test]
fn copies_that_differ_are_all_kept() {
    for (spoiled, other) in [("a", "b"), ("b", "a")] {
        let (world, tree) = tree([&["c", "d"], &["a", "b"]]);
        fill(&tree, FROM);
        spoil(&world, spoiled, 3);
        block_on(tree.copy(FROM, TO, ALL)).expect("there is a place for both");
        let is_right = |path| on_leaf(&world, path) == pattern();
        assert_eq!((is_right("c"), is_right("d")), (other == "a", other == "b"));
        let want = pattern();
        let verify = |bytes: &[u8]| bytes == want;
        let bad = block_on(tree.scrub(TO.address(Txg::new(9)), LEN, &verify));
        assert_eq!(bad.expect("the right copy is there"), 1);
        assert!(is_right("c") && is_right("d"));
    }
}

#[test]
fn copies_that_differ_are_not_chosen_from() {
    let (world, tree) = tree([&["c"], &["a", "b"]]);
    fill(&tree, FROM);
    spoil(&world, "b", 3);
    let refused = block_on(tree.copy(FROM, TO, ALL));
    assert!(matches!(refused, Err(VdevError::CopiesDiffer { .. })), "{refused:?}");
    // Nobody cares what lies between the runs.
    block_on(tree.copy(FROM, TO, &[0..3 * 512, 4 * 512..LEN])).expect("the same where it counts");
    // A leaf that cannot be read has no say, nor one that missed writes.
    world.faults("b").fail_all(FaultOp::Read);
    block_on(tree.copy(FROM, TO, ALL)).expect("one can be read");
    assert_eq!(on_leaf(&world, "c"), pattern());
    world.faults("a").fail_all(FaultOp::Read);
    assert!(block_on(tree.copy(FROM, TO, ALL)).is_err(), "none can be read");
    world.faults("a").heal();
    world.faults("b").heal();
    tree.leaves().iter().find(|leaf| leaf.path().ends_with("b")).expect("it").set_stale(true);
    block_on(tree.copy(FROM, TO, ALL)).expect("the other missed nothing");
}

#[test]
fn a_copy_that_the_only_leaf_for_it_did_not_take_is_an_error() {
    let (world, tree) = tree([&["c", "d"], &["a", "b"]]);
    fill(&tree, FROM);
    spoil(&world, "a", 0);
    world.faults("d").fail_all(FaultOp::Write);
    assert!(block_on(tree.copy(FROM, TO, ALL)).is_err());
}

/// Vdev 1 is being removed, and a run of it was copied.
fn begin(tree: &VdevTree) {
    let top = tree.top(FROM.vdev).expect("it is there");
    top.set_config(|config| {
        config.leaving = Some(Leaving { mapping: ObjectId::new(7), births: ObjectId::new(8) });
    });
    let target = ondisk::Dva { asize: Asize::new(TO.len), ..TO.dva() };
    top.change_copied(|copied| copied.extend([ondisk::indirect::Entry { source: FROM.offset, target }]));
}

#[test]
fn what_was_copied_of_a_vdev_that_is_being_removed_is_told() {
    let (_world, tree) = tree([&["c"], &["a"]]);
    let copied = |run| tree.copied(run).map_err(drop);
    assert_eq!(copied(FROM), Ok(Located::default()), "it stays");
    begin(&tree);
    let part = Run { offset: VdevOffset::new(FROM.offset.get() + 4096), ..FROM };
    let want = Located {
        pieces: vec![Run { offset: VdevOffset::new(TO.offset.get() + 4096), len: 4096, ..TO }],
        passed: vec![Run { len: 4096, ..part }],
    };
    assert_eq!(copied(part), Ok(want), "as far as it was copied");
    let behind = Run { offset: VdevOffset::new(FROM.offset.get() + FROM.len), ..FROM };
    assert_eq!(copied(behind), Ok(Located::default()));
    let before = Run { offset: VdevOffset::new(0), ..FROM };
    assert!(matches!(tree.copied(before), Err(VdevError::Unmapped { .. })), "nothing was allocated there");
    assert_eq!(copied(TO), Ok(Located::default()));
}

#[test]
fn a_read_that_began_before_the_vdev_was_gone_finds_the_bytes() {
    let (_world, tree) = tree([&["c"], &["a"]]);
    fill(&tree, FROM);
    block_on(tree.copy(FROM, TO, ALL)).expect("all is well");
    begin(&tree);
    let want = pattern();
    // The vdev leaves, and its device closes, just when the first read of it has ended in nothing.
    let verify = |bytes: &[u8]| {
        let is_here = tree.top(FROM.vdev).is_ok_and(|top| !top.is_removed());
        if is_here {
            let gone = tree.make_indirect(FROM.vdev, None).expect("it is there");
            gone.leaves().iter().for_each(|leaf| leaf.close());
        }
        !is_here && bytes == want
    };
    let at = Address { vdev: FROM.vdev, offset: FROM.offset, born: Txg::new(9) };
    block_on(tree.read(at, LEN, &verify)).expect("by its mapping");
    assert_eq!(tree.removed_tops().len(), 1);
}
