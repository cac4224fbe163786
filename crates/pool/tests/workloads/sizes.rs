//! Devices that become larger or smaller, and sectors of every size.

use std::sync::Arc;
use std::time::Duration;

use dsl::PropValue;
use metaslab::Class;
use pool::{Pool, PoolError};
use vdev::{NewLeaf, VdevError, VdevState};

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

fn new_file(world: &World, name: &str, bytes: u64) -> NewLeaf {
    std::fs::File::create(world.path(name)).unwrap().set_len(bytes).unwrap();
    NewLeaf { path: world.path(name), ..NewLeaf::default() }
}

/// True if each leaf has everything that was written to its vdev.
fn lacks_nothing(pool: &Pool) -> bool {
    pool.vdevs().leaves().iter().all(|leaf| !leaf.is_stale() && leaf.dtl().is_empty())
}

/// Waits until the pool has only the leaves with these names and `is_done` returns true.
fn wait_until(world: &World, pool: &Arc<Pool>, names: &[&str], is_done: impl Fn() -> bool) {
    let paths: Vec<_> = names.iter().map(|name| world.path(name)).collect();
    let is_so =
        || pool.vdevs().leaves().iter().map(|leaf| leaf.path()).collect::<Vec<_>>() == paths && is_done();
    world.run(async {
        for _ in 0..3000 {
            if is_so() {
                return;
            }
            pool.sync_now().await.unwrap();
            env::Env::sleep(&**pool.env(), Duration::from_millis(10)).await;
        }
        panic!("{:?}", pool.vdevs().leaves().iter().map(|leaf| leaf.path()).collect::<Vec<_>>());
    });
}

#[test]
fn a_vdev_grows_once_the_last_small_device_is_replaced() {
    let layout = Layout { device_mib: 96, ..Layout::new(&[&["a", "b"]], &[], 12) };
    let world = World::new(layout);
    let pool = world.create();
    let before = capacity(&pool);
    world.run(pool.set_pool_prop("autoexpand", Some(PropValue::Number(1)))).unwrap();
    let [a, b] = [0, 1].map(|at| pool.vdevs().leaves()[at].guid());
    let large = 400 << 20;
    world.run(pool.replace(a, &new_file(&world, "a2", large))).unwrap();
    wait_until(&world, &pool, &["a2", "b"], || true);
    assert_eq!(capacity(&pool), before, "one of two is as small as it was");
    world.run(pool.replace(b, &new_file(&world, "b2", large))).unwrap();
    wait_until(&world, &pool, &["a2", "b2"], || capacity(&pool) > 3 * before);
    // The same when the small side of a mirror is detached.
    let grown = capacity(&pool);
    let a2 = pool.vdevs().leaves()[0].guid();
    world.run(pool.detach(a2)).unwrap();
    world.run(pool.attach(pool.vdevs().leaves()[0].guid(), &new_file(&world, "c", 800 << 20))).unwrap();
    wait_until(&world, &pool, &["b2", "c"], || lacks_nothing(&pool));
    world.run(pool.detach(pool.vdevs().leaves()[0].guid())).unwrap();
    wait_until(&world, &pool, &["c"], || capacity(&pool) > grown * 3 / 2);
    world.export(&pool);
}

#[test]
fn a_replacement_needs_room_for_all_metaslabs_and_no_more() {
    let mirror = Layout::new(&[&["a", "b"]], &[], 9);
    let raidz = Layout { parity: 1, ..Layout::new(&[&["a", "b", "c"]], &[], 12) };
    for layout in [mirror, raidz] {
        let layout = Layout { device_mib: 200, ..layout };
        let (world, mut dice) = (World::new(layout), Dice::new(9));
        let pool = world.create();
        let mut tree = world.run(Tree::of_empty(&world.zfs(&pool, "whirl")));
        work(&world, &pool, &mut tree, &mut dice);
        let top = &pool.vdevs().tops()[0];
        let (needs_bytes, before) = (top.bytes_of_leaf(), capacity(&pool));
        assert!(needs_bytes < 200 << 20, "the last part of the vdev is no whole metaslab");
        let old = pool.vdevs().leaves()[1].guid();
        let refused = world.run(
            pool.replace(old, &new_file(&world, "less", needs_bytes.next_multiple_of(1 << 18) - (1 << 18))),
        );
        assert!(matches!(refused, Err(PoolError::Vdev(VdevError::TooSmall { .. }))), "{refused:?}");
        let enough = new_file(&world, "enough", needs_bytes.next_multiple_of(1 << 18));
        world.run(pool.replace(old, &enough)).unwrap();
        let names: Vec<&str> =
            ["a", "enough", "c"][..pool.vdevs().tops()[0].spread().children().max(2)].to_vec();
        wait_until(&world, &pool, &names, || lacks_nothing(&pool));
        assert_eq!(capacity(&pool), before);
        work(&world, &pool, &mut tree, &mut dice);
        world.export(&pool);
        // All files are found, by zdb too.
        let pool = world.import_from(&names);
        work(&world, &pool, &mut tree, &mut dice);
        world.export(&pool);
        world.check("on a smaller device");
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
            // Seven metaslabs of 16 MiB, and the labels.
            let needs_bytes = (7_u64 << 24) + (9 << 19);
            let (name, bytes) = (world.path("a").display().to_string(), needs_bytes.to_string());
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
