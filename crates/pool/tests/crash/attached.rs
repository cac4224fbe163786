//! Devices come and go while clients write, and the power is cut meanwhile.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use env::FaultOp;
use ondisk::ObjectType;
use pool::{Absence, ImportSpec, Pool};
use sim::{CrashImage, DiskModel, DiskSpec, Sim};
use units::Guid;
use vdev::{NewLeaf, PoolState};
use zpl::{Cred, NewNode, WriteFlags, Zfs, ZplError};

use crate::failures::resilvered;
use crate::shape::{DISK_BYTES, LOG, MIRROR, POOL, brisk};
use crate::space;
use crate::story::{Tell, drawn, number, run, tell};

const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };
/// Crash states of a run that are imported.
const IMAGES_MAX: usize = 60;
const CLIENTS: usize = 3;
/// How long a client thinks before it writes again.
const PAUSE: Duration = Duration::from_millis(1);

/// What is done, and the disks on which everything is once it is done.
const STEPS: [(Step, [&str; 2]); 6] = [
    (Step::Nothing, ["/a", "/l"]),
    (Step::Attach("/a", "/b"), ["/b", "/l"]),
    (Step::Attach("/l", "/m"), ["/b", "/m"]),
    (Step::Detach("/l"), ["/a", "/m"]),
    (Step::Replace("/b", "/c"), ["/c", "/m"]),
    (Step::Detach("/a"), ["/c", "/m"]),
];

