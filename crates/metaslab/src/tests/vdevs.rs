//! Which vdev a block goes to.

use std::collections::BTreeMap;

use super::*;
use crate::{AllocError, VdevConfigError};

fn tally(space: &mut Allocator, blocks: usize, bytes: u64) -> BTreeMap<u32, usize> {
    let mut tally = BTreeMap::new();
    for _ in 0..blocks {
        *tally.entry(space.one(10, bytes).vdev.get()).or_default() += 1;
    }
    tally
}

#[test]
fn vdevs_take_turns() {
    let mut space = normal(3, 64 * MIB, 24);
    let order: Vec<_> = (0..24).map(|_| space.one(10, 128 * KIB).vdev.get()).collect();
    assert_eq!(order, [[0; 4], [1; 4], [2; 4], [0; 4], [1; 4], [2; 4]].concat());
}

#[test]
fn an_emptier_vdev_gets_more() {
    let mut space = normal(2, 64 * MIB, 24);
    let hint = Hint { prefer: Some(VdevId::new(0)), avoid: &[] };
    while space.vdev_space(VdevId::new(0)).unwrap().allocated.get() < 48 * MIB {
        space.allocate(Class::Normal, Psize::new(128 * KIB), 1, txg(10), hint).unwrap();
    }
    let tally = tally(&mut space, 200, 128 * KIB);
    assert!(tally[&1] > 2 * tally[&0], "{tally:?}");
    assert!(tally[&0] > 0, "{tally:?}");
}

#[test]
fn copies_go_to_different_vdevs() {
    let mut space = normal(3, 64 * MIB, 24);
    for copies in 1..=3 {
        let dvas = space.allocate(Class::Normal, Psize::new(KIB), copies, txg(10), Hint::default()).unwrap();
        let mut vdevs: Vec<_> = dvas[..copies].iter().map(|dva| dva.vdev).collect();
        vdevs.sort();
        vdevs.dedup();
        assert_eq!(vdevs.len(), copies);
        assert!(dvas[copies..].iter().all(|dva| *dva == Dva::EMPTY));
    }
}

#[test]
fn a_third_copy_shares_a_vdev_when_there_are_only_two() {
    let mut space = normal(2, 64 * MIB, 22);
    let dvas = space.allocate(Class::Normal, Psize::new(KIB), 3, txg(10), Hint::default()).unwrap();
    assert_ne!(dvas[0].vdev, dvas[1].vdev);
    let twin = if dvas[2].vdev == dvas[0].vdev { &dvas[0] } else { &dvas[1] };
    assert!(dvas[2].offset.get().abs_diff(twin.offset.get()) >= 8 * MIB);
}

#[test]
fn a_preferred_vdev_is_used_while_it_has_room() {
    let mut space = normal(2, MIB, 20);
    let hint = Hint { prefer: Some(VdevId::new(1)), avoid: &[] };
    let mut on = [0, 0];
    for _ in 0..12 {
        let dva = space.allocate(Class::Normal, Psize::new(128 * KIB), 1, txg(10), hint).unwrap()[0];
        on[dva.vdev.get() as usize] += 1;
    }
    assert_eq!(on, [4, 8]);
}

#[test]
fn an_avoided_vdev_is_never_used() {
    let mut space = normal(2, MIB, 20);
    let avoid = [VdevId::new(0)];
    let hint = Hint { prefer: Some(VdevId::new(0)), avoid: &avoid };
    for _ in 0..8 {
        let dva = space.allocate(Class::Normal, Psize::new(128 * KIB), 1, txg(10), hint).unwrap()[0];
        assert_eq!(dva.vdev, VdevId::new(1));
    }
    let error = space.allocate(Class::Normal, Psize::new(512), 1, txg(10), hint).unwrap_err();
    let AllocError::NoSpace { free, longest, .. } = error else { panic!("{error}") };
    assert_eq!((free.get(), longest.get()), (MIB, MIB), "there would be room on the avoided one");
}

