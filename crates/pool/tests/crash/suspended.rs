//! Pools whose devices fail in a txg's sync, and work again later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dmu::DmuError;
use dsl::PropValue;
use env::{FaultOp, impatient};
use futures::FutureExt;
use futures::future::{Either, join, select};
use pool::{FailMode, Pool, PoolError, Tuning};
use sim::{CrashImage, DiskModel, Sim};
use units::{ObjectId, VdevId};
use vdev::{PoolState, VdevState};
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use crate::dice::Dice;
use crate::ground::{Ground, quiet};
use crate::shape::{LOG, MIRROR, POOL, RAIDZ, SINGLE, STRIPE, Shape};
use crate::space;
use crate::story::{Tell, number, run, tell};

/// Files and what is to be in them.
type Files = BTreeMap<String, Vec<u8>>;

/// No suspended pool tries again by itself.
fn patient() -> Tuning {
    Tuning { retry_after: Duration::from_secs(100_000), ..quiet() }
}

async fn file(zfs: &Zfs, name: &str) -> ObjectId {
    match zfs.lookup(zfs.root(), name.as_bytes()).await {
        Ok(found) => found.object,
        Err(_) => {
            let made = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default());
            made.await.expect("create").object
        }
    }
}

/// Writes files of several sizes over what they were; the round decides what is in them.
async fn write(zfs: &Zfs, round: u64) -> Files {
    let mut files = Files::new();
    for (n, bytes) in [100, 5_000, 70_000, 300_000, 900_000].into_iter().enumerate() {
        let name = format!("file{n}");
        let contents = Dice::new(n as u64, round).bytes(bytes);
        let object = file(zfs, &name).await;
        zfs.write(object, 0, &contents, WriteFlags::default()).await.expect("write");
        files.insert(name, contents);
    }
    files
}

async fn check(zfs: &Zfs, files: &Files) {
    for (name, contents) in files {
        let object = zfs.lookup(zfs.root(), name.as_bytes()).await.expect(name).object;
        let mut bytes = vec![0; contents.len()];
        zfs.read(object, 0, &mut bytes).await.expect("read");
        assert!(bytes == *contents, "{name} is not what was written");
    }
}

fn break_disks(sim: &Sim, shape: &Shape, op: Option<FaultOp>, nth: u64) {
    for path in shape.disks() {
        let disk = sim.disk(path);
        match op {
            Some(op) => disk.faults().fail_range(op, nth, u64::MAX),
            None => disk.faults().disappear_at(nth),
        }
    }
}

fn mend_disks(sim: &Sim, shape: &Shape) {
    shape.disks().for_each(|path| sim.disk(path).faults().heal());
}

/// The pool opened anew from what a power cut left.
fn check_image(image: &CrashImage, shape: &Shape, files: &Files) {
    let sim = image.boot(1);
    run(&sim, async {
        let pool = shape.import(&sim, quiet(), false).await.expect("it imports");
        let fs = pool.filesystem(POOL).await.expect("the root file system opens");
        check(&fs.zfs, files).await;
        drop(fs);
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("a pool closes");
    });
}

struct Trial<'a> {
    ground: &'a Ground,
    /// `None`: the disks go away.
    op: Option<FaultOp>,
    nth: u64,
}

impl Trial<'_> {
    /// Whether it came to the failure.
    fn run(&self) -> bool {
        tell(format!("{}, from the request {} on {:?} fails", self.ground.story(), self.nth, self.op));
        let (sim, shape) = (self.ground.boot(), self.ground.shape);
        let done = run(&sim, async {
            let pool = shape.import(&sim, patient(), false).await.expect("a sound pool imports");
            let fs = pool.filesystem(POOL).await.expect("the root file system opens");
            write(&fs.zfs, 0).await;
            pool.sync_now().await.expect("sync");
            let files = write(&fs.zfs, 1).await;
            break_disks(&sim, shape, self.op, self.nth);
            let has_failed = self.sync(&sim, &pool).await;
            mend_disks(&sim, shape);
            check(&fs.zfs, &files).await;
            (pool, fs, files, has_failed)
        });
        let (pool, fs, files, has_failed) = done;
        if self.nth.is_multiple_of(2) {
            run(&sim, async {
                drop(fs);
                space::check(&pool).await;
                pool.close(PoolState::Exported).await.expect("a pool closes");
            });
        } else {
            // What was stable is so without the pool's memory.
            check_image(&sim.power_cut(self.nth), shape, &files);
        }
        has_failed
    }

    /// Syncs; when that fails, makes the disks work again and says so.
    async fn sync(&self, sim: &Sim, pool: &Arc<Pool>) -> bool {
        let syncing = Box::pin(pool.sync_now());
        let suspended = Box::pin(pool.zio().suspension().until_suspended());
        match select(syncing, suspended).await {
            Either::Left((done, _)) => {
                done.expect("it went well");
                // A disk may have gone when nothing was needed of it any more.
                mend_disks(sim, self.ground.shape);
                pool.clear(&|_| true).await.expect("devices work again");
                false
            }
            Either::Right((_, syncing)) => {
                assert!(pool.suspended().is_some() && pool.stopped().is_none());
                let hopeless = impatient(pool.clear(&|_| true)).await;
                assert!(matches!(hopeless, Err(PoolError::Suspended { .. })), "{hopeless:?}");
                mend_disks(sim, self.ground.shape);
                let cleared = pool.clear(&|_| true);
                let (synced, cleared) = join(syncing, cleared).await;
                synced.expect("the same txg, once its devices work");
                cleared.expect("devices work again");
                assert_eq!(pool.suspended(), None);
                true
            }
        }
    }
}

