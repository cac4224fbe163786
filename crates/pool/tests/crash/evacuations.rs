//! Data vdevs taken out of pools in use: under load, failing, full, given up, and with the power cut in the middle.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use env::{Env, FaultOp};
use ondisk::indirect::RemovingPhys;
use pool::sweep::{Kind, Order, SweepRefusal};
use pool::{Absence, Filesystem, Pool, PoolError, RemovalRefusal, Tuning};
use sim::{CrashImage, DiskModel, Sim};
use units::VdevId;
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use crate::shape::{POOL, STRIPE_AND_LOG, STRIPE_OF_THREE, Shape, THREE_MIRRORS, brisk};
use crate::space;
use crate::story::{Tell, drawn, number, run, tell};
use crate::writers::{check_files, promised, promised_in, under_load};

/// Images of each run that are imported.
const IMAGES_MAX: usize = 60;
/// Of these, one in so many is judged by `zdb`.
const ZDB_ONE_IN: usize = 12;
const GONE: VdevId = VdevId::new(1);
const OLD_FILES: u64 = 24;
/// As long as the removal takes.
const LEISURELY: Duration = Duration::from_millis(15);

fn disks(seed: u64, shape: &Shape) -> Sim {
    let sim = Sim::seed(seed);
    shape.add_disks(&sim, DiskModel::ssd());
    sim
}

/// Little is copied in each txg.
fn slowly() -> Tuning {
    Tuning { copy_bytes: 256 << 10, ..brisk() }
}

async fn filesystem(pool: &Arc<Pool>) -> Arc<Filesystem> {
    pool.filesystem(POOL).await.expect("the root file system opens")
}

fn old_name(file: u64) -> Vec<u8> {
    format!("old{file}").into_bytes()
}

/// Contents that do not compress.
fn old_bytes(file: u64) -> Vec<u8> {
    let mut state = file.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut word = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..(1 + file % 5) * 9_000).flat_map(|_| word()).collect()
}

/// Files that are on all vdevs, with gaps between them where others were.
async fn fill(pool: &Pool, zfs: &Zfs) {
    for file in 0..2 * OLD_FILES {
        let made = zfs.create(zfs.root(), &old_name(file), NewNode::File, 0o644, Cred::default()).await;
        let object = made.expect("create").object;
        zfs.write(object, 0, &old_bytes(file), WriteFlags::default()).await.expect("write");
        if file % 5 == 0 {
            pool.sync_now().await.expect("txgs turn");
        }
    }
    for file in OLD_FILES..2 * OLD_FILES {
        zfs.unlink(zfs.root(), &old_name(file)).await.expect("unlink");
    }
    pool.sync_now().await.expect("txgs turn");
}

async fn check_old(zfs: &Zfs, files: impl Iterator<Item = u64>) {
    for file in files {
        let object = zfs.lookup(zfs.root(), &old_name(file)).await.expect("nobody removed it").object;
        let want = old_bytes(file);
        let mut found = vec![0; want.len() + 1];
        assert_eq!(zfs.read(object, 0, &mut found).await.expect("read"), want.len());
        assert!(found[..want.len()] == want, "file {file}");
    }
}

/// Overwrites and removes some of the old files while work goes on.
async fn let_go_of_some(sim: &Sim, zfs: &Zfs, pause: Duration) {
    for file in (0..OLD_FILES).step_by(3) {
        zfs.unlink(zfs.root(), &old_name(file)).await.expect("unlink");
        sim.sleep(pause).await;
    }
}

fn kept() -> impl Iterator<Item = u64> {
    (0..OLD_FILES).filter(|file| file % 3 != 0)
}

fn state(pool: &Pool) -> u64 {
    pool.evacuation().map_or(0, |report| report.phys.state.get())
}

async fn until_over(sim: &Sim, pool: &Pool) {
    while state(pool) == RemovingPhys::UNDER_WAY {
        sim.env().sleep(Duration::from_millis(5)).await;
    }
}

