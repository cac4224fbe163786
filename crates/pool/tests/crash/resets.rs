//! Disks that lose their caches while the pool is in use.
//!
//! A flush or a stable write fails and takes earlier writes with it, or a disk is reset, at random
//! points in commits and txgs. From that moment, reads return the old bytes. No acknowledged write
//! may be lost, neither in the running pool nor after a power cut. A pool is suspended only if no
//! other disk has the data, and resumes by itself or after `clear`.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use env::Env;
use pool::{Pool, Tuning};
use sim::{CrashImage, CrashPlan, DiskModel, Sim};
use vdev::PoolState;

use crate::clients::{self, Load};
use crate::dice::Dice;
use crate::failures::resilvered;
use crate::model::Model;
use crate::promise::Promise;
use crate::shape::{LOG, MIRROR, MIRRORED_LOG, POOL, RAIDZ, SINGLE, Shape, brisk};
use crate::space;
use crate::story::{Tell, number, run, tell};

const LOAD: Load = Load { clients: 3, operations: 12, pause: Duration::from_millis(2), large: false };
/// The number of losses in each run, one after another.
const ROUNDS: u64 = 5;
const IMAGES_PER_RUN: usize = 4;
/// Short enough for a short run.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// The number of events in the runs of one shape.
#[derive(Debug, Default)]
struct LossCounts {
    /// Losses that forgot at least one write.
    losses: u64,
    suspensions: u64,
    images: u64,
}

struct LossTrial {
    seed: u64,
    shape: &'static Shape,
    /// The disks that may lose their caches.
    victims: &'static [&'static str],
    /// The disks among them that the pool cannot do without.
    needed: &'static [&'static str],
}

impl LossTrial {
    fn run(&self, met: &mut LossCounts) {
        let story = format!("seed {}, shape \"{}\"", self.seed, self.shape.name);
        tell(format!("{story}, at work"));
        let sim = Sim::seed(self.seed);
        self.shape.add_disks(&sim, DiskModel::ssd());
        let model = run(&sim, self.work(&sim, &story, met));
        let recording = sim.recording();
        drop(sim);
        let plan = CrashPlan::new(self.seed);
        let all = recording.crash_images_by(plan).count();
        let wanted = number("SAWMILL_CRASH_IMAGES").map_or(IMAGES_PER_RUN, |n| n as usize).min(all);
        let mut dice = Dice::new(self.seed, 1);
        let mut drawn: Vec<usize> = (0..wanted).map(|_| dice.below(all as u64) as usize).collect();
        drawn.push(all - 1);
        for (n, image) in recording.crash_images_by(plan).enumerate() {
            if drawn.contains(&n) {
                tell(format!("{story}, {}", image.story()));
                met.images += 1;
                self.check(&image, &model);
            }
        }
    }

    /// Runs clients while one disk after another loses its cache.
    async fn work(&self, sim: &Sim, story: &str, met: &mut LossCounts) -> Model {
        let mut dice = Dice::new(self.seed, 0);
        let is_by_itself = dice.one_in(2);
        let retry_after = if is_by_itself { RETRY_AFTER } else { Duration::from_secs(100_000) };
        let txg_timeout = Duration::from_millis([5, 20, 60][dice.below(3) as usize]);
        let tuning = Tuning { retry_after, txg_timeout, ..brisk() };
        let pool = self.shape.create(sim, tuning.clone()).await;
        let fs = pool.filesystem(POOL).await.expect("the root file system opens");
        let model = clients::prepare(&pool, &fs.zfs, LOAD).await;
        let suspensions = administer(sim, &pool, is_by_itself);
        sim.start_recording();
        for round in 0..ROUNDS {
            let victim = self.victims[dice.below(self.victims.len() as u64) as usize];
            let disk = sim.disk(victim);
            let (forgotten, before) = (disk.forgotten_writes(), suspensions.load(Relaxed));
            let order = match dice.one_in(3) {
                true => {
                    let nth = 1 + dice.below(80);
                    disk.reset_at(nth);
                    format!("is reset at its request {nth}")
                }
                false => {
                    let nth = 1 + dice.below(25);
                    disk.lose_cache_at(nth);
                    format!("loses its cache at its sync {nth}")
                }
            };
            tell(format!("{story}, round {round}: {victim} {order}; {tuning:?}"));
            clients::run(sim, &pool, &fs.zfs, &model, LOAD).await;
            pool.sync_now().await.expect("the pool goes on");
            disk.keep_cache();
            met.losses += u64::from(disk.forgotten_writes() > forgotten);
            let suspended = suspensions.load(Relaxed) - before;
            met.suspensions += suspended;
            assert!(suspended == 0 || self.needed.contains(&victim), "the pool can do without {victim}");
            assert_eq!((pool.suspended(), pool.stopped()), (None, None));
            let promise = model.lock().done();
            let now = model.lock().clone();
            now.check(&fs.zfs, &promise).await;
            // A disk that was reset and has had no request since still has to report the loss.
            pool.clear(&|_| true).await.expect("all disks work");
            resilvered(&pool).await;
        }
        drop(fs);
        space::check(&pool).await;
        model.lock().clone()
    }

