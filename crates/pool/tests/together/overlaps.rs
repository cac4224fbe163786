//! Changes requested while an older txg is syncing. The blocks that they free may be shared by a
//! clone that joined the next txg.
//!
//! ```text
//!  txg T    ─ syncing: much to write ──────────────────────────────► stable
//!  txg T+1       open ─ B shares A's blocks ─ A's dataset goes ─────────────── syncing ─► stable
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use env::{BoxFuture, Env};
use futures::future::join;
use pool::{Filesystem, Pool, PoolError};
use sim::{DiskModel, Sim, Slowness};
use units::ObjectId;
use vdev::PoolState;
use zpl::{Cred, FilePlace, NewNode, WriteFlags, Zfs};

use crate::quiet;
use crate::shape::{LOG, POOL, STRIPE, Shape};
use crate::space;
use crate::story::{Tell, drawn, run, tell};

const RECORD: u64 = 16 << 10;
const FILE_BYTES: u64 = 20 * RECORD;
/// An amount of data that does not start a txg.
const SMALL_LOAD_BYTES: usize = 256 << 10;
/// How much slower writes and flushes are.
const SLOW: Slowness = Slowness { one_in: 1, times: 20 };
/// The number of images of each run. Those after the clone became stable are imported.
const IMAGES: usize = 60;
/// The lowest number of imported images.
const IMPORTED_MIN: usize = 12;

const HEAD: &str = "whirl/f";
const SNAPSHOT: &str = "whirl/f@s";
const CLONE: &str = "whirl/c";

type Do = fn(Arc<Pool>) -> BoxFuture<'static, Result<(), PoolError>>;

/// An operation that frees the blocks of file A.
struct FreeingOperation {
    name: &'static str,
    /// Runs before the older txg, once file A is stable in [`HEAD`].
    before: Do,
    /// The dataset that has file A then.
    source: &'static str,
    act: Do,
}

const FREEING: [FreeingOperation; 6] = [
    FreeingOperation {
        name: "a snapshot destroyed",
        before: |pool| Box::pin(only_in_snapshot(pool)),
        source: SNAPSHOT,
        act: |pool| Box::pin(async move { pool.destroy_snapshots(vec![SNAPSHOT.into()], false).await }),
    },
    FreeingOperation {
        name: "a snapshot destroyed as soon as possible",
        before: |pool| Box::pin(only_in_snapshot(pool)),
        source: SNAPSHOT,
        act: |pool| Box::pin(async move { pool.destroy_snapshots(vec![SNAPSHOT.into()], true).await }),
    },
    FreeingOperation {
        name: "the last hold of a deferred snapshot released",
        before: |pool| {
            Box::pin(async move {
                only_in_snapshot(Arc::clone(&pool)).await?;
                pool.hold("tag".into(), vec![SNAPSHOT.into()]).await?;
                pool.destroy_snapshots(vec![SNAPSHOT.into()], true).await
            })
        },
        source: SNAPSHOT,
        act: |pool| Box::pin(async move { pool.release("tag".into(), vec![SNAPSHOT.into()]).await }),
    },
    FreeingOperation {
        name: "the last clone of a deferred snapshot destroyed",
        before: |pool| {
            Box::pin(async move {
                only_in_snapshot(Arc::clone(&pool)).await?;
                pool.clone_snapshot(SNAPSHOT.into(), CLONE.into(), Vec::new()).await?;
                pool.destroy_snapshots(vec![SNAPSHOT.into()], true).await
            })
        },
        source: CLONE,
        act: |pool| Box::pin(async move { pool.destroy_filesystem(CLONE).await }),
    },
    FreeingOperation {
        name: "a file system destroyed",
        before: |_| Box::pin(async { Ok(()) }),
        source: HEAD,
        act: |pool| Box::pin(async move { pool.destroy_filesystem(HEAD).await }),
    },
    FreeingOperation {
        name: "a file system rolled back",
        before: |_| Box::pin(async { Ok(()) }),
        source: HEAD,
        act: |pool| Box::pin(async move { pool.rollback(HEAD.into(), "whirl/f@empty".into()).await }),
    },
];

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