async fn until_something_is_copied(sim: &Sim, pool: &Pool) {
    while pool.evacuation().is_none_or(|report| report.phys.copied.get() == 0) {
        sim.env().sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(state(pool), RemovingPhys::UNDER_WAY, "not all of it");
}

fn is_gone(pool: &Pool) -> bool {
    pool.vdevs().top(GONE).is_ok_and(|top| top.is_removed())
}

/// Nobody begins to initialize or trim a vdev that goes.
async fn refused_to_sweep(pool: &Arc<Pool>) {
    let leaf = pool.vdevs().top(GONE).expect("it is there").leaves()[0].guid();
    for kind in Kind::ALL {
        let refused = pool.sweep(kind, Order::Start { rate: 0, secure: false }, &[leaf]).await;
        assert_eq!(refused.expect("nothing to do"), [(leaf, SweepRefusal::under_way(kind))]);
    }
}

#[test]
fn a_vdev_is_emptied_under_load_and_leaves_a_mapping() {
    let _tell = Tell;
    for shape in [&STRIPE_OF_THREE, &THREE_MIRRORS, &STRIPE_AND_LOG] {
        tell(format!("\"{}\" without vdev 1", shape.name));
        let sim = disks(61_000, shape);
        run(&sim, async {
            let pool = shape.create(&sim, slowly()).await;
            let fs = filesystem(&pool).await;
            fill(&pool, &fs.zfs).await;
            let work = async {
                pool.evacuate(GONE).await.expect("it can go");
                assert_eq!(state(&pool), RemovingPhys::UNDER_WAY);
                refused_to_sweep(&pool).await;
                let_go_of_some(&sim, &fs.zfs, LEISURELY).await;
                until_over(&sim, &pool).await;
            };
            under_load(&sim, &fs.zfs, work).await;
            assert!(is_gone(&pool));
            let report = pool.evacuation().expect("it was removed");
            assert_eq!(report.phys.copied, report.phys.to_copy);
            assert!(report.phys.copied.get() > 1 << 20 && report.mapping_bytes > 24);
            check_old(&fs.zfs, kept()).await;
            check_files(&fs.zfs, &promised_in(&sim)).await;
            let stats = fs.log.as_ref().expect("a log").stats();
            assert_eq!((stats.fallbacks, stats.chains), (0, 1), "no commit waited for a txg");
            drop(fs);
            space::check(&pool).await;
            pool.close(PoolState::Exported).await.expect("it closes");
        });
        space::judged_by_zdb(shape, &sim);
        // Nobody needs its disks any more.
        ["/b", "/e"].iter().filter(|disk| shape.disks().any(|path| path.ends_with(&disk[1..]))).for_each(
            |disk| {
                sim.disk(disk).rot(0, &vec![0; 64 << 20]);
            },
        );
        run(&sim, async {
            let pool = shape.import(&sim, slowly(), false).await.expect("nobody misses it");
            assert!(is_gone(&pool));
            let fs = filesystem(&pool).await;
            check_old(&fs.zfs, kept()).await;
            check_files(&fs.zfs, &promised_in(&sim)).await;
            for file in kept() {
                fs.zfs.unlink(fs.zfs.root(), &old_name(file)).await.expect("unlink");
            }
            drop(fs);
            space::check(&pool).await;
            pool.close(PoolState::Exported).await.expect("it closes");
        });
        space::judged_by_zdb(shape, &sim);
    }
}

/// Imports what a power cut left, and lets it go on.
fn judge(shape: &Shape, image: &CrashImage, seed: u64, with_zdb: bool) -> &'static str {
    let sim = image.boot(seed);
    if with_zdb {
        space::judged_by_zdb(shape, &sim);
    }
    sim.stop_recording();
    let found = run(&sim, async {
        let pool = shape.import(&sim, slowly(), false).await.expect("every crash state imports");
        let found = match state(&pool) {
            0 => "not begun",
            RemovingPhys::UNDER_WAY => "under way",
            _ => "removed",
        };
        assert!(found == "removed" || !image.is_after("removed"), "it was removed");
        assert!(found != "not begun" || !image.is_after("begun"), "it was begun");
        let fs = filesystem(&pool).await;
        let labels = image.marks().iter().map(|mark| mark.label.as_str());
        check_files(&fs.zfs, &promised(labels)).await;
        check_old(&fs.zfs, kept()).await;
        until_over(&sim, &pool).await;
        assert_eq!(is_gone(&pool), found != "not begun", "it goes on by itself");
        check_old(&fs.zfs, kept()).await;
        drop(fs);
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
        found
    });
    if with_zdb {
        space::judged_by_zdb(shape, &sim);
    }
    found
}