    fn check(&self, image: &CrashImage, model: &Model) {
        let promise = Promise::of_image(image);
        let sim = image.boot(self.seed);
        run(&sim, async {
            let pool = self.shape.import(&sim, brisk(), false).await.expect("every crash state imports");
            let fs = pool.filesystem(POOL).await.expect("the log replays");
            model.check(&fs.zfs, &promise).await;
            drop(fs);
            resilvered(&pool).await;
            space::check(&pool).await;
            pool.close(PoolState::Exported).await.expect("a pool closes");
        });
    }
}

/// Counts suspensions. Clears the pool each time, unless the pool must resume by itself.
fn administer(sim: &Sim, pool: &Arc<Pool>, is_by_itself: bool) -> Arc<AtomicU64> {
    let count = Arc::<AtomicU64>::default();
    let (counted, pool) = (Arc::clone(&count), Arc::clone(pool));
    let administrator = async move {
        while pool.zio().suspension().until_suspended().await {
            counted.fetch_add(1, Relaxed);
            while !is_by_itself && pool.clear(&|_| true).await.is_err() {}
            pool.zio().suspension().until_resumed().await;
        }
    };
    sim.spawn("administrator", Box::pin(administrator));
    count
}

/// Runs all seeds of one shape.
fn lose(
    shape: &'static Shape,
    (victims, needed): (&'static [&'static str], &'static [&'static str]),
    first_seed: u64,
    runs: u64,
) -> LossCounts {
    let _tell = Tell;
    let runs = number("SAWMILL_CRASH_RUNS").unwrap_or(runs);
    let seeds = match number("SAWMILL_CRASH_SEED") {
        Some(seed) => seed..seed + 1,
        None => first_seed..first_seed + runs,
    };
    let mut met = LossCounts::default();
    for seed in seeds {
        LossTrial { seed, shape, victims, needed }.run(&mut met);
    }
    println!("{}: {met:?}", shape.name);
    met
}

/// Checks that the usual runs had at least this many events. A single seed may have none.
fn floor(met: &LossCounts, losses: u64, suspensions: std::ops::RangeInclusive<u64>) {
    if number("SAWMILL_CRASH_SEED").is_none() && number("SAWMILL_CRASH_RUNS").is_none() {
        assert!(met.losses >= losses && suspensions.contains(&met.suspensions) && met.images >= 8, "{met:?}");
    }
}

#[test]
fn a_single_disk_that_loses_its_cache_costs_nothing_acknowledged() {
    let met = lose(&SINGLE, (&["/a"], &["/a"]), 81_000, 4);
    floor(&met, 5, 4..=u64::MAX);
}

#[test]
fn a_mirror_whose_sides_lose_their_caches_in_turn_goes_on() {
    let met = lose(&MIRROR, (&["/a", "/b"], &[]), 82_000, 3);
    floor(&met, 4, 0..=0);
}

#[test]
fn a_raidz_whose_disks_lose_their_caches_in_turn_goes_on() {
    let met = lose(&RAIDZ, (&["/a", "/b", "/c"], &[]), 83_000, 3);
    floor(&met, 6, 0..=0);
}

#[test]
fn a_log_or_the_disk_beside_it_that_loses_its_cache_costs_nothing_acknowledged() {
    let met = lose(&LOG, (&["/a", "/l"], &["/a"]), 84_000, 4);
    floor(&met, 2, 1..=u64::MAX);
}

#[test]
fn a_mirror_with_a_mirrored_log_goes_on_whichever_disk_loses_its_cache() {
    let met = lose(&MIRRORED_LOG, (&["/a", "/b", "/l", "/m"], &[]), 85_000, 3);
    floor(&met, 2, 0..=0);
}