async fn find(zfs: &Zfs, name: &str) -> Option<ObjectId> {
    zfs.lookup(zfs.root(), name.as_bytes()).await.ok().map(|found| found.object)
}

async fn make(zfs: &Zfs, name: &str, bytes: &[u8]) -> ObjectId {
    let made = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default()).await;
    let file = made.expect("created").object;
    zfs.write(file, 0, bytes, WriteFlags::default()).await.expect("written");
    file
}

/// Takes a snapshot of the head and then removes file A from the head.
async fn only_in_snapshot(pool: Arc<Pool>) -> Result<(), PoolError> {
    pool.snapshot(vec![SNAPSHOT.into()], Vec::new()).await?;
    let fs = pool.filesystem(HEAD).await?;
    fs.zfs.unlink(fs.zfs.root(), b"A").await?;
    pool.sync_now().await
}

/// Both sides of a clone: file A of some dataset, and file B of the pool's root file system.
struct Sides {
    from: Arc<Filesystem>,
    to: Arc<Filesystem>,
    files: (ObjectId, ObjectId),
}

async fn opened(pool: &Arc<Pool>, source: &str) -> Sides {
    let from = match source.contains('@') {
        true => pool.snapshot_filesystem(source).await,
        false => pool.filesystem(source).await,
    };
    let (from, to) = (from.expect("it opens"), pool.filesystem(POOL).await.expect("it opens"));
    let file = find(&from.zfs, "A").await.expect("file A is there");
    let target = find(&to.zfs, "B").await.expect("file B is there");
    // The indirect blocks are in the cache from now on.
    from.zfs.read(file, FILE_BYTES - RECORD, &mut vec![0; RECORD as usize]).await.expect("it reads");
    Sides { from, to, files: (file, target) }
}

/// Shares all blocks of file A with file B.
async fn share(sides: Sides, sync: bool) {
    let Sides { from, to, files: (file, target) } = sides;
    let place = FilePlace { zfs: &from.zfs, object: file, offset: 0 };
    let flags = WriteFlags { sync, ..WriteFlags::default() };
    let shared = to.zfs.clone_range(place, (target, 0), u64::MAX, flags).await.expect("it can be shared");
    assert_eq!(shared, FILE_BYTES, "all of it is shared");
}

/// True if the newest closed txg is not stable yet.
pub fn is_syncing(pool: &Pool) -> bool {
    pool.txgs().open_txg() > pool.txgs().synced_txg().next()
}

/// Makes the writes of the data disks slow, or normal again. Reads stay fast.
fn slow_down(sim: &Sim, shape: &Shape, slowness: Option<Slowness>) {
    let is_data = |path: &PathBuf| !path.ends_with("l");
    shape.disks().filter(is_data).for_each(|path| sim.disk(&path).slow_down(slowness));
}

/// Runs an action as soon as an older txg is syncing. The data disks write slowly. Therefore an
/// action that only reads, or writes to a log, begins before the tasks of the older txg.
async fn while_writing<T>(sim: &Sim, shape: &Shape, pool: &Arc<Pool>, act: impl Future<Output = T>) -> T {
    let fs = pool.filesystem(POOL).await.expect("it opens");
    make(&fs.zfs, "load", &noise(SMALL_LOAD_BYTES, 9)).await;
    assert!(!is_syncing(pool), "a txg has begun by itself, and may have run its tasks");
    slow_down(sim, shape, Some(SLOW));
    let act = async {
        while !is_syncing(pool) {
            sim.sleep(Duration::from_micros(50)).await;
        }
        act.await
    };
    let (synced, done) = join(pool.sync_now(), act).await;
    synced.expect("txgs turn");
    slow_down(sim, shape, None);
    done
}

