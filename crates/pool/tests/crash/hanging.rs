//! Devices that do not answer for a while, under load.

use std::sync::Arc;
use std::time::Duration;

use env::{DeviceError, Env};
use pool::{Absence, Filesystem, Pool, PoolError, PoolSpec, Tuning};
use sim::{DiskModel, Sim};
use vdev::{Leaf, PoolState, VdevAux, VdevError, VdevState};

use crate::attached::{check, promise};
use crate::shape::{LOG, MIRROR, POOL, SINGLE, Shape, brisk};
use crate::story::{Tell, run};

const LIMIT: Duration = Duration::from_secs(1);

fn patient() -> Tuning {
    Tuning { deadman: LIMIT, log_deadman: LIMIT, retry_after: LIMIT, ..brisk() }
}

async fn made(sim: &Sim, shape: &Shape) -> (Arc<Pool>, Arc<Filesystem>) {
    shape.add_disks(sim, DiskModel::ssd());
    let pool = shape.create(sim, patient()).await;
    let fs = pool.filesystem(POOL).await.expect("the root file system opens");
    pool.sync_now().await.expect("sync");
    (pool, fs)
}

fn leaf(pool: &Pool, path: &str) -> Arc<Leaf> {
    let found = pool.vdevs().leaves().into_iter().find(|leaf| leaf.path().to_str() == Some(path));
    found.expect("a leaf of that path")
}

/// Promises files `from..to`; how long the slowest took.
async fn promised(sim: &Sim, fs: &Filesystem, numbers: std::ops::Range<u64>) -> Duration {
    let mut longest = Duration::ZERO;
    for number in numbers {
        let begun = sim.now();
        promise(sim, &fs.zfs, number).await;
        longest = longest.max(sim.now() - begun);
    }
    longest
}

#[test]
fn a_device_that_hangs_is_opened_again_once_it_has_answered() {
    let _tell = Tell;
    let sim = Sim::seed(61_000);
    run(&sim, async {
        let (pool, fs) = made(&sim, &MIRROR).await;
        promised(&sim, &fs, 0..10).await;
        sim.disk("/b").hang_from(1);
        let longest = promised(&sim, &fs, 10..30).await;
        assert!(longest > LIMIT / 2 && longest < 2 * LIMIT, "{longest:?}");
        assert_eq!(leaf(&pool, "/b").state().0, VdevState::Faulted);
        sim.sleep(60 * LIMIT).await;
        let waiting = sim.disk("/b").hung();
        assert!(waiting > 0 && leaf(&pool, "/b").state().0 != VdevState::Online, "it has not answered yet");
        sim.disk("/b").answer();
        assert!(promised(&sim, &fs, 30..40).await < LIMIT / 4);
        sim.sleep(200 * LIMIT).await;
        let back = leaf(&pool, "/b");
        assert_eq!((back.state().0, back.is_stale()), (VdevState::Online, false), "{:?}", back.dtl());
        promised(&sim, &fs, 40..50).await;
        drop(fs);
        pool.leave().await.expect("a pool is left");
    });
    let sim = sim.power_cut(1).boot(2);
    sim.disk("/a").faults().disappear();
    run(&sim, async {
        let pool = MIRROR.import(&sim, brisk(), false).await.expect("one side is enough");
        let fs = pool.filesystem(POOL).await.expect("the log replays");
        for number in 0..50 {
            check(&fs.zfs, number).await;
        }
    });
}

#[test]
fn a_log_that_hangs_is_used_again_once_it_has_answered() {
    let _tell = Tell;
    let sim = Sim::seed(61_100);
    run(&sim, async {
        let (pool, fs) = made(&sim, &LOG).await;
        promised(&sim, &fs, 0..10).await;
        sim.disk("/l").hang_from(1);
        let longest = promised(&sim, &fs, 10..30).await;
        assert!(longest > LIMIT / 2 && longest < 2 * LIMIT, "{longest:?}");
        assert!(promised(&sim, &fs, 30..40).await < LIMIT / 4, "by the main pool");
        assert!(!leaf(&pool, "/l").is_usable() && pool.suspended().is_none());
        sim.disk("/l").answer();
        sim.sleep(200 * LIMIT).await;
        let log = leaf(&pool, "/l");
        assert_eq!(log.state().0, VdevState::Online);
        let writes = || log.stats().snapshot().write.ops;
        let before = writes();
        assert!(promised(&sim, &fs, 40..60).await < LIMIT / 4);
        // The first of them goes by the txg that begins the chain there.
        assert!(writes() > before + 15, "{before} and {} writes", writes());
    });
    let sim = sim.power_cut(1).boot(2);
    run(&sim, async {
        let pool = LOG.import(&sim, brisk(), false).await.expect("a pool with its log");
        let fs = pool.filesystem(POOL).await.expect("the log replays");
        for number in 0..60 {
            check(&fs.zfs, number).await;
        }
    });
}

