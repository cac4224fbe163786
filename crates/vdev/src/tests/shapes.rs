//! Blocks on vdevs of shapes that only OpenZFS makes: raidz that were widened, draids, and removed vdevs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use env::{BufSlice, Device, Durability, IoBuf, OpenMode};
use futures::executor::block_on;
use ondisk::indirect::Entry;
use ondisk::{Dva, NvList};
use units::{Ashift, Asize, Guid, ObjectId, Txg, VdevId, VdevOffset};

use super::world::World;
use crate::draid::map::layout;
use crate::draid::permutation::Permutations;
use crate::node::GroupConfig;
use crate::raidz::map::Column;
use crate::top::TopId;
use crate::*;

const SIZE: u64 = 64 << 20;
const PATHS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A pool of one group, and what its blocks are to hold.
struct Case {
    tree: VdevTree,
    at: Address,
    block: Vec<u8>,
}

/// Devices as a raidz, and then as another group of the same leaves.
fn reshaped(children: usize, parity: u8, kind: NodeKind, widened: &[u64]) -> VdevTree {
    let world = World::with(&PATHS[..children], SIZE);
    let paths = PATHS[..children].iter().map(Into::into).collect();
    let spec = NewVdev { paths, parity, ashift: Some(Ashift::new(9)), ..NewVdev::default() };
    let tree = block_on(VdevTree::create(world.env(), &[spec])).expect("devices");
    let made = &tree.tops()[0];
    let config = GroupConfig { guid: made.guid(), ..GroupConfig::default() };
    let group = Group::new(kind, config, made.node().children().to_vec());
    let node = Node::Group(Arc::new(group.widened_in(widened.iter().copied().map(Txg::new).collect())));
    let asize = match kind {
        NodeKind::Draid(_) => 16 << 20,
        _ => made.config().asize,
    };
    let id = TopId { id: made.id(), guid: made.guid(), ashift: made.ashift() };
    let top = Top::new(world.env(), id, TopConfig { asize, ..made.config() }, node);
    VdevTree::from_parts(world.env(), OpenMode::ReadWrite, tree.root(), vec![Arc::new(top)], Arc::default())
}

impl Case {
    fn new(tree: VdevTree, offset: u64, born: u64, sectors: usize) -> Self {
        let at = Address { vdev: VdevId::new(0), offset: VdevOffset::new(offset), born: Txg::new(born) };
        let block: Vec<u8> = (0..sectors << 9).map(|at| (at * 7 + at / 251) as u8).collect();
        let slices = vec![BufSlice::from(IoBuf::copy_of(&block))];
        block_on(tree.write(at, slices, Durability::Cached)).expect("all children");
        Self { tree, at, block }
    }

    fn read(&self, at: Address) -> Result<IoBuf, VdevError> {
        block_on(self.tree.read(at, self.block.len(), &|bytes: &[u8]| bytes == self.block))
    }

    /// Every set of children that is no larger than the parity is lost, and the block is still read; then
    /// noise is on each child in turn, and is found and repaired.
    fn is_redundant(&self, parity: u32, what: &str) {
        let leaves = self.tree.leaves();
        for mask in (0_u32..1 << leaves.len()).filter(|mask| mask.count_ones() <= parity) {
            let lost: Vec<_> = (0..leaves.len()).filter(|child| mask >> child & 1 == 1).collect();
            for &child in &lost {
                leaves[child].set_state(VdevState::Offline, VdevAux::None);
            }
            assert_eq!(&self.read(self.at).expect(what)[..], self.block, "{what}: {lost:?} lost");
            for &child in &lost {
                leaves[child].set_state(VdevState::Online, VdevAux::None);
            }
        }
        for leaf in &leaves {
            let noise = vec![BufSlice::from(IoBuf::copy_of(&vec![0x5a; 2 << 20]))];
            let device = leaf.device().expect("open");
            block_on(device.write(VdevOffset::new(0).on_leaf().expect("there"), noise, Durability::Cached))
                .expect("in range");
            assert_eq!(&self.read(self.at).expect(what)[..], self.block, "{what}: noise on {}", leaf.guid());
            let is_right = |bytes: &[u8]| bytes == self.block;
            // A read asks nobody for parity that it does not need.
            let scrub = || block_on(self.tree.scrub(self.at, self.block.len(), &is_right)).expect(what);
            scrub();
            assert_eq!(scrub(), 0, "{what}: what was bad is repaired");
        }
    }
}

