//! Each request of an import fails, and the import is repeated in the same process.
//!
//! ```text
//!   power cut, logs to replay ─► import: its nth read, write or flush fails, twice or from then on
//!    (one names shared blocks)
//!     ─► every device can be opened by another program
//!     ─► import again: everything acknowledged is there
//! ```
//! An import that fails leaves no device open, whichever step failed. The log names shared blocks, so the
//! import replays the log: an import may fail while its txgs turn. A read-only import writes nothing.

use std::path::PathBuf;
use std::sync::LazyLock;

use env::{DeviceError, FaultOp, OpenMode};
use pool::ImportSpec;
use sim::{CrashImage, DiskModel, Sim};
use units::{BlockId, LABEL_END_BYTES, LABEL_START_BYTES, Level, ObjectId, ObjsetId};
use vdev::{PoolState, open_once_free};
use zio::Bookmark;
use zpl::{Cred, FilePlace, NewNode, WriteFlags};

use crate::ground::{Ground, quiet};
use crate::shape::{DISK_BYTES, LOG, MIRROR, POOL, Shape};
use crate::space;
use crate::story::{Tell, run, tell};

/// What the files hold. It does not compress, because a block pointer with its data inside is not shared.
static PROMISED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = vec![0; 16 << 10];
    fastrand::Rng::with_seed(7).fill(&mut bytes);
    bytes
});
const FILES: [&str; 2] = ["written", "shared"];
const OPS: [FaultOp; 3] = [FaultOp::Read, FaultOp::Write, FaultOp::Flush];

/// The number of requests that fail, beginning with the nth: a read and its retry, or all.
const SPANS: [u64; 2] = [2, u64::MAX];

/// A pool with two files that are only in its log: one was written, the other shares the blocks of a file
/// in the pool.
struct CrashedPool {
    shape: &'static Shape,
    image: CrashImage,
}

impl CrashedPool {
    fn new(shape: &'static Shape) -> Self {
        let ground = Ground::new(shape, 5, DiskModel::instant());
        let sim = ground.boot();
        run(&sim, async {
            let (pool, fs) = ground.open(&sim).await;
            let create = async |name: &str| {
                let root = fs.zfs.root();
                let made = fs.zfs.create(root, name.as_bytes(), NewNode::File, 0o644, Cred::default()).await;
                made.expect("created").object
            };
            let stable = WriteFlags { sync: true, ..WriteFlags::default() };
            let source = create("source").await;
            fs.zfs.write(source, 0, &PROMISED, stable).await.expect("written");
            pool.sync_now().await.expect("txgs turn");
            let [written, shared] = [create(FILES[0]).await, create(FILES[1]).await];
            fs.zfs.write(written, 0, &PROMISED, stable).await.expect("written");
            let place = FilePlace { zfs: &fs.zfs, object: source, offset: 0 };
            let shared_bytes = fs.zfs.clone_range(place, (shared, 0), u64::MAX, stable).await;
            assert_eq!(shared_bytes.expect("shared"), PROMISED.len() as u64);
        });
        Self { shape, image: sim.power_cut(5) }
    }

    /// Counts the requests of an import by device and type: labels, claim, and replay of the log.
    fn requests(&self) -> Vec<(PathBuf, FaultOp, u64)> {
        let sim = self.image.boot(1);
        run(&sim, self.import(&sim)).expect("a sound pool imports");
        let seen = |path: &PathBuf, op| sim.disk(path).faults().seen(op);
        let all = self.shape.disks().flat_map(|path| OPS.map(|op| (path.clone(), op, seen(&path, op))));
        all.collect()
    }

    /// Imports the pool and reads the files.
    async fn import(&self, sim: &Sim) -> Result<(), String> {
        let pool = self.shape.import(sim, quiet(), false).await.map_err(|error| error.to_string())?;
        let read = async {
            let fs = pool.filesystem(POOL).await.map_err(|error| error.to_string())?;
            for name in FILES {
                let file = fs.zfs.lookup(fs.zfs.root(), name.as_bytes()).await;
                let file = file.map_err(|error| format!("{name}: {error}"))?;
                let mut bytes = vec![0; PROMISED.len()];
                fs.zfs.read(file.object, 0, &mut bytes).await.map_err(|error| error.to_string())?;
                if bytes != *PROMISED {
                    return Err(format!("{name} has other bytes"));
                }
            }
            Ok(())
        };
        let read = read.await;
        pool.abandon().await;
        read
    }

