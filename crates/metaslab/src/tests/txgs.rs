//! What happens to space from one txg to the next.

use units::{Asize, VdevId, VdevOffset};

use super::*;
use crate::{Change, ChangeKind, SpaceError};

const WHOLE: u64 = 64 * KIB;

/// One metaslab of 64 KiB, so that a freed sector is the only one that can be reused.
fn tiny() -> Allocator {
    normal(1, WHOLE, 16)
}

fn change(kind: ChangeKind, dva: &Dva) -> Change {
    Change { kind, offset: dva.offset, len: dva.asize }
}

fn taken(space: &mut Allocator, at: u64) -> Vec<Change> {
    space.take_changes(txg(at)).into_values().flatten().collect()
}

#[test]
fn freed_space_rests_until_two_more_txgs_are_done() {
    let mut space = tiny();
    let block = space.one(10, WHOLE);
    space.finish(10);
    space.free(txg(11), &block);
    for at in 11..13 {
        assert!(space.try_one(at, 512).is_err(), "in txg {at}");
        space.finish(at);
        assert_eq!(space.space(Class::Normal).resting.get(), WHOLE);
    }
    assert!(space.try_one(13, 512).is_err(), "until 13 is done");
    space.finish(13);
    assert_eq!(space.one(14, WHOLE), block);
}

#[test]
fn resting_space_returns_though_its_metaslab_is_left_alone() {
    let mut space = normal(1, 4 * WHOLE, 16);
    let block = space.one(10, 512);
    space.free(txg(10), &block);
    (10..13).for_each(|at| space.sync_done(txg(at)));
    assert_eq!(space.space(Class::Normal).free.get(), 4 * WHOLE);
}

#[test]
fn space_freed_in_the_txg_that_allocated_it_leaves_no_record_but_rests() {
    let mut space = tiny();
    let block = space.one(10, WHOLE);
    space.free(txg(10), &block);
    assert_eq!(taken(&mut space, 10), []);
    assert!(!space.metaslab(VdevId::new(0), ms(0)).unwrap().has_space_map());
    for at in 10..13 {
        assert!(space.try_one(at, 512).is_err());
        space.finish(at);
    }
    assert_eq!(space.one(13, WHOLE), block);
}

#[test]
fn a_free_after_its_allocation_was_taken_is_recorded_in_the_next_pass() {
    let mut space = tiny();
    let block = space.one(10, 1024);
    assert_eq!(taken(&mut space, 10), [change(ChangeKind::Alloc, &block)]);
    space.free(txg(10), &block);
    assert_eq!(taken(&mut space, 10), [change(ChangeKind::Free, &block)]);
    assert_eq!(taken(&mut space, 10), []);
    space.sync_done(txg(10));
    assert_eq!(space.space(Class::Normal).resting.get(), 1024);
}

#[test]
fn each_sync_pass_tells_only_what_is_new() {
    let mut space = tiny();
    let first = space.one(10, 512);
    assert_eq!(taken(&mut space, 10), [change(ChangeKind::Alloc, &first)]);
    let second = space.one(10, 512);
    assert_eq!(taken(&mut space, 10), [change(ChangeKind::Alloc, &second)]);
    assert_eq!(taken(&mut space, 10), []);
}

#[test]
fn neighbours_are_told_as_one_change() {
    let mut space = tiny();
    let first = space.one(10, 512);
    space.one(10, 1024);
    let whole = Change { kind: ChangeKind::Alloc, offset: first.offset, len: Asize::new(1536) };
    assert_eq!(taken(&mut space, 10), [whole]);
}

#[test]
fn the_open_txgs_allocations_stay_out_of_the_syncing_ones_changes() {
    let mut space = tiny();
    let syncing = space.one(10, 512);
    let open = space.one(11, 512);
    assert_eq!(taken(&mut space, 10), [change(ChangeKind::Alloc, &syncing)]);
    let map = space.metaslab(VdevId::new(0), ms(0)).unwrap();
    assert_eq!(map.condensed(), [change(ChangeKind::Alloc, &syncing)]);
    assert_eq!(map.recorded_allocated().get(), 512);
    space.sync_done(txg(10));
    assert_eq!(taken(&mut space, 11), [change(ChangeKind::Alloc, &open)]);
}

