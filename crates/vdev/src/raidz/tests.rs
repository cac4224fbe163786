use std::collections::BTreeSet;
use std::sync::Arc;

use env::{BufSlice, Device, Durability, FaultOp, IoBuf};
use futures::executor::block_on;
use units::{Ashift, LeafOffset, Psize, Spread, VdevId, VdevOffset};

use super::map::{Column, Layout, layout};
use crate::tests::world::World;
use crate::*;

const SIZE: u64 = 64 << 20;
const PATHS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const VDEV: VdevId = VdevId::new(0);

/// A raidz of some devices, and a block that lies on it.
struct Case {
    world: Arc<World>,
    tree: VdevTree,
    offset: VdevOffset,
    block: Vec<u8>,
}

impl Case {
    fn new(children: usize, parity: u8, ashift: u8, offset: u64, len: usize) -> Self {
        let world = World::with(&PATHS[..children], SIZE);
        let paths = PATHS[..children].iter().map(Into::into).collect();
        let spec = NewVdev { paths, parity, ashift: Some(Ashift::new(ashift)), ..NewVdev::default() };
        let tree = block_on(VdevTree::create(world.env(), &[spec])).expect("devices");
        let block = (0..len).map(|at| (at * 7 + at / 251) as u8).collect();
        let case = Self { world, tree, offset: VdevOffset::new(offset), block };
        case.write().expect("all children");
        case
    }

    fn write(&self) -> Result<(), VdevError> {
        let slices = vec![BufSlice::from(IoBuf::copy_of(&self.block))];
        block_on(self.tree.write(Address::now(VDEV, self.offset), slices, Durability::Cached))
    }

    fn read(&self) -> Result<IoBuf, VdevError> {
        let verify = |bytes: &[u8]| bytes == self.block;
        block_on(self.tree.read(Address::now(VDEV, self.offset), self.block.len(), &verify))
    }

    fn scrub(&self) -> Result<usize, VdevError> {
        let verify = |bytes: &[u8]| bytes == self.block;
        block_on(self.tree.scrub(Address::now(VDEV, self.offset), self.block.len(), &verify))
    }

    fn columns(&self) -> Vec<Column> {
        let top = &self.tree.tops()[0];
        let whole = top.ashift().round_up(self.block.len() as u64);
        layout(top.spread(), top.leaves().len(), top.ashift(), self.offset, whole).columns
    }

    /// Writes noise over a child's column; says whether it has one.
    fn spoil(&self, child: usize) -> bool {
        let columns = self.columns();
        let Some(column) = columns.iter().find(|column| column.child == child) else { return false };
        let noise: Vec<u8> = (0..column.len).map(|at| (at * 31 + child * 3 + 1) as u8).collect();
        let slice = BufSlice::from(IoBuf::copy_of(&noise));
        let at = column.offset.on_leaf().expect("in range");
        block_on(self.world.ram(PATHS[child]).write(at, vec![slice], Durability::Cached)).expect("in range");
        true
    }

    fn on_disk(&self) -> Vec<Vec<u8>> {
        let read = |column: &Column| {
            let at = column.offset.on_leaf().expect("in range");
            block_on(self.world.ram(PATHS[column.child]).read(at, column.len)).expect("in range").to_vec()
        };
        self.columns().iter().map(read).collect()
    }

    fn checksum_errors(&self) -> Vec<u64> {
        self.tree.leaves().iter().map(|leaf| leaf.stats().snapshot().checksum_errors).collect()
    }

    fn leaf(&self, child: usize) -> Arc<Leaf> {
        self.tree.leaves()[child].clone()
    }
}

/// All sets of at most `size` children.
fn sets(children: usize, size: u8) -> impl Iterator<Item = Vec<usize>> {
    let masks = (0_u32..1 << children).filter(move |mask| mask.count_ones() <= u32::from(size));
    masks.map(move |mask| (0..children).filter(|child| mask >> child & 1 == 1).collect())
}

