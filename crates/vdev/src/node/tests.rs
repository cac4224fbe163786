use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use env::{BufSlice, Device, Durability, IoBuf};
use futures::executor::block_on;
use units::{Guid, Txg, VdevId, VdevOffset};

use crate::tests::tree::pool_config;
use crate::tests::world::World;
use crate::*;

pub(crate) const VDEV: VdevId = VdevId::new(0);
pub(crate) const PATHS: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
const SIZE: u64 = 64 << 20;

/// A top-level vdev of some devices, with more in stock to put beside them.
pub(crate) struct Nested {
    pub(crate) world: Arc<World>,
    pub(crate) tree: VdevTree,
    /// Devices that are in the vdev, or have been.
    pub(crate) used: usize,
}

impl Nested {
    pub(crate) fn new(children: usize, parity: u8) -> Self {
        let world = World::with(&PATHS, SIZE);
        let paths = PATHS[..children].iter().map(PathBuf::from).collect();
        let spec = NewVdev { paths, parity, ..NewVdev::default() };
        let tree = block_on(VdevTree::create(world.env(), &[spec])).expect("devices");
        block_on(init_labels(&tree, &tree.tops()[0], &pool_config())).expect("labels");
        Self { world, tree, used: children }
    }

    pub(crate) fn top(&self) -> Arc<Top> {
        self.tree.top(VDEV).expect("the only vdev")
    }

    pub(crate) fn guid(&self, path: &str) -> Guid {
        let leaf = self.tree.leaves().into_iter().find(|leaf| leaf.path() == *path);
        leaf.unwrap_or_else(|| panic!("no {path} in the tree")).guid()
    }

    /// Puts the next device of the stock beside a node.
    pub(crate) fn put_beside(&mut self, guid: Guid, kind: NodeKind, txg: u64) -> Arc<Leaf> {
        let path = PathBuf::from(PATHS[self.used]);
        self.used += 1;
        let new = NewLeaf { path, create_txg: txg, ..NewLeaf::default() };
        let leaf = block_on(self.tree.plan_leaf(VDEV, &new)).expect("in stock");
        block_on(init_label(&self.tree, &self.top(), &leaf, &pool_config())).expect("its label");
        self.tree.put_beside(guid, &leaf, kind, || Txg::new(txg)).expect("beside a node");
        leaf
    }

    pub(crate) fn write(&self, at: u64, bytes: &[u8]) -> Result<(), VdevError> {
        let slices = vec![BufSlice::from(IoBuf::copy_of(bytes))];
        block_on(self.tree.write(Address::now(VDEV, VdevOffset::new(at)), slices, Durability::Cached))
    }

    pub(crate) fn read(&self, at: u64, bytes: &[u8]) -> Result<IoBuf, VdevError> {
        let is_right = |read: &[u8]| read == bytes;
        block_on(self.tree.read(Address::now(VDEV, VdevOffset::new(at)), bytes.len(), &is_right))
    }

    pub(crate) fn scrub(&self, at: u64, bytes: &[u8]) -> Result<usize, VdevError> {
        let is_right = |read: &[u8]| read == bytes;
        block_on(self.tree.scrub(Address::now(VDEV, VdevOffset::new(at)), bytes.len(), &is_right))
    }
}

/// The shapes that commands make of a few devices.
fn shapes() -> Vec<Nested> {
    let mut shapes = vec![Nested::new(1, 0), Nested::new(2, 0), Nested::new(3, 1), Nested::new(4, 2)];
    // A lone device that is replaced: the replacing is the top-level vdev.
    let mut shape = Nested::new(1, 0);
    shape.put_beside(shape.guid("a"), NodeKind::Replacing, 1);
    shapes.push(shape);
    // A raidz with a device replaced whose new device has a spare at work, and a spare elsewhere.
    for (children, parity) in [(3, 1), (3, 2), (2, 0)] {
        let mut shape = Nested::new(children, parity);
        let new = shape.put_beside(shape.guid("b"), NodeKind::Replacing, 1);
        shape.put_beside(new.guid(), NodeKind::Spare, 1);
        shape.put_beside(shape.guid("a"), NodeKind::Spare, 1);
        shapes.push(shape);
    }
    // A replacing within a spare.
    let mut shape = Nested::new(3, 1);
    shape.put_beside(shape.guid("c"), NodeKind::Spare, 1);
    shape.put_beside(shape.guid("c"), NodeKind::Replacing, 1);
    shapes.push(shape);
    shapes
}