/// Each request of a sync and all after it fail, until it gets no further.
fn fail(shape: &'static Shape, seed: u64) {
    let _tell = Tell;
    let ground = Ground::new(shape, seed, DiskModel::ssd());
    for op in [Some(FaultOp::Write), Some(FaultOp::Flush), Some(FaultOp::Read), None] {
        let step = number("SAWMILL_CRASH_RUNS").map_or(5, |_| 1);
        let first = (1..4).chain((4..).step_by(step));
        let tried = first.take_while(|&nth| Trial { ground: &ground, op, nth }.run()).count();
        // With a cache that holds all of the pool nothing is read.
        assert!(tried > 0 || op == Some(FaultOp::Read), "{op:?} never failed");
    }
}

#[test]
fn a_txg_whose_devices_fail_at_any_request_is_complete_once_they_work() {
    fail(&SINGLE, 31_000);
}

#[test]
fn a_txg_of_a_mirror_whose_sides_all_fail_is_complete_once_they_work() {
    fail(&MIRROR, 31_100);
}

#[test]
fn a_txg_of_a_raidz_whose_disks_all_fail_is_complete_once_they_work() {
    fail(&RAIDZ, 31_200);
}

#[test]
fn a_txg_of_a_stripe_whose_vdevs_all_fail_is_complete_once_they_work() {
    fail(&STRIPE, 31_300);
}

/// A pool that is suspended: its data disk fails all writes.
async fn suspended(sim: &Sim, shape: &Shape, tuning: Tuning, mode: FailMode) -> Arc<Pool> {
    let pool = failing(sim, shape, tuning, mode).await;
    assert!(pool.zio().suspension().until_suspended().await);
    pool
}

/// A pool whose data disk fails all writes, of a txg that is to be synced among them.
async fn failing(sim: &Sim, shape: &Shape, tuning: Tuning, mode: FailMode) -> Arc<Pool> {
    shape.add_disks(sim, DiskModel::ssd());
    let pool = shape.create(sim, tuning).await;
    let set = pool.set_pool_prop("failmode", Some(PropValue::Number(mode as u64)));
    set.await.expect("a property is set");
    let fs = pool.filesystem(POOL).await.expect("the root file system opens");
    write(&fs.zfs, 0).await;
    pool.sync_now().await.expect("sync");
    write(&fs.zfs, 1).await;
    sim.disk("/a").faults().fail_all(FaultOp::Write);
    pool.txgs().hurry(pool.txgs().open_txg());
    pool
}

#[test]
fn a_suspended_pool_goes_on_by_itself_when_its_devices_do() {
    let _tell = Tell;
    let sim = Sim::seed(32_000);
    run(&sim, async {
        let tuning = Tuning { retry_after: Duration::from_secs(10), ..quiet() };
        let pool = suspended(&sim, &SINGLE, tuning, FailMode::Wait).await;
        sim.env().sleep(Duration::from_secs(60)).await;
        assert!(pool.suspended().is_some(), "the disk does not work");
        mend_disks(&sim, &SINGLE);
        sim.env().sleep(Duration::from_secs(11)).await;
        assert_eq!(pool.suspended(), None);
        let fs = pool.filesystem(POOL).await.expect("the root file system");
        write(&fs.zfs, 2).await;
        pool.sync_now().await.expect("sync");
    });
}