#[test]
fn a_vdev_that_may_not_allocate_still_frees() {
    let mut space = normal(2, MIB, 20);
    let block = space.one(10, 512);
    space.set_allocating(block.vdev, false);
    for _ in 0..100 {
        assert_ne!(space.one(10, 512).vdev, block.vdev);
    }
    space.free(txg(10), &block);
    assert_eq!(space.vdev_space(block.vdev).unwrap().resting.get(), 512);
}

#[test]
fn log_and_normal_blocks_keep_apart() {
    let mut space = normal(1, MIB, 20);
    let log = |space: &mut Allocator| {
        let hint = Hint { prefer: Some(VdevId::new(0)), avoid: &[] };
        space.allocate(Class::Log, Psize::new(128 * KIB), 1, txg(10), hint).map(|dvas| dvas[0].vdev.get())
    };
    assert_eq!(log(&mut space), Err(AllocError::NoVdev(Class::Log)));
    space.add_vdev(vdev(1, Class::Log, MIB, 20)).unwrap();
    for _ in 0..8 {
        assert_eq!(log(&mut space), Ok(1));
    }
    assert!(
        matches!(log(&mut space), Err(AllocError::NoSpace { class: Class::Log, .. })),
        "no silent fallback"
    );
    assert_eq!(space.one(10, 512).vdev.get(), 0);
    assert_eq!(
        (space.vdevs(Class::Normal), space.vdevs(Class::Log)),
        (&[VdevId::new(0)][..], &[VdevId::new(1)][..])
    );
}

#[test]
fn sizes_are_rounded_to_the_vdevs_own_sectors() {
    let mut space = Allocator::new();
    space.add_vdev(VdevConfig { ashift: Ashift::new(12), ..vdev(0, Class::Normal, MIB, 20) }).unwrap();
    assert_eq!(space.one(10, 513).asize.get(), 4 * KIB);
    assert_eq!(space.one(10, 4097).asize.get(), 8 * KIB);
}

#[test]
fn a_raidz_pays_for_its_parity() {
    let mut space = Allocator::new();
    let spread = Spread::raidz(4, 2).unwrap();
    space.add_vdev(VdevConfig { spread, ..vdev(0, Class::Normal, MIB, 20) }).unwrap();
    assert_eq!(space.one(10, 512).asize.get(), 3 * 512);
    assert_eq!(space.one(10, 128 * KIB).asize.get(), 512 * 513);
}

/// Wherever a stream starts or goes on, and whatever holes there are.
#[test]
fn every_block_of_a_draid_begins_with_a_row() {
    for (data, parity, ashift) in [(3, 2, 9), (2, 1, 12), (8, 3, 12)] {
        let (spread, ashift) = (Spread::draid(data, parity).unwrap(), Ashift::new(ashift));
        let row = spread.unit_bytes(ashift);
        let mut space = Allocator::new();
        space.add_vdev(VdevConfig { ashift, spread, ..vdev(0, Class::Normal, 64 * MIB, 24) }).unwrap();
        let (mut blocks, mut seed) = (Vec::new(), 1_u64);
        for at in 10..40 {
            for bytes in (0..200_u64).map(|n| [512, 4 * KIB, 11 * 512, 20 * KIB, 128 * KIB][(n % 5) as usize])
            {
                let Ok(block) = space.try_one(at, bytes) else { break };
                assert_eq!(
                    (block.offset.get() % row, block.asize.get() % row),
                    (0, 0),
                    "{block:?}, rows of {row}"
                );
                blocks.push(block);
            }
            for _ in 0..blocks.len() / 2 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let gone = blocks.swap_remove((seed >> 33) as usize % blocks.len());
                space.free(txg(at), &gone);
            }
            space.finish(at);
        }
        assert!(blocks.len() > 100, "{} blocks are left", blocks.len());
    }
}