/// Rows of three on four children, and of four, at places where rows wrap; in MiBs of both kinds.
#[test]
fn a_block_on_a_widened_raidz_is_read_and_repaired_whenever_it_was_written() {
    for (children, parity, widened) in [(4, 1, &[10][..]), (5, 2, &[10]), (5, 1, &[10, 20]), (6, 3, &[10])] {
        for (offset, sectors) in [(0, 1), (7 << 9, 3), (1 << 20, 8), (5 << 9, 13), (2 << 20 | 11 << 9, 40)] {
            for born in [5, 10, 15] {
                let kind = NodeKind::Raidz { parity };
                let case = Case::new(reshaped(children, parity, kind, widened), offset, born, sectors);
                let what = format!("{children} children, {sectors} sectors at {offset:#x} of txg {born}");
                case.is_redundant(parity.into(), &what);
            }
        }
    }
}

#[test]
fn a_block_is_dealt_out_as_wide_as_the_raidz_was_in_its_txg() {
    let case = Case::new(reshaped(4, 1, NodeKind::Raidz { parity: 1 }, &[10]), 0, 9, 12);
    let at = |born| Address { born: Txg::new(born), ..case.at };
    assert!(case.read(at(9)).is_ok());
    assert!(matches!(case.read(at(10)), Err(VdevError::Checksum { .. })), "from its txg on it is wider");
    assert_eq!(case.tree.tops()[0].node().spread_at(Txg::new(9)).children(), 3);
    assert_eq!(case.tree.tops()[0].node().spread_at(Txg::new(10)).children(), 4);
    assert_eq!(case.tree.tops()[0].spread().first().children(), 3);
}

#[test]
fn a_block_on_a_draid_is_read_and_repaired_whichever_children_are_lost() {
    for (children, data, parity, spares, groups) in [(6, 2, 1, 1, 5), (5, 3, 2, 0, 1), (6, 4, 1, 0, 6)] {
        let shape = Shape::new(children, data, parity, spares, groups).expect("possible");
        for (row, sectors) in [(0, 1), (3, 2), (7, 5), (11, 13)] {
            let offset = (row * (data + parity)) << 9;
            let tree = reshaped(children as usize, 1, NodeKind::Draid(shape), &[]);
            let case = Case::new(tree, offset, 5, sectors);
            case.is_redundant(parity as u32, &format!("{shape:?}, {sectors} sectors at {offset:#x}"));
        }
    }
}

/// What is on the devices where a block's columns are, with the zeros behind them.
fn columns_on_disk(case: &Case, shape: &Shape) -> Vec<Vec<u8>> {
    let permutations = Permutations::of(shape.children()).expect("possible");
    let top = &case.tree.tops()[0];
    let found = layout(shape, &permutations, top.ashift(), case.at.offset, case.block.len() as u64)
        .expect("a row begins there");
    let leaves = case.tree.leaves();
    let read = |column: &Column| {
        let device = leaves[column.child].device().expect("open");
        let at = column.offset.on_leaf().expect("in range");
        block_on(device.read(at, column.taken())).expect("in range").to_vec()
    };
    found.columns.iter().map(read).collect()
}

