//! Replay that is killed after a record, and started again by the next import: what is there then is what
//! replay at one go leaves.
//!
//! ```text
//!  images ─► disks in memory ─► import, replay ─ record k is done ─► power cut ─► import, replay ─► manifest
//!                                               │ at once: nothing of it is stable
//!                                               │ txgs have synced: the header says how far it got
//!                                               └ at any moment of a txg's sync
//! ```
//! The worlds are simulated, so that each costs no more than what it writes. `SAWMILL_KILL_EVERY=1` tries every
//! record; by itself the test takes some of them, others in each world.

use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use env::{BoxFuture, Env};
use event_listener::Event;
use futures::future::{Either, select};
use pool::{ImportSpec, Pool, PoolError, Tuning};
use sim::{CrashImage, DiskModel, DiskSpec, Sim};
use units::ObjsetId;
use zil::{ReplayProgress, ReplayWatch};

use crate::dirty::without_growth;
use crate::manifest::{Leave, Manifest};
use crate::walk::walk_alone;
use crate::world::{World, judge};

const PAGE_BYTES: usize = 4096;
const TXG_TIMEOUT: Duration = Duration::from_secs(1);
/// Txgs sync by themselves well within this.
const LONG: Duration = Duration::from_secs(10);

/// When the power goes, counted from the moment at which a record is done.
#[derive(Clone, Copy, Debug)]
enum Death {
    AtOnce,
    Synced,
    /// In the middle of a sync, that is.
    After(Duration),
}

/// Holds a replay up after some record, until the power goes.
struct Killer {
    env: Arc<dyn Env>,
    left: AtomicU64,
    death: Death,
    dead: Event,
}

impl Killer {
    fn after(sim: &Sim, records: u64, death: Death) -> Arc<Self> {
        Arc::new(Self { env: sim.env(), left: records.into(), death, dead: Event::new() })
    }
}

impl std::fmt::Debug for Killer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "after {:?} more, {:?}", self.left, self.death)
    }
}

impl ReplayWatch for Killer {
    fn replayed(&self, _: ObjsetId, progress: ReplayProgress) -> BoxFuture<'_, ()> {
        assert!(progress.records <= progress.records_total, "{progress:?}");
        Box::pin(async move {
            if self.left.fetch_sub(1, Relaxed) != 1 {
                return;
            }
            match self.death {
                Death::AtOnce => {}
                Death::Synced => self.env.sleep(LONG).await,
                Death::After(span) => self.env.sleep(span).await,
            }
            self.dead.notify(usize::MAX);
            std::future::pending().await
        })
    }
}

/// A dirty pool, on disks in memory.
struct Dirty {
    world: World,
    disks: CrashImage,
    told: Manifest,
}

impl Dirty {
    fn load(name: &str, told: impl FnOnce(&World) -> Manifest) -> Self {
        let world = World::golden(name);
        let sim = Sim::seed(1);
        world.paths.iter().for_each(|path| load_disk(&sim, path));
        sim.stop_recording();
        let told = told(&world);
        Self { world, disks: sim.power_cut(1), told }
    }

    async fn import(&self, sim: &Sim, watch: Arc<dyn ReplayWatch>) -> Result<Arc<Pool>, PoolError> {
        let (paths, name) = (self.world.paths.clone(), Some("whirl".into()));
        let replay_watch = Some(watch);
        let spec = ImportSpec { paths, name, force: true, replay_watch, ..ImportSpec::default() };
        let tuning = Tuning { txg_timeout: TXG_TIMEOUT, cache_bytes: 16 << 20, ..Tuning::default() };
        let pool = Pool::import(sim.env(), &spec, tuning).await?;
        pool.replay_logs().await?;
        Ok(pool)
    }

    /// What is left of `disks` when the power goes after `records` records were replayed; nothing when
    /// replay had ended before.
    fn killed(&self, disks: &CrashImage, records: u64, death: Death, seed: u64) -> Option<CrashImage> {
        let sim = disks.boot(seed);
        sim.stop_recording();
        let killer = Killer::after(&sim, records, death);
        let watch = Arc::clone(&killer) as Arc<dyn ReplayWatch>;
        let is_dead = sim.run_until(async {
            let dead = killer.dead.listen();
            match select(Box::pin(self.import(&sim, watch)), dead).await {
                Either::Left((imported, _)) => {
                    imported.unwrap_or_else(|error| panic!("{killer:?}: {error:?}"));
                    false
                }
                Either::Right(_) => true,
            }
        });
        is_dead.then(|| sim.power_cut(seed))
    }

