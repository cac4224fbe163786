//! Pools that OpenZFS made, imported for writing, worked on, exported: `zdb` finds no fault, and
//! what was there before and not touched is as it was.

use std::path::PathBuf;
use std::sync::Arc;

use dsl::features::BLOCK_CLONING;
use oracle::golden;
use oracle::zdb::Zdb;
use pool::{Pool, SharedSpace};
use tempfile::TempDir;
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags};

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
