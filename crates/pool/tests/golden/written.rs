//! Pools that OpenZFS made, imported for writing, worked on, exported: `zdb` finds no fault, and
//! what was there before and not touched is as it was.

use std::path::PathBuf;
use std::sync::Arc;

use dsl::features::BLOCK_CLONING;
use oracle::golden;
use oracle::zdb::Zdb;
use pool::{Pool, SharedSpace};
use tempfile::TempDir;
use units::ObjectId;
use vdev::PoolState;
use zpl::{Cred, FileKind, FilePlace, NewNode, WriteFlags, Zfs};

use crate::manifest::{Leave, Manifest};
use crate::walk::walk;
use crate::world::{World, judge};

/// A copy of a golden pool that may be changed.
struct Writable {
    world: World,
    dir: PathBuf,
    _temporary: TempDir,
}

impl Writable {
    fn copy(name: &str) -> Self {
        let temporary = tempfile::tempdir().expect("a directory");
        let dir = golden::copy(name, temporary.path());
        let entries = std::fs::read_dir(&dir).expect("just extracted");
        let paths = entries.map(|entry| entry.expect("readable").path()).collect();
        Self { world: World::of(name, paths), dir, _temporary: temporary }
    }

    fn import(&self) -> Arc<Pool> {
        self.world.import(false).unwrap_or_else(|error| panic!("{}: {error:?}", self.world.name))
    }

    /// Exports, has `zdb` judge, imports again and compares with what must be there.
    fn export(&self, pool: Arc<Pool>, expected: &Manifest) {
        let leave = Leave { mtime: true };
        let walked = walk(&self.world.env, &pool);
        judge(&self.world.name, &walked, expected, leave);
        self.world.env.block_on(pool.close(PoolState::Exported)).expect("nothing fails here");
        drop((walked, pool));
        Zdb::new(&self.dir, "whirl").check().unwrap_or_else(|error| panic!("{}: {error}", self.world.name));
        self.world.check(expected, leave);
    }

    /// Many txgs of files that come and go again.
    fn work(&self, pool: &Arc<Pool>, dataset: &str) {
        self.world.env.block_on(async {
            let zfs = Arc::clone(&pool.filesystem(dataset).await.expect("is there").zfs);
            for group in 0..40_u8 {
                for file in 0..8 {
                    let name = format!("{group} {file}");
                    let made = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default());
                    let made = made.await.expect("there is room").object;
                    let data = vec![group ^ file; 5000 * usize::from(file + 1)];
                    zfs.write(made, 0, &data, WriteFlags::default()).await.expect("there is room");
                    if group >= 2 {
                        let old = format!("{} {file}", group - 2);
                        zfs.unlink(zfs.root(), old.as_bytes()).await.expect("was made");
                    }
                }
                pool.sync_now().await.expect("nothing fails here");
            }
            for group in [38, 39] {
                for file in 0..8 {
                    let name = format!("{group} {file}");
                    zfs.unlink(zfs.root(), name.as_bytes()).await.expect("was made");
                }
            }
        });
    }
}

#[test]
fn shared_blocks_outlive_all_but_their_last_file() {
    let writable = Writable::copy("g02-single-default");
    let env = Arc::clone(&writable.world.env);
    let pool = writable.import();
    let tables = || env.block_on(pool.dsl().feature_count(&BLOCK_CLONING)).expect("readable");
    let cloned = || env.block_on(pool.facts()).cloned.expect("readable");
    assert_eq!(tables(), Some(1));
    // `zpool get bcloneused` and `zdb -T` show 364K.
    let shared = SharedSpace { used_bytes: 729 << 9, saved_bytes: 729 << 9 };
    assert_eq!((cloned(), cloned().ratio_hundredths()), (shared, 200));
    for file in [&b"m1000000"[..], b"reflink"] {
        let before = pool.room().allocated;
        env.block_on(async {
            let zfs = Arc::clone(&pool.filesystem("whirl/fs").await.expect("is there").zfs);
            zfs.unlink(zfs.root(), file).await.expect("is there");
            for _ in 0..4 {
                pool.sync_now().await.expect("nothing fails here");
            }
        });
        let freed = before.saturating_sub(pool.room().allocated);
        assert_eq!(freed > 300 << 10, file == b"reflink", "{freed} bytes freed");
        assert_eq!(tables(), Some(0), "every block has one reference left");
        assert_eq!((cloned(), cloned().ratio_hundredths()), (SharedSpace::default(), 100));
    }
    let mut left = writable.world.told("manifest.jsonl");
    left.retain(|(dataset, path), _| dataset != "whirl/fs" || (path != b"m1000000" && path != b"reflink"));
    writable.export(pool, &left);
}

fn works_on_after_openzfs(name: &str) {
    let writable = Writable::copy(name);
    let pool = writable.import();
    writable.work(&pool, "whirl/fs");
    writable.export(pool, &writable.world.told("manifest.jsonl"));
}

#[test]
fn g02_with_default_features_is_worked_on() {
    works_on_after_openzfs("g02-single-default");
}

#[test]
fn g03_with_a_mirror_and_a_log_is_worked_on() {
    works_on_after_openzfs("g03-mirror-log");
}

/// Plain files in the root and the directories there that have blocks of their own.
async fn long_files(zfs: &Zfs) -> Vec<(Vec<u8>, ObjectId, u64)> {
    let (mut found, mut dirs) = (Vec::new(), vec![zfs.root()]);
    while let Some(dir) = dirs.pop() {
        for entry in zfs.list(dir, 0, 1 << 16).await.expect("readable") {
            let of = zfs.attributes(entry.object).await.expect("readable");
            let is_below = dir == zfs.root() && entry.name.iter().any(|&byte| byte != b'.');
            match of.kind {
                FileKind::Directory if is_below => dirs.push(entry.object),
                FileKind::File if of.size >= 10_000 => found.push((entry.name, entry.object, of.size)),
                _ => {}
            }
        }
    }
    found
}

