//! Replay that cannot go on, and replay of many logs at once.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use env::FaultOp;
use futures::FutureExt;
use futures::future::{Either, join_all, select};
use ondisk::Dva;
use pool::{ImportSpec, Pool, Replay};

use sim::{CrashImage, DiskModel, Sim, SimDisk};
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use crate::shape::{LOG, POOL, brisk};
use crate::space;
use crate::story::{Tell, run, tell};

const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };
/// Files whose log is longer than a span that is read at once.
const MANY: u64 = 240;
const FEW: u64 = 20;

fn name(number: u64) -> Vec<u8> {
    format!("file{number}").into_bytes()
}

async fn fill(zfs: &Zfs, files: u64) {
    for number in 0..files {
        let file = zfs.create(zfs.root(), &name(number), NewNode::File, 0o644, Cred::default()).await;
        let file = file.expect("create").object;
        zfs.write(file, 0, &vec![number as u8 + 1; 9_000], SYNC).await.expect("write");
    }
}

pub async fn check(zfs: &Zfs, files: u64) {
    for number in 0..files {
        let file = zfs.lookup(zfs.root(), &name(number)).await.expect("it was promised").object;
        let mut bytes = vec![0; 9_000];
        assert_eq!(zfs.read(file, 0, &mut bytes).await.expect("read"), 9_000);
        assert!(bytes.iter().all(|&byte| byte == number as u8 + 1));
    }
}

/// A pool of several datasets with a log, cut off with work in the logs of all of them.
pub fn cut_off(seed: u64, datasets: &[&str], files: u64) -> Sim {
    let sim = Sim::seed(seed);
    LOG.add_disks(&sim, DiskModel::ssd());
    run(&sim, async {
        let txg_timeout = std::time::Duration::from_secs(100_000);
        let tuning = pool::Tuning { txg_timeout, log_share_percent: 100, ..brisk() };
        let pool = LOG.create(&sim, tuning).await;
        for dataset in datasets.iter().filter(|name| **name != POOL) {
            pool.create_filesystem(dataset, Vec::new()).await.expect("a dataset");
        }
        pool.sync_now().await.expect("sync");
        let all = datasets.iter().map(|dataset| {
            let pool = Arc::clone(&pool);
            async move { fill(&pool.filesystem(dataset).await.expect("it opens").zfs, files).await }
        });
        join_all(all).await;
    });
    sim.power_cut(seed).boot(seed)
}

pub async fn close(pool: Arc<Pool>) {
    space::check(&pool).await;
    pool.close(PoolState::Exported).await.expect("a pool closes");
}

#[test]
fn replay_that_stopped_goes_on_at_the_next_use() {
    let _tell = Tell;
    // A block, then spans of many.
    for nth in [1, 2, 3, 4] {
        tell(format!("read {nth} of the log fails, and those after it"));
        let sim = cut_off(30_000 + nth, &[POOL], MANY);
        run(&sim, async {
            let pool = LOG.import(&sim, brisk(), false).await.expect("the log is claimed");
            let faults = sim.disk("/l");
            faults.faults().fail_range(FaultOp::Read, nth, u64::MAX);
            let stopped = pool.filesystem(POOL).await.map(drop);
            stopped.expect_err("the log cannot be read");
            assert!(pool.filesystem(POOL).await.is_err(), "nor the second time");
            pool.sync_now().await.expect("groups go on");
            faults.faults().heal();
            check(&pool.filesystem(POOL).await.expect("now it can").zfs, MANY).await;
            close(pool).await;
        });
    }
}

#[test]
fn logs_of_many_datasets_are_replayed_at_once() {
    let _tell = Tell;
    tell("several logs".into());
    let datasets = ["whirl", "whirl/a", "whirl/b", "whirl/a/c", "whirl/d"];
    let sim = cut_off(30_100, &datasets, FEW);
    run(&sim, async {
        let pool = LOG.import(&sim, brisk(), false).await.expect("the logs are claimed");
        // Somebody else may want one of them meanwhile.
        let (replayed, early) = futures::join!(pool.replay_logs(), pool.filesystem("whirl/b"));
        replayed.expect("all logs are sound");
        check(&early.expect("it opens").zfs, FEW).await;
        for dataset in datasets {
            let fs = pool.filesystem(dataset).await.expect("it opens");
            // The first ones were made stable by a txg.
            assert!(fs.log.as_ref().expect("a log").stats().replayed > FEW, "{dataset}");
            check(&fs.zfs, FEW).await;
            drop(fs);
            pool.close_filesystem(dataset).await.expect("it closes");
        }
        close(pool).await;
    });
}

#[test]
fn replays_are_told_while_they_are_under_way() {
    let _tell = Tell;
    tell("two logs".into());
    let datasets = [POOL, "whirl/a"];
    let sim = cut_off(30_300, &datasets, MANY);
    run(&sim, async {
        let pool = LOG.import(&sim, brisk(), false).await.expect("the logs are claimed");
        assert_eq!(pool.replays(), [], "none has begun");
        let mut told: Vec<Replay> = Vec::new();
        let mut replaying = Box::pin(pool.replay_logs());
        loop {
            match select(&mut replaying, pool.env().sleep(Duration::from_micros(20))).await {
                Either::Left((replayed, _)) => break replayed.expect("the logs are sound"),
                Either::Right(_) => told.extend(pool.replays()),
            }
        }
        drop(replaying);
        assert_eq!(pool.replays(), [], "all have ended");
        for dataset in datasets {
            let of = told.iter().filter(|replay| replay.dataset == dataset);
            let done: Vec<u64> = of.clone().map(|replay| replay.progress.records).collect();
            assert!(done.is_sorted() && done.first() < done.last(), "{dataset}: {done:?}");
            assert!(of.clone().all(|replay| replay.progress.records <= replay.progress.records_total));
            pool.close_filesystem(dataset).await.expect("it closes");
        }
        close(pool).await;
    });
}