#[test]
fn while_a_pool_is_suspended_writers_wait_and_commands_are_told() {
    let _tell = Tell;
    let sim = Sim::seed(32_100);
    run(&sim, async {
        let pool = suspended(&sim, &SINGLE, patient(), FailMode::Wait).await;
        let fs = pool.filesystem(POOL).await.expect("it is open");
        let mut writing = Box::pin(write(&fs.zfs, 2));
        assert!(writing.as_mut().now_or_never().is_none(), "it waits");
        let command = impatient(pool.create_filesystem("whirl/made", vec![])).await;
        assert!(matches!(command, Err(PoolError::Dmu(DmuError::Suspended { .. }))), "{command:?}");
        assert!(impatient(pool.sync_now()).await.is_err());
        let _ = impatient(pool.damaged_objects()).await;
        mend_disks(&sim, &SINGLE);
        pool.clear(&|_| true).await.expect("devices work again");
        let files = writing.await;
        pool.sync_now().await.expect("sync");
        check(&fs.zfs, &files).await;
        assert!(pool.filesystem("whirl/made").await.is_err(), "what was refused is not done later");
    });
}

#[test]
fn with_failmode_continue_writers_are_refused_and_readers_served() {
    let _tell = Tell;
    let sim = Sim::seed(32_200);
    run(&sim, async {
        let pool = suspended(&sim, &SINGLE, patient(), FailMode::Continue).await;
        let fs = pool.filesystem(POOL).await.expect("it is open");
        let object = file(&fs.zfs, "file3").await;
        fs.zfs.write(object, 0, b"no", WriteFlags::default()).await.expect_err("nothing new is begun");
        fs.zfs.fsync(object, false).await.expect_err("it cannot be made stable now");
        let mut bytes = [0; 10];
        fs.zfs.read(object, 0, &mut bytes).await.expect("reads go on");
        mend_disks(&sim, &SINGLE);
        pool.clear(&|_| true).await.expect("devices work again");
        fs.zfs.write(object, 0, b"yes", WriteFlags::default()).await.expect("all is well again");
        fs.zfs.fsync(object, false).await.expect("fsync");
    });
}

#[test]
fn with_failmode_panic_the_pool_stops_and_the_program_goes_on() {
    let _tell = Tell;
    let sim = Sim::seed(32_250);
    run(&sim, async {
        let pool = failing(&sim, &SINGLE, patient(), FailMode::Panic).await;
        while !pool.zio().suspension().is_given_up() {
            sim.env().sleep(Duration::from_millis(10)).await;
        }
        assert!(pool.stopped().is_some());
        let fs = pool.filesystem(POOL).await.expect("it is open");
        let object = file(&fs.zfs, "file3").await;
        fs.zfs.write(object, 0, b"no", WriteFlags::default()).await.expect_err("the pool has stopped");
        mend_disks(&sim, &SINGLE);
        pool.clear(&|_| true).await.expect_err("only an import brings the pool back");
        drop(fs);
        pool.abandon().await;
        let pool = SINGLE.import(&sim, patient(), false).await.expect("it imports");
        let fs = pool.filesystem(POOL).await.expect("the root file system opens");
        fs.zfs.write(object, 0, b"yes", WriteFlags::default()).await.expect("all is well again");
        pool.sync_now().await.expect("sync");
    });
}

#[test]
fn reads_wait_for_a_disk_that_is_away() {
    let _tell = Tell;
    let sim = Sim::seed(32_300);
    SINGLE.add_disks(&sim, DiskModel::ssd());
    let files = run(&sim, async {
        let pool = SINGLE.create(&sim, patient()).await;
        let fs = pool.filesystem(POOL).await.expect("the root file system opens");
        let files = write(&fs.zfs, 0).await;
        drop(fs);
        pool.close(PoolState::Exported).await.expect("a pool closes");
        files
    });
    run(&sim, async {
        let pool = SINGLE.import(&sim, patient(), false).await.expect("it imports");
        let fs = pool.filesystem(POOL).await.expect("the root file system opens");
        sim.disk("/a").faults().disappear();
        let suspension = pool.zio().suspension();
        let reading = Box::pin(check(&fs.zfs, &files));
        let Either::Right((true, reading)) = select(reading, Box::pin(suspension.until_suspended())).await
        else {
            panic!("reads did not wait");
        };
        mend_disks(&sim, &SINGLE);
        let (cleared, ()) = join(pool.clear(&|_| true), reading).await;
        cleared.expect("the disk is back");
    });
}

