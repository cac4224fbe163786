//! Devices that become larger or smaller, and sectors of every size.

use std::sync::Arc;

use dsl::PropValue;
use metaslab::Class;
use pool::{Pool, PoolError};
use vdev::VdevState;

use crate::dice::Dice;
use crate::tree::Tree;
use crate::world::{Layout, World};

fn capacity(pool: &Pool) -> u64 {
    pool.zio().with_allocator(|allocator| allocator.space(Class::Normal).capacity.get())
}

fn resize(world: &World, layout: Layout, mib: u64) {
    for name in layout.data.iter().copied().flatten() {
        std::fs::File::options().write(true).open(world.path(name)).unwrap().set_len(mib << 20).unwrap();
    }
}

fn work(world: &World, pool: &Arc<Pool>, tree: &mut Tree, dice: &mut Dice) {
    let zfs = world.zfs(pool, "whirl");
    world.run(async {
        tree.check(&zfs).await;
        tree.steps(&zfs, dice, 60).await;
        tree.close_orphans(&zfs).await;
    });
}

#[test]
fn a_pool_grows_with_its_devices() {
    let one = Layout::new(&[&["a"]], &[], 12);
    let mirror = Layout::new(&[&["a", "b"]], &[], 9);
    let raidz = Layout { parity: 1, ..Layout::new(&[&["a", "b", "c"]], &[], 12) };
    for layout in [one, mirror, raidz] {
        let layout = Layout { device_mib: 96, ..layout };
        let (world, mut dice) = (World::new(layout), Dice::new(3));
        let pool = world.create();
        let before = capacity(&pool);
        let mut tree = world.run(Tree::of_empty(&world.zfs(&pool, "whirl")));
        work(&world, &pool, &mut tree, &mut dice);
        world.export(&pool);
        resize(&world, layout, 400);
        // Nobody asked for it yet.
        let pool = world.import();
        assert_eq!(capacity(&pool), before);
        let on = Some(PropValue::Number(1));
        world.run(pool.set_pool_prop("autoexpand", on)).unwrap();
        assert!(capacity(&pool) > 2 * before, "{} of {before}", capacity(&pool));
        world.export(&pool);
        world.check("on larger devices");
        resize(&world, layout, 600);
        let pool = world.import();
        work(&world, &pool, &mut tree, &mut dice);
        world.export(&pool);
        let pool = world.import();
        assert!(capacity(&pool) > 4 * before, "{} of {before}", capacity(&pool));
        // More than there was room for before.
        let zfs = world.zfs(&pool, "whirl");
        world.run(async {
            let cred = zpl::Cred::default();
            let big = zfs.create(zfs.root(), b"big", zpl::NewNode::File, 0o644, cred).await.unwrap();
            let noise: Vec<u8> = (0..1 << 20).map(|_| dice.word() as u8).collect();
            for at in 0..before >> 20 {
                zfs.write(big.object, at << 20, &noise, zpl::WriteFlags::default()).await.unwrap();
            }
            zfs.sync().await.unwrap();
        });
        drop(zfs);
        drop(world.copy().check_aside("grown, and then a crash").wait());
        world.export(&pool);
        world.check("grown");
        let pool = world.import();
        assert!(capacity(&pool) > 4 * before);
        let zfs = world.zfs(&pool, "whirl");
        world.run(async { zfs.unlink(zfs.root(), b"big").await.unwrap() });
        drop(zfs);
        work(&world, &pool, &mut tree, &mut dice);
        world.export(&pool);
        world.check("grown, and emptied");
    }
}

#[test]
fn a_device_that_has_become_too_small_is_refused_by_name() {
    let layout = Layout { device_mib: 128, ..Layout::new(&[&["a"]], &[], 12) };
    let world = World::new(layout);
    world.export(&world.create());
    resize(&world, layout, 100);
    let before = std::fs::read(world.path("a")).unwrap();
    match world.try_import() {
        Err(error @ PoolError::DeviceShrunk { .. }) => {
            let (name, bytes) = (world.path("a").display().to_string(), (128_u64 << 20).to_string());
            let said = error.to_string();
            assert!(said.contains(&name) && said.contains(&bytes), "{said}");
        }
        other => panic!("{other:?}", other = other.map(|_| ())),
    }
    assert!(std::fs::read(world.path("a")).unwrap() == before, "nothing was written");
    // What a mirror can do without, it does without.
    let layout = Layout { device_mib: 128, ..Layout::new(&[&["a", "b"]], &[], 12) };
    let world = World::new(layout);
    world.export(&world.create());
    std::fs::File::options().write(true).open(world.path("b")).unwrap().set_len(100 << 20).unwrap();
    let pool = world.import();
    assert_eq!(pool.vdevs().state().0, VdevState::Degraded);
    world.export(&pool);
}

/// A ring of uberblocks has from 128 slots of 1 KiB down to 16 of 8 KiB.
#[test]
fn every_sector_size_has_its_ring_of_uberblocks() {
    for ashift in 9..=16 {
        let (world, mut dice) =
            (World::new(Layout { device_mib: 256, ..Layout::new(&[&["a"]], &[], ashift) }), Dice::new(5));
        let pool = world.create();
        let mut tree = world.run(Tree::of_empty(&world.zfs(&pool, "whirl")));
        work(&world, &pool, &mut tree, &mut dice);
        // More txgs than the smallest ring has slots.
        for _ in 0..20 {
            world.run(pool.sync_now()).unwrap();
        }
        let crashed = world.copy();
        crashed.check("crashed");
        world.export(&pool);
        world.check("exported");
        let slots = (128 << 10) / (1_u64 << ashift).clamp(1 << 10, 8 << 10);
        let label = world.label("a");
        let shown = label.lines().filter(|line| line.trim_start().starts_with("Uberblock[")).count() as u64;
        assert!(shown > 0 && shown <= slots, "ashift {ashift}: {shown} of {slots}");
        let highest = label
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Uberblock[")?.split(']').next()?.parse().ok());
        let highest: u64 = highest.max().unwrap();
        assert!(highest < slots, "ashift {ashift}: slot {highest} of {slots}");
        assert!(label.contains(&format!("ashift: {ashift}")), "{label}");
        let pool = crashed.import();
        let zfs = crashed.zfs(&pool, "whirl");
        crashed.run(tree.check(&zfs));
        drop(zfs);
        crashed.export(&pool);
    }
}
