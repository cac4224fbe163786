//! Data and special vdevs taken out of pools that have seen work, judged by `zdb` before, in the middle and after.

use std::sync::Arc;
use std::time::Duration;

use dsl::features::{DEVICE_REMOVAL, OBSOLETE_COUNTS};
use ondisk::indirect::RemovingPhys;
use pool::{Pool, PoolError, RemovalRefusal};
use units::VdevId;
use vdev::NodeKind;
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use crate::dice::Dice;
use crate::tree::Tree;
use crate::world::{Layout, World};

fn id(vdev: u32) -> VdevId {
    VdevId::new(vdev)
}

/// Removes a vdev and waits until it is gone.
fn removed(world: &World, pool: &Arc<Pool>, vdev: u32) {
    world.run(pool.evacuate(id(vdev))).unwrap();
    until_over(world, pool);
    let top = pool.vdevs().top(id(vdev)).unwrap();
    assert!(top.is_removed(), "{:?}", pool.evacuation());
}

fn until_over(world: &World, pool: &Pool) {
    until(world, pool, |phys| !phys.is_under_way());
}

fn until(world: &World, pool: &Pool, is_so: impl Fn(&RemovingPhys) -> bool) {
    world.run(async {
        while pool.evacuation().is_some_and(|report| !is_so(&report.phys)) {
            pool.env().sleep(Duration::from_millis(1)).await;
        }
    });
}

fn count(world: &World, pool: &Pool, feature: &dsl::features::Feature) -> Option<u64> {
    world.run(pool.dsl().feature_count(feature)).unwrap()
}

/// A pool that is worked on between removals, until what is left on the last vdev was on two others before.
#[test]
fn vdevs_are_removed_one_after_the_other_and_what_was_mapped_is_mapped_again() {
    let mut dice = Dice::new(91);
    for ashift in [9, 12] {
        let world = World::new(Layout {
            device_mib: 320,
            ..Layout::new(&[&["a"], &["b"], &["c"], &["d"]], &[], ashift)
        });
        let mut pool = world.create();
        let mut zfs = world.zfs(&pool, "whirl");
        let mut tree = world.run(Tree::of_empty(&zfs));
        let mut work = |pool: &Arc<Pool>, zfs: &Zfs, tree: &mut Tree, groups: usize| {
            for _ in 0..groups {
                world.run(tree.steps(zfs, &mut dice, 40));
                world.run(pool.sync_now()).unwrap();
            }
        };
        work(&pool, &zfs, &mut tree, 12);
        let mut verdicts = Vec::new();
        for vdev in [1, 2] {
            world.run(tree.close_orphans(&zfs));
            world.run(pool.evacuate(id(vdev))).unwrap();
            drop(zfs);
            until(&world, &pool, |phys| phys.copied.get() > 0);
            world.export(&pool);
            let half_way = pool.evacuation().unwrap().phys;
            assert!(half_way.is_under_way() && half_way.copied < half_way.to_copy, "{half_way:?}");
            drop(pool);
            let when = format!("vdev {vdev} is being removed, ashift {ashift}");
            verdicts.push(world.copy().check_aside(&when));
            let config = world.zdb().run(&["-C"], &[]).unwrap();
            for line in ["non_allocating: 1", "removing: 1", "com.delphix:indirect_births:"] {
                assert!(config.contains(line), "{line}: {config}");
            }
            pool = world.import();
            zfs = world.zfs(&pool, "whirl");
            work(&pool, &zfs, &mut tree, 3);
            until_over(&world, &pool);
            verdicts.push(world.copy().check_aside(&format!("vdev {vdev} was removed, ashift {ashift}")));
            work(&pool, &zfs, &mut tree, 8);
            verdicts.push(world.copy().check_aside(&format!("vdev {vdev} was removed a while ago")));
        }
        verdicts.into_iter().for_each(|verdict| drop(verdict.wait()));
        let kinds: Vec<NodeKind> = pool.vdevs().all_tops().iter().map(|top| top.kind()).collect();
        assert_eq!(kinds, [NodeKind::Leaf, NodeKind::Indirect, NodeKind::Indirect, NodeKind::Leaf]);
        assert_eq!(count(&world, &pool, &DEVICE_REMOVAL), Some(2));
        assert!(count(&world, &pool, &OBSOLETE_COUNTS) >= Some(5), "marks, counts, and a map at least");
        world.run(tree.close_orphans(&zfs));
        world.run(tree.check(&zfs));
        drop(zfs);
        world.export(&pool);
        drop(pool);
        world.check("exported");
        let label = world.zdb().run(&["-C"], &[]).unwrap();
        for line in ["type: 'indirect'", "com.delphix:prev_indirect_vdev: 1", "non_allocating: 1"] {
            assert!(label.contains(line), "{line}: {label}");
        }
        assert!(!label.contains("removing: 1"), "{label}");
        // Their devices are nobody's.
        for gone in ["b", "c"] {
            assert!(world.label(gone).contains("    txg: 0\n"), "{}", world.label(gone));
            std::fs::write(world.path(gone), vec![0; 1 << 20]).unwrap();
            std::fs::File::create(world.path(gone)).unwrap().set_len(320 << 20).unwrap();
        }
        let pool = world.import();
        let zfs = world.zfs(&pool, "whirl");
        world.run(tree.check(&zfs));
        // All that was ever copied goes, by way of two mappings.
        world.run(tree.clear(&zfs));
        drop(zfs);
        world.export(&pool);
        world.check("emptied");
    }
}