#[test]
fn a_pool_that_only_reads_wait_for_can_be_given_up() {
    let _tell = Tell;
    let sim = Sim::seed(32_350);
    SINGLE.add_disks(&sim, DiskModel::ssd());
    run(&sim, async {
        let pool = SINGLE.create(&sim, patient()).await;
        let fs = pool.filesystem(POOL).await.expect("the root file system opens");
        write(&fs.zfs, 0).await;
        pool.sync_now().await.expect("sync");
        let object = file(&fs.zfs, "file4").await;
        pool.zio().set_cache_limit(0);
        sim.disk("/a").faults().disappear();
        let mut bytes = vec![0; 1000];
        let reading = Box::pin(fs.zfs.read(object, 0, &mut bytes));
        let suspension = pool.zio().suspension();
        let Either::Right((true, reading)) = select(reading, Box::pin(suspension.until_suspended())).await
        else {
            panic!("reads did not wait");
        };
        pool.abandon().await;
        reading.await.expect_err("nobody waits for what is given up");
    });
}

#[test]
fn a_suspended_pool_can_be_given_up_and_keeps_its_promises() {
    let _tell = Tell;
    let sim = Sim::seed(32_400);
    let files = run(&sim, async {
        let pool = suspended(&sim, &LOG, patient(), FailMode::Wait).await;
        let fs = pool.filesystem(POOL).await.expect("it is open");
        // The log works: what was written before can be promised.
        let mut files = Files::new();
        for n in 0..5 {
            let name = format!("file{n}");
            let object = file(&fs.zfs, &name).await;
            fs.zfs.fsync(object, false).await.expect("the log works");
            let mut bytes = vec![0; fs.zfs.attributes(object).await.expect("attributes").size as usize];
            fs.zfs.read(object, 0, &mut bytes).await.expect("read");
            files.insert(name, bytes);
        }
        let object = file(&fs.zfs, "file0").await;
        let mut writing = Box::pin(fs.zfs.write(object, 0, b"late", WriteFlags::default()));
        assert!(writing.as_mut().now_or_never().is_none(), "it waits");
        pool.abandon().await;
        writing.await.expect_err("nobody waits for what is given up");
        assert!(pool.sync_now().await.is_err() && pool.suspended().is_some());
        files
    });
    mend_disks(&sim, &LOG);
    check_image(&sim.power_cut(1), &LOG, &files);
}

/// Writes and makes stable with the log, file by file.
async fn write_stable(zfs: &Zfs, round: u64) -> Files {
    let files = write(zfs, round).await;
    for name in files.keys() {
        zfs.fsync(file(zfs, name).await, false).await.expect("fsync");
    }
    files
}

#[test]
fn a_log_that_was_missing_at_import_comes_back_at_clear_and_brings_nothing_old() {
    let _tell = Tell;
    for is_used_before in [true, false] {
        tell(format!("a missing log is cleared, the file system is used before: {is_used_before}"));
        let sim = Sim::seed(33_000);
        LOG.add_disks(&sim, DiskModel::ssd());
        let given_up = run(&sim, async {
            let pool = LOG.create(&sim, patient()).await;
            let fs = pool.filesystem(POOL).await.expect("the root file system opens");
            let files = write(&fs.zfs, 0).await;
            pool.sync_now().await.expect("sync");
            write_stable(&fs.zfs, 1).await;
            files
        });
        let sim = sim.power_cut(1).boot(2);
        sim.disk("/l").faults().disappear();
        let files = run(&sim, async {
            let pool = LOG.import(&sim, patient(), true).await.expect("it imports without its log");
            if is_used_before {
                pool.filesystem(POOL).await.expect("the root file system opens");
            }
            assert_eq!(pool.vdevs().state().0, VdevState::Degraded);
            mend_disks(&sim, &LOG);
            pool.clear(&|_| true).await.expect("the log is back");
            assert_eq!(pool.vdevs().state().0, VdevState::Online);
            let fs = pool.filesystem(POOL).await.expect("the root file system opens");
            check(&fs.zfs, &given_up).await;
            pool.sync_now().await.expect("sync");
            let files = write_stable(&fs.zfs, 2).await;
            let stats = fs.log.as_ref().expect("a log").stats();
            assert!(
                stats.homes.get(&VdevId::new(1)).is_some_and(|home| home.blocks > 0),
                "{:?}",
                stats.homes
            );
            files
        });
        check_image(&sim.power_cut(3), &LOG, &files);
    }
}
