//! What `stat` tells of the space that a file takes.

use super::basics::file;
use super::world::{SPACE, World, run};
use crate::*;
use std::sync::Arc;
use units::{ObjectId, SECTOR_BYTES};

const MIB: usize = 1 << 20;

async fn sectors(zfs: &Zfs, object: ObjectId) -> u64 {
    zfs.attributes(object).await.unwrap().sectors
}

async fn write(zfs: &Zfs, object: ObjectId, offset: u64, bytes: &[u8]) {
    zfs.write(object, offset, bytes, WriteFlags::default()).await.unwrap();
}

/// Bytes that no compression makes shorter.
fn noise(zfs: &Zfs, len: usize) -> Vec<u8> {
    std::iter::repeat_with(|| zfs.random_u64().to_le_bytes()).take(len / 8).flatten().collect()
}

/// Archivers take a file without allocated space for one great hole.
#[test]
fn data_that_no_txg_has_written_yet_counts_as_allocated() {
    run(async |world: Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        write(&zfs, object, 0, &noise(&zfs, 3 * MIB)).await;
        let dirty = sectors(&zfs, object).await;
        assert!(dirty * SECTOR_BYTES >= 3 * MIB as u64, "{dirty} sectors");
        world.sync(&zfs).await;
        let synced = sectors(&zfs, object).await;
        assert!(synced * SECTOR_BYTES >= 3 * MIB as u64, "{synced} sectors");
    });
}

#[test]
fn data_that_no_txg_has_written_yet_counts_in_all_copies() {
    run(async |world: Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        let mut props = zfs.objset().props();
        props.data.copies = 2;
        zfs.objset().set_props(props);
        write(&zfs, object, 0, &noise(&zfs, 3 * MIB)).await;
        let dirty = sectors(&zfs, object).await;
        world.sync(&zfs).await;
        assert_eq!((dirty * SECTOR_BYTES) >> 20, 6);
        assert_eq!((sectors(&zfs, object).await * SECTOR_BYTES) >> 20, 6);
    });
}

#[test]
fn a_block_that_is_written_again_is_not_counted_twice() {
    run(async |world: Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        write(&zfs, object, 0, &noise(&zfs, MIB)).await;
        world.sync(&zfs).await;
        let once = sectors(&zfs, object).await;
        write(&zfs, object, 0, &noise(&zfs, MIB)).await;
        assert_eq!(sectors(&zfs, object).await, once);
    });
}

#[test]
fn nothing_that_exists_takes_no_space() {
    run(async |world: Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        let slots = sectors(&zfs, object).await;
        assert!(slots > 0, "an empty file has its dnode");
        write(&zfs, object, 0, &[7; 512]).await;
        world.sync(&zfs).await;
        assert!(sectors(&zfs, object).await > slots, "and one with data more");
        let dir =
            zfs.create(zfs.root(), b"dir", NewNode::Directory, 0o755, super::basics::CRED).await.unwrap();
        assert!(dir.sectors > 0);
    });
}

#[test]
fn a_hole_that_is_not_written_yet_takes_no_space() {
    run(async |_: Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        write(&zfs, object, 64 * MIB as u64, b"end").await;
        let sparse = sectors(&zfs, object).await;
        assert!(sparse * SECTOR_BYTES < MIB as u64, "{sparse} sectors");
    });
}

#[test]
fn no_more_is_reserved_than_there_is_room_for() {
    run(async |_: Arc<World>, zfs| {
        let made = file(&zfs, zfs.root(), "f").await;
        let most = SPACE.available_bytes * 100 / 110;
        for keep_size in [true, false] {
            let reserve = |length| zfs.allocate_range(made, 0, length, Allocate::Reserve { keep_size });
            reserve(most).await.unwrap();
            for length in [most + 2, SPACE.available_bytes, i64::MAX as u64] {
                assert!(matches!(reserve(length).await, Err(ZplError::NoSpace)), "{length}");
            }
        }
        assert_eq!(zfs.attributes(made).await.unwrap().size, most, "refused, nothing has grown");
    });
}

#[test]
fn an_emptied_file_gets_blocks_of_the_size_that_is_set_now() {
    for synced in 0..8 {
        run(async |world: Arc<World>, zfs| {
            let sync = async |step: u32, zfs: &Zfs| {
                if synced >> step & 1 == 1 {
                    world.sync(zfs).await;
                }
            };
            let records = |record_bytes| ZfsOptions { record_bytes, ..ZfsOptions::default() };
            zfs.set_options(records(8 << 10));
            let made = file(&zfs, zfs.root(), "f").await;
            super::logged::prime(&zfs).await;
            write(&zfs, made, 0, &noise(&zfs, 100_000)).await;
            sync(0, &zfs).await;
            zfs.set_options(records(128 << 10));
            let empty = SetAttributes { size: Some(0), ..SetAttributes::default() };
            assert_eq!(zfs.set_attributes(made, empty).await.unwrap().block_bytes, 8 << 10);
            sync(1, &zfs).await;
            let data = noise(&zfs, MIB);
            write(&zfs, made, 0, &data[..9000]).await;
            assert_eq!(zfs.attributes(made).await.unwrap().block_bytes, 9216);
            sync(2, &zfs).await;
            write(&zfs, made, 9000, &data[9000..]).await;
            assert_eq!(zfs.attributes(made).await.unwrap().block_bytes, 128 << 10);
            zfs.fsync(made, false).await.unwrap();
            let (zfs, _) = world.crash(zfs).await;
            assert!(super::basics::contents(&zfs, made).await == data, "replayed");
            let zfs = world.remount(zfs).await;
            assert_eq!(zfs.attributes(made).await.unwrap().block_bytes, 128 << 10);
            assert!(super::basics::contents(&zfs, made).await == data, "read from the disk");
            zfs.unlink(zfs.root(), b"f").await.unwrap();
            world.sync(&zfs).await;
            assert_eq!(zfs.objset().accounts().await.unwrap(), zfs.objset().recount().await.unwrap());
        });
    }
}
