//! Files that are much longer than what they hold, and files that hold much.

use std::sync::Arc;

use units::ObjectId;

use super::basics::{contents, file};
use super::world::{World, run, run_with};
use crate::*;

/// Nearly all that a file may be long.
const HUGE_BYTES: u64 = 7 << 60;

fn resize(size: u64) -> SetAttributes {
    SetAttributes { size: Some(size), ..SetAttributes::default() }
}

/// Makes a file of that length with a few bytes in it, far apart.
async fn huge(zfs: &Zfs, name: &str) -> ObjectId {
    let object = file(zfs, zfs.root(), name).await;
    for offset in [0, 1 << 40, HUGE_BYTES - 3] {
        zfs.write(object, offset, b"far", WriteFlags::default()).await.unwrap();
    }
    assert_eq!(zfs.attributes(object).await.unwrap().size, HUGE_BYTES);
    object
}

#[test]
fn a_file_of_exabytes_of_holes_is_cut_punched_and_removed_at_once() {
    run(async |world: Arc<World>, zfs| {
        for synced in [false, true] {
            let names = ["cut", "punched", "removed", "empty"];
            let mut objects = Vec::new();
            for name in &names[..3] {
                objects.push(huge(&zfs, name).await);
            }
            let empty = file(&zfs, zfs.root(), names[3]).await;
            zfs.set_attributes(empty, resize(HUGE_BYTES)).await.unwrap();
            if synced {
                world.sync(&zfs).await;
            }
            let before = zfs.objset().txgs().open_txg();
            zfs.set_attributes(empty, resize(5)).await.unwrap();
            zfs.set_attributes(objects[0], resize(2)).await.unwrap();
            zfs.allocate_range(objects[1], 1, HUGE_BYTES - 2, Allocate::PunchHole).await.unwrap();
            assert_eq!(zfs.seek(objects[1], 200 << 10, SeekTo::Data).await.unwrap(), last_block());
            zfs.unlink(zfs.root(), b"removed").await.unwrap();
            let after = zfs.objset().txgs().open_txg();
            assert!(after.get() - before.get() <= 2, "{before} {after}");
            assert_eq!(contents(&zfs, objects[0]).await, b"fa");
            assert_eq!(contents(&zfs, empty).await, [0; 5]);
            for name in ["cut", "punched", "empty"] {
                zfs.unlink(zfs.root(), name.as_bytes()).await.unwrap();
            }
            world.sync(&zfs).await;
        }
    });
}

/// Where the last block of a huge file begins.
fn last_block() -> u64 {
    (HUGE_BYTES - 1) / (128 << 10) * (128 << 10)
}

#[test]
fn a_logged_cut_of_exabytes_is_replayed_at_once() {
    run(async |world: Arc<World>, zfs| {
        let (cut, punched) = (huge(&zfs, "cut").await, huge(&zfs, "punched").await);
        zfs.sync().await.unwrap();
        world.sync(&zfs).await;
        zfs.set_attributes(cut, resize(2)).await.unwrap();
        zfs.allocate_range(punched, 1, HUGE_BYTES - 2, Allocate::PunchHole).await.unwrap();
        zfs.sync().await.unwrap();
        let (zfs, report) = world.crash(zfs).await;
        assert_eq!(report.applied, 2);
        assert_eq!(contents(&zfs, cut).await, b"fa");
        assert_eq!(zfs.seek(punched, 200 << 10, SeekTo::Data).await.unwrap(), last_block());
    });
}

#[test]
fn a_long_cut_goes_over_several_txgs_and_may_be_broken_off_between_them() {
    /// Each lies below an indirect block of its own, which has to be read before it is freed.
    const STRIDE: u64 = 1024 * 512;
    const BLOCKS: u64 = 2200;
    run_with(ZfsOptions { record_bytes: 512, ..ZfsOptions::default() }, async |world, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        let bytes = |block: u64| [block as u8 | 1; 100];
        for block in 0..BLOCKS {
            zfs.write(object, block * STRIDE, &bytes(block), WriteFlags::default()).await.unwrap();
        }
        world.sync(&zfs).await;
        let before = zfs.objset().txgs().open_txg();
        zfs.set_attributes(object, resize(7)).await.unwrap();
        assert!(zfs.objset().txgs().open_txg() > before, "more than one txg takes");
        let (zfs, _) = world.crash(zfs).await;
        let size = zfs.attributes(object).await.unwrap().size;
        let left = size.div_ceil(STRIDE);
        assert!((1..BLOCKS).contains(&left), "{left}");
        for block in 0..left {
            let mut read = [0; 100];
            zfs.read(object, block * STRIDE, &mut read).await.unwrap();
            assert_eq!(read, bytes(block), "{block} of {left}");
        }
        zfs.unlink(zfs.root(), b"f").await.unwrap();
        world.remount(zfs).await;
    });
}