/// Whoever rebuilds a device of a draid row by row, as OpenZFS can, knows of no blocks: each row has to come out even.
#[test]
fn rows_of_a_draid_come_out_even_behind_the_end_of_a_block() {
    let shape = Shape::new(6, 4, 1, 0, 6).expect("possible");
    let kind = NodeKind::Draid(shape);
    let is_even = |case: &Case, what: &str| {
        let columns = columns_on_disk(case, &shape);
        assert!(columns.iter().all(|column| column.len() == columns[0].len()), "{what}");
        for at in 0..columns[0].len() {
            assert_eq!(columns.iter().fold(0, |sum, column| sum ^ column[at]), 0, "{what}: byte {at}");
        }
    };
    for sectors in [1, 3, 4, 6, 13] {
        let tree = reshaped(6, 1, kind, &[]);
        let noise = || vec![BufSlice::from(IoBuf::copy_of(&vec![0x5a; 2 << 20]))];
        let place = VdevOffset::new(0).on_leaf().expect("there");
        for leaf in tree.leaves() {
            block_on(leaf.device().expect("open").write(place, noise(), Durability::Cached))
                .expect("in range");
        }
        let case = Case::new(tree, 0, 5, sectors);
        is_even(&case, "written over noise");
        for leaf in case.tree.leaves() {
            let is_right = |bytes: &[u8]| bytes == case.block;
            case.tree.offline(leaf.guid()).expect("the others do");
            let slices = vec![BufSlice::from(IoBuf::copy_of(&case.block))];
            block_on(case.tree.write(case.at, slices, Durability::Cached)).expect("the others do");
            block_on(leaf.device().expect("open").write(place, noise(), Durability::Cached))
                .expect("in range");
            leaf.set_state(VdevState::Online, VdevAux::None);
            block_on(case.tree.scrub(case.at, case.block.len(), &is_right)).expect("the others are right");
            case.tree.resilvered(leaf.guid(), Txg::new(u64::MAX)).expect("it is there");
            is_even(&case, "brought up to date");
        }
    }
}

#[test]
fn a_new_draid_has_the_size_that_openzfs_gives_it() {
    let golden = Shape::new(6, 2, 1, 1, 5).expect("possible");
    assert_eq!(golden.asize(leaf_asize(128 << 20)), 402_653_184, "as in g26-draid");
    let world = World::with(&PATHS, 128 << 20);
    let create = |count: usize, data, parity| {
        let paths = PATHS[..count].iter().map(Into::into).collect();
        let spec = NewVdev { paths, parity, data, ..NewVdev::default() };
        block_on(VdevTree::create(world.env(), &[spec]))
            .map(|tree| (tree.tops()[0].kind(), tree.tops()[0].config().asize))
    };
    let shape = Shape::new(6, 3, 1, 0, 3).expect("possible");
    assert_eq!(create(6, 3, 1).expect("six"), (NodeKind::Draid(shape), 7 * 4 * (16 << 20)));
    for (count, data, parity) in [(3, 3, 1), (6, 2, 4), (1, 1, 1)] {
        assert!(
            matches!(create(count, data, parity), Err(VdevError::BadConfig { .. })),
            "{count} {data} {parity}"
        );
    }
    let world = World::with(&PATHS, 64 << 20);
    let paths = PATHS[..3].iter().map(Into::into).collect();
    let spec = NewVdev { paths, parity: 1, data: 2, ..NewVdev::default() };
    let made = block_on(VdevTree::create(world.env(), &[spec]));
    assert!(matches!(made, Err(VdevError::TooSmall { .. })), "a group of three rows is no 64 MiB");
}

/// A mirror, a leaf, and a removed vdev of which a run is on each, then one of another removed vdev.
fn removed() -> (Arc<World>, VdevTree) {
    let world = World::with(&PATHS[..3], SIZE);
    let of = |paths: &[&str]| NewVdev {
        paths: paths.iter().map(Into::into).collect(),
        ashift: Some(Ashift::new(9)),
        ..NewVdev::default()
    };
    let tree = block_on(VdevTree::create(world.env(), &[of(&["a", "b"]), of(&["c"])])).expect("devices");
    let entry = |source, len, vdev, offset| Entry {
        source: VdevOffset::new(source),
        target: Dva {
            vdev: VdevId::new(vdev),
            offset: VdevOffset::new(offset),
            asize: Asize::new(len),
            gang: false,
        },
    };
    let first =
        vec![entry(0x1000, 0x600, 0, 0x80000), entry(0x1600, 0x400, 1, 0x4000), entry(0x1a00, 0x800, 3, 0)];
    let second = vec![entry(0, 0x2000, 0, 0x20000)];
    let mut tops = tree.tops();
    for (id, entries) in [(2, first), (3, second)] {
        let removed = Removed::new(RemovedConfig {
            guid: Guid::new(100 + u64::from(id)),
            mapping: ObjectId::new(1),
            births: ObjectId::new(2),
            previous: None,
            whole_disk: None,
            non_allocating: None,
        });
        removed.set_mapping(Mapping::new(entries, 0x2200).expect("in order"));
        let id = TopId { id: VdevId::new(id), guid: removed.config().guid, ashift: Ashift::new(9) };
        let config = TopConfig { asize: 0x2200, ..TopConfig::default() };
        tops.push(Arc::new(Top::new(world.env(), id, config, Node::Indirect(Arc::new(removed)))));
    }
    let tree = VdevTree::from_parts(world.env(), OpenMode::ReadWrite, tree.root(), tops, Arc::default());
    (world, tree)
}