/// Reads of the log vdev so far.
fn reads(pool: &Pool) -> u64 {
    pool.vdevs().top(units::VdevId::new(1)).expect("the log").stats().snapshot().read.ops
}

#[test]
fn a_log_is_read_in_spans_and_block_by_block_where_those_fail() {
    let _tell = Tell;
    tell("reading ahead".into());
    let image = cut_off(30_200, &[POOL], MANY).power_cut(1);
    for failing in [None, Some((2, 1)), Some((3, 2))] {
        let sim = image.boot(30_200);
        run(&sim, async {
            let pool = LOG.import(&sim, brisk(), false).await.expect("the log is claimed");
            let before = reads(&pool);
            if let Some((nth, count)) = failing {
                sim.disk("/l").faults().fail_range(FaultOp::Read, nth, count);
            }
            let fs = pool.filesystem(POOL).await.expect("it is replayed");
            check(&fs.zfs, MANY).await;
            let (blocks, reads) = (fs.log.as_ref().expect("a log").stats().replayed, reads(&pool) - before);
            assert!(failing.is_some() || reads * 20 < blocks, "{reads} reads for {blocks} records");
            drop(fs);
            close(pool).await;
        });
    }
}

/// The places of the root of `dataset`, as a reader finds them.
async fn root_of(sim: &Sim, dataset: &str) -> Vec<Dva> {
    let (paths, name) = (LOG.disks().collect(), Some(POOL.into()));
    let spec = ImportSpec { paths, name, read_only: true, ..ImportSpec::default() };
    let pool = Pool::import(sim.env(), &spec, brisk()).await.expect("it can be read");
    let found = pool.dsl().resolve(dataset).await.expect("it is there");
    let bp = pool.dsl().dataset(found.dataset).await.expect("it is there").bp;
    bp.dvas().collect()
}

/// Returns a world in which `lose` has lost the root of `whirl/a`, and with it the header of its log.
fn without_header(image: &CrashImage, places: &[Dva], lose: impl Fn(&SimDisk, u64)) -> Sim {
    let sim = image.boot(30_300);
    for place in places {
        lose(&sim.disk("/a"), place.offset.on_leaf().expect("on the disk").get());
    }
    sim
}

async fn check_other_log(pool: &Arc<Pool>) {
    check(&pool.filesystem(POOL).await.expect("its log is sound").zfs, FEW).await;
    assert!(pool.filesystem("whirl/a").await.is_err(), "it cannot be read");
}

#[test]
fn a_log_is_lost_with_the_root_of_its_dataset_but_a_root_that_may_come_back_is_waited_for() {
    let _tell = Tell;
    tell("a damaged header".into());
    let image = cut_off(30_300, &[POOL, "whirl/a"], FEW).power_cut(1);
    let reader = image.boot(1);
    let places = run(&reader, root_of(&reader, "whirl/a"));
    let sim = without_header(&image, &places, |disk, at| disk.rot(at, &[7; 512]));
    run(&sim, async {
        let pool = LOG.import(&sim, brisk(), false).await.expect("one dataset is lost, and the pool is not");
        check_other_log(&pool).await;
    });
    tell("a header on a bad place".into());
    let spoil = |disk: &SimDisk, at: u64| disk.faults().fail_within(FaultOp::Read, at..at + 512);
    let sim = without_header(&image, &places, spoil);
    run(&sim, async {
        LOG.import(&sim, brisk(), false).await.map(drop).expect_err("promises would be lost");
        sim.disk("/a").faults().heal();
        let pool = LOG.import(&sim, brisk(), false).await.expect("it reads again");
        check(&pool.filesystem("whirl/a").await.expect("its log replays").zfs, FEW).await;
        pool.abandon().await;
    });
    let sim = without_header(&image, &places, spoil);
    run(&sim, async {
        let pool = LOG.import(&sim, brisk(), true).await.expect("without that log");
        check_other_log(&pool).await;
    });
}

#[test]
fn a_txg_that_a_panic_leaves_half_changed_is_never_written_and_promises_are_replayed() {
    let _tell = Tell;
    tell("a panic within a transaction".into());
    let sim = Sim::seed(30_400);
    LOG.add_disks(&sim, DiskModel::ssd());
    let sim = run(&sim, async {
        let pool = LOG.create(&sim, brisk()).await;
        let fs = pool.filesystem(POOL).await.expect("it opens");
        fill(&fs.zfs, FEW).await;
        let gate = pool.txgs();
        let half = async {
            let tx = gate.join().expect("groups turn");
            gate.add_dirty(tx.txg(), 1);
            panic!("this panic belongs to a test");
        };
        AssertUnwindSafe(half).catch_unwind().await.expect_err("it panics");
        pool.sync_now().await.expect_err("that txg can never be synced");
        let failed = gate.failed().expect("it says so");
        assert!(gate.synced_txg() < failed, "nor was it");
        let file = fs.zfs.lookup(fs.zfs.root(), &name(0)).await.expect("reads go on").object;
        fs.zfs.write(file, 0, b"more", SYNC).await.expect_err("nothing more is promised");
        sim.power_cut(1).boot(30_401)
    });
    run(&sim, async {
        let pool = LOG.import(&sim, brisk(), false).await.expect("the log is claimed");
        check(&pool.filesystem(POOL).await.expect("it is replayed").zfs, FEW).await;
        close(pool).await;
    });
}