#[derive(Clone, Copy)]
enum Step {
    Nothing,
    Attach(&'static str, &'static str),
    Replace(&'static str, &'static str),
    Detach(&'static str),
}

fn name(number: u64) -> Vec<u8> {
    format!("file{number}").into_bytes()
}

fn bytes(number: u64) -> Vec<u8> {
    vec![(number % 250) as u8 + 1; 5_000]
}

/// Makes a file and says so once that is promised.
pub async fn promise(sim: &Sim, zfs: &Zfs, number: u64) {
    try_promise(sim, zfs, number).await.expect("created and written");
}

/// The same where devices may fail to read what is needed for it.
pub async fn try_promise(sim: &Sim, zfs: &Zfs, number: u64) -> Result<(), ZplError> {
    let made = zfs.create(zfs.root(), &name(number), NewNode::File, 0o644, Cred::default()).await;
    zfs.write(made?.object, 0, &bytes(number), SYNC).await?;
    sim.mark(format!("promised {number}"));
    Ok(())
}

pub async fn check(zfs: &Zfs, number: u64) {
    let file = zfs.lookup(zfs.root(), &name(number)).await;
    let file = file.unwrap_or_else(|error| panic!("{number} was promised: {error}")).object;
    let mut found = vec![0; 6_000];
    assert_eq!(zfs.read(file, 0, &mut found).await.expect("read"), 5_000);
    assert_eq!(found[..5_000], bytes(number));
}

pub fn guid(pool: &Pool, path: &str) -> Guid {
    let leaf = pool.vdevs().leaves().into_iter().find(|leaf| leaf.path() == *path);
    leaf.unwrap_or_else(|| panic!("no {path}")).guid()
}

pub fn at(path: &str) -> NewLeaf {
    NewLeaf { path: path.into(), ..NewLeaf::default() }
}

/// Waits until no leaf lacks anything, and that is stable.
pub async fn whole(sim: &Sim, pool: &Pool) {
    while pool.vdevs().leaves().iter().any(|leaf| leaf.is_stale()) {
        sim.env().sleep(Duration::from_millis(2)).await;
    }
    pool.sync_now().await.expect("txgs turn");
}

async fn take(sim: &Sim, pool: &Arc<Pool>, step: Step) {
    match step {
        Step::Nothing => {}
        Step::Attach(beside, new) => pool.attach(guid(pool, beside), &at(new)).await.expect("attached"),
        Step::Replace(old, new) => pool.replace(guid(pool, old), &at(new)).await.expect("replaced"),
        Step::Detach(leaf) => pool.detach(guid(pool, leaf)).await.expect("detached"),
    }
    whole(sim, pool).await;
}

/// A pool of a disk and a log, and disks that are still to come.
pub fn disks(seed: u64) -> Sim {
    let sim = Sim::seed(seed);
    for path in ["/a", "/b", "/c", "/l", "/m"] {
        sim.add_disk(path, DiskSpec::new(DISK_BYTES, DiskModel::ssd()));
    }
    sim
}

async fn import(sim: &Sim, paths: &[&str]) -> Arc<Pool> {
    let paths = paths.iter().map(PathBuf::from).collect();
    let spec = ImportSpec { paths, name: Some(POOL.into()), ..ImportSpec::default() };
    Pool::import(sim.env(), &spec, brisk()).await.expect("every crash state imports")
}

async fn check_promises(pool: &Arc<Pool>, image: &CrashImage, promised: u64) {
    let fs = pool.filesystem(POOL).await.expect("its log is whole");
    for number in (0..promised).filter(|number| image.is_after(&format!("promised {number}"))) {
        check(&fs.zfs, number).await;
    }
}

/// Imports what a power cut left, from all disks, and from those that have everything.
fn judge(image: &CrashImage, seed: u64, promised: u64, alone: &[&str]) {
    let sim = image.boot(seed);
    sim.stop_recording();
    run(&sim, async {
        let pool = import(&sim, alone).await;
        check_promises(&pool, image, promised).await;
    });
    let sim = image.boot(seed);
    sim.stop_recording();
    run(&sim, async {
        let pool = import(&sim, &["/a", "/b", "/c", "/l", "/m"]).await;
        check_promises(&pool, image, promised).await;
        whole(&sim, &pool).await;
        assert!(
            pool.vdevs().leaves().iter().all(|leaf| leaf.is_usable()),
            "what is part of the pool is there"
        );
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
    });
}

#[test]
fn a_power_cut_while_devices_come_and_go_loses_nothing() {
    let _tell = Tell;
    let seeds = number("SAWMILL_CRASH_SEED").map_or(42_000..42_002, |seed| seed..seed + 1);
    let mut seen = [0; STEPS.len()];
    for seed in seeds {
        tell(format!("seed {seed}"));
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
            let steps = async {
                for (count, (step, _)) in STEPS.into_iter().enumerate() {
                    take(&sim, &pool, step).await;
                    sim.mark(format!("step {count}"));
                }
                sim.env().sleep(20 * PAUSE).await;
                is_over.store(true, SeqCst);
            };
            let clients = futures::future::join_all((0..CLIENTS).map(|_| client()));
            futures::join!(clients, steps);
            pool.sync_now().await.expect("txgs turn");
        });
        for image in drawn(&sim.recording(), IMAGES_MAX) {
            tell(format!("seed {seed}, {}", image.story()));
            let is_done = |count: &usize| image.is_after(&format!("step {count}"));
            let Some(last) = (0..STEPS.len()).rev().find(is_done) else { continue };
            seen[last] += 1;
            judge(&image, seed, promised.load(SeqCst), &STEPS[last].1);
        }
    }
    println!("{seen:?} crash states after each step");
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}: each step was seen");
}