/// Every set of leaves, as bits.
fn sets(leaves: usize) -> impl Iterator<Item = u32> {
    0..1_u32 << leaves
}

#[test]
fn a_block_is_readable_exactly_while_the_predicate_says_so() {
    let mut seen = (0, 0);
    for shape in shapes() {
        let top = shape.top();
        let block: Vec<u8> = (0..9 * 512 + 100_u32).map(|at| (at * 7 + at / 251) as u8).collect();
        shape.write(1 << 20, &block).expect("all are there");
        top.leaves().iter().for_each(|leaf| leaf.set_stale(false));
        for lost in sets(top.leaves().len()) {
            for (at, leaf) in top.leaves().iter().enumerate() {
                let state = if lost >> at & 1 == 1 { VdevState::Offline } else { VdevState::Online };
                leaf.set_state(state, VdevAux::None);
            }
            let read = shape.read(1 << 20, &block);
            assert_eq!(top.is_usable(), read.is_ok(), "{:?} without {lost:b}: {read:?}", top.kind());
            assert_eq!(top.state().0.is_usable(), top.is_usable());
            assert_eq!(top.state().0 == VdevState::Online, lost == 0);
            assert_eq!(shape.write(2 << 20, &block).is_ok(), top.is_usable());
            if read.is_ok() { seen.0 += 1 } else { seen.1 += 1 }
        }
    }
    assert!(seen.0 > 100 && seen.1 > 30, "{seen:?}");
}

/// What the predicate says txg by txg, for a few txgs.
fn whole_txgs(top: &Top, is_lost: impl Fn(&Leaf) -> bool) -> BTreeSet<u64> {
    let is_whole = |txg: &u64| top.survives(|leaf| is_lost(leaf) || leaf.dtl().contains(Txg::new(*txg)));
    (1..12).filter(is_whole).collect()
}

#[test]
fn a_leaf_is_required_when_without_it_a_txg_is_nowhere_whole() {
    let mut word = 5_u64;
    let mut draw = |below: u64| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (word >> 33) % below
    };
    let (mut required, mut others) = (0, 0);
    for shape in shapes() {
        let top = shape.top();
        for _ in 0..60 {
            for leaf in top.leaves() {
                leaf.set_stale(false);
                leaf.set_state(VdevState::Online, VdevAux::None);
                for _ in 0..draw(3) {
                    let first = 1 + draw(8);
                    leaf.add_to_dtl(Txg::new(first)..=Txg::new(first + draw(4)));
                }
                if draw(5) == 0 {
                    leaf.set_state(VdevState::Offline, VdevAux::None);
                }
            }
            let is_out = |leaf: &Leaf| !leaf.is_usable();
            let whole = whole_txgs(&top, is_out);
            let lacks = top.node().lacks(&is_out);
            assert!((1..12).all(|txg| lacks.contains(Txg::new(txg)) != whole.contains(&txg)), "{lacks:?}");
            for leaf in top.leaves().iter().filter(|leaf| leaf.is_usable()) {
                let without = whole_txgs(&top, |other| is_out(other) || other.guid() == leaf.guid());
                let survives = top.survives(|other| is_out(other) || other.guid() == leaf.guid());
                let is_required = without != whole || (top.is_usable() && !survives);
                assert_eq!(top.node().requires(leaf), is_required, "{whole:?} {without:?}");
                if is_required { required += 1 } else { others += 1 }
            }
        }
    }
    assert!(required > 100 && others > 100, "{required} {others}");
}