#[test]
fn a_block_may_be_freed_by_a_txg_after_the_one_not_yet_synced_that_allocated_it() {
    let mut space = tiny();
    let block = space.one(10, 512);
    space.free(txg(11), &block);
    assert_eq!(taken(&mut space, 10), [change(ChangeKind::Alloc, &block)]);
    space.sync_done(txg(10));
    assert_eq!(taken(&mut space, 11), [change(ChangeKind::Free, &block)]);
    space.sync_done(txg(11));
    assert_eq!(space.metaslab(VdevId::new(0), ms(0)).unwrap().recorded_allocated().get(), 0);
}

#[test]
fn what_is_given_back_unused_is_free_at_once_and_unrecorded() {
    let mut space = tiny();
    let block = space.one(10, WHOLE);
    space.unalloc(txg(10), &block);
    assert_eq!(space.one(10, WHOLE), block);
    space.unalloc(txg(10), &block);
    assert_eq!(taken(&mut space, 10), []);
}

#[test]
fn what_is_given_back_after_it_was_taken_is_freed_like_any_other() {
    let mut space = tiny();
    let block = space.one(10, WHOLE);
    assert_eq!(taken(&mut space, 10), [change(ChangeKind::Alloc, &block)]);
    space.unalloc(txg(10), &block);
    assert!(space.try_one(10, 512).is_err());
    assert_eq!(taken(&mut space, 10), [change(ChangeKind::Free, &block)]);
}

#[test]
fn claimed_log_blocks_are_never_handed_out_again() {
    let mut space = tiny();
    let claimed = Dva {
        vdev: VdevId::new(0),
        offset: VdevOffset::new(8 * KIB),
        asize: Asize::new(4 * KIB),
        gang: false,
    };
    space.claim(txg(10), &claimed).unwrap();
    let mut others = 0;
    while let Ok(block) = space.try_one(10, 512) {
        assert!(!overlap(&block, &claimed));
        others += 512;
    }
    assert_eq!(others, WHOLE - 4 * KIB, "and everything else was");
    let recorded: u64 = taken(&mut space, 10).iter().map(|change| change.len.get()).sum();
    assert_eq!(recorded, WHOLE, "the claim is recorded as well");
}

#[test]
fn what_is_allocated_cannot_be_claimed() {
    let mut space = tiny();
    let block = space.one(10, 4 * KIB);
    let (vdev, offset, len) = (block.vdev, block.offset, block.asize);
    assert_eq!(space.claim(txg(10), &block), Err(SpaceError::NotFree { vdev, offset, len }));
    space.free(txg(10), &block);
    assert_eq!(space.claim(txg(10), &block), Err(SpaceError::NotFree { vdev, offset, len }));
}

#[test]
fn a_dva_that_is_no_allocation_is_refused_and_changes_nothing() {
    let mut space = normal(1, 4 * WHOLE, 16);
    let dva = |vdev, offset, len| Dva {
        vdev: VdevId::new(vdev),
        offset: VdevOffset::new(offset),
        asize: Asize::new(len),
        gang: false,
    };
    let hostile = [
        dva(7, 0, 512),
        dva(0, 4 * WHOLE, 512),
        dva(0, u64::MAX - 511, 512),
        dva(0, u64::MAX, u64::MAX),
        dva(0, 0, 0),
        dva(0, 0, 513),
        dva(0, 100, 512),
        dva(0, WHOLE - 512, 1024),
    ];
    for dva in &hostile {
        let error = space.claim(txg(10), dva).unwrap_err();
        assert!(
            matches!(error, SpaceError::NoSuchVdev(_) | SpaceError::Misplaced { .. }),
            "{dva:?}: {error}"
        );
        assert_eq!(space.try_free(txg(10), dva), Err(error));
        assert_eq!(space.check_allocated(txg(10), dva), Err(error));
    }
    assert!(matches!(space.try_free(txg(10), &dva(0, 0, 512)), Err(SpaceError::NotAllocated { .. })));
    assert_eq!(space.space(Class::Normal).free.get(), 4 * WHOLE);
    assert_eq!(taken(&mut space, 10), []);
}

