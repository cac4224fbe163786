//! The life of a pool: everything an administrator does to devices, in an order drawn from the seed, while devices fail and
//! clients write; the power is cut, and cut once more while the pool recovers.
//!
//! Nothing that was acknowledged is missing, nobody waits for ever, no byte is lost to anybody. A seed that fails is run
//! again by `SAWMILL_LIFE_SEED=N cargo test -p sawmill-pool --test crash life`; `cargo xtask lives 2000` runs many.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use pool::{Absence, ImportSpec, Pool, Tuning};
use sim::{CrashImage, DiskModel, DiskSpec, Sim};
use vdev::{Leaf, PoolState, VdevState};

use crate::attached::{check, try_promise};
use crate::dice::Dice;
use crate::shape::{DISK_BYTES, LOG, POOL, brisk};
use crate::space;
use crate::story::{Tell, drawn, number, run, tell};

use commands::Administrator;
use mishaps::Mishaps;

mod commands;
mod mishaps;

/// The pool is made of the first and of the last.
const DISKS: [&str; 12] = ["/a", "/b", "/c", "/d", "/e", "/f", "/g", "/h", "/k", "/m", "/n", "/l"];
const COMMANDS: usize = 30;
const CLIENTS: usize = 32;
const IMAGES: usize = 4;
/// Between two files of a client, at first.
const PAUSE: Duration = Duration::from_millis(16);
/// After so many files it is twice as long: what a long life costs is to read all of them again, several times.
const PAUSE_DOUBLES: u64 = 2048;
/// Most of what lives' files need besides their contents: else half of the time goes into unpacking the same directory.
const CACHE_BYTES: u64 = 8 << 20;
/// A pool whose devices are well is whole again by then.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
/// Seeds of a run of all tests.
const SEEDS: u64 = 4;

/// Devices that are waited for, tried again and given up soon.
fn hasty() -> Tuning {
    let deadman = Duration::from_millis(500);
    let retry_after = Duration::from_millis(50);
    Tuning { deadman, retry_after, copy_bytes: 256 << 10, cache_bytes: CACHE_BYTES, ..brisk() }
}

fn world(seed: u64) -> Sim {
    let sim = Sim::seed(seed);
    for path in DISKS {
        sim.add_disk(path, DiskSpec::new(DISK_BYTES, DiskModel::ssd()));
    }
    sim
}

async fn import(sim: &Sim) -> Arc<Pool> {
    let paths = DISKS.iter().map(PathBuf::from).collect();
    let spec = ImportSpec { paths, name: Some(POOL.into()), ..ImportSpec::default() };
    Pool::import(sim.env(), &spec, hasty()).await.expect("every crash state imports")
}

async fn check_promises(pool: &Arc<Pool>, promised: impl Iterator<Item = u64>) {
    let fs = pool.filesystem(POOL).await.expect("its log is whole");
    for number in promised {
        check(&fs.zfs, number).await;
    }
}

/// Everything is brought back and made whole, and what is under way comes to its end.
async fn settle(sim: &Sim, pool: &Arc<Pool>) {
    let is_out = |pool: &Pool| pool.vdevs().leaves().into_iter().find(|leaf| !leaf.is_usable());
    let has_work = |pool: &Pool| {
        let is_leaving = pool.vdevs().tops().iter().any(|top| top.config().leaving.is_some());
        is_leaving || pool.vdevs().leaves().iter().any(|leaf| leaf.is_stale())
    };
    // What is kept for a checkpoint may be what a device lacks, and no resilver reads it.
    if pool.checkpoint().is_some() {
        _ = pool.discard_checkpoint().await;
        pool.wait_discarded().await.expect("the checkpoint goes");
    }
    let limit = sim.env().now() + SETTLED_WITHIN;
    while is_out(pool).is_some() || has_work(pool) {
        assert!(sim.env().now() < limit, "not settled: {}", described(pool));
        pool.clear(&|_| true).await.expect("every device is well");
        if let Some(out) = is_out(pool) {
            let state = pool.bring_online(out.guid()).await.expect("it is there");
            assert_eq!(state, VdevState::Online, "{}", out.path().display());
        }
        sim.env().sleep(Duration::from_millis(20)).await;
    }
    pool.sync_now().await.expect("txgs turn");
}

