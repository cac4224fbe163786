//! The power is cut while a pool of OpenZFS goes on with a replacement: in its resilver, when the old device is
//! let go of, and after that.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use env::OpenMode;
use oracle::golden;
use oracle::needs::Need;
use oracle::zdb::{Zdb, ZdbError};
use pool::{ImportSpec, Pool};
use sim::{CrashImage, DiskModel, DiskSpec, Sim};
use tempfile::TempDir;
use units::Txg;
use vdev::{Leaf, LeafLabels, NodeKind, PoolState};
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use crate::shape::{POOL, brisk};
use crate::story::{Tell, number, run, tell};

const IMAGES: [&str; 5] = ["a.img", "b.img", "n.img", "l1.img", "l2.img"];
const FS: &str = "whirl/fs";
const PIECE: usize = 256 << 10;
/// Crash states that are imported, beside those about the end of the replacement; one in so many of these is judged by
/// `zdb` when it is done.
const CRASHES: usize = 40;
const ZDB_ONE_IN: usize = 20;
/// So often one looks whether a resilver has ended: for ten seconds.
const LOOKS: usize = 2_000;
const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };

fn disk_of(image: &str) -> PathBuf {
    Path::new("/").join(image)
}

/// The pool as OpenZFS left it, on disks of a world.
fn replacing(seed: u64) -> Sim {
    let sim = Sim::seed(seed);
    sim.stop_recording();
    for image in IMAGES {
        let file = File::open(golden::path("g21-replacing").join(image)).expect("an image");
        let size = file.metadata().expect("its size").len();
        let disk = sim.add_disk(disk_of(image), DiskSpec::new(size, DiskModel::ssd()));
        let mut piece = vec![0; PIECE];
        for offset in (0..size).step_by(PIECE) {
            file.read_exact_at(&mut piece, offset).expect("an image is read");
            if piece.iter().any(|&byte| byte != 0) {
                disk.rot(offset, &piece);
            }
        }
    }
    sim
}

async fn import(sim: &Sim, images: &[&str]) -> Arc<Pool> {
    let paths = images.iter().map(|image| disk_of(image)).collect();
    let spec = ImportSpec { paths, name: Some(POOL.into()), ..ImportSpec::default() };
    Pool::import(sim.env(), &spec, brisk()).await.expect("every crash state imports")
}

fn is_replacing(pool: &Pool) -> bool {
    let top = &pool.vdevs().tops()[0];
    top.node().children().iter().any(|child| child.kind() == NodeKind::Replacing)
}

/// Whether the old device has labels of a member, and not those of one that was let go of.
async fn old_is_a_member(sim: &Sim) -> bool {
    let device = sim.env().open(&disk_of("b.img"), OpenMode::ReadOnly).await.expect("it is there");
    LeafLabels::read(&device).await.txg() != Txg::ZERO
}

/// Waits until the new device is alone, and all devices are whole: a device that did not get the last uberblock before the
/// power cut is brought up to date after the import.
async fn replaced(sim: &Sim, pool: &Pool) {
    let is_whole = |leaf: &Arc<Leaf>| leaf.dtl().is_empty() && !leaf.is_stale();
    for _ in 0..LOOKS {
        if !is_replacing(pool) && pool.vdevs().leaves().iter().all(is_whole) {
            break;
        }
        sim.env().sleep(Duration::from_millis(5)).await;
    }
    assert!(!is_replacing(pool), "the resilver ends");
    // The old one is let go of once that is stable.
    pool.sync_now().await.expect("txgs turn");
    assert_eq!(pool.vdevs().leaves().len(), 4);
    assert!(pool.vdevs().leaves().iter().all(is_whole));
}

/// Makes a file and says so once that is promised.
async fn promise(sim: &Sim, zfs: &Zfs, number: u8) {
    let name = format!("promised {number}");
    let made = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default()).await;
    zfs.write(made.expect("create").object, 0, &[number + 1; 9_000], SYNC).await.expect("write");
    sim.mark(name);
}

async fn check(zfs: &Zfs, number: u8) {
    let name = format!("promised {number}");
    let file = zfs.lookup(zfs.root(), name.as_bytes()).await.expect("it was promised").object;
    let mut found = vec![0; 10_000];
    assert_eq!(zfs.read(file, 0, &mut found).await.expect("read"), 9_000);
    assert!(found[..9_000].iter().all(|&byte| byte == number + 1));
}

/// What OpenZFS wrote before: read from the new device and the one beside it, each alone.
async fn read_bulk(zfs: &Zfs) -> Vec<u8> {
    let file = zfs.lookup(zfs.root(), b"bulk").await.expect("it was there").object;
    let mut bytes = vec![0; 4_000_000];
    assert_eq!(zfs.read(file, 0, &mut bytes).await.expect("read"), bytes.len());
    bytes
}