/// Creates a pool whose file A is only in what [`FreeingOperation::act`] destroys. Nothing else has
/// changed since its last txg.
async fn made(sim: &Sim, shape: &Shape, freeing: &FreeingOperation) -> Arc<Pool> {
    shape.add_disks(sim, DiskModel::sata_2007());
    sim.stop_recording();
    let pool = shape.create_with(sim, quiet(), &[("recordsize", RECORD), ("compression", 2)]).await;
    pool.create_filesystem(HEAD, Vec::new()).await.expect("there is room");
    pool.snapshot(vec!["whirl/f@empty".into()], Vec::new()).await.expect("there is room");
    if freeing.name == "a file system destroyed" {
        pool.destroy_snapshots(vec!["whirl/f@empty".into()], false).await.expect("nothing keeps it");
    }
    let fs = pool.filesystem(HEAD).await.expect("it opens");
    make(&fs.zfs, "A", &noise(FILE_BYTES as usize, 1)).await;
    drop(fs);
    let root = pool.filesystem(POOL).await.expect("it opens");
    make(&root.zfs, "B", b"").await;
    pool.sync_now().await.expect("txgs turn");
    (freeing.before)(Arc::clone(&pool)).await.expect("nothing is in its way");
    pool
}

async fn check_copy(pool: &Arc<Pool>) {
    let fs = pool.filesystem(POOL).await.expect("its log is whole");
    let file = find(&fs.zfs, "B").await.expect("file B is there");
    let mut found = vec![0; FILE_BYTES as usize];
    assert_eq!(fs.zfs.read(file, 0, &mut found).await.expect("it reads"), found.len());
    assert!(found == noise(FILE_BYTES as usize, 1), "file B has what file A had");
}

#[test]
fn a_clone_outlives_what_it_was_taken_from_though_an_older_txg_is_syncing() {
    let _tell = Tell;
    for (number, freeing) in FREEING.iter().enumerate() {
        tell(format!("{}, on \"{}\"", freeing.name, STRIPE.name));
        let sim = Sim::seed(94_000 + number as u64);
        run(&sim, async {
            let pool = made(&sim, &STRIPE, freeing).await;
            let sides = opened(&pool, freeing.source).await;
            let both = async {
                share(sides, false).await;
                assert!(is_syncing(&pool), "the older txg has ended too soon for the test");
                (freeing.act)(Arc::clone(&pool)).await
            };
            while_writing(&sim, &STRIPE, &pool, both).await.expect("nothing is in its way");
            for round in 0..4 {
                let fs = pool.filesystem(POOL).await.expect("it opens");
                make(&fs.zfs, &format!("next{round}"), &noise(FILE_BYTES as usize, 20 + round)).await;
                pool.sync_now().await.expect("txgs turn");
            }
            check_copy(&pool).await;
            pool.close(PoolState::Exported).await.expect("it closes");
            let pool = STRIPE.import(&sim, quiet(), false).await.expect("a sound pool imports");
            check_copy(&pool).await;
            space::check(&pool).await;
        });
    }
}

#[test]
fn a_logged_clone_is_replayed_whole_though_what_it_was_taken_from_is_being_destroyed() {
    let _tell = Tell;
    for (number, freeing) in FREEING.iter().enumerate() {
        let seed = 94_100 + number as u64;
        let sim = Sim::seed(seed);
        run(&sim, async {
            let pool = made(&sim, &LOG, freeing).await;
            sim.start_recording();
            let sides = opened(&pool, freeing.source).await;
            let both = async {
                share(sides, true).await;
                sim.mark("shared");
                assert!(is_syncing(&pool), "the older txg has ended too soon for the test");
                (freeing.act)(Arc::clone(&pool)).await
            };
            while_writing(&sim, &LOG, &pool, both).await.expect("nothing is in its way");
            sim.mark("done");
        });
        let (mut replayed, mut images) = (0, 0);
        for image in drawn(&sim.recording(), IMAGES).filter(|image| image.is_after("shared")) {
            tell(format!("{}, on \"{}\": {}", freeing.name, LOG.name, image.story()));
            let sim = image.boot(seed);
            sim.stop_recording();
            run(&sim, async {
                let pool = LOG.import(&sim, quiet(), false).await.expect("every crash state imports");
                check_copy(&pool).await;
                // The other logs are freed too.
                for dataset in pool.dsl().list(POOL).await.expect("it lists") {
                    pool.filesystem(&dataset.name).await.expect("its log is whole");
                }
                space::check(&pool).await;
                pool.close(PoolState::Exported).await.expect("it closes");
            });
            images += 1;
            replayed += usize::from(!image.is_after("done"));
        }
        assert!(images >= IMPORTED_MIN && replayed > 0, "{}: {images} images, {replayed}", freeing.name);
    }
}