/// What a power cut left is imported, the power is cut again, and what is left then has to have everything.
fn judge(image: &CrashImage, seed: u64, promised: u64) {
    let is_promised = |number: &u64| image.is_after(&format!("promised {number}"));
    let mut dice = Dice::new(seed, image.digest());
    let sim = image.boot(seed);
    run(&sim, async {
        let pool = import(&sim).await;
        let fs = pool.filesystem(POOL).await.expect("its log is whole");
        sim.env().sleep(Duration::from_micros(dice.below(60_000))).await;
        drop((fs, pool));
    });
    let sim = sim.power_cut(dice.next()).boot(seed);
    sim.stop_recording();
    run(&sim, async {
        let pool = import(&sim).await;
        check_promises(&pool, (0..promised).filter(is_promised)).await;
        settle(&sim, &pool).await;
        check_promises(&pool, (0..promised).filter(is_promised)).await;
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
    });
}

/// Commands done, commands refused, devices that failed.
#[derive(Default)]
struct Done {
    done: u64,
    refused: u64,
    mishaps: u64,
}

fn live(seed: u64, sum: &mut Done) {
    tell(format!("seed {seed}"));
    let sim = world(seed);
    let promised = AtomicU64::new(0);
    run(&sim, async {
        let pool = LOG.create(&sim, hasty()).await;
        let fs = pool.filesystem(POOL).await.expect("it opens");
        sim.start_recording();
        let (is_over, kept) = (AtomicBool::new(false), Mutex::new(BTreeSet::new()));
        let client = async || {
            while !is_over.load(SeqCst) {
                let number = promised.fetch_add(1, SeqCst);
                match try_promise(&sim, &fs.zfs, number).await {
                    Ok(()) => _ = kept.lock().insert(number),
                    // A device that has what nobody else has may fail to read it.
                    Err(error) => say(&sim, &format!("not promised: {error}")),
                }
                let pause = PAUSE.mul_f64(1.0 + number as f64 / PAUSE_DOUBLES as f64);
                sim.env().sleep(pause).await;
            }
        };
        let mishaps = async {
            let mut mishaps = Mishaps::new(&sim, seed);
            while !is_over.load(SeqCst) {
                sum.mishaps += u64::from(mishaps.one(&pool).await);
            }
        };
        let commands = async {
            let mut administrator = Administrator::new(&sim, &pool, seed);
            for _ in 0..COMMANDS {
                let (told, result) = administrator.one().await;
                say(&sim, &format!("{told}: {result:?}"));
                match result {
                    Ok(()) => sum.done += 1,
                    Err(_) => sum.refused += 1,
                }
            }
            is_over.store(true, SeqCst);
        };
        futures::join!(join_all((0..CLIENTS).map(|_| client())), commands, mishaps);
        tell(format!("seed {seed}, at the end"));
        settle(&sim, &pool).await;
        drop(fs);
        check_promises(&pool, kept.into_inner().into_iter()).await;
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
    });
    for image in drawn(&sim.recording(), IMAGES) {
        tell(format!("seed {seed}, {}", image.story()));
        judge(&image, seed, promised.load(SeqCst));
    }
}

#[test]
fn whatever_is_done_to_devices_nothing_promised_is_lost() {
    let _tell = Tell;
    let first = number("SAWMILL_LIFE_FIRST").unwrap_or(81_000);
    let seeds = number("SAWMILL_LIFE_SEEDS").unwrap_or(SEEDS);
    let seeds = number("SAWMILL_LIFE_SEED").map_or(first..first + seeds, |seed| seed..seed + 1);
    let count = seeds.end - seeds.start;
    let mut sum = Done::default();
    seeds.for_each(|seed| live(seed, &mut sum));
    let Done { done, refused, mishaps } = sum;
    println!("{count} lives: {done} commands done, {refused} refused, {mishaps} devices failed");
    assert!(done > 8 * count && mishaps > 0, "{done} done, {refused} refused, {mishaps} mishaps");
}

/// How all devices are.
fn described(pool: &Pool) -> String {
    let leaves = pool.vdevs().leaves();
    let one = |leaf: &Arc<Leaf>| {
        let (path, state, dtl) = (leaf.path(), leaf.state(), leaf.dtl());
        format!("{} {state:?} {dtl:?} stale {}; ", path.display(), leaf.is_stale())
    };
    let leaving = pool.vdevs().tops().iter().any(|top| top.config().leaving.is_some());
    format!("{}leaving {leaving}, {:?}", leaves.iter().map(one).collect::<String>(), pool.suspended())
}

/// Tells what happens, if one seed is run alone.
fn say(sim: &Sim, what: &str) {
    if number("SAWMILL_LIFE_SEED").is_some() {
        println!("{:?}: {what}", sim.env().now());
    }
}

/// An absence that is drawn.
fn absence(dice: &mut Dice) -> Absence {
    if dice.one_in(2) { Absence::Offline } else { Absence::Faulted }
}
