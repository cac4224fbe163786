use std::collections::{BTreeMap, BTreeSet};

use units::{Ashift, VdevOffset};

use super::Shape;
use super::map::{ROW_BYTES, layout, stripe_at};
use super::permutation::Permutations;

/// Draids of several shapes: groups that come out even with a row, and groups that do not.
fn shapes() -> impl Iterator<Item = Shape> {
    let numbers = [
        (2, 1, 1, 0, 1),
        (6, 2, 1, 1, 5),
        (5, 3, 2, 0, 1),
        (11, 4, 2, 1, 5),
        (14, 8, 1, 2, 4),
        (7, 1, 3, 2, 5),
    ];
    numbers.into_iter().map(|(children, data, parity, spares, groups)| {
        Shape::new(children, data, parity, spares, groups).expect("possible")
    })
}

fn permutations(shape: &Shape) -> Permutations {
    Permutations::of(shape.children()).expect("a draid may have so many children")
}

#[test]
fn all_permutations_come_to_the_format_s_checksums() {
    for children in 2..=255 {
        assert!(Permutations::of(children).is_some(), "{children}");
    }
    assert!([0, 1, 256].map(Permutations::of).iter().all(Option::is_none));
}

#[test]
fn every_slice_gives_every_child_one_part() {
    for children in [2, 3, 6, 31, 32, 255] {
        let permutations = Permutations::of(children).expect("possible");
        let bases = if children < 32 { 256 } else { 512 };
        let turns = bases * children as u64;
        for slice in (0..turns + 1).step_by(97) {
            let taken: BTreeSet<_> = (0..children).map(|part| permutations.child(slice, part)).collect();
            assert_eq!(taken, (0..children).collect(), "slice {slice} of {children}");
            let again: BTreeSet<_> =
                (0..children).map(|part| permutations.child(slice + turns, part)).collect();
            assert_eq!(taken, again);
        }
    }
}

#[test]
fn a_draid_that_cannot_be_is_none() {
    assert!(Shape::new(6, 2, 1, 1, 5).is_some());
    for (children, data, parity, spares, groups) in [
        (6, 2, 0, 1, 5),
        (6, 2, 4, 1, 5),
        (6, 0, 1, 1, 5),
        (6, 5, 1, 1, 5),
        (6, 2, 1, 7, 5),
        (6, 2, 1, 1, 0),
        (6, 2, 1, 1, 4),
        (256, 2, 1, 0, 256),
        (u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX),
        (6, u64::MAX, 1, 1, 5),
    ] {
        assert_eq!(
            Shape::new(children, data, parity, spares, groups),
            None,
            "{children} {data} {parity} {groups}"
        );
    }
}

/// Every place of a few slices in turn, as blocks of one row of sectors: nothing is there twice, and nothing of
/// the children is left out but what spares have.
#[test]
fn no_two_blocks_of_a_draid_overlap() {
    // Large sectors, so that there are few of them.
    let ashift = Ashift::new(16);
    for shape in shapes() {
        let permutations = permutations(&shape);
        let row = (shape.width() as u64) << ashift.get();
        let slices = 3;
        let total = slices * shape.groups() * shape.width() as u64 * ROW_BYTES;
        let mut taken: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
        for start in (0..total).step_by(row as usize) {
            let len = (shape.data() as u64) << ashift.get();
            let found = layout(&shape, &permutations, ashift, VdevOffset::new(start), len)
                .expect("a row begins there");
            assert_eq!(found.columns.len(), shape.width());
            let children: BTreeSet<_> = found.columns.iter().map(|column| column.child).collect();
            assert_eq!(children.len(), shape.width(), "two columns on one child at {start:#x} of {shape:?}");
            for column in &found.columns {
                let is_new = taken.entry(column.child).or_default().insert(column.offset.get());
                assert!(is_new, "{column:?} twice, at {start:#x} of {shape:?}");
            }
        }
        let used: usize = taken.values().map(BTreeSet::len).sum();
        assert_eq!(used as u64, total >> ashift.get(), "{shape:?}");
        let deepest = taken.values().filter_map(BTreeSet::last).max().expect("some") + ashift.sector_bytes();
        let each = slices * shape.width() as u64 * shape.groups() / shape.parts() as u64 * ROW_BYTES;
        assert_eq!(deepest, each, "rows are filled one after another: {shape:?}");
        assert!(each <= shape.asize_of_child(total));
    }
}

#[test]
fn a_stripe_is_found_by_its_first_column_of_data_and_by_no_other() {
    let ashift = Ashift::new(16);
    for shape in shapes() {
        let permutations = permutations(&shape);
        let row = (shape.width() as u64) << ashift.get();
        let total = 3 * shape.groups() * shape.width() as u64 * ROW_BYTES;
        for start in (0..total).step_by(row as usize).map(VdevOffset::new) {
            let found = layout(&shape, &permutations, ashift, start, ashift.sector_bytes());
            for (number, column) in found.expect("a row begins there").columns.iter().enumerate() {
                let stripe = stripe_at(&shape, &permutations, ashift, column.child, column.offset);
                let is_first = number == shape.parity();
                assert_eq!(stripe, is_first.then_some(start), "{column:?} of {start} on {shape:?}");
            }
        }
    }
    // In each slice, one of the six children has the space of the spare.
    let shape = Shape::new(6, 2, 1, 1, 5).expect("possible");
    let permutations = permutations(&shape);
    let spare = permutations.child(0, 5);
    assert_eq!(stripe_at(&shape, &permutations, ashift, spare, VdevOffset::new(0)), None);
}

#[test]
fn a_block_goes_on_in_the_next_group_where_one_ends() {
    let shape = Shape::new(6, 2, 1, 1, 5).expect("possible");
    let ashift = Ashift::new(9);
    let permutations = permutations(&shape);
    let group = 3 * ROW_BYTES;
    let place = |offset, sectors: u64| {
        layout(&shape, &permutations, ashift, VdevOffset::new(offset), sectors << 9)
            .map(|found| found.columns)
    };
    // Two rows of three sectors are left: four sectors of data go there, the fifth and sixth beyond.
    let both = place(group - 6 * 512, 6).expect("a row begins there");
    assert_eq!(both.len(), 6);
    assert_eq!(both[..3], place(group - 6 * 512, 4).expect("a row begins there"));
    let beyond = place(group, 2).expect("a group begins there");
    for (column, alone) in both[3..].iter().zip(&beyond) {
        assert_eq!((column.child, column.offset, column.len), (alone.child, alone.offset, alone.len));
        assert_eq!(column.at, alone.at + 4 * 512);
    }
    // In the middle of a row no block begins, nor in the middle of a sector.
    assert_eq!(place(512, 1), None);
    assert_eq!(place(3 * 512 + 1, 1), None);
    assert_eq!(place(u64::MAX / 512 * 512, 1), None);
}

#[test]
fn data_goes_to_columns_as_in_a_raidz_and_missing_sectors_are_columns_that_end_early() {
    let shape = Shape::new(14, 8, 1, 2, 4).expect("possible");
    let found = layout(&shape, &permutations(&shape), Ashift::new(12), VdevOffset::new(0), 10 << 12);
    let columns = found.expect("a row begins there").columns;
    let lens: Vec<_> = columns.iter().map(|column| column.len >> 12).collect();
    assert_eq!(lens, [2, 2, 2, 1, 1, 1, 1, 1, 1]);
    let places: Vec<_> = columns[1..].iter().map(|column| column.at >> 12).collect();
    assert_eq!(places, [0, 2, 4, 5, 6, 7, 8, 9]);
}