#[test]
fn a_special_vdev_goes_to_its_like_and_the_last_one_to_the_rest() {
    let mut dice = Dice::new(92);
    let layout = Layout::new(&[&["a", "b"], &["g", "h"]], &[], 12);
    let layout = Layout { special: &[&["c", "d"], &["e", "f"]], special_mib: 96, device_mib: 320, ..layout };
    let world = World::new(layout);
    let pool = world.create();
    let zfs = world.zfs(&pool, "whirl");
    let mut tree = world.run(Tree::of_empty(&zfs));
    for _ in 0..6 {
        world.run(tree.steps(&zfs, &mut dice, 30));
        world.run(pool.sync_now()).unwrap();
    }
    let allocated = |vdev: u32| {
        pool.zio().with_allocator(|a| a.vdev_space(id(vdev))).map_or(0, |space| space.allocated.get())
    };
    let (other, data) = (allocated(3), allocated(0) + allocated(1));
    removed(&world, &pool, 2);
    assert!(
        allocated(3) > other && allocated(0) + allocated(1) <= data + (8 << 20),
        "metadata stays where it was"
    );
    let exported = world.copy().check_aside("one special vdev is left");
    removed(&world, &pool, 3);
    let after = world.copy().check_aside("none is left");
    for _ in 0..3 {
        world.run(tree.steps(&zfs, &mut dice, 30));
        world.run(pool.sync_now()).unwrap();
    }
    world.run(tree.close_orphans(&zfs));
    world.run(tree.check(&zfs));
    [exported, after].into_iter().for_each(|verdict| drop(verdict.wait()));
    drop(zfs);
    world.export(&pool);
    world.check("exported");
}

#[test]
fn what_cannot_be_emptied_is_refused() {
    let refused = |world: &World, pool: &Arc<Pool>, vdev| match world.run(pool.evacuate(id(vdev))) {
        Err(PoolError::Removal(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    let world = World::new(Layout { device_mib: 256, ..Layout::new(&[&["a"]], &[], 12) });
    let pool = world.create();
    assert!(matches!(refused(&world, &pool, 0), RemovalRefusal::NoRoom), "the only one");
    let world = World::new(Layout {
        device_mib: 256,
        parity: 1,
        ..Layout::new(&[&["a", "b", "c"], &["d", "e", "f"], &["g", "h", "i"]], &[], 12)
    });
    let pool = world.create();
    assert!(matches!(refused(&world, &pool, 1), RemovalRefusal::Layout), "a raidz");

    let world = World::new(Layout { device_mib: 256, ..Layout::new(&[&["a"], &["b"], &["c"]], &[], 12) });
    let pool = world.create();
    let zfs = world.zfs(&pool, "whirl");
    let made = world.run(zfs.create(zfs.root(), b"big", NewNode::File, 0o644, Cred::default())).unwrap();
    let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
    let mut word = || {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        noise.to_le_bytes()
    };
    let data: Vec<u8> = (0..4 << 17).flat_map(|_| word()).collect();
    for at in 0..28_u64 {
        world.run(zfs.write(made.object, at * data.len() as u64, &data, WriteFlags::default())).unwrap();
    }
    world.run(pool.sync_now()).unwrap();
    world.run(pool.evacuate(id(1))).unwrap();
    // While it goes.
    assert!(matches!(refused(&world, &pool, 1), RemovalRefusal::Leaving), "it is being removed");
    let checkpoint = world.run(pool.make_checkpoint());
    assert!(matches!(checkpoint, Err(PoolError::Removal(RemovalRefusal::InProgress))), "{checkpoint:?}");
    until_over(&world, &pool);
    assert_eq!(pool.evacuation().map(|report| report.phys.state.get()), Some(RemovingPhys::FINISHED));
    // What is left could not take another: it has no room for what datasets may still write.
    assert!(matches!(refused(&world, &pool, 0), RemovalRefusal::NoRoom));
    drop(zfs);
    world.export(&pool);
    world.check("after");
}