/// `zdb` on what the world's disks hold.
fn by_zdb(sim: &Sim) {
    let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a directory for images");
    for image in IMAGES {
        let file = File::create(dir.path().join(image)).expect("a new file");
        let size = File::open(golden::path("g21-replacing").join(image)).and_then(|file| file.metadata());
        let size = size.expect("its size").len();
        file.set_len(size).expect("a sparse file");
        for offset in (0..size).step_by(PIECE) {
            let bytes = sim.disk(disk_of(image)).peek(offset, PIECE);
            if bytes.iter().any(|&byte| byte != 0) {
                file.write_all_at(&bytes, offset).expect("a file is written");
            }
        }
    }
    match Zdb::new(dir.path(), POOL).check_blocks() {
        Err(ZdbError::Missing(error)) => Need::Zdb.is_missing(&error.to_string()),
        judged => drop(judged.unwrap_or_else(|error| panic!("{error}"))),
    }
}

/// Imports what a power cut left, and lets the replacement end; says whether it was still under way.
fn judge(image: &CrashImage, seed: u64, bulk: &[u8], with_zdb: bool) -> bool {
    let sim = image.boot(seed);
    sim.stop_recording();
    let was_replacing = run(&sim, async {
        let is_member = old_is_a_member(&sim).await;
        let pool = import(&sim, &IMAGES).await;
        let was_replacing = is_replacing(&pool);
        assert!(!was_replacing || is_member, "it was let go of while the pool still led to it");
        assert!(!was_replacing || !image.is_after("replaced"), "it was done");
        // What is still part of the pool has not been let go of.
        assert!(pool.vdevs().leaves().iter().all(|leaf| leaf.is_usable()));
        replaced(&sim, &pool).await;
        let fs = pool.filesystem(FS).await.expect("its log is whole");
        for number in (0..).take_while(|number| image.is_after(&format!("promised {number}"))) {
            check(&fs.zfs, number).await;
        }
        drop(fs);
        pool.close(PoolState::Exported).await.expect("it closes");
        was_replacing
    });
    // The new device has everything: the other side of the mirror is not there any more.
    run(&sim, async {
        let pool = import(&sim, &["n.img", "l1.img"]).await;
        let fs = pool.filesystem(FS).await.expect("it opens");
        assert!(read_bulk(&fs.zfs).await == bulk);
        drop(fs);
        pool.close(PoolState::Exported).await.expect("it closes");
    });
    if with_zdb {
        by_zdb(&sim);
    }
    was_replacing
}

#[test]
fn a_crash_anywhere_in_a_replace_leaves_a_pool_that_goes_on() {
    let _tell = Tell;
    let seed = 41_000;
    tell(format!("seed {seed}"));
    let sim = replacing(seed);
    let bulk = run(&sim, async {
        sim.start_recording();
        let pool = import(&sim, &IMAGES).await;
        let fs = pool.filesystem(FS).await.expect("it opens");
        for number in 0..3 {
            promise(&sim, &fs.zfs, number).await;
        }
        replaced(&sim, &pool).await;
        sim.mark("replaced");
        promise(&sim, &fs.zfs, 3).await;
        let bulk = read_bulk(&fs.zfs).await;
        pool.sync_now().await.expect("txgs turn");
        bulk
    });
    let recording = sim.recording();
    let images: Vec<CrashImage> = recording.crash_images().collect();
    let crashes = number("SAWMILL_CRASH_IMAGES").map_or(CRASHES, |count| count as usize);
    let step = images.len().div_ceil(crashes);
    let mut seen = [0, 0];
    let mut was_replacing = |at: usize, with_zdb: bool| {
        let image: &CrashImage = &images[at];
        tell(format!("seed {seed}, {}", image.story()));
        let was_replacing = judge(image, seed, &bulk, with_zdb);
        seen[usize::from(was_replacing)] += 1;
        was_replacing
    };
    let last = (0..images.len())
        .step_by(step)
        .enumerate()
        .filter(|&(judged, at)| was_replacing(at, judged % ZDB_ONE_IN == 0))
        .map(|(_, at)| at)
        .max();
    // The old device must be whole up to the very state in which nothing leads to it any more: none is left out there.
    let last = last.expect("the first state is before the end");
    for at in last.saturating_sub(step)..(last + step).min(images.len()) {
        was_replacing(at, false);
    }
    println!("{seen:?} of {} crash states: done, and still under way", images.len());
    assert!(seen[0] > 5 && seen[1] > 5, "{seen:?}: both were seen");
}
