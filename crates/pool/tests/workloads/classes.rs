//! Special vdevs: what goes there, what when they are full, and that they are found again.

use std::sync::Arc;

use dsl::features::ALLOCATION_CLASSES;
use metaslab::Class;
use pool::Pool;
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use crate::dice::Dice;
use crate::tree::Tree;
use crate::world::{Layout, World};

const MIB: u64 = 1 << 20;

/// Two small devices for metadata and small blocks beside a large one.
fn layout() -> Layout {
    Layout { special: &[&["s", "t"]], special_mib: 80, ..Layout::new(&[&["a"]], &[&["l"]], 12) }
}

fn allocated(pool: &Pool, class: Class) -> u64 {
    pool.zio().with_allocator(|allocator| allocator.space(class).allocated.get())
}

async fn write(zfs: &Zfs, name: &str, data: &[u8]) {
    let made = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default()).await.unwrap();
    zfs.write(made.object, 0, data, WriteFlags::default()).await.unwrap();
}

/// How much a file of so many bytes takes in each class, beside its metadata.
fn grown(world: &World, pool: &Arc<Pool>, zfs: &Zfs, name: &str, data: &[u8]) -> (u64, u64) {
    let before = (allocated(pool, Class::Normal), allocated(pool, Class::Special));
    world.run(write(zfs, name, data));
    world.run(pool.sync_now()).unwrap();
    let after = (allocated(pool, Class::Normal), allocated(pool, Class::Special));
    (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1))
}

#[test]
fn special_vdevs_take_metadata_and_small_blocks_until_they_are_full() {
    let mut dice = Dice::new(11);
    let world = World::new(layout());
    let pool = world.create();
    assert_eq!(allocated(&pool, Class::Normal), 0, "the meta-objset is all metadata");
    assert!(allocated(&pool, Class::Special) > 0);
    let small = [("recordsize", 16 << 10), ("special_small_blocks", 16 << 10), ("compression", 2)];
    world.create_filesystem(&pool, "whirl/small", &small);
    world.create_filesystem(&pool, "whirl/large", &[("compression", 2)]);
    let (small, large) = (world.zfs(&pool, "whirl/small"), world.zfs(&pool, "whirl/large"));
    let data = dice.bytes(4 << 20);
    let (normal, special) = grown(&world, &pool, &small, "few", &data);
    assert!(normal == 0 && special >= 4 * MIB, "{normal}, {special}");
    let (normal, special) = grown(&world, &pool, &large, "few", &data);
    assert!(normal >= 4 * MIB && special < MIB, "{normal}, {special}");
    let exported = world.copy().check_aside("some of each");

    // Three quarters are for small blocks; all beyond goes to the large device, as metadata does in the end.
    let many = dice.bytes(80 << 20);
    let (normal, special) = grown(&world, &pool, &small, "many", &many);
    assert!(normal > 20 * MIB && special > 20 * MIB, "{normal}, {special}");
    let space = pool.zio().with_allocator(|allocator| allocator.space(Class::Special));
    assert!(space.free.get() > space.capacity.get() / 8, "metadata has its reserve: {space:?}");
    drop(exported.wait());
    drop((small, large));
    world.export(&pool);
    drop(pool);
    world.check("special vdevs are full");

    let pool = world.import();
    assert_eq!(pool.zio().with_allocator(|allocator| allocator.vdevs(Class::Special).len()), 1);
    let count = world.run(pool.dsl().feature_count(&ALLOCATION_CLASSES)).unwrap();
    assert_eq!(count, Some(1));
    let small = world.zfs(&pool, "whirl/small");
    world.run(async {
        let found = small.lookup(small.root(), b"many").await.unwrap();
        let mut back = vec![0; many.len()];
        assert_eq!(small.read(found.object, 0, &mut back).await.unwrap(), many.len());
        assert!(back == many);
        small.unlink(small.root(), b"many").await.unwrap();
    });
    drop(small);
    world.export(&pool);
    world.check("emptied again");
}

#[test]
fn a_pool_with_special_vdevs_stays_whole() {
    let mut dice = Dice::new(12);
    let world = World::new(layout());
    let pool = world.create();
    world.create_filesystem(&pool, "whirl/fs", &[("special_small_blocks", 32 << 10)]);
    let zfs = world.zfs(&pool, "whirl/fs");
    let mut tree = world.run(Tree::of_empty(&zfs));
    world.run(tree.steps(&zfs, &mut dice, 200));
    world.run(zfs.sync()).unwrap();
    let crashed = world.copy().check_aside("crashed");
    world.run(tree.close_orphans(&zfs));
    world.run(tree.check(&zfs));
    drop(zfs);
    world.export(&pool);
    world.check("exported");
    drop(crashed.wait());
    let pool = world.import();
    world.run(tree.check(&world.zfs(&pool, "whirl/fs")));
}
