//! A device fails under load, a hot spare stands in for it by itself, and the power is cut meanwhile.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use pool::{ImportSpec, Pool};
use sim::{CrashImage, DiskModel, DiskSpec, Sim};
use vdev::{NodeKind, PoolState};

use crate::attached::{at, check, guid, promise, whole};
use crate::shape::{DISK_BYTES, LOG, POOL, brisk};
use crate::space;
use crate::story::{Tell, drawn, number, run, tell};

/// The pool is made of the first, the second and the log; then there are spares, the first of them too small.
const DISKS: [&str; 5] = ["/a", "/b", "/s", "/t", "/l"];
const CLIENTS: usize = 3;
const IMAGES: usize = 24;
const PAUSE: Duration = Duration::from_millis(1);

async fn import(sim: &Sim, paths: &[&str]) -> Arc<Pool> {
    let paths = paths.iter().map(PathBuf::from).collect();
    let spec = ImportSpec { paths, name: Some(POOL.into()), ..ImportSpec::default() };
    Pool::import(sim.env(), &spec, brisk()).await.expect("every crash state imports")
}

fn is_at_work(pool: &Pool) -> bool {
    pool.vdevs().tops()[0].node().children().iter().any(|child| child.kind() == NodeKind::Spare)
}

/// Imports what a power cut left, from the disks of `paths`.
fn judge(image: &CrashImage, seed: u64, promised: u64, paths: &[&str]) {
    let sim = image.boot(seed);
    sim.stop_recording();
    run(&sim, async {
        let pool = import(&sim, paths).await;
        let fs = pool.filesystem(POOL).await.expect("its log is whole");
        for number in (0..promised).filter(|number| image.is_after(&format!("promised {number}"))) {
            check(&fs.zfs, number).await;
        }
        drop(fs);
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
    });
}

#[test]
fn a_spare_stands_in_for_a_device_that_failed() {
    let _tell = Tell;
    let seed = number("SAWMILL_CRASH_SEED").unwrap_or(44_000);
    let sim = Sim::seed(seed);
    for path in DISKS {
        let bytes = if path == "/s" { DISK_BYTES } else { 2 * DISK_BYTES };
        sim.add_disk(path, DiskSpec::new(bytes, DiskModel::ssd()));
    }
    let promised = AtomicU64::new(0);
    run(&sim, async {
        let pool = LOG.create(&sim, brisk()).await;
        pool.attach(guid(&pool, "/a"), &at("/b")).await.expect("attached");
        pool.add_spares(&["/s".into(), "/t".into()]).await.expect("added");
        whole(&sim, &pool).await;
        let fs = pool.filesystem(POOL).await.expect("it opens");
        sim.start_recording();
        let is_over = AtomicBool::new(false);
        let client = async || {
            while !is_over.load(SeqCst) {
                promise(&sim, &fs.zfs, promised.fetch_add(1, SeqCst)).await;
                sim.env().sleep(PAUSE).await;
            }
        };
        let failure = async {
            sim.env().sleep(20 * PAUSE).await;
            sim.disk("/b").faults().disappear();
            while !is_at_work(&pool) {
                pool.sync_now().await.expect("txgs turn");
                sim.env().sleep(PAUSE).await;
            }
            assert!(pool.vdevs().leaves().iter().any(|leaf| leaf.path() == *"/t"), "/s is too small");
            while pool.vdevs().leaves().iter().any(|leaf| leaf.is_usable() && leaf.is_stale()) {
                sim.env().sleep(PAUSE).await;
            }
            pool.sync_now().await.expect("txgs turn");
            sim.mark("resilvered");
            // The spare stays, and the other goes.
            pool.detach(guid(&pool, "/b")).await.expect("the spare has all");
            sim.mark("kept");
            let left: Vec<_> = pool.spares().into_iter().map(|spare| spare.path).collect();
            assert_eq!(left, [PathBuf::from("/s")]);
            sim.disk("/a").faults().disappear();
            sim.env().sleep(20 * PAUSE).await;
            is_over.store(true, SeqCst);
        };
        futures::join!(futures::future::join_all((0..CLIENTS).map(|_| client())), failure);
        for number in 0..promised.load(SeqCst) {
            check(&fs.zfs, number).await;
        }
    });
    let mut after = [0; 3];
    for image in drawn(&sim.recording(), IMAGES) {
        tell(format!("seed {seed}, {}", image.story()));
        let stage = usize::from(image.is_after("resilvered")) + usize::from(image.is_after("kept"));
        after[stage] += 1;
        // With the device that failed gone; and without the one beside it once the spare has everything.
        let paths: &[&str] = if stage == 0 { &["/a", "/s", "/t", "/l"] } else { &["/s", "/t", "/l"] };
        judge(&image, seed, promised.load(SeqCst), paths);
    }
    println!("{after:?} crash states before the resilver ended, after it, and with the spare kept");
    assert!(after.iter().all(|count| *count > 0), "{after:?}");
}

#[test]
fn a_spare_of_a_lone_device_stays_when_that_is_let_go_of() {
    let _tell = Tell;
    let sim = Sim::seed(44_100);
    for path in ["/a", "/s", "/l"] {
        sim.add_disk(path, DiskSpec::new(DISK_BYTES, DiskModel::ssd()));
    }
    run(&sim, async {
        let pool = LOG.create(&sim, brisk()).await;
        pool.add_spares(&["/s".into()]).await.expect("added");
        let spare = pool.spares()[0].guid;
        pool.stand_in(guid(&pool, "/a"), spare).await.expect("it stands in");
        whole(&sim, &pool).await;
        pool.detach(guid(&pool, "/a")).await.expect("the spare has all");
        assert!(pool.spares().is_empty(), "it is a device of the pool");
        pool.close(PoolState::Exported).await.expect("it closes");
        let pool = import(&sim, &["/s", "/l"]).await;
        assert!(pool.spares().is_empty() && !pool.vdevs().leaves()[0].config().is_spare);
        pool.close(PoolState::Exported).await.expect("it closes");
    });
}