/// Shapes, and blocks on them: less than a row, a row, several, uneven ones; in MiBs of both kinds.
fn cases() -> impl Iterator<Item = Case> {
    let shapes = [(2, 1, 9), (3, 1, 9), (4, 1, 12), (4, 2, 9), (5, 2, 12), (6, 3, 9), (4, 3, 9)];
    shapes.into_iter().flat_map(|(children, parity, ashift)| {
        let blocks = [(0, 1), (7, 2), (11, 3), (2048 + 5, 8), (5, 13)];
        blocks.into_iter().map(move |(at, sectors): (u64, usize)| {
            Case::new(children, parity, ashift, at << ashift, (sectors << ashift) - 100)
        })
    })
}

#[test]
fn a_block_is_dealt_out_as_the_theory_draws_it() {
    let spread = Spread::raidz(5, 1).expect("possible");
    let at = |children| layout(spread, children, Ashift::new(9), VdevOffset::new(12 << 9), 7 << 9);
    let column = |(child, row, sectors, at): (usize, u64, usize, usize)| {
        let offset = VdevOffset::new(row << 9);
        Column { child, offset, len: sectors << 9, pad: 0, at: at << 9 }
    };
    let one = [(2, 2, 2, 0), (3, 2, 2, 0), (4, 2, 2, 2), (0, 3, 2, 4), (1, 3, 1, 6)];
    assert_eq!(at(5), Layout { columns: one.map(column).to_vec(), width: 5, parity: 1 });
    let first = [(0, 2, 1, 0), (1, 2, 1, 0), (2, 2, 1, 2), (3, 2, 1, 4), (4, 2, 1, 6)];
    let second = [(5, 2, 1, 1), (0, 3, 1, 1), (1, 3, 1, 3), (2, 3, 1, 5), (3, 3, 0, 7)];
    let widened = first.into_iter().chain(second).map(column).collect();
    assert_eq!(at(6), Layout { columns: widened, width: 5, parity: 1 });
}

#[test]
fn parity_and_first_data_change_places_in_every_second_mib_of_single_parity() {
    let at = |parity, offset| {
        let spread = Spread::raidz(4, parity).expect("possible");
        let found = layout(spread, 4, Ashift::new(12), VdevOffset::new(offset), 3 << 12);
        found.columns.iter().map(|column| column.child).collect::<Vec<_>>()
    };
    assert_eq!(at(1, 0), [0, 1, 2, 3]);
    assert_eq!(at(1, 1 << 20), [1, 0, 2, 3]);
    assert_eq!(at(1, 2 << 20), [0, 1, 2, 3]);
    assert_eq!(at(2, 1 << 20), [0, 1, 2, 3]);
}

/// Raidz of several widths, what they were widened to, and blocks on them.
fn widened() -> impl Iterator<Item = (Spread, usize, VdevOffset, u64)> {
    let shapes = [(2, 1, 3), (3, 1, 4), (3, 1, 7), (4, 2, 5), (5, 3, 6), (200, 3, 255)];
    shapes.into_iter().flat_map(|(before, parity, children)| {
        let spread = Spread::raidz(before, parity).expect("possible");
        let blocks = [(0, 1), (7, 2), (11, 3), (2048 + 5, 8), (5, 13), (4095, 256), (77, 601)];
        blocks
            .into_iter()
            .map(move |(at, sectors): (u64, u64)| (spread, children, VdevOffset::new(at << 9), sectors << 9))
    })
}

#[test]
fn a_widened_raidz_has_every_sector_where_it_was_in_their_order() {
    // Each sector by its number in the order of all, with what it holds of the block; parity holds nothing.
    let sectors = |found: &Layout, children: usize| -> BTreeSet<(u64, Option<usize>)> {
        let numbered = found.columns.iter().enumerate().flat_map(|(index, column)| {
            (0..column.len >> 9).map(move |row| {
                let number =
                    ((column.offset.get() >> 9) + row as u64) * children as u64 + column.child as u64;
                (number, (index % found.width >= found.parity).then_some((column.at >> 9) + row))
            })
        });
        numbered.collect()
    };
    let ashift = Ashift::new(9);
    for (spread, children, offset, len) in widened() {
        let before = layout(spread, spread.children(), ashift, offset, len);
        let after = layout(spread, children, ashift, offset, len);
        let (before, after) = (sectors(&before, spread.children()), sectors(&after, children));
        assert_eq!(before, after, "{spread:?} to {children} at {offset}, {len} bytes");
    }
}