#[test]
fn a_pool_whose_only_device_hangs_waits_for_it_and_goes_on() {
    let _tell = Tell;
    let sim = Sim::seed(61_200);
    run(&sim, async {
        let (pool, fs) = made(&sim, &crate::shape::SINGLE).await;
        promised(&sim, &fs, 0..10).await;
        sim.disk("/a").hang_from(1);
        let disk = sim.disk("/a");
        let later = sim.sleep(50 * LIMIT);
        let (looked, answered) = (Arc::clone(&pool), sim.now() + 50 * LIMIT);
        sim.spawn(
            "healer",
            Box::pin(async move {
                later.await;
                assert!(looked.suspended().is_some(), "nothing can be done without it");
                disk.answer();
            }),
        );
        promised(&sim, &fs, 10..11).await;
        assert!(sim.now() >= answered, "nothing is promised before it answers");
        promised(&sim, &fs, 11..20).await;
        assert_eq!((pool.suspended(), leaf(&pool, "/a").state().0), (None, VdevState::Online));
        for number in 0..20 {
            check(&fs.zfs, number).await;
        }
    });
}

/// The other side lacks what only that one has, and the administrator has declared it faulted: opened in place of the one
/// that is needed it would serve what it has, and the pool would wait for ever for what it has not.
#[test]
fn a_side_that_was_declared_faulted_is_not_taken_for_the_one_that_hangs() {
    let _tell = Tell;
    let sim = Sim::seed(61_300);
    run(&sim, async {
        let (pool, fs) = made(&sim, &MIRROR).await;
        promised(&sim, &fs, 0..10).await;
        let out = leaf(&pool, "/b");
        pool.take_offline(out.guid(), Absence::Faulted, true).await.expect("the other side is enough");
        promised(&sim, &fs, 10..20).await;
        pool.sync_now().await.expect("sync");
        sim.disk("/a").hang_from(1);
        let disk = sim.disk("/a");
        let later = sim.sleep(5 * LIMIT);
        sim.spawn(
            "healer",
            Box::pin(async move {
                later.await;
                disk.answer()
            }),
        );
        promised(&sim, &fs, 20..30).await;
        assert_eq!(leaf(&pool, "/a").state().0, VdevState::Online);
        assert_eq!(out.state(), (VdevState::Faulted, VdevAux::External), "nobody has brought it back");
        for number in 0..30 {
            check(&fs.zfs, number).await;
        }
    });
}

/// The other side is brought back meanwhile: that serves what it has, and the one that hangs is needed all the same, for what
/// it alone has. An import has forgotten what was in memory.
#[test]
fn a_side_that_alone_has_something_is_taken_back_though_the_other_is_there() {
    let _tell = Tell;
    let sim = Sim::seed(61_400);
    run(&sim, async {
        let (pool, fs) = made(&sim, &MIRROR).await;
        let out = leaf(&pool, "/b").guid();
        pool.take_offline(out, Absence::Faulted, false).await.expect("the other side is enough");
        promised(&sim, &fs, 0..10).await;
        drop(fs);
        pool.close(PoolState::Exported).await.expect("it closes");
        let pool = MIRROR.import(&sim, patient(), false).await.expect("one side is enough");
        let fs = pool.filesystem(POOL).await.expect("it opens");
        sim.disk("/a").hang_from(1);
        let (disk, cleared) = (sim.disk("/a"), Arc::clone(&pool));
        let [clearing, answering] = [3, 6].map(|times| sim.sleep(times * LIMIT));
        let answered = sim.now() + 6 * LIMIT;
        let administrator = async move {
            clearing.await;
            // It says that the other one is still out.
            _ = cleared.clear(&|leaf| leaf.guid() == out).await;
        };
        let healer = async move {
            answering.await;
            disk.answer();
        };
        sim.spawn("administrator", Box::pin(administrator));
        sim.spawn("healer", Box::pin(healer));
        for number in 0..10 {
            check(&fs.zfs, number).await;
        }
        assert!(sim.now() >= answered, "nobody else has it");
    });
}

#[test]
fn a_device_that_never_answers_keeps_nobody_waiting_who_would_have_it() {
    let _tell = Tell;
    let sim = Sim::seed(61_200);
    SINGLE.add_disks(&sim, DiskModel::ssd());
    sim.disk("/a").hang_from(1);
    run(&sim, async {
        let spec = PoolSpec {
            name: POOL.into(),
            stored_name: None,
            vdevs: SINGLE.vdevs_from(0),
            root_props: Vec::new(),
            comment: None,
            force: false,
        };
        let begun = sim.now();
        let refused = Pool::create(sim.env(), spec, brisk()).await.err();
        let is_told =
            matches!(&refused, Some(PoolError::Vdev(VdevError::Open { source: DeviceError::TimedOut, .. })));
        assert!(is_told, "{refused:?}");
        assert!(sim.now() - begun < Duration::from_secs(60));
    });
}
