//! A log that is alone is taken out and brought back while clients commit, and the power is cut meanwhile. And logs that
//! were mirrors, when devices are gone as that ends.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use pool::{Absence, ImportSpec, Pool};
use sim::{CrashImage, Sim};
use vdev::PoolState;

use crate::attached::{at, check, disks, guid, promise, whole};
use crate::shape::{LOG, POOL, brisk};
use crate::space;
use crate::story::{Tell, drawn, number, run, tell};

const CLIENTS: usize = 6;
const IMAGES: usize = 40;
const TIMES: u64 = 3;
const PAUSE: Duration = Duration::from_millis(1);

/// How often the log was out and back in a crash state: (told that it is out, told to bring it back).
fn stage(image: &CrashImage) -> (u64, u64) {
    let count =
        |word: &str| (0..TIMES).filter(|time| image.is_after(&format!("{word} {time}"))).count() as u64;
    (count("out"), count("going back"))
}

fn judge(image: &CrashImage, seed: u64, promised: u64, paths: &[&str]) {
    let sim = image.boot(seed);
    sim.stop_recording();
    run(&sim, async {
        let paths = paths.iter().map(PathBuf::from).collect();
        let spec = ImportSpec { paths, name: Some(POOL.into()), ..ImportSpec::default() };
        let pool = Pool::import(sim.env(), &spec, brisk()).await.expect("every crash state imports");
        let fs = pool.filesystem(POOL).await.expect("its log is whole");
        for number in (0..promised).filter(|number| image.is_after(&format!("promised {number}"))) {
            check(&fs.zfs, number).await;
        }
        drop(fs);
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
    });
}

async fn out_and_back(sim: &Sim, pool: &std::sync::Arc<Pool>, time: u64) {
    sim.env().sleep(10 * PAUSE).await;
    let log = guid(pool, "/l");
    pool.take_offline(log, Absence::Offline, false).await.expect("commits go elsewhere");
    sim.mark(format!("out {time}"));
    sim.env().sleep(10 * PAUSE).await;
    sim.mark(format!("going back {time}"));
    pool.bring_online(log).await.expect("it is there");
}

#[test]
fn nothing_promised_needs_a_lone_log_that_was_taken_out() {
    let _tell = Tell;
    let seed = number("SAWMILL_CRASH_SEED").unwrap_or(45_000);
    let sim = disks(seed);
    let promised = AtomicU64::new(0);
    run(&sim, async {
        let pool = LOG.create(&sim, brisk()).await;
        let fs = pool.filesystem(POOL).await.expect("it opens");
        sim.start_recording();
        let is_over = AtomicBool::new(false);
        let client = async || {
            while !is_over.load(SeqCst) {
                promise(&sim, &fs.zfs, promised.fetch_add(1, SeqCst)).await;
                sim.env().sleep(PAUSE).await;
            }
        };
        let commands = async {
            for time in 0..TIMES {
                out_and_back(&sim, &pool, time).await;
            }
            is_over.store(true, SeqCst);
        };
        futures::join!(futures::future::join_all((0..CLIENTS).map(|_| client())), commands);
    });
    let (mut with, mut without) = (0, 0);
    for image in drawn(&sim.recording(), 2 * IMAGES) {
        tell(format!("seed {seed}, {}", image.story()));
        let (outs, backs) = stage(&image);
        if outs > backs {
            without += 1;
            judge(&image, seed, promised.load(SeqCst), &["/a"]);
        } else {
            with += 1;
        }
        judge(&image, seed, promised.load(SeqCst), &["/a", "/l"]);
    }
    println!("{with} crash states with the log in use, {without} with the log out");
    assert!(with > 5 && without > 5, "{with} and {without}");
}

#[test]
fn a_log_whose_sides_are_all_declared_faulted_keeps_no_import() {
    let _tell = Tell;
    let sim = disks(45_100);
    run(&sim, async {
        let pool = LOG.create(&sim, brisk()).await;
        let fs = pool.filesystem(POOL).await.expect("it opens");
        pool.attach(guid(&pool, "/l"), &at("/m")).await.expect("attached");
        whole(&sim, &pool).await;
        for (number, path) in ["/l", "/m"].into_iter().enumerate() {
            promise(&sim, &fs.zfs, number as u64).await;
            let side = guid(&pool, path);
            pool.take_offline(side, Absence::Faulted, false).await.expect("commits go on");
        }
        promise(&sim, &fs.zfs, 2).await;
    });
    let sim = sim.power_cut(1).boot(2);
    run(&sim, async {
        let paths = ["/a", "/l", "/m"].map(PathBuf::from).to_vec();
        let spec = ImportSpec { paths, name: Some(POOL.into()), ..ImportSpec::default() };
        let pool = Pool::import(sim.env(), &spec, brisk()).await.expect("nothing that is needed is there");
        let fs = pool.filesystem(POOL).await.expect("it opens");
        for number in 0..3 {
            check(&fs.zfs, number).await;
        }
    });
}

/// A mirrored log loses a side by command, and all its devices go away before any label says so.
#[test]
fn a_log_that_was_a_mirror_is_found_though_its_labels_were_never_written_anew() {
    let _tell = Tell;
    for (seed, gone) in [(45_200, &["/m"][..]), (45_201, &["/l", "/m"])] {
        tell(format!("seed {seed}, {gone:?} gone"));
        let sim = disks(seed);
        run(&sim, async {
            let pool = LOG.create(&sim, brisk()).await;
            let fs = pool.filesystem(POOL).await.expect("it opens");
            pool.attach(guid(&pool, "/l"), &at("/m")).await.expect("attached");
            whole(&sim, &pool).await;
            promise(&sim, &fs.zfs, 0).await;
            gone.iter().for_each(|path| sim.disk(path).faults().disappear());
            pool.detach(guid(&pool, "/l")).await.expect("nobody knows yet that it is gone");
            promise(&sim, &fs.zfs, 1).await;
        });
        let sim = sim.power_cut(1).boot(2);
        run(&sim, async {
            let paths = ["/a", "/l", "/m"].map(PathBuf::from).to_vec();
            let spec = ImportSpec { paths, name: Some(POOL.into()), ..ImportSpec::default() };
            let pool = Pool::import(sim.env(), &spec, brisk()).await.expect("the log is there");
            let leaves = pool.vdevs().leaves();
            let found: Vec<_> = leaves.iter().map(|leaf| (leaf.path(), leaf.is_usable())).collect();
            assert_eq!(found, [("/a".into(), true), ("/m".into(), true)]);
            let fs = pool.filesystem(POOL).await.expect("it opens");
            for number in 0..3 {
                if number == 2 {
                    promise(&sim, &fs.zfs, number).await;
                }
                check(&fs.zfs, number).await;
            }
        });
    }
}