#[test]
fn no_child_has_two_columns_of_a_stripe() {
    for (spread, children, offset, len) in widened() {
        let found = layout(spread, children, Ashift::new(9), offset, len);
        for stripe in found.stripes() {
            let on: BTreeSet<_> = stripe.iter().map(|column| column.child).collect();
            assert_eq!(on.len(), stripe.len(), "{spread:?} to {children} at {offset}, {len} bytes");
        }
    }
}

#[test]
fn columns_of_neighbours_meet_without_overlap() {
    for (children, parity) in [(2, 1), (3, 1), (5, 2), (7, 3), (255, 3)] {
        let (spread, ashift) = (Spread::raidz(children, parity).expect("possible"), Ashift::new(9));
        let (mut sector, mut taken) = (1_000_u64, BTreeSet::new());
        for sectors in 1..70 {
            let columns =
                layout(spread, children, ashift, VdevOffset::new(sector << 9), sectors << 9).columns;
            let data: usize = columns[usize::from(parity)..].iter().map(|column| column.len).sum();
            assert_eq!(data as u64, sectors << 9);
            let on: BTreeSet<_> = columns.iter().map(|column| column.child).collect();
            assert_eq!(on.len(), columns.len(), "one column of a block on each child");
            let room = Psize::new(sectors << 9).allocated_over(ashift, spread).get() >> 9;
            for column in &columns {
                for row in (0..column.len as u64 >> 9).map(|row| (column.offset.get() >> 9) + row) {
                    let place = row * children as u64 + column.child as u64;
                    assert!((sector..sector + room).contains(&place), "outside what is allocated");
                    assert!(taken.insert(place), "sector {place} is another's");
                }
            }
            sector += room;
        }
    }
}

#[test]
fn every_tolerable_set_of_bad_children_is_seen_through() {
    for case in cases() {
        let top = case.tree.tops()[0].clone();
        let before = case.on_disk();
        for bad in sets(top.leaves().len(), top.spread().parity() as u8) {
            top.leaves().iter().for_each(|leaf| leaf.stats().clear_errors());
            let hit: Vec<bool> = (0..top.leaves().len()).map(|c| bad.contains(&c) && case.spoil(c)).collect();
            // A scrub reads all; a read alone may not come by a bad parity.
            assert_eq!(&case.read().expect("tolerable")[..], &case.block, "{bad:?}");
            case.scrub().expect("tolerable");
            assert_eq!(case.on_disk(), before, "{bad:?} healed");
            assert_eq!(case.checksum_errors(), hit.iter().map(|hit| u64::from(*hit)).collect::<Vec<_>>());
        }
        assert_eq!(top.state().0, VdevState::Online);
    }
}

#[test]
fn every_tolerable_set_of_silent_or_missing_children_is_seen_through() {
    for case in cases() {
        let top = case.tree.tops()[0].clone();
        for bad in sets(top.leaves().len(), top.spread().parity() as u8) {
            for op in [FaultOp::Read, FaultOp::Flush] {
                for child in &bad {
                    match op {
                        FaultOp::Read => case.world.faults(PATHS[*child]).fail_all(FaultOp::Read),
                        _ => case.leaf(*child).set_state(VdevState::Unavail, VdevAux::OpenFailed),
                    }
                }
                assert_eq!(&case.read().expect("tolerable")[..], &case.block, "{bad:?}");
                assert!(top.is_usable());
                for child in bad.iter() {
                    case.world.faults(PATHS[*child]).heal();
                    case.leaf(*child).set_state(VdevState::Online, VdevAux::None);
                }
            }
        }
        assert_eq!(case.checksum_errors(), vec![0; top.leaves().len()], "nobody lied");
    }
}

#[test]
fn a_missing_child_and_a_lying_one_together_are_seen_through() {
    let case = Case::new(5, 2, 9, 77 << 9, 20 << 9);
    for missing in 0..5 {
        for lying in (0..5).filter(|lying| *lying != missing) {
            case.leaf(missing).set_state(VdevState::Offline, VdevAux::None);
            case.spoil(lying);
            assert_eq!(&case.read().expect("two are tolerable")[..], &case.block);
            case.scrub().expect("two are tolerable");
            case.leaf(missing).set_state(VdevState::Online, VdevAux::None);
            assert_eq!(case.scrub().expect("all right again"), 0);
        }
    }
}

