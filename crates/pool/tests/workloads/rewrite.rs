//! Blocks of files that are written anew (`zfs rewrite`): what they are then, and what stays as it was.

use std::ops::Range;
use std::sync::Arc;

use dsl::PropValue;
use ondisk::{Blkptr, ChecksumKind, CompressionKind};
use pool::{Pool, SharedSpace};
use units::{BlockId, ObjectId};
use zpl::{Cred, FilePlace, NewNode, WriteFlags, Zfs};

use crate::world::{Layout, World};

const ONE: Layout = Layout::new(&[&["a"]], &[], 9);
const RECORD: u64 = 16 << 10;
/// Compression as the properties count it.
const OFF: u64 = 2;
const LZ4: u64 = 15;
const SHA256: u64 = 8;
/// Blocks of the file; the hole is in its middle.
const BLOCKS: u64 = 600;
const HOLE: Range<u64> = 100..200;

/// A file of blocks that compress, with a hole, and some bytes of one more block.
async fn make(zfs: &Zfs) -> ObjectId {
    let made = zfs.create(zfs.root(), b"file", NewNode::File, 0o640, Cred::default()).await.unwrap().object;
    for block in (0..=BLOCKS).filter(|block| !HOLE.contains(block)) {
        let data = contents(block);
        zfs.write(made, block * RECORD, &data, WriteFlags::default()).await.unwrap();
    }
    made
}

fn contents(block: u64) -> Vec<u8> {
    let len = if block == BLOCKS { 1000 } else { RECORD as usize };
    let mut data = vec![b'x'; len];
    fastrand::Rng::with_seed(block).fill(&mut data[..len / 4]);
    data
}

async fn is_unchanged(zfs: &Zfs, file: ObjectId) {
    let mut all = vec![0; (BLOCKS * RECORD) as usize + 1000];
    assert_eq!(zfs.read(file, 0, &mut all).await.unwrap(), all.len());
    for (block, data) in (0..).zip(all.chunks(RECORD as usize)) {
        let expected = if HOLE.contains(&block) { vec![0; RECORD as usize] } else { contents(block) };
        assert!(data == expected, "block {block}");
    }
}

async fn pointers(zfs: &Zfs, file: ObjectId) -> Vec<Blkptr> {
    let dnode = zfs.objset().hold(file).await.unwrap();
    let mut pointers = Vec::new();
    for block in 0..=BLOCKS {
        pointers.push(dnode.synced_blkptr(BlockId::new(block)).await.unwrap());
    }
    pointers
}

async fn set(pool: &Arc<Pool>, prop: &str, value: u64) {
    pool.set_prop("whirl/fs", prop, Some(PropValue::Number(value))).await.unwrap();
}

/// A pool with the file in a file system without compression, on disk.
fn start(world: &World) -> (Arc<Pool>, Arc<Zfs>, ObjectId) {
    let pool = world.create();
    world.create_filesystem(&pool, "whirl/fs", &[("recordsize", RECORD), ("compression", OFF)]);
    let zfs = world.zfs(&pool, "whirl/fs");
    let file = world.run(async {
        let file = make(&zfs).await;
        pool.sync_now().await.unwrap();
        file
    });
    (pool, zfs, file)
}