#[test]
fn a_gang_occupies_its_header_whatever_its_dva_counts() {
    let mut space = tiny();
    let header = space.one(10, 512);
    space.finish(10);
    let gang = Dva { gang: true, asize: Asize::new(40 * KIB), ..header };
    space.free(txg(11), &gang);
    assert_eq!(taken(&mut space, 11), [change(ChangeKind::Free, &header)]);
}

#[test]
#[should_panic(expected = "are not allocated")]
fn freeing_twice_panics() {
    let mut space = tiny();
    let block = space.one(10, 512);
    space.free(txg(10), &block);
    space.free(txg(10), &block);
}

#[test]
#[should_panic(expected = "are not allocated")]
fn freeing_what_only_a_later_txg_allocated_panics() {
    let mut space = tiny();
    let block = space.one(11, 512);
    space.free(txg(10), &block);
}

#[test]
#[should_panic(expected = "were not taken")]
fn a_txg_with_unwritten_changes_cannot_be_done() {
    let mut space = tiny();
    space.one(10, 512);
    space.sync_done(txg(10));
}

#[test]
#[should_panic(expected = "after txg 10 is done")]
fn a_done_txg_allocates_no_more() {
    let mut space = tiny();
    space.finish(10);
    space.one(10, 512);
}

#[test]
fn what_a_checkpoint_needs_is_kept_until_it_is_released() {
    let mut space = tiny();
    let (old, young) = (space.one(10, WHOLE / 2), space.one(11, WHOLE / 2));
    (10..12).for_each(|at| space.finish(at));
    space.set_checkpoint(Some(txg(10)));
    for (block, birth) in [(&old, 10), (&young, 11)] {
        space.free_or_keep(txg(12), txg(birth), block);
    }
    assert_eq!(
        taken(&mut space, 12),
        [change(ChangeKind::Free, &young)],
        "the space map has the old one still"
    );
    let kept = space.take_kept(txg(12)).remove(&old.vdev).unwrap();
    assert_eq!(kept, [change(ChangeKind::Free, &old)]);
    (12..20).for_each(|at| space.finish(at));
    assert_eq!(space.one(20, WHOLE / 2), young);
    assert!(space.try_one(20, 512).is_err(), "the rest is kept");
    assert!(space.check_allocated(txg(20), &old).is_err(), "and freed nevertheless");
    space.set_checkpoint(None);
    space.release(txg(20), old.vdev, &kept).unwrap();
    assert!(matches!(space.release(txg(20), old.vdev, &kept), Err(SpaceError::NotKept { .. })));
    (20..23).for_each(|at| {
        assert!(space.try_one(at, 512).is_err(), "it rests in {at}");
        space.finish(at);
    });
    assert_eq!(space.one(23, WHOLE / 2), old);
}

#[test]
fn a_map_of_kept_space_that_contradicts_the_space_maps_is_refused() {
    let mut space = tiny();
    let run =
        |start, len| Change { kind: ChangeKind::Free, offset: VdevOffset::new(start), len: Asize::new(len) };
    let vdev = VdevId::new(0);
    let allocated = Change { kind: ChangeKind::Alloc, ..run(0, 4096) };
    space.load(vdev, ms(0), [allocated]).unwrap();
    assert!(matches!(space.load_kept(vdev, &[run(4096, 512)]), Err(SpaceError::NotAllocated { .. })));
    assert!(matches!(space.load_kept(vdev, &[run(0, 100)]), Err(SpaceError::Misplaced { .. })));
    assert!(matches!(space.load_kept(vdev, &[run(WHOLE, 512)]), Err(SpaceError::Misplaced { .. })));
    assert!(matches!(space.load_kept(VdevId::new(1), &[run(0, 512)]), Err(SpaceError::NoSuchVdev(_))));
    space.load_kept(vdev, &[run(0, 1024)]).unwrap();
    assert!(matches!(space.load_kept(vdev, &[run(512, 1024)]), Err(SpaceError::NotAllocated { .. })));
    assert_eq!(space.space(Class::Normal).kept.get(), 1024);
}