#[test]
fn more_than_parity_is_an_error_that_names_the_place_and_nobody() {
    let case = Case::new(4, 1, 9, 0, 30 << 9);
    case.spoil(1);
    case.spoil(2);
    assert!(matches!(case.read(), Err(VdevError::Checksum { vdev: VDEV, .. })));
    assert!(matches!(case.scrub(), Err(VdevError::Checksum { .. })));
    assert_eq!(case.checksum_errors(), [0; 4], "who lies cannot be told");
    assert_eq!(case.tree.tops()[0].stats().snapshot().checksum_errors, 2);
    case.leaf(1).set_state(VdevState::Offline, VdevAux::None);
    case.world.faults("c").fail_all(FaultOp::Read);
    assert!(matches!(case.read(), Err(VdevError::Leaf { .. })), "too little came at all");
}

#[test]
fn a_wrong_column_is_found_and_healed() {
    let case = Case::new(4, 2, 9, 4 << 9, 5 << 9);
    let before = case.on_disk();
    let data = case.columns()[2].child;
    case.spoil(data);
    assert_eq!(&case.read().expect("tolerable")[..], &case.block);
    assert_eq!(case.on_disk(), before);
    assert_eq!(case.leaf(data).stats().snapshot().healed_bytes, case.columns()[2].len as u64);
    let errors: u64 = case.checksum_errors().iter().sum();
    assert_eq!((errors, case.checksum_errors()[data]), (1, 1));
}

#[test]
fn a_healthy_read_leaves_parity_alone() {
    let case = Case::new(5, 2, 9, 0, 30 << 9);
    let reads = || -> u64 { case.tree.leaves().iter().map(|leaf| leaf.stats().snapshot().read.ops).sum() };
    let before = reads();
    case.read().expect("healthy");
    assert_eq!(reads() - before, 3);
}

#[test]
fn a_write_within_parity_is_done_and_one_beyond_is_not() {
    let mut case = Case::new(5, 2, 9, 0, 30 << 9);
    for child in [0, 3] {
        case.world.faults(PATHS[child]).fail_all(FaultOp::Write);
        case.block[0] += 1;
        case.write().expect("within parity");
        assert_eq!(case.leaf(child).state(), (VdevState::Faulted, VdevAux::IoFailure));
        assert!(case.leaf(child).is_stale());
        assert_eq!(&case.read().expect("within parity")[..], &case.block);
    }
    assert_eq!(case.tree.state().0, VdevState::Degraded);
    assert!(case.tree.unusable().is_empty());
    case.world.faults("b").fail_all(FaultOp::Write);
    assert!(matches!(case.write(), Err(VdevError::Leaf { .. })));
    assert_eq!(case.leaf(1).state().0, VdevState::Degraded, "it stays, for what it holds");
    assert!(case.tree.offline(case.leaf(1).guid()).is_err(), "it cannot be spared");
}

#[test]
fn a_flush_within_parity_is_done_and_one_beyond_ends_all_use() {
    let case = Case::new(4, 1, 9, 0, 30 << 9);
    case.world.faults("b").fail_nth(FaultOp::Flush, 1);
    block_on(case.tree.flush([VDEV])).expect("within parity");
    assert_eq!(case.leaf(1).state().0, VdevState::Faulted);
    case.world.faults("d").fail_nth(FaultOp::Flush, 1);
    assert!(block_on(case.tree.flush([VDEV])).is_err());
    assert_eq!(case.tree.state(), (VdevState::Unavail, VdevAux::NoReplicas));
    assert!(case.write().is_err() && block_on(case.tree.flush([VDEV])).is_err());
    assert_eq!(case.tree.unusable(), [VDEV].into());
}

#[test]
fn a_vdev_with_more_suspects_than_parity_is_doubtful() {
    let case = Case::new(4, 1, 9, 0, 30 << 9);
    for (child, is_doubtful) in [(0, false), (1, true)] {
        case.world.faults(PATHS[child]).fail_nth(FaultOp::Flush, 1);
        assert!(block_on(case.leaf(child).flush()).is_err());
        assert_eq!(!case.tree.doubtful().is_empty(), is_doubtful);
    }
}