/// Flushes of a new side fail while it is brought up to date, and when it has caught up the old side goes. What a failed
/// flush lost is not there for good then, unless it was known to be missing.
#[test]
fn what_a_resilver_brought_back_is_stable_before_it_counts() {
    const FILES: u64 = 60;
    /// More than a new side makes until it has caught up.
    const FLUSHES: u64 = 28;
    let _tell = Tell;
    let mut failed = 0;
    for nth in 1..=FLUSHES {
        let seed = 43_000 + nth;
        let sim = disks(seed);
        run(&sim, async {
            let pool = LOG.create(&sim, brisk()).await;
            let fs = pool.filesystem(POOL).await.expect("it opens");
            for number in 0..FILES {
                promise(&sim, &fs.zfs, number).await;
            }
            pool.sync_now().await.expect("txgs turn");
            sim.disk("/b").faults().fail_range(FaultOp::Flush, nth, 1);
            pool.attach(guid(&pool, "/a"), &at("/b")).await.unwrap_or_else(|error| tell(error.to_string()));
            let new = || pool.vdevs().leaves().into_iter().find(|leaf| leaf.path() == Path::new("/b"));
            let Some(new) = new() else { return };
            // A flush that fails just when it has caught up keeps the other for another while.
            while new.is_stale() || pool.detach(guid(&pool, "/a")).await.is_err() {
                failed += u64::from(!new.is_usable() || new.is_suspect());
                _ = pool.clear(&|_| true).await;
                sim.env().sleep(2 * PAUSE).await;
            }
            sim.mark("alone");
            pool.sync_now().await.expect("txgs turn");
        });
        let alone = sim.recording();
        for image in drawn(&alone, IMAGES_MAX).filter(|image| image.is_after("alone")) {
            tell(format!("flush {nth}, {}", image.story()));
            let sim = image.boot(seed);
            run(&sim, async {
                let pool = import(&sim, &["/b", "/l"]).await;
                let fs = pool.filesystem(POOL).await.expect("its log is whole");
                for number in 0..FILES {
                    check(&fs.zfs, number).await;
                }
            });
        }
    }
    assert!(failed > 0, "no flush failed while it was brought up to date");
}

/// A resilver meets a block that no device has in order. The device that lacks the block does not count
/// as whole. When the block can be read again, the next resilver brings the block.
#[test]
fn a_resilver_that_met_damage_leaves_the_leaf_behind() {
    const SECTOR: usize = 512;
    let _tell = Tell;
    tell("a resilver beside damage".into());
    let sim = Sim::seed(43_900);
    MIRROR.add_disks(&sim, DiskModel::ssd());
    run(&sim, async {
        let pool = MIRROR.create(&sim, brisk()).await;
        let fs = pool.filesystem(POOL).await.expect("it opens");
        let behind = pool.vdevs().leaf(guid(&pool, "/b")).expect("a leaf");
        pool.take_offline(behind.guid(), Absence::Offline, false).await.expect("one side may go");
        let made = fs.zfs.create(fs.zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await;
        let mut noise = vec![0; 20_000];
        fastrand::Rng::with_seed(1).fill(&mut noise);
        fs.zfs.write(made.expect("created").object, 0, &noise, WriteFlags::default()).await.expect("written");
        pool.sync_now().await.expect("txgs turn");
        let blocks = fs.zfs.objset().all_blocks().await.expect("all of it reads");
        let is_data = |bp: &&ondisk::Blkptr| bp.object_type() == ObjectType::PLAIN_FILE_CONTENTS;
        let lost = blocks.iter().find(is_data).expect("the file has a block").dva(0);
        let at = lost.offset.on_leaf().expect("on the disk").get();
        let sound = sim.disk("/a").peek(at, SECTOR);
        sim.disk("/a").rot(at, &[0xa5; SECTOR]);

        pool.bring_online(behind.guid()).await.expect("it comes back");
        resilvered(&pool).await;
        let errors = pool.scan().expect("it was resilvered").phys.errors.get();
        assert!(errors > 0, "the damage was not met");
        assert!(behind.is_stale() && !behind.dtl().is_empty(), "it lacks a block");

        sim.disk("/a").rot(at, &sound);
        pool.resilver().await.expect("it begins");
        resilvered(&pool).await;
        assert!(!behind.is_stale(), "{:?}", behind.dtl());
        assert!(sim.disk("/b").peek(at, SECTOR) == sound, "it has the block");
    });
}
