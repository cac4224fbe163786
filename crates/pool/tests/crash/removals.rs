//! Logs taken out of pools in use: under load, failing, with the power cut in the middle, and put back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use env::{Env, FaultOp};
use oracle::needs::Need;
use oracle::zdb::ZdbError;
use pool::{Filesystem, Pool, Tuning};
use sim::{CrashImage, DiskModel, DiskSpec, Sim};
use units::VdevId;
use vdev::{NodeKind, PoolState};

use crate::shape::{
    DISK_BYTES, LOG, MIRRORED_LOG, POOL, SINGLE, SINGLE_MIRRORED_LOG, SINGLE_TWO_LOGS, Shape, brisk,
};
use crate::space;
use crate::story::{Tell, drawn, number, run, tell};
use crate::writers::{SYNC, WRITERS, check_files, contents, file, promised, promised_in, under_load};

/// Images of each run that are imported.
const IMAGES_MAX: usize = 60;
/// Of these, one in so many is judged by `zdb`.
const ZDB_ONE_IN: usize = 20;
const FIRST: VdevId = VdevId::new(1);
const SECOND: VdevId = VdevId::new(2);

fn disks(seed: u64, shape: &Shape) -> Sim {
    let sim = Sim::seed(seed);
    shape.add_disks(&sim, DiskModel::ssd());
    sim
}

fn by_zdb(sim: &Sim, shape: &Shape) {
    match space::check_by_zdb(shape, |path, offset, len| sim.disk(path).peek(offset, len)) {
        Err(ZdbError::Missing(error)) => Need::Zdb.is_missing(&error.to_string()),
        judged => judged.unwrap_or_else(|error| panic!("{error}")),
    }
}

fn log_vdevs(pool: &Pool) -> Vec<u32> {
    pool.vdevs().tops().iter().filter(|top| top.is_log()).map(|top| top.id().get()).collect()
}

fn holes(pool: &Pool) -> Vec<u32> {
    let tops = pool.vdevs().all_tops();
    tops.iter().filter(|top| top.kind() == NodeKind::Hole).map(|top| top.id().get()).collect()
}

async fn filesystem(pool: &Arc<Pool>) -> Arc<Filesystem> {
    pool.filesystem(POOL).await.expect("the root file system opens")
}

#[test]
fn a_log_is_removed_under_load_and_leaves_a_hole_but_at_the_end() {
    let _tell = Tell;
    let cases: [(&Shape, VdevId, &[u32], &[u32]); 5] = [
        (&LOG, FIRST, &[], &[]),
        (&SINGLE_MIRRORED_LOG, FIRST, &[], &[]),
        (&MIRRORED_LOG, FIRST, &[], &[]),
        (&SINGLE_TWO_LOGS, FIRST, &[2], &[1]),
        (&SINGLE_TWO_LOGS, SECOND, &[1], &[]),
    ];
    for (shape, gone, left, empty) in cases {
        tell(format!("\"{}\" without vdev {gone}", shape.name));
        let sim = disks(41_000, shape);
        run(&sim, async {
            let pool = shape.create(&sim, brisk()).await;
            let fs = filesystem(&pool).await;
            pool.sync_now().await.expect("the log's header is stable");
            let work = async { pool.remove_log(gone).await.expect("a log can go at any time") };
            under_load(&sim, &fs.zfs, work).await;
            assert_eq!((log_vdevs(&pool).as_slice(), holes(&pool).as_slice()), (left, empty));
            let stats = fs.log.as_ref().expect("a log").stats();
            assert_eq!((stats.fallbacks, stats.chains), (0, 1), "no commit waited for a txg");
            drop(fs);
            space::check(&pool).await;
            pool.close(PoolState::Exported).await.expect("it closes");
        });
        by_zdb(&sim, shape);
        run(&sim, async {
            let pool = shape.import(&sim, brisk(), false).await.expect("nobody misses the log");
            assert_eq!((log_vdevs(&pool).as_slice(), holes(&pool).as_slice()), (left, empty));
            check_files(&filesystem(&pool).await.zfs, &promised_in(&sim)).await;
        });
    }
}