const BLOCK: Address = Address { vdev: VdevId::new(2), offset: VdevOffset::new(0x1200), born: Txg::new(5) };

fn block() -> Vec<u8> {
    (0..0x1000).map(|at| (at * 13 + at / 301) as u8).collect()
}

fn spoil(world: &World, path: &str, offset: u64, len: usize) {
    let noise = vec![BufSlice::from(IoBuf::copy_of(&vec![0; len]))];
    let at = VdevOffset::new(offset).on_leaf().expect("there");
    block_on(world.ram(path).write(at, noise, Durability::Cached)).expect("in range");
}

#[test]
fn a_block_in_pieces_is_read_whatever_copies_are_bad() {
    let (world, tree) = removed();
    let block = block();
    let slices = vec![BufSlice::from(IoBuf::copy_of(&block))];
    block_on(tree.write(BLOCK, slices, Durability::Cached)).expect("written");
    let is_right = |bytes: &[u8]| bytes == block;
    let read = |what: &str| block_on(tree.read(BLOCK, block.len(), &is_right)).expect(what).to_vec();
    assert_eq!(read("whole"), block);
    // Its first piece is bad on one child of the mirror, its last on the other.
    spoil(&world, "a", 0x80200, 0x200);
    spoil(&world, "b", 0x20200, 0x200);
    assert_eq!(read("from both children"), block);
    assert_eq!(
        block_on(tree.scrub(BLOCK, block.len(), &is_right)).expect("there"),
        0,
        "the read repaired both"
    );
    // A scrub finds a bad copy that a read may not.
    spoil(&world, "b", 0x80200, 0x200);
    assert_eq!(block_on(tree.scrub(BLOCK, block.len(), &is_right)).expect("there"), 1);
    assert_eq!(block_on(tree.scrub(BLOCK, block.len(), &is_right)).expect("there"), 0);
    // In one piece it is the other vdev's matter.
    let one = Address { offset: VdevOffset::new(0x1600), ..BLOCK };
    let part = &block[0x400..0x800];
    assert_eq!(&block_on(tree.read(one, 0x400, &|bytes: &[u8]| bytes == part)).expect("one piece")[..], part);
}

#[test]
fn a_block_in_pieces_that_is_lost_is_an_error() {
    let (world, tree) = removed();
    let block = block();
    let slices = vec![BufSlice::from(IoBuf::copy_of(&block))];
    block_on(tree.write(BLOCK, slices, Durability::Cached)).expect("written");
    spoil(&world, "c", 0x4000, 0x200);
    let is_right = |bytes: &[u8]| bytes == block;
    for read in [
        block_on(tree.read(BLOCK, block.len(), &is_right)).map(|_| 0),
        block_on(tree.scrub(BLOCK, block.len(), &is_right)),
    ] {
        assert!(matches!(read, Err(VdevError::Checksum { .. })), "{read:?}");
    }
    let beyond = Address { offset: VdevOffset::new(0x1e00), ..BLOCK };
    let read = block_on(tree.read(beyond, block.len(), &|_| true)).map(|_| ());
    assert!(matches!(read, Err(VdevError::Unmapped { .. })), "{read:?}");
}