async fn contents(zfs: &Zfs, file: ObjectId, size: u64) -> Vec<u8> {
    let mut data = vec![0; size as usize];
    assert_eq!(zfs.read(file, 0, &mut data).await.expect("readable"), data.len());
    data
}

/// Shares what OpenZFS wrote: `zdb` finds every reference counted. Gives how many bytes could not be shared.
fn clones_of(name: &str, dataset: &str) -> u64 {
    let writable = Writable::copy(name);
    let env = Arc::clone(&writable.world.env);
    let pool = writable.import();
    let before = env.block_on(pool.facts()).cloned.expect("readable").saved_bytes;
    let (shared, left) = env.block_on(async {
        let zfs = Arc::clone(&pool.filesystem(dataset).await.expect("is there").zfs);
        let (mut bytes, mut left) = (0, 0);
        for (_, source, size) in long_files(&zfs).await {
            let name = format!("clone of {source}").into_bytes();
            let made = zfs.create(zfs.root(), &name, NewNode::File, 0o644, Cred::default()).await;
            let made = made.expect("there is room").object;
            let place = FilePlace { zfs: &zfs, object: source, offset: 0 };
            let shared = zfs.clone_range(place, (made, 0), u64::MAX, WriteFlags::default()).await;
            let shared = shared.expect("nothing fails here");
            let (old, new) = (contents(&zfs, source, shared).await, contents(&zfs, made, shared).await);
            assert!(old == new && shared <= size);
            bytes += shared;
            left += size - shared;
        }
        (bytes, left)
    });
    assert!(shared > 100_000, "{name}: {shared} bytes are shared");
    env.block_on(pool.close(PoolState::Exported)).expect("nothing fails here");
    drop(pool);
    Zdb::new(&writable.dir, "whirl").check().unwrap_or_else(|error| panic!("{name}: {error}"));
    let pool = writable.import();
    let saved = env.block_on(pool.facts()).cloned.expect("readable").saved_bytes;
    assert!(saved > before, "{name}: {before} bytes saved before, {saved} now");
    env.block_on(async {
        let zfs = Arc::clone(&pool.filesystem(dataset).await.expect("is there").zfs);
        for (name, ..) in long_files(&zfs).await {
            if name.starts_with(b"clone of ") {
                zfs.unlink(zfs.root(), &name).await.expect("was made");
            }
        }
        for _ in 0..4 {
            pool.sync_now().await.expect("nothing fails here");
        }
        assert_eq!(pool.facts().await.cloned.expect("readable").saved_bytes, before, "as OpenZFS left it");
    });
    writable.export(pool, &writable.world.told("manifest.jsonl"));
    left
}

#[test]
fn what_openzfs_wrote_to_a_single_disk_is_cloned() {
    assert_eq!(clones_of("g02-single-default", "whirl/fs"), 0);
}

#[test]
fn what_openzfs_wrote_to_a_vdev_that_was_removed_is_cloned_unless_it_was_moved() {
    let left = clones_of("g23-removed", "whirl/fs");
    assert!(left > 0, "some of it was moved");
}

/// Has a new file be that of a snapshot, block by block: it shares what can be shared.
async fn bring_back(zfs: &Zfs, from: FilePlace<'_>, data: &[u8]) -> ObjectId {
    const BLOCK: usize = 128 << 10;
    let made = zfs.create(zfs.root(), b"back", NewNode::File, 0o644, Cred::default()).await;
    let made = made.expect("there is room").object;
    for (block, bytes) in data.chunks(BLOCK).enumerate() {
        let offset = (block * BLOCK) as u64;
        let place = FilePlace { offset, ..from };
        let shared = zfs.clone_range(place, (made, offset), BLOCK as u64, WriteFlags::default()).await;
        if shared.expect("nothing fails here") == 0 {
            zfs.write(made, offset, bytes, WriteFlags::default()).await.expect("there is room");
        }
    }
    made
}

/// OpenZFS has given blocks that were moved another name in the head than in the snapshot.
#[test]
fn a_clone_outlives_the_other_name_of_its_blocks() {
    let writable = Writable::copy("g23-removed");
    let env = Arc::clone(&writable.world.env);
    let pool = writable.import();
    env.block_on(async {
        let zfs = Arc::clone(&pool.filesystem("whirl/fs").await.expect("is there").zfs);
        let snapshot = pool.snapshot_filesystem("whirl/fs@before").await.expect("is there");
        let old = snapshot.zfs.lookup(snapshot.zfs.root(), b"bulk").await.expect("is there").object;
        let data = contents(&snapshot.zfs, old, 3_000_000).await;
        let made = bring_back(&zfs, FilePlace { zfs: &snapshot.zfs, object: old, offset: 0 }, &data).await;
        pool.sync_now().await.expect("nothing fails here");
        drop(snapshot);
        zfs.unlink(zfs.root(), b"bulk").await.expect("is there");
        pool.destroy_snapshots(vec!["whirl/fs@before".into()], false).await.expect("nobody holds it");
        for _ in 0..4 {
            pool.sync_now().await.expect("nothing fails here");
        }
        assert!(contents(&zfs, made, 3_000_000).await == data);
    });
    env.block_on(pool.close(PoolState::Exported)).expect("nothing fails here");
    drop(pool);
    Zdb::new(&writable.dir, "whirl").check().unwrap_or_else(|error| panic!("{error}"));
    let pool = writable.import();
    env.block_on(pool.close(PoolState::Exported)).expect("nothing fails here");
}