/// Imports what a power cut left: the log, or no trace of it, and all that was promised.
fn judge(shape: &Shape, image: &CrashImage, seed: u64, with_zdb: bool) -> usize {
    let sim = image.boot(seed);
    if with_zdb && image.is_after("removed") {
        by_zdb(&sim, shape);
    }
    sim.stop_recording();
    run(&sim, async {
        let pool = shape.import(&sim, brisk(), false).await.expect("every crash state imports");
        let count = log_vdevs(&pool).len();
        let has_it = pool.vdevs().top(FIRST).is_ok();
        assert!(!has_it || !image.is_after("removed"), "it was removed");
        let fs = filesystem(&pool).await;
        let labels = image.marks().iter().map(|mark| mark.label.as_str());
        check_files(&fs.zfs, &promised(labels)).await;
        drop(fs);
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
        count
    })
}

#[test]
fn a_power_cut_while_a_log_is_removed_leaves_it_or_a_hole_and_every_promise() {
    let _tell = Tell;
    let mut judged = 0;
    for (shape, seed) in [(&LOG, 41_100), (&SINGLE_TWO_LOGS, 41_101), (&SINGLE_MIRRORED_LOG, 41_102)] {
        let seed = number("SAWMILL_CRASH_SEED").unwrap_or(seed);
        tell(format!("\"{}\", seed {seed}", shape.name));
        let sim = disks(seed, shape);
        run(&sim, async {
            let pool = shape.create(&sim, Tuning { txg_timeout: Duration::from_millis(5), ..brisk() }).await;
            let fs = filesystem(&pool).await;
            let work = async {
                sim.start_recording();
                pool.remove_log(FIRST).await.expect("a log can go at any time");
                sim.mark("removed");
            };
            under_load(&sim, &fs.zfs, work).await;
        });
        let mut counts = BTreeMap::new();
        for image in drawn(&sim.recording(), IMAGES_MAX) {
            tell(format!("\"{}\", seed {seed}, {}", shape.name, image.story()));
            *counts.entry(judge(shape, &image, seed, judged % ZDB_ONE_IN == 0)).or_insert(0) += 1;
            judged += 1;
        }
        assert!(counts.len() == 2 && counts.values().all(|&count| count > 2), "{counts:?}: both were seen");
    }
}

#[test]
fn removing_one_of_several_logs_costs_the_others_nothing() {
    let _tell = Tell;
    tell("the first of two logs fails and is removed".into());
    let sim = disks(41_200, &SINGLE_TWO_LOGS);
    run(&sim, async {
        let pool = SINGLE_TWO_LOGS.create(&sim, brisk()).await;
        for name in ["whirl/a", "whirl/b"] {
            pool.create_filesystem(name, vec![]).await.expect("a file system is made");
        }
        // Both chains lie on the second log: the first has failed before.
        sim.disk("/l").faults().fail_all(FaultOp::Write);
        sim.disk("/l").faults().fail_all(FaultOp::Flush);
        let logs = ["whirl/a", "whirl/b"];
        let mut chains = Vec::new();
        for name in logs {
            let fs = pool.filesystem(name).await.expect("it opens");
            under_load(&sim, &fs.zfs, async {}).await;
            chains.push((fs.log.as_ref().expect("a log").stats().chains, fs));
        }
        pool.remove_log(FIRST).await.expect("a failed log can go");
        for (chains, fs) in &chains {
            under_load(&sim, &fs.zfs, async {}).await;
            assert_eq!(fs.log.as_ref().expect("a log").stats().chains, *chains, "its chain goes on");
        }
        assert_eq!((log_vdevs(&pool), holes(&pool)), (vec![2], vec![1]));
    });
}

#[test]
fn removing_a_failing_log_does_not_hang() {
    let _tell = Tell;
    for (shape, disks_of_log) in
        [(&LOG, &["/l"][..]), (&SINGLE_MIRRORED_LOG, &["/l", "/m"]), (&SINGLE_TWO_LOGS, &["/l"])]
    {
        for what in ["writes", "flushes", "reads", "all", "gone", "gone while it is left"] {
            tell(format!("\"{}\": {what} fail", shape.name));
            let sim = disks(41_300, shape);
            run(&sim, async {
                let pool = shape.create(&sim, brisk()).await;
                let fs = filesystem(&pool).await;
                let fail = || {
                    for path in disks_of_log {
                        let disk = sim.disk(path);
                        let faults = disk.faults();
                        match what {
                            "writes" => faults.fail_all(FaultOp::Write),
                            "flushes" => faults.fail_all(FaultOp::Flush),
                            "reads" => faults.fail_all(FaultOp::Read),
                            "all" => {
                                [FaultOp::Read, FaultOp::Write, FaultOp::Flush]
                                    .into_iter()
                                    .for_each(|op| faults.fail_all(op));
                            }
                            _ => faults.disappear(),
                        }
                    }
                };
                let work = async {
                    if what != "gone while it is left" {
                        fail();
                        sim.sleep(Duration::from_millis(5)).await;
                    }
                    let remove = async { pool.remove_log(FIRST).await.expect("a failing log can go") };
                    let fail_later = async {
                        sim.sleep(Duration::from_micros(300)).await;
                        fail();
                    };
                    futures::join!(remove, fail_later);
                };
                under_load(&sim, &fs.zfs, work).await;
                assert!(pool.vdevs().top(FIRST).is_err());
                check_files(&fs.zfs, &promised_in(&sim)).await;
                drop(fs);
                space::check(&pool).await;
                pool.close(PoolState::Exported).await.expect("it closes");
            });
            disks_of_log.iter().for_each(|path| sim.disk(path).faults().heal());
            by_zdb(&sim, shape);
            run(&sim, async {
                let pool = shape.import(&sim, brisk(), false).await.expect("nobody misses the log");
                check_files(&filesystem(&pool).await.zfs, &promised_in(&sim)).await;
            });
        }
    }
}

