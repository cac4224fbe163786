//! Space maps in, space maps out.

use units::VdevOffset;

use super::*;
use crate::{Change, ChangeKind, SpaceError, SpaceFigures};

fn entry(kind: ChangeKind, offset: u64, len: u64) -> Change {
    Change { kind, offset: VdevOffset::new(offset), len: Asize::new(len) }
}

const V0: VdevId = VdevId::new(0);

#[test]
fn a_loaded_space_map_says_what_is_free() {
    let mut space = normal(1, 128 * KIB, 16);
    let first = [entry(ChangeKind::Alloc, 64 * KIB, 8192), entry(ChangeKind::Free, 65 * KIB, 1024)];
    space.load(V0, ms(1), first).unwrap();
    space.load(V0, ms(1), [entry(ChangeKind::Free, 64 * KIB, 512)]).unwrap();
    let metaslab = space.metaslab(V0, ms(1)).unwrap();
    assert_eq!(metaslab.recorded_allocated().get(), 8192 - 1024 - 512);
    assert_eq!(
        metaslab.condensed(),
        [entry(ChangeKind::Alloc, 64 * KIB + 512, 512), entry(ChangeKind::Alloc, 66 * KIB, 6 * KIB),]
    );
    assert!(metaslab.condensed_estimate() >= metaslab.condensed().len());
    let figures = space.space(Class::Normal);
    assert_eq!(figures.allocated.get(), 6656);
    assert_eq!(figures.free.get(), 128 * KIB - 6656);
    assert_eq!(figures.resting.get(), 0, "an import forgets what rested");
}

#[test]
fn a_metaslab_whose_map_is_damaged_offers_no_space() {
    let whole = 64 * KIB;
    let damaged: [&[Change]; 5] = [
        &[entry(ChangeKind::Free, 0, 512)],
        &[entry(ChangeKind::Alloc, 0, 1024), entry(ChangeKind::Alloc, 512, 1024)],
        &[entry(ChangeKind::Alloc, 100, 512)],
        &[entry(ChangeKind::Alloc, whole - 512, 1024)],
        &[entry(ChangeKind::Alloc, u64::MAX - 511, u64::MAX)],
    ];
    for entries in damaged {
        let mut space = normal(1, whole, 16);
        space.load(V0, ms(0), entries.iter().copied()).unwrap_err();
        assert_eq!(space.space(Class::Normal).free.get(), 0, "{entries:?}");
        assert!(space.try_one(10, 512).is_err());
    }
}

#[test]
fn a_space_map_that_comes_too_late_is_refused() {
    let mut space = normal(1, 64 * KIB, 16);
    let block = space.one(10, 512);
    let late = space.load(V0, ms(0), [entry(ChangeKind::Alloc, block.offset.get(), 512)]);
    assert_eq!(late, Err(SpaceError::InUse { vdev: V0, metaslab: ms(0) }));
    let nowhere = space.load(V0, ms(1), []);
    assert_eq!(nowhere, Err(SpaceError::NoSuchMetaslab { vdev: V0, metaslab: ms(1) }));
    assert_eq!(space.load(VdevId::new(1), ms(0), []), Err(SpaceError::NoSuchVdev(VdevId::new(1))));
}

#[test]
fn the_histogram_never_promises_a_run_that_is_not_there() {
    let mut space = normal(1, 64 * KIB, 16);
    let blocks: Vec<_> = (0..128).map(|_| space.one(10, 512)).collect();
    space.finish(10);
    // Every other block, by turns: most runs are split between resting and being freed.
    for (at, block) in blocks.iter().enumerate().filter(|(at, _)| at % 4 != 3) {
        space.free(txg(11 + (at as u64 & 1)), block);
    }
    space.finish(11);
    space.take_changes(txg(12));
    let metaslab = space.metaslab(V0, ms(0)).unwrap();
    let buckets = metaslab.space_map_histogram();
    assert_eq!(buckets.iter().sum::<u64>(), 96, "all of them single sectors, though three lie together");
    assert_eq!(buckets[0], 96);
    space.sync_done(txg(12));
    space.finish(13);
    space.finish(14);
    let merged = space.metaslab(V0, ms(0)).unwrap().space_map_histogram();
    assert_eq!((merged[0], merged[1]), (0, 32), "runs of three sectors, once they are free");
}

#[test]
fn a_metaslab_never_used_is_not_fragmented() {
    let mut space = normal(1, 32 * MIB, 24);
    assert_eq!(space.fragmentation_percent(Class::Normal), Some(0));
    space.one(10, 512);
    space.finish(10);
    let used = space.metaslab(V0, ms(0)).unwrap().fragmentation_percent();
    assert_eq!(used, 23, "just under 16 MiB in one run");
    let half = space.fragmentation_percent(Class::Normal).unwrap();
    assert_eq!(half, 11, "the other half counts nothing");
    assert_eq!(space.fragmentation_percent(Class::Log), None);
}

#[test]
fn figures_add_up_to_the_capacity() {
    let mut space = normal(2, MIB, 16);
    let block = space.one(10, 100 * KIB / 2);
    space.one(10, 3 * KIB);
    space.free(txg(10), &block);
    let SpaceFigures { capacity, free, allocated, resting, kept } = space.space(Class::Normal);
    assert_eq!(capacity.get(), 2 * MIB);
    assert_eq!((allocated.get(), resting.get()), (3 * KIB, 50 * KIB));
    assert_eq!(free.get() + allocated.get() + resting.get() + kept.get(), capacity.get());
    assert_eq!(space.space(Class::Log), SpaceFigures::default());
}