#[test]
fn rewritten_blocks_are_as_the_properties_are_now_and_nothing_else_changes() {
    let world = World::new(ONE);
    let (pool, zfs, file) = start(&world);
    world.run(async {
        let (before, old) = (zfs.attributes(file).await.unwrap(), pointers(&zfs, file).await);
        set(&pool, "compression", LZ4).await;
        set(&pool, "checksum", SHA256).await;
        let since = pool.txgs().synced_txg();
        zfs.rewrite(file, 0, 0).await.unwrap();
        is_unchanged(&zfs, file).await;
        pool.sync_now().await.unwrap();
        is_unchanged(&zfs, file).await;
        for (block, (bp, old)) in (0..).zip(pointers(&zfs, file).await.iter().zip(&old)) {
            assert_eq!(bp.is_hole(), HOLE.contains(&block), "block {block}");
            if !bp.is_hole() {
                assert_eq!(old.compression().unwrap(), CompressionKind::Off, "block {block}");
                assert_eq!(bp.compression().unwrap(), CompressionKind::Lz4, "block {block}");
                assert_eq!(bp.checksum_kind().unwrap(), ChecksumKind::Sha256, "block {block}");
                assert!(bp.birth() > since && bp.lsize() == old.lsize(), "block {block}");
            }
        }
        let after = zfs.attributes(file).await.unwrap();
        assert!(after.sectors < before.sectors / 2, "{} sectors, then {}", before.sectors, after.sectors);
        // This test has read it since.
        assert_eq!(zpl::Attributes { sectors: before.sectors, atime: before.atime, ..after }, before);
    });
    drop(zfs);
    world.export(&pool);
    world.check("rewritten");
}

#[test]
fn blocks_outside_the_range_stay_where_they_are() {
    let world = World::new(ONE);
    let (pool, zfs, file) = start(&world);
    let end = BLOCKS * RECORD + 1000;
    world.run(async {
        // Whole blocks with any byte in the range; 0 is all to the end, and what is beyond that is nothing.
        for (offset, len, expected) in [
            (RECORD, RECORD, 1..2),
            (RECORD + 17, RECORD, 1..3),
            (99 * RECORD, 102 * RECORD, 99..201),
            (500 * RECORD + 1, 0, 500..BLOCKS + 1),
            (end - 1, u64::MAX, BLOCKS..BLOCKS + 1),
            (end, 0, 0..0),
            (u64::MAX, u64::MAX, 0..0),
        ] {
            let old = pointers(&zfs, file).await;
            zfs.rewrite(file, offset, len).await.unwrap();
            pool.sync_now().await.unwrap();
            let moved: Vec<u64> = (0..)
                .zip(pointers(&zfs, file).await.iter().zip(&old))
                .filter(|(_, (new, old))| new != old)
                .map(|(block, _)| block)
                .collect();
            let expected: Vec<u64> = expected.filter(|block| !HOLE.contains(block)).collect();
            assert_eq!(moved, expected, "{len} bytes from {offset}");
        }
        is_unchanged(&zfs, file).await;
    });
    drop(zfs);
    world.export(&pool);
    world.check("rewritten in part");
}

#[test]
fn a_snapshot_keeps_the_old_blocks_and_cannot_be_rewritten() {
    let world = World::new(ONE);
    let (pool, zfs, file) = start(&world);
    world.run(async {
        let old = pointers(&zfs, file).await;
        pool.snapshot(vec!["whirl/fs@s".into()], Vec::new()).await.unwrap();
        set(&pool, "compression", LZ4).await;
        zfs.rewrite(file, 0, 0).await.unwrap();
        pool.sync_now().await.unwrap();
        let snapshot = pool.snapshot_filesystem("whirl/fs@s").await.unwrap();
        assert_eq!(pointers(&snapshot.zfs, file).await, old);
        is_unchanged(&snapshot.zfs, file).await;
        assert!(matches!(snapshot.zfs.rewrite(file, 0, 0).await, Err(zpl::ZplError::ReadOnly)));
        drop(snapshot);
    });
    drop(zfs);
    world.export(&pool);
    world.check("beside a snapshot");
    let pool = world.import();
    world.run(async {
        pool.destroy_snapshots(vec!["whirl/fs@s".into()], false).await.unwrap();
        is_unchanged(&pool.filesystem("whirl/fs").await.unwrap().zfs, file).await;
    });
    world.export(&pool);
    world.check("without the snapshot");
}