#[test]
fn a_grown_vdev_has_more_metaslabs() {
    let mut space = normal(1, 100 * KIB, 16);
    assert_eq!(space.space(Class::Normal).capacity.get(), 64 * KIB, "only whole metaslabs count");
    space.one(10, 64 * KIB);
    space.grow_vdev(VdevId::new(0), Asize::new(128 * KIB)).unwrap();
    assert_eq!(space.one(10, 64 * KIB).offset.get(), 64 * KIB);
    space.grow_vdev(VdevId::new(0), Asize::new(0)).unwrap();
    assert_eq!(space.metaslabs(VdevId::new(0)).len(), 2, "a vdev never shrinks");
}

#[test]
fn only_an_unused_vdev_is_removed() {
    let mut space = normal(2, MIB, 20);
    let id = VdevId::new(0);
    let block = space.one(10, 512);
    assert_eq!(block.vdev, id);
    let in_use = |allocated| Err(VdevConfigError::InUse { vdev: id, allocated: Asize::new(allocated) });
    assert_eq!(space.remove_vdev(id), in_use(512));
    space.finish(10);
    space.free(txg(11), &block);
    assert_eq!(space.remove_vdev(id), in_use(0), "the free is not written yet");
    space.finish(11);
    assert_eq!(space.remove_vdev(id), Ok(()));
    assert_eq!(space.remove_vdev(id), Err(VdevConfigError::NoSuchVdev(id)));
    assert_eq!(space.one(12, 512).vdev, VdevId::new(1));
}

#[test]
fn impossible_vdevs_are_refused() {
    let good = vdev(0, Class::Normal, MIB, 20);
    let bad = [
        VdevConfig { ashift: Ashift::new(8), ..good },
        VdevConfig { ashift: Ashift::new(17), ..good },
        VdevConfig { ms_shift: 8, ..good },
        VdevConfig { ms_shift: 64, ..good },
        VdevConfig { ms_shift: 255, ..good },
        VdevConfig { ms_shift: 21, ..good },
        VdevConfig { asize: Asize::new(u64::MAX), ..good },
    ];
    let mut space = Allocator::new();
    for config in bad {
        assert!(matches!(space.add_vdev(config), Err(VdevConfigError::Geometry { .. })), "{config:?}");
    }
    space.add_vdev(good).unwrap();
    assert_eq!(space.add_vdev(good), Err(VdevConfigError::Exists(VdevId::new(0))));
}

#[test]
fn a_metaslab_where_a_write_failed_is_the_last_choice() {
    for copies in [1, 2] {
        let mut space = normal(1, 4 * MIB, 20);
        let bad = space.one(4, 64 * KIB);
        space.shun(&bad);
        let is_there = |dva: &Dva| dva.offset.get() / MIB == bad.offset.get() / MIB;
        let mut next = || {
            let dvas = space.allocate(Class::Normal, Psize::new(64 * KIB), copies, txg(4), Hint::default());
            dvas.ok().map(|dvas| dvas[..copies].iter().filter(|dva| is_there(dva)).count())
        };
        let elsewhere = (3 * MIB / (64 * KIB)) as usize / copies;
        for block in 0..elsewhere {
            assert_eq!(next(), Some(0), "block {block} of {elsewhere}");
        }
        assert_eq!(next(), Some(copies), "when all else is full");
        space.forget_shunned();
        space.finish(4);
    }
}

#[test]
fn another_vdev_comes_before_a_metaslab_where_a_write_failed() {
    let mut space = normal(2, MIB, 20);
    let bad = space.one(4, 64 * KIB);
    space.shun(&bad);
    for _ in 0..MIB / (64 * KIB) {
        assert_ne!(space.one(4, 64 * KIB).vdev, bad.vdev);
    }
    assert_eq!(space.one(4, 64 * KIB).vdev, bad.vdev, "the other one is full");
}