#[test]
fn a_child_that_was_away_is_read_last_and_healed_without_blame() {
    let mut case = Case::new(4, 1, 9, 0, 30 << 9);
    let (old, away) = (case.block.clone(), case.leaf(2));
    case.tree.offline(away.guid()).expect("three can do without");
    case.block.fill(9);
    case.write().expect("degraded");
    away.set_state(VdevState::Online, VdevAux::None);
    // Nobody checks: still the new bytes come, not the child's old ones.
    let blindly =
        block_on(case.tree.read(Address::now(VDEV, case.offset), old.len(), &|_| true)).expect("three");
    assert_eq!(&blindly[..], &case.block);
    assert_eq!(case.scrub().expect("three are right"), 1);
    case.tree.resilvered(away.guid(), units::Txg::new(u64::MAX)).expect("it is there");
    assert_eq!(case.scrub().expect("all are right"), 0);
    assert_eq!(case.checksum_errors(), [0; 4]);
}

#[test]
fn a_probe_gives_what_there_is_and_blames_nobody() {
    let case = Case::new(3, 1, 12, 0, 12 << 10);
    let probe =
        |right: bool| block_on(case.tree.probe(Address::now(VDEV, case.offset), 12 << 10, &|_| right));
    assert_eq!(&probe(false).expect("any bytes")[..], &case.block);
    case.leaf(1).set_state(VdevState::Unavail, VdevAux::OpenFailed);
    assert_eq!(&probe(false).expect("computed")[..], &case.block);
    case.leaf(2).set_state(VdevState::Unavail, VdevAux::OpenFailed);
    assert!(matches!(probe(false), Err(VdevError::NoReplica { .. })));
    assert_eq!(case.checksum_errors(), [0; 3]);
}

#[test]
fn slices_are_joined_and_stable_writes_pass_through() {
    let case = Case::new(4, 2, 12, 40 << 12, 9000);
    let halves = [&case.block[..5000], &case.block[5000..]].map(|half| BufSlice::from(IoBuf::copy_of(half)));
    let case = Case { offset: VdevOffset::new(80 << 12), ..case };
    block_on(case.tree.write(Address::now(VDEV, case.offset), halves.to_vec(), Durability::Stable))
        .expect("all children");
    assert_eq!(&case.read().expect("healthy")[..], &case.block);
    assert_eq!(case.scrub().expect("healthy"), 0);
}

#[test]
fn the_end_of_a_raidz_is_guarded() {
    let case = Case::new(3, 1, 9, 0, 512);
    let asize = case.tree.tops()[0].config().asize;
    assert_eq!(asize, 3 * leaf_asize(SIZE));
    let read =
        |offset, len| block_on(case.tree.read(Address::now(VDEV, VdevOffset::new(offset)), len, &|_| true));
    read(asize - 1024, 512).expect("the last block there can be");
    for (offset, len) in [(asize - 1024, 513), (asize - 512, 512), (asize, 512), (u64::MAX, 1 << 20)] {
        assert!(matches!(read(offset, len), Err(VdevError::OutOfRange { .. })), "{offset}, {len}");
    }
    let at = LeafOffset::new((4 << 20) + leaf_asize(SIZE));
    assert_eq!(at.get(), SIZE - (512 << 10), "the labels at the end begin here");
}

#[test]
fn a_raidz_needs_more_devices_than_parity() {
    let world = World::with(&PATHS, SIZE);
    let create = |paths: &[&str], parity| {
        let paths = paths.iter().map(Into::into).collect();
        let spec = NewVdev { paths, parity, ..NewVdev::default() };
        block_on(VdevTree::create(world.env(), &[spec])).map(|tree| tree.tops()[0].kind())
    };
    assert_eq!(create(&["a", "b"], 1).expect("two"), NodeKind::Raidz { parity: 1 });
    for (paths, parity) in [(&["a"][..], 1), (&["a", "b"], 2), (&["a", "b", "c", "d", "e"], 4)] {
        assert!(matches!(create(paths, parity), Err(VdevError::BadConfig { .. })));
    }
}
