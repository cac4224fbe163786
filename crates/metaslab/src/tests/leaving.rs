//! Vdevs that are being emptied.

use std::collections::BTreeSet;

use units::VdevOffset;

use super::*;
use crate::{NextFree, Segment};

const GOING: VdevId = VdevId::new(0);

/// What is left as a set of sectors.
fn sectors(runs: &[Segment]) -> BTreeSet<u64> {
    runs.iter().flat_map(|run| (run.start..run.end).step_by(512)).collect()
}

#[test]
fn what_is_left_on_a_vdev_is_told_run_by_run() {
    let mut space = normal(1, 4 * MIB, 20);
    let mut blocks: Vec<Dva> = (0..700_u64).map(|n| space.one(10, 512 + n % 5 * 1024)).collect();
    space.finish(10);
    space.set_allocating(GOING, false);
    let mut at = 11;
    while !blocks.is_empty() {
        // Of each state: freed in a txg that is open, in one whose changes were taken, in one that is done and rests.
        let gone: Vec<Dva> = blocks.iter().copied().step_by(3).collect();
        blocks.retain(|block| !gone.contains(block));
        gone.iter().for_each(|block| space.free(txg(at), block));
        let want: BTreeSet<u64> = blocks
            .iter()
            .flat_map(|block| (block.offset.get()..block.offset.get() + block.asize.get()).step_by(512))
            .collect();
        // What somebody holds to trim it is free, not left.
        let held = space.hold_free(GOING, VdevOffset::new(0), 8 * KIB);
        for from in [0, 5 << 9, MIB - 512, MIB, 3 * MIB + 512, 4 * MIB] {
            let runs = space.left_on(GOING, from, u64::MAX);
            assert!(runs.is_sorted() && runs.windows(2).all(|two| two[0].end <= two[1].start));
            let want: BTreeSet<u64> = want.iter().copied().filter(|&sector| sector >= from).collect();
            assert_eq!(sectors(&runs), want, "from {from:#x}");
            assert_eq!(space.bytes_left_on(GOING, from), want.len() as u64 * 512);
        }
        match held {
            NextFree::Held(held) => space.give_back(GOING, held),
            other => assert_eq!(other, NextFree::None),
        }
        let few: Vec<u64> = want.iter().copied().take(9).collect();
        assert_eq!(sectors(&space.left_on(GOING, 0, 9 * 512)).into_iter().collect::<Vec<_>>(), few);
        space.take_changes(txg(at));
        if at % 2 == 0 {
            // Every other txg frees twice: before and after its changes were taken.
            space.free(txg(at), &blocks.pop().expect("some are left"));
        }
        space.finish(at);
        at += 1;
    }
    assert!(space.left_on(GOING, 0, u64::MAX).is_empty());
}

#[test]
fn a_vdev_that_takes_no_blocks_is_no_room() {
    let mut space = normal(2, 4 * MIB, 20);
    space.set_allocating(GOING, false);
    assert_eq!(space.open_space(Class::Normal).capacity.get(), 4 * MIB);
    assert_eq!(space.space(Class::Normal).capacity.get(), 8 * MIB);
    while space.try_one(10, 128 * KIB).is_ok() {}
    let error = space.try_one(10, 128 * KIB).expect_err("the other is full");
    assert!(!error.may_fit_in_pieces(), "{error}: nothing is free that may be used");
    assert_eq!(space.left_on(GOING, 0, u64::MAX), []);
}

#[test]
fn a_retired_vdev_leaves_nothing_to_be_written() {
    let mut space = normal(2, 4 * MIB, 20);
    let here = Hint { prefer: Some(GOING), avoid: &[] };
    let block = space.allocate(Class::Normal, Psize::new(KIB), 1, txg(10), here).unwrap()[0];
    space.finish(10);
    space.set_allocating(GOING, false);
    space.free(txg(11), &block);
    space.retire_vdev(GOING).unwrap();
    assert!(space.take_changes(txg(11)).is_empty());
    space.sync_done(txg(11));
    assert!(space.retire_vdev(GOING).is_err() && space.vdevs(Class::Normal) == [VdevId::new(1)]);
}