/// A pool as a power cut leaves it, with promises that only the log holds.
fn crashed(seed: u64, shape: &Shape) -> (Sim, BTreeMap<u64, u64>) {
    let sim = disks(seed, shape);
    run(&sim, async {
        let quiet = Tuning { txg_timeout: Duration::from_secs(1000), ..brisk() };
        let pool = shape.create(&sim, quiet).await;
        let fs = filesystem(&pool).await;
        under_load(&sim, &fs.zfs, async {}).await;
    });
    let promised = promised_in(&sim);
    assert!(promised.len() as u64 == WRITERS);
    (sim.power_cut(seed).boot(seed), promised)
}

#[test]
fn removal_needs_neither_keys_nor_mounts() {
    let _tell = Tell;
    tell("a log with promises of a file system that nobody uses".into());
    let (sim, promised) = crashed(41_400, &LOG);
    sim.stop_recording();
    run(&sim, async {
        let pool = LOG.import(&sim, brisk(), false).await.expect("it imports");
        pool.remove_log(FIRST).await.expect("its logs are replayed for that");
        assert!(pool.vdevs().top(FIRST).is_err());
        pool.close(PoolState::Exported).await.expect("it closes");
    });
    by_zdb(&sim, &LOG);
    sim.disk("/l").rot(0, &vec![0; 64 << 20]);
    run(&sim, async {
        let pool = SINGLE.import(&sim, brisk(), false).await.expect("nobody misses the log");
        check_files(&filesystem(&pool).await.zfs, &promised).await;
    });
}

#[test]
fn a_log_that_cannot_be_replayed_is_not_removed_and_loses_nothing() {
    let _tell = Tell;
    tell("a log whose device does not answer when it is to be replayed".into());
    let (sim, promised) = crashed(41_450, &LOG);
    sim.stop_recording();
    run(&sim, async {
        let pool = LOG.import(&sim, brisk(), false).await.expect("it imports");
        sim.disk("/l").faults().fail_all(FaultOp::Read);
        let refused = pool.remove_log(FIRST).await.expect_err("what it holds is nowhere else");
        assert!(refused.to_string().contains(POOL), "{refused}");
        sim.disk("/l").faults().heal();
        check_files(&filesystem(&pool).await.zfs, &promised).await;
        pool.remove_log(FIRST).await.expect("now it can go");
        pool.close(PoolState::Exported).await.expect("it closes");
    });
    by_zdb(&sim, &LOG);
}

#[test]
fn what_an_import_without_logs_left_allocated_goes_with_the_log() {
    let _tell = Tell;
    tell("claimed, lost, and given up".into());
    let (sim, _) = crashed(41_500, &LOG);
    sim.stop_recording();
    run(&sim, async {
        // Claimed, and stable as such, but not replayed.
        let pool = LOG.import(&sim, brisk(), false).await.expect("it imports");
        pool.leave().await.expect("it closes");
    });
    sim.disk("/l").faults().disappear();
    run(&sim, async {
        assert!(LOG.import(&sim, brisk(), false).await.is_err(), "a log is missing");
        let pool = LOG.import(&sim, brisk(), true).await.expect("it is given up");
        filesystem(&pool).await;
        pool.remove_log(FIRST).await.expect("a missing log can go");
        assert_eq!((log_vdevs(&pool).len(), holes(&pool).len()), (0, 0));
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
    });
    sim.disk("/l").faults().heal();
    by_zdb(&sim, &SINGLE);
    run(&sim, async {
        // The old device is back, and nobody takes it for a part of the pool.
        let pool = LOG.import(&sim, brisk(), false).await.expect("it imports");
        assert_eq!(log_vdevs(&pool).len(), 0);
    });
}

