//! Vdevs where no more blocks are to go.

use std::sync::Arc;

use dsl::PropValue;
use pool::{Pool, PoolError, VdevPropRefusal};
use units::VdevId;
use zpl::{Cred, NewNode, WriteFlags};

use crate::world::{Layout, World};

fn allocated(pool: &Pool, vdev: u32) -> u64 {
    let space = pool.zio().with_allocator(|allocator| allocator.vdev_space(VdevId::new(vdev)));
    space.unwrap().allocated.get()
}

/// Writes eight MiB to a new file.
fn write(world: &World, pool: &Arc<Pool>, name: &str) {
    let zfs = world.zfs(pool, "whirl");
    world.run(async {
        let file = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default()).await;
        let file = file.unwrap().object;
        let bytes: Vec<u8> = (0..8_u64 << 20).map(|at| ((at * at) >> 9) as u8).collect();
        zfs.write(file, 0, &bytes, WriteFlags::default()).await.unwrap();
        zfs.sync().await.unwrap();
        pool.sync_now().await.unwrap();
    });
}

fn set(world: &World, pool: &Arc<Pool>, vdev: u32, on: u64) -> Result<(), PoolError> {
    let guid = pool.vdevs().top(VdevId::new(vdev)).unwrap().guid();
    world.run(pool.set_vdev_prop(guid, "allocating", Some(PropValue::Number(on))))
}

#[test]
fn no_block_goes_to_a_vdev_that_is_not_allocating() {
    let world = World::new(Layout { device_mib: 256, ..Layout::new(&[&["a"], &["b"]], &[], 12) });
    let pool = world.create();
    write(&world, &pool, "before");
    assert!(allocated(&pool, 1) > 1 << 20, "{}", allocated(&pool, 1));
    set(&world, &pool, 1, 0).unwrap();
    // What was under way has its place.
    write(&world, &pool, "between");
    let rests = allocated(&pool, 1);
    write(&world, &pool, "after");
    assert!(allocated(&pool, 1) <= rests, "{} and {rests}", allocated(&pool, 1));
    let refused = set(&world, &pool, 0, 0).err();
    assert!(matches!(refused, Some(PoolError::VdevProp(VdevPropRefusal::Invalid))), "{refused:?}");
    world.export(&pool);
    world.check("rests");
    let config = world.zdb().run(&["-C"], &[]).unwrap();
    assert!(config.contains("non_allocating: 1") && !config.contains("removing: 1"), "{config}");
    let pool = world.import();
    let rests = allocated(&pool, 1);
    write(&world, &pool, "again");
    assert!(allocated(&pool, 1) <= rests, "an import heeds it");
    set(&world, &pool, 1, 1).unwrap();
    write(&world, &pool, "both");
    assert!(allocated(&pool, 1) > rests + (1 << 20), "{} and {rests}", allocated(&pool, 1));
    world.export(&pool);
    world.check("allocates again");
    assert!(!world.zdb().run(&["-C"], &[]).unwrap().contains("non_allocating"));
}
