//! Free bytes that are held for a moment.

use units::VdevOffset;

use super::*;
use crate::{NextFree, Segment};

const ONLY: VdevId = VdevId::new(0);

/// Holds run after run from the beginning of the only vdev, `max` bytes at a time, and gives each back.
fn walked(space: &mut Allocator, max: u64) -> u64 {
    let (mut at, mut bytes) = (0, 0);
    while let NextFree::Held(held) = space.hold_free(ONLY, VdevOffset::new(at), max) {
        (at, bytes) = (held.end, bytes + held.len());
        space.give_back(ONLY, held);
    }
    bytes
}

#[test]
fn what_is_held_is_free_and_handed_out_to_nobody() {
    let mut space = normal(1, MIB, 20);
    let NextFree::Held(held) = space.hold_free(ONLY, VdevOffset::new(0), MIB) else { panic!("all is free") };
    assert_eq!(held, Segment::new(0, MIB).unwrap());
    assert_eq!(space.vdev_space(ONLY).unwrap().free, Asize::new(MIB), "nobody's room became less");
    assert!(space.try_one(10, 512).is_err());
    assert_eq!(
        space.hold_free(ONLY, VdevOffset::new(4096), 512),
        NextFree::Busy(Segment { start: 4096, end: MIB })
    );
    space.give_back(ONLY, held);
    space.one(10, 512);
    assert_eq!(space.hold_free(ONLY, VdevOffset::new(MIB), 512), NextFree::None);
    assert_eq!(space.hold_free(VdevId::new(7), VdevOffset::new(0), 512), NextFree::None);
}

#[test]
fn a_metaslab_is_filled_on_beside_what_is_held() {
    let mut space = normal(1, 4 * MIB, 20);
    let first = space.one(10, 128 * KIB);
    let at = VdevOffset::new(first.offset.get() + first.asize.get());
    let NextFree::Held(held) = space.hold_free(ONLY, at, 64 * KIB) else { panic!("it is free") };
    let next = space.one(10, 128 * KIB);
    let next = Segment::new(next.offset.get(), next.asize.get()).unwrap();
    assert!(next.end <= MIB && !next.overlaps(held), "the same metaslab, and not these bytes: {next:?}");
    space.finish(10);
}

#[test]
fn who_holds_one_run_after_the_other_sees_all_that_is_free() {
    let mut space = normal(1, 4 * MIB, 20);
    let blocks: Vec<Dva> = (0..100).map(|_| space.one(10, 24 * KIB)).collect();
    space.finish(10);
    blocks.iter().step_by(3).for_each(|dva| space.free(txg(11), dva));
    space.finish(11);
    let free = |space: &Allocator| space.vdev_space(ONLY).unwrap().free.get();
    assert_eq!(walked(&mut space, 20 * KIB), free(&space), "what rests is not seen");
    (12..14).for_each(|at| space.finish(at));
    assert_eq!(walked(&mut space, MIB), free(&space));
    assert_eq!(free(&space), 4 * MIB - 66 * 24 * KIB);
    let at = VdevOffset::new(3 * MIB + 512);
    assert_eq!(space.free_before(ONLY, at), (Asize::new(free(&space) - MIB + 512), Asize::new(free(&space))));
}