#[test]
fn a_power_cut_while_a_vdev_is_emptied_leaves_every_promise_and_goes_on() {
    let _tell = Tell;
    let mut judged = 0;
    for (shape, seed) in [(&STRIPE_OF_THREE, 61_100), (&THREE_MIRRORS, 61_101)] {
        let seed = number("SAWMILL_CRASH_SEED").unwrap_or(seed);
        tell(format!("\"{}\", seed {seed}", shape.name));
        let sim = disks(seed, shape);
        run(&sim, async {
            let pool = shape.create(&sim, Tuning { txg_timeout: Duration::from_millis(5), ..slowly() }).await;
            let fs = filesystem(&pool).await;
            fill(&pool, &fs.zfs).await;
            let work = async {
                sim.start_recording();
                pool.evacuate(GONE).await.expect("it can go");
                sim.mark("begun");
                let_go_of_some(&sim, &fs.zfs, LEISURELY).await;
                until_over(&sim, &pool).await;
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
        assert!(counts.len() == 3 && counts["under way"] > 5, "{counts:?}: all were seen");
    }
}

/// Begins a removal and has it end in `how`; the pool is as if nothing had been.
fn comes_to_nothing(seed: u64, shape: &Shape, how: impl AsyncFn(&Sim, &Arc<Pool>)) {
    let sim = disks(seed, shape);
    run(&sim, async {
        let pool = shape.create(&sim, Tuning { copy_bytes: 96 << 10, ..slowly() }).await;
        let fs = filesystem(&pool).await;
        fill(&pool, &fs.zfs).await;
        let features = pool.dsl().features().await.expect("they can be read");
        let work = async {
            pool.evacuate(GONE).await.expect("it can go");
            let_go_of_some(&sim, &fs.zfs, Duration::from_millis(2)).await;
            how(&sim, &pool).await;
            until_over(&sim, &pool).await;
        };
        under_load(&sim, &fs.zfs, work).await;
        assert_eq!(state(&pool), RemovingPhys::CANCELED);
        let top = pool.vdevs().top(GONE).expect("it stays");
        assert!(!top.is_removed() && top.config().leaving.is_none());
        let counts = pool.dsl().features().await.expect("they can be read");
        for feature in ["com.delphix:device_removal", "com.delphix:obsolete_counts"] {
            assert_eq!(counts.get(feature), features.get(feature), "{feature}");
        }
        check_old(&fs.zfs, kept()).await;
        check_files(&fs.zfs, &promised_in(&sim)).await;
        // Blocks go there again.
        let before = pool.zio().with_allocator(|a| a.vdev_space(GONE)).expect("it is there").allocated;
        for file in 100..140 {
            let name = old_name(file);
            let made = fs.zfs.create(fs.zfs.root(), &name, NewNode::File, 0o644, Cred::default()).await;
            let object = made.expect("create").object;
            fs.zfs.write(object, 0, &old_bytes(file), WriteFlags::default()).await.expect("write");
        }
        pool.sync_now().await.expect("txgs turn");
        let after = pool.zio().with_allocator(|a| a.vdev_space(GONE)).expect("it is there").allocated;
        assert!(after > before);
        drop(fs);
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
    });
    space::judged_by_zdb(shape, &sim);
    run(&sim, async {
        let pool = shape.import(&sim, slowly(), false).await.expect("it imports");
        check_old(&filesystem(&pool).await.zfs, kept()).await;
        // And another try ends well.
        pool.evacuate(GONE).await.expect("it can go");
        until_over(&sim, &pool).await;
        assert!(is_gone(&pool));
        check_old(&filesystem(&pool).await.zfs, kept()).await;
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
    });
    space::judged_by_zdb(shape, &sim);
}

#[test]
fn a_removal_that_is_given_up_leaves_no_trace() {
    let _tell = Tell;
    for shape in [&STRIPE_OF_THREE, &THREE_MIRRORS] {
        tell(format!("\"{}\": given up", shape.name));
        comes_to_nothing(61_200, shape, async |sim, pool| {
            until_something_is_copied(sim, pool).await;
            pool.cancel_evacuation().await.expect("it can be given up");
            let again = pool.cancel_evacuation().await;
            assert!(matches!(again, Err(PoolError::Removal(RemovalRefusal::NotUnderWay))), "{again:?}");
        });
    }
}

#[test]
fn an_error_while_a_vdev_is_emptied_ends_that_and_leaks_nothing() {
    let _tell = Tell;
    tell("what is on /b cannot be read".into());
    comes_to_nothing(61_300, &STRIPE_OF_THREE, async |sim, pool| {
        until_something_is_copied(sim, pool).await;
        sim.disk("/b").faults().fail_all(FaultOp::Read);
        until_over(sim, pool).await;
        sim.disk("/b").faults().heal();
    });
}

#[test]
fn copies_that_differ_and_cannot_all_be_kept_end_a_removal() {
    let _tell = Tell;
    tell("a mirror that is to go to single disks is damaged".into());
    // Of a mirror into mirrors, both copies are kept, and each block that had a right copy has one.
    let sim = disks(61_400, &THREE_MIRRORS);
    run(&sim, async {
        let pool = THREE_MIRRORS.create(&sim, slowly()).await;
        let fs = filesystem(&pool).await;
        fill(&pool, &fs.zfs).await;
        // The first half of one child, behind the labels, and another half of the other.
        sim.disk("/b").rot(5 << 20, &vec![0xaa; 20 << 20]);
        sim.disk("/e").rot(25 << 20, &vec![0xbb; 20 << 20]);
        pool.evacuate(GONE).await.expect("it can go");
        until_over(&sim, &pool).await;
        assert!(is_gone(&pool));
        check_old(&fs.zfs, 0..OLD_FILES).await;
        drop(fs);
        pool.close(PoolState::Exported).await.expect("it closes");
    });
}

#[test]
fn a_device_that_missed_copies_is_whole_after_the_removal() {
    let _tell = Tell;
    tell("a child of a mirror is away while something is copied to it".into());
    let sim = disks(61_500, &THREE_MIRRORS);
    run(&sim, async {
        let pool = THREE_MIRRORS.create(&sim, slowly()).await;
        let fs = filesystem(&pool).await;
        fill(&pool, &fs.zfs).await;
        let away =
            pool.vdevs().leaves().into_iter().find(|leaf| leaf.path().ends_with("d")).expect("it").guid();
        pool.take_offline(away, Absence::Offline, false).await.expect("its sibling has all");
        pool.evacuate(GONE).await.expect("it can go");
        sim.sleep(Duration::from_millis(40)).await;
        assert!(pool.evacuation().expect("it runs").phys.copied.get() > 0);
        pool.bring_online(away).await.expect("it is back");
        until_over(&sim, &pool).await;
        assert!(is_gone(&pool), "{:?}", pool.evacuation());
        let leaf = pool.vdevs().leaf(away).expect("it");
        while leaf.is_stale() {
            sim.sleep(Duration::from_millis(5)).await;
        }
        pool.sync_now().await.expect("txgs turn");
        drop(fs);
        pool.close(PoolState::Exported).await.expect("it closes");
    });
    // Its sibling goes: it has everything.
    sim.disk("/a").faults().disappear();
    run(&sim, async {
        let pool = THREE_MIRRORS.import(&sim, slowly(), false).await.expect("a mirror can lose a child");
        check_old(&filesystem(&pool).await.zfs, 0..OLD_FILES).await;
    });
}
