//! Indirect blocks that were damaged on their disk: the trouble of one file, never of the pool.

use std::sync::Arc;

use dmu::{DmuError, Dnode, DnodeSpec, Estimate, Objset};
use env::{BufSlice, Device, Durability, IoBuf};
use units::{BlockId, LeafOffset, ObjectId};

use super::world::{World, file};

/// Blocks of the file; an indirect block covers 32 of them.
const BLOCKS: u64 = 200;
const BLOCK_BYTES: u32 = 4096;
/// Where on a leaf a vdev's offset 0 is, in bytes (`VDEV_LABEL_START_SIZE`).
const DATA_START: u64 = 4 << 20;

fn noise(seed: u64) -> Vec<u8> {
    let mut word = seed | 1;
    let next = std::iter::repeat_with(|| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word as u8
    });
    next.take(BLOCK_BYTES as usize).collect()
}

/// A file of many blocks.
async fn large_file(world: &World) -> ObjectId {
    let plan = world.objset.plan(Estimate::default()).await.unwrap();
    let spec = DnodeSpec { indirect_shift: 12, ..file(BLOCK_BYTES) };
    let dnode = world.objset.allocate(&plan, &spec).await.unwrap();
    for block in 0..BLOCKS {
        dnode.write(&plan, block * u64::from(BLOCK_BYTES), &noise(block)).await.unwrap();
    }
    plan.apply().unwrap();
    world.sync().await;
    dnode.object()
}

/// Overwrites all copies of the indirect block above block `of`, of a tree of three levels.
async fn damage_above(world: &World, objset: &Arc<Objset>, object: ObjectId, of: u64) {
    let image = objset.hold(object).await.unwrap().synced_image();
    assert_eq!(image.levels, 3);
    let above = world.zio.read(&image.blkptrs[0], &zio::Bookmark::default()).await.unwrap();
    let at = (of / 32) as usize * ondisk::BLKPTR_BYTES;
    let bp = ondisk::Blkptr::decode(&above[at..at + ondisk::BLKPTR_BYTES]).unwrap();
    for dva in bp.dvas() {
        let wrong = vec![BufSlice::from(IoBuf::copy_of(&[0x55; 512]))];
        let place = LeafOffset::new(DATA_START + dva.offset.get());
        world.ram.write(place, wrong, Durability::Cached).await.unwrap();
    }
    world.zio.set_cache_limit(0);
}

async fn write(objset: &Arc<Objset>, dnode: &Dnode, block: u64) -> Result<(), DmuError> {
    let plan = objset.plan(Estimate::default()).await?;
    dnode.write_block(&plan, BlockId::new(block), Arc::new(IoBuf::copy_of(&noise(block + 1000)))).await?;
    plan.apply().map(drop)
}

#[test]
fn a_damaged_indirect_block_is_the_trouble_of_its_file_alone() {
    let world = World::new();
    world.env.block_on(async {
        let (broken, whole) = (large_file(&world).await, large_file(&world).await);
        damage_above(&world, &world.objset, broken, 70).await;
        let dnode = world.objset.hold(broken).await.unwrap();
        // What lies below it can neither be read nor be written, whole block or part.
        assert!(matches!(dnode.read_block(BlockId::new(70)).await, Err(DmuError::Io { .. })));
        assert!(matches!(write(&world.objset, &dnode, 70).await, Err(DmuError::Io { .. })));
        let plan = world.objset.plan(Estimate::default()).await.unwrap();
        let part = dnode.write(&plan, 70 * u64::from(BLOCK_BYTES) + 5, b"part").await;
        assert!(matches!(part, Err(DmuError::Io { .. })));
        // A hole that ends there would have to change it, too.
        let hole = dnode.free_range(&plan, 0, 70 * u64::from(BLOCK_BYTES)).await;
        assert!(matches!(hole, Err(DmuError::Io { .. })));
        drop(plan);
        // What lies beside it can, and so can everything of other files.
        write(&world.objset, &dnode, 10).await.unwrap();
        write(&world.objset, &world.objset.hold(whole).await.unwrap(), 70).await.unwrap();
        world.sync().await;
        assert_eq!(dnode.read_block(BlockId::new(10)).await.unwrap()[..], noise(1010));
        assert_eq!(dnode.read_block(BlockId::new(199)).await.unwrap()[..], noise(199));
        // The file can be removed; what nobody can find any more stays allocated.
        let before = world.allocated();
        let plan = world.objset.plan(Estimate::default()).await.unwrap();
        world.objset.free_object(&plan, broken).await.unwrap();
        plan.apply().unwrap();
        drop(dnode);
        world.sync().await;
        let freed = before - world.allocated();
        let found = (BLOCKS - 32) * u64::from(BLOCK_BYTES);
        assert!((found..found + (64 << 10)).contains(&freed), "{freed} of {found}");
        let disk = world.reopened().await;
        assert!(matches!(disk.hold(broken).await, Err(DmuError::NoSuchObject { .. })));
        let read = disk.hold(whole).await.unwrap().read_block(BlockId::new(70)).await.unwrap();
        assert_eq!(read[..], noise(1070));
    });
}