    /// Returns whether the first import failed.
    fn fails_once(&self, path: &PathBuf, op: FaultOp, nth: u64, span: u64) -> bool {
        tell(format!("{}: {op:?} {nth} of {} and on, {span} times", self.shape.name, path.display()));
        let sim = self.image.boot(nth);
        run(&sim, async {
            sim.disk(path).faults().fail_range(op, nth, span);
            let first = self.shape.import(&sim, quiet(), false).await;
            let has_failed = first.is_err();
            if let Ok(pool) = first {
                pool.abandon().await;
            }
            sim.disk(path).faults().heal();
            for disk in self.shape.disks() {
                let opened = open_once_free(&sim.env(), &disk, OpenMode::ReadWrite).await;
                let held = matches!(opened, Err(DeviceError::InUse { .. }));
                assert!(!held, "{} is still open", disk.display());
            }
            self.import(&sim).await.expect("the second try finds all that was promised");
            has_failed
        })
    }
}

/// Makes every request fail in its turn. Returns the number of imports that failed and of those
/// that did not.
fn every_request(shape: &'static Shape) -> [usize; 2] {
    let _tell = Tell;
    let crashed = CrashedPool::new(shape);
    let mut count = [0; 2];
    for (path, op, requests) in crashed.requests() {
        for nth in 1..=requests {
            for span in SPANS {
                let has_failed = crashed.fails_once(&path, op, nth, span);
                count[usize::from(!has_failed)] += 1;
            }
        }
    }
    count
}

#[test]
fn an_import_that_fails_at_any_request_leaves_nothing_open_and_can_be_tried_again() {
    let mut failed = 0;
    for shape in [&LOG, &MIRROR] {
        let [lost, done] = every_request(shape);
        println!("{}: {lost} imports failed, {done} did not", shape.name);
        failed += lost;
    }
    assert!(failed > 100, "hardly an import has failed: {failed}");
}

/// Imports a mirror read-only whose side `bad` has wrong bytes everywhere but in its labels, and reads
/// everything. Returns whether the bad side was read.
fn look_beside(bad: &str) -> bool {
    let sim = CrashedPool::new(&MIRROR).image.boot(2);
    let data_bytes = DISK_BYTES - LABEL_START_BYTES - LABEL_END_BYTES;
    sim.disk(bad).rot(LABEL_START_BYTES, &vec![0xa5; data_bytes as usize]);
    tell(format!("a read-only import while {bad} is bad"));
    let is_met = run(&sim, async {
        let how = ImportSpec { read_only: true, ..ImportSpec::default() };
        let pool = MIRROR.import_as(&sim, quiet(), how).await.expect("it imports");
        pool.zio().set_cache_limit(0);
        let anywhere = Bookmark::new(ObjsetId::MOS, ObjectId::new(0), Level::new(0), BlockId::new(0));
        for bp in space::reachable(&pool).await.expect("all of it reads") {
            pool.zio().read(&bp, &anywhere).await.expect("the other side has it");
        }
        let has_met = |leaf: &std::sync::Arc<vdev::Leaf>| leaf.stats().snapshot().checksum_errors > 0;
        let is_met = pool.vdevs().leaves().iter().any(has_met);
        pool.close(PoolState::Exported).await.expect("it closes");
        is_met
    });
    for path in MIRROR.disks() {
        let seen = |op| sim.disk(&path).faults().seen(op);
        assert_eq!((seen(FaultOp::Write), seen(FaultOp::Flush)), (0, 0), "{}", path.display());
    }
    is_met
}

/// A read-only import reads the good side and repairs nothing.
#[test]
fn a_read_only_import_writes_nothing() {
    let _tell = Tell;
    let met = ["/a", "/b"].map(look_beside);
    assert!(met.contains(&true), "no bad copy was read");
}