#[test]
fn chains_move_to_a_log_that_is_added_within_a_second() {
    let _tell = Tell;
    tell("a log is added while nobody commits, and is used by the next commit".into());
    let sim = disks(41_600, &LOG);
    run(&sim, async {
        let pool = SINGLE.create(&sim, brisk()).await;
        let fs = filesystem(&pool).await;
        under_load(&sim, &fs.zfs, async {}).await;
        pool.sync_now().await.expect("txgs turn");
        let began = sim.now();
        pool.add(LOG.vdevs_from(1), false).await.expect("it is good");
        let log = fs.log.as_ref().expect("a log");
        let newest = log.blocks().into_iter().max_by_key(|bp| bp.checksum()[3]).expect("a chain");
        assert_eq!(newest.dva(0).vdev, FIRST, "the next commit goes there");
        assert!(sim.now() - began < Duration::from_secs(1));
        let main = sim.disk("/a").faults().seen(FaultOp::Write);
        let file = fs.zfs.lookup(fs.zfs.root(), &file(0)).await.expect("it is there").object;
        fs.zfs.write(file, 0, &contents(0, 1), SYNC).await.expect("write");
        assert_eq!(sim.disk("/a").faults().seen(FaultOp::Write), main, "the commit wrote to the log alone");
        assert_eq!(log.stats().chains, 1);
    });
}

#[test]
fn a_log_added_in_the_place_of_one_that_failed_is_used() {
    let _tell = Tell;
    tell("a failed log is removed, and another gets its number".into());
    let sim = disks(41_700, &SINGLE_TWO_LOGS);
    run(&sim, async {
        let pool = LOG.create(&sim, brisk()).await;
        let fs = filesystem(&pool).await;
        sim.disk("/l").faults().fail_all(FaultOp::Write);
        under_load(&sim, &fs.zfs, async {}).await;
        pool.remove_log(FIRST).await.expect("a failed log can go");
        let other = SINGLE_TWO_LOGS.vdevs_from(2);
        pool.add(other, false).await.expect("it is good");
        assert_eq!(log_vdevs(&pool), [1]);
        let before = sim.disk("/m").faults().seen(FaultOp::Write);
        under_load(&sim, &fs.zfs, async {}).await;
        let written = sim.disk("/m").faults().seen(FaultOp::Write) - before;
        assert!(written > 20, "{written} writes to the new log");
    });
}

/// A log is added and removed all the time, and 32 writers are asked how long they wait.
#[test]
fn while_a_log_comes_and_goes_no_commit_waits_twice_as_long_as_at_the_slower_home() {
    let _tell = Tell;
    tell("a log comes and goes".into());
    let sim = Sim::seed(41_800);
    sim.add_disk("/a", DiskSpec::new(DISK_BYTES, DiskModel::ssd()));
    sim.add_disk("/l", DiskSpec::new(DISK_BYTES, DiskModel::nvram()));
    run(&sim, async {
        let pool = SINGLE.create(&sim, Tuning { txg_timeout: Duration::from_millis(500), ..brisk() }).await;
        let fs = filesystem(&pool).await;
        pool.sync_now().await.expect("the log's header is stable");
        let in_main = under_load(&sim, &fs.zfs, sim.sleep(Duration::from_secs(2))).await.p99();
        let work = async {
            for _ in 0..10 {
                pool.add(LOG.vdevs_from(1), true).await.expect("it is good");
                sim.sleep(Duration::from_millis(50)).await;
                pool.remove_log(FIRST).await.expect("a log can go at any time");
                sim.sleep(Duration::from_millis(50)).await;
            }
        };
        let moving = under_load(&sim, &fs.zfs, work).await.p99();
        assert!(moving < in_main * 2, "{moving:?} while a log comes and goes, {in_main:?} without one");
        println!("p99 of a commit: {in_main:?} without a log, {moving:?} while one comes and goes");
        let stats = fs.log.as_ref().expect("a log").stats();
        assert_eq!((stats.fallbacks, stats.chains), (0, 1));
        drop(fs);
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
    });
    by_zdb(&sim, &SINGLE);
}