#[test]
fn a_rewritten_clone_has_blocks_of_its_own() {
    let world = World::new(ONE);
    let (pool, zfs, file) = start(&world);
    let cloned = |pool: &Pool| world.run(pool.facts()).cloned.expect("readable");
    world.run(async {
        let copy =
            zfs.create(zfs.root(), b"copy", NewNode::File, 0o644, Cred::default()).await.unwrap().object;
        let place = FilePlace { zfs: &zfs, object: file, offset: 0 };
        zfs.clone_range(place, (copy, 0), u64::MAX, WriteFlags::default()).await.unwrap();
        // The first half before its clone is on disk, the second half after.
        zfs.rewrite(copy, 0, 300 * RECORD).await.unwrap();
        pool.sync_now().await.unwrap();
        let (here, there) = (pointers(&zfs, copy).await, pointers(&zfs, file).await);
        assert!((0..300).all(|block| here[block].is_hole() || here[block].dva(0) != there[block].dva(0)));
        assert!((300..600).all(|block| here[block].dva(0) == there[block].dva(0)));
        zfs.rewrite(copy, 300 * RECORD, 0).await.unwrap();
        pool.sync_now().await.unwrap();
        is_unchanged(&zfs, copy).await;
        is_unchanged(&zfs, file).await;
    });
    assert_eq!(cloned(&pool), SharedSpace::default());
    drop(zfs);
    world.export(&pool);
    world.check("nothing is shared");
}

/// Writes the file once more as it is. Returns how many of its blocks are where they were.
async fn written_again(pool: &Arc<Pool>, zfs: &Zfs, file: ObjectId) -> usize {
    let before = pointers(zfs, file).await;
    for block in (0..=BLOCKS).filter(|block| !HOLE.contains(block)) {
        zfs.write(file, block * RECORD, &contents(block), WriteFlags::default()).await.unwrap();
    }
    pool.sync_now().await.unwrap();
    is_unchanged(zfs, file).await;
    let after = pointers(zfs, file).await;
    after.iter().zip(&before).filter(|(after, before)| after == before && !after.is_hole()).count()
}

#[test]
fn the_same_bytes_written_again_stay_where_they_are_if_a_strong_checksum_says_so() {
    let world = World::new(ONE);
    let (pool, zfs, file) = start(&world);
    let all = (BLOCKS + 1 - (HOLE.end - HOLE.start)) as usize;
    world.run(async {
        assert_eq!(written_again(&pool, &zfs, file).await, 0, "fletcher4, and no compression");
        set(&pool, "checksum", SHA256).await;
        for _ in 0..2 {
            assert_eq!(written_again(&pool, &zfs, file).await, 0, "no compression");
        }
        set(&pool, "compression", LZ4).await;
        assert_eq!(written_again(&pool, &zfs, file).await, 0, "what is there is not compressed");
        assert_eq!(written_again(&pool, &zfs, file).await, all);
        pool.snapshot(vec!["whirl/fs@a".into()], Vec::new()).await.unwrap();
        assert_eq!(written_again(&pool, &zfs, file).await, all, "nor does a snapshot move it");

        let before = pointers(&zfs, file).await;
        zfs.write(file, 7 * RECORD, &contents(8), WriteFlags::default()).await.unwrap();
        pool.sync_now().await.unwrap();
        let after = pointers(&zfs, file).await;
        let changed: Vec<usize> = (0..after.len()).filter(|&block| after[block] != before[block]).collect();
        assert_eq!(changed, [7]);
        zfs.write(file, 7 * RECORD, &contents(7), WriteFlags::default()).await.unwrap();
        pool.sync_now().await.unwrap();

        let before = pointers(&zfs, file).await;
        zfs.rewrite(file, 0, 0).await.unwrap();
        pool.sync_now().await.unwrap();
        let after = pointers(&zfs, file).await;
        let moved = after.iter().zip(&before).filter(|(after, before)| after != before).count();
        assert_eq!(moved, all, "what is to be rewritten moves");

        set(&pool, "copies", 2).await;
        assert_eq!(written_again(&pool, &zfs, file).await, 0, "one copy more");
        assert_eq!(written_again(&pool, &zfs, file).await, all);
    });
    drop(zfs);
    world.export(&pool);
    drop(pool);
    world.check("with blocks that stayed where they were");
}