/// A copy that reads right may be in a cache that lost a flush, and gone with the power: only what was written since counts.
#[test]
fn what_a_leaf_lacks_is_written_again_however_it_reads() {
    for (children, parity) in [(2, 0), (3, 1)] {
        let nested = Nested::new(children, parity);
        let block = [0x3c; 2048];
        nested.write(0, &block).expect("all are there");
        let behind = nested.tree.leaf(nested.guid("b")).expect("in the tree");
        let written = || behind.stats().snapshot().write.ops;
        let before = written();
        nested.scrub(0, &block).expect("all of it is right");
        assert_eq!(written(), before, "nobody is behind");
        behind.add_to_dtl(Txg::new(1)..=Txg::new(u64::MAX));
        nested.scrub(0, &block).expect("all of it is right");
        assert_eq!(written(), before + 1);
    }
}

/// What those have that are there is old, and who has what is right is out for now: that is no damage.
#[test]
fn what_a_leaf_alone_has_that_may_come_back_is_not_damaged() {
    for (children, parity) in [(2, 0), (3, 1)] {
        let nested = Nested::new(children, parity);
        let [has, behind] = ["a", "b"].map(|path| nested.tree.leaf(nested.guid(path)).expect("in the tree"));
        let (block, born) = ([0x3c; 2048], Txg::new(5));
        let at = Address { born, ..Address::now(VDEV, VdevOffset::new(0)) };
        nested.write(0, &[0x55; 2048]).expect("all are there");
        behind.set_state(VdevState::Offline, VdevAux::None);
        nested.write(0, &block).expect("one can be done without");
        behind.add_to_dtl(born..=born);
        behind.set_state(VdevState::Online, VdevAux::None);
        let read = |nested: &Nested| block_on(nested.tree.read(at, block.len(), &|read| read == block));
        let scrub = |nested: &Nested| block_on(nested.tree.scrub(at, block.len(), &|read| read == block));
        let is_damage = |error: VdevError| matches!(error, VdevError::Checksum { .. });
        has.set_state(VdevState::Unavail, VdevAux::OpenFailed);
        assert!(!is_damage(read(&nested).expect_err("it is away")), "{children} children");
        assert!(!is_damage(scrub(&nested).expect_err("it is away")), "{children} children");
        has.set_state(VdevState::Faulted, VdevAux::External);
        assert!(is_damage(read(&nested).expect_err("it was taken out")), "{children} children");
        assert!(is_damage(scrub(&nested).expect_err("it was taken out")), "{children} children");
        has.set_state(VdevState::Online, VdevAux::None);
        nested.world.faults("a").heal();
        scrub(&nested).expect("it is back");
    }
}

/// One column is wrong, and the better copy of another: parity alone cannot make up for both.
#[test]
fn another_copy_of_a_column_is_believed_where_the_first_is_wrong() {
    let mut nested = Nested::new(3, 1);
    let block = [0x3c; 1024];
    nested.write(0, &block).expect("all are there");
    let new = nested.put_beside(nested.guid("b"), NodeKind::Replacing, 7);
    nested.scrub(0, &block).expect("the new one gets its column");
    new.set_stale(false);
    for path in ["a", "b"] {
        let noise = vec![BufSlice::from(IoBuf::copy_of(&[0xee; 4096]))];
        let at = VdevOffset::new(0).on_leaf().expect("behind the labels");
        block_on(nested.world.ram(path).write(at, noise, Durability::Cached)).expect("in range");
    }
    nested.read(0, &block).expect("two columns are whole, one of them on the new device");
    assert_eq!(nested.scrub(0, &block).expect("it was healed"), 0);
    let blamed: Vec<_> =
        nested.tree.leaves().iter().map(|leaf| leaf.stats().snapshot().checksum_errors).collect();
    assert_eq!(blamed, [1, 1, 0, 0], "a, b, the new one, c");
}