/// What a configuration says of the only vdev, changed.
fn parsed(tree: &VdevTree, change: impl FnOnce(&mut NvList)) -> Result<VdevTree, VdevError> {
    let mut config = tree.to_nvlist();
    let mut children = config.get_nvlist_array("children").expect("children").to_vec();
    change(children.last_mut().expect("a vdev"));
    config.add_nvlist_array("children", children);
    let spec = OpenSpec {
        gone: &Default::default(),
        behind: &Default::default(),
        vdev_tree: &config,
        paths: &BTreeMap::new(),
        mode: OpenMode::ReadOnly,
    };
    block_on(VdevTree::open(Arc::clone(tree.env()), &spec))
}

#[test]
fn widened_raidz_draids_and_removed_vdevs_go_in_and_out_unchanged() {
    let shape = Shape::new(6, 2, 1, 1, 5).expect("possible");
    let widened = reshaped(5, 1, NodeKind::Raidz { parity: 1 }, &[10, 20]);
    widened.tops()[0].set_config(|config| config.expansion_secs = 1_795_387_900);
    for tree in [widened, reshaped(6, 1, NodeKind::Draid(shape), &[]), removed().1] {
        let found = parsed(&tree, |_| {}).expect("a sound configuration");
        assert_eq!(found.to_nvlist().encode(), tree.to_nvlist().encode());
        assert_eq!(found.guid_sum(), tree.guid_sum());
    }
}

#[test]
fn shapes_that_cannot_be_are_refused_and_others_by_name() {
    let shape = Shape::new(6, 2, 1, 1, 5).expect("possible");
    let draid = reshaped(6, 1, NodeKind::Draid(shape), &[]);
    let raidz = reshaped(5, 1, NodeKind::Raidz { parity: 1 }, &[10]);
    let bad = |tree: &VdevTree, change: &dyn Fn(&mut NvList)| {
        let found = parsed(tree, change).map(|_| ());
        assert!(matches!(found, Err(VdevError::BadConfig { .. })), "{found:?}");
    };
    bad(&draid, &|vdev| _ = vdev.add_u64("draid_ndata", 7));
    bad(&draid, &|vdev| _ = vdev.add_u64("draid_ngroups", u64::MAX));
    bad(&draid, &|vdev| _ = vdev.add_u64_array("raidz_expand_txgs", vec![7]));
    bad(&raidz, &|vdev| _ = vdev.add_u64_array("raidz_expand_txgs", vec![7, 8, 9, 10]));
    bad(&raidz, &|vdev| _ = vdev.add_u64_array("raidz_expand_txgs", vec![8, 7]));
    bad(&removed().1, &|vdev| _ = vdev.add_u64("com.delphix:prev_indirect_vdev", 1 << 40));
    let unsupported = |tree: &VdevTree, change: &dyn Fn(&mut NvList)| match parsed(tree, change).map(|_| ()) {
        Err(VdevError::UnsupportedKind { kind }) => kind,
        other => panic!("{other:?}"),
    };
    assert_eq!(unsupported(&raidz, &|vdev| _ = vdev.add_flag("raidz_expanding")), "raidz being widened");
    let domains = unsupported(&draid, &|vdev| _ = vdev.add_u64("draid_nchildren", 3));
    assert_eq!(domains, "draid with failure domains");
}

/// A removed vdev has no labels and holds no uberblock, however many of them there are.
#[test]
fn an_uberblock_is_stable_only_on_vdevs_that_have_devices() {
    let (_, tree) = removed();
    for leaf in tree.leaves() {
        leaf.set_state(VdevState::Faulted, VdevAux::IoFailure);
    }
    let mut uberblock = ondisk::UberblockPhys::default();
    for txg in 5..9 {
        uberblock.txg.set(txg);
        // Else labels are written first, and that already fails.
        tree.take_changed();
        let (dirty, written) = (&BTreeSet::new(), &BTreeSet::new());
        let pool = super::tree::pool_config();
        let sync = LabelSync { uberblock: &uberblock, pool: &pool, dirty, written, multihost: false };
        assert!(block_on(tree.sync_labels(&sync)).is_err(), "txg {txg} is nowhere");
    }
}