    /// Imports what is left, and replays to the end; how many records that took.
    fn judge(&self, disks: &CrashImage, what: &str, seed: u64) -> u64 {
        let sim = disks.boot(seed);
        sim.stop_recording();
        sim.run_until(async {
            let counter = Killer::after(&sim, u64::MAX, Death::AtOnce);
            let watch = Arc::clone(&counter) as Arc<dyn ReplayWatch>;
            let pool = self.import(&sim, watch).await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
            judge(what, &walk_alone(&pool).await, &self.told, Leave { mtime: true });
            u64::MAX - counter.left.load(Relaxed)
        })
    }

    /// Kills replay after some records, or all: after each in one of the ways, in turn.
    fn kill_everywhere(&self, name: &str, every: u64) {
        let all = self.judge(&self.disks, name, 1);
        assert!(all > 300, "{all} records in {name}");
        let mut resumed = 0;
        for records in (1..=all).filter(|records| records % every == 0 || [1, all].contains(records)) {
            let death = match records / every % 3 {
                0 => Death::Synced,
                1 => Death::AtOnce,
                _ => Death::After(TXG_TIMEOUT + Duration::from_micros(records * 7919 % 20_000)),
            };
            let what = format!("{name}, killed after {records} of {all}, {death:?}");
            let killed = self.killed(&self.disks, records, death, records);
            let left = self.judge(&killed.unwrap_or_else(|| panic!("{what}: not killed")), &what, records);
            match death {
                Death::Synced => assert!(left < all, "{what}: {left} replayed"),
                Death::AtOnce | Death::After(_) => {}
            }
            resumed += u64::from(left < all);
        }
        assert!(resumed > 0, "{name}: never resumed");
    }

    /// Kills each replay again, some records further.
    fn kill_again_and_again(&self, name: &str, step: u64) {
        let mut killed = 0;
        let mut left = None;
        let mut disks = &self.disks;
        while let Some(next) = self.killed(disks, step, Death::Synced, killed + 1) {
            killed += 1;
            assert!(killed < 3_000, "{name}: replay does not get on");
            disks = left.insert(next);
        }
        assert!(killed > 3, "{name}: killed {killed} times");
        self.judge(disks, &format!("{name}, killed {killed} times"), 1);
    }
}

fn load_disk(sim: &Sim, path: &Path) {
    let bytes = std::fs::read(path).expect("images can be read");
    let disk = sim.add_disk(path, DiskSpec::new(bytes.len() as u64, DiskModel::ssd()));
    for (page, bytes) in bytes.chunks(PAGE_BYTES).enumerate().filter(|(_, page)| page.iter().any(|&b| b != 0))
    {
        disk.rot((page * PAGE_BYTES) as u64, bytes);
    }
}

/// Of so many records one is tried.
fn every(otherwise: u64) -> u64 {
    let told = std::env::var("SAWMILL_KILL_EVERY").ok();
    told.map_or(otherwise, |text| text.parse::<NonZero<u64>>().expect("a number above 0").get())
}

#[test]
fn g14_replay_killed_after_a_record_goes_on_to_the_same() {
    let name = "g14-dirty-zil-slog";
    let dirty = Dirty::load(name, |world| world.told("manifest.jsonl"));
    dirty.kill_everywhere(name, every(61));
}

#[test]
fn g15_replay_killed_after_a_record_goes_on_to_the_same() {
    let name = "g15-dirty-zil-nolog";
    let dirty = Dirty::load(name, without_growth);
    dirty.kill_everywhere(name, every(61));
}

#[test]
fn g14_replay_killed_again_and_again_comes_to_the_same() {
    let name = "g14-dirty-zil-slog";
    let dirty = Dirty::load(name, |world| world.told("manifest.jsonl"));
    dirty.kill_again_and_again(name, every(41));
}

#[test]
fn g15_replay_killed_again_and_again_comes_to_the_same() {
    let name = "g15-dirty-zil-nolog";
    let dirty = Dirty::load(name, without_growth);
    dirty.kill_again_and_again(name, every(41));
}
