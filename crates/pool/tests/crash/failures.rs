//! Devices that fail while files are written.
//!
//! A log that fails, or fills, holds nobody up: its chain goes on in another log or in the rest
//! of the pool, and what the dead one vouched for is made stable by the next txg. From then on
//! the pool can do without it. A mirror can do without a child at any time; and once that is back
//! and brought up to date, without the other one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use env::{Env, FaultOp};
use ondisk::dsl::scan::state;
use parking_lot::Mutex;
use pool::{Filesystem, Pool};
use sim::{CrashImage, CrashPlan, DiskModel, Sim};
use units::VdevId;
use vdev::{PoolState, VdevState};
use zil::LogEvent;

use crate::clients::{self, Load};
use crate::dice::Dice;
use crate::model::Model;
use crate::promise::Promise;
use crate::shape::{LOG, MIRROR, MIRRORED_LOG, POOL, Shape, TWO_LOGS, brisk};
use crate::space;
use crate::story::{Tell, number, run, tell};

const LOAD: Load = Load { clients: 3, operations: 15, pause: Duration::from_millis(2), large: false };
/// Images of each trial that are imported.
const IMAGES_PER_TRIAL: usize = 2;
/// Said when a txg has become stable since the device began to fail.
const A_GROUP_LATER: &str = "a group later";

/// In which way a disk fails.
#[derive(Clone, Copy, Debug)]
enum Failing {
    /// The nth request of that kind fails.
    Once(FaultOp, u64),
    /// From the nth on all do.
    FromThen(FaultOp, u64),
    /// It is taken away.
    Gone(Duration),
}

impl Failing {
    fn order(self, sim: &Sim, path: &str) {
        let disk = sim.disk(path);
        match self {
            Self::Once(op, nth) => disk.faults().fail_nth(op, nth),
            Self::FromThen(op, nth) => disk.faults().fail_range(op, nth, u64::MAX),
            Self::Gone(when) => {
                let sleep = sim.sleep(when);
                sim.spawn(
                    "thief",
                    Box::pin(async move {
                        sleep.await;
                        disk.faults().disappear();
                    }),
                );
            }
        }
    }

    /// Whether the disk can no longer be taken for sound. A single failed write is tried again.
    fn is_lasting(self) -> bool {
        !matches!(self, Self::Once(FaultOp::Write | FaultOp::Read, _))
    }
}

/// Each way, at each of some moments; in the longer lane at each of the first so many requests.
fn ways() -> impl Iterator<Item = Failing> {
    let all = number("SAWMILL_CRASH_RUNS").map(|last| (1..=last).collect());
    let nth: Vec<u64> = all.unwrap_or_else(|| vec![1, 2, 3, 5, 8]);
    let each = nth.into_iter().flat_map(|n| [FaultOp::Write, FaultOp::Flush].map(|op| (op, n)));
    let once = each.clone().map(|(op, n)| Failing::Once(op, n));
    let from = each.map(|(op, n)| Failing::FromThen(op, n));
    let gone = [0, 700, 5000, 20_000].map(|us| Failing::Gone(Duration::from_micros(us)));
    once.chain(from).chain(gone)
}

struct Trial {
    seed: u64,
    shape: &'static Shape,
    victim: &'static str,
    failing: Failing,
}

impl Trial {
    fn story(&self) -> String {
        format!(
            "seed {}, shape \"{}\", {} fails: {:?}",
            self.seed, self.shape.name, self.victim, self.failing
        )
    }

    fn run(&self) {
        tell(format!("{}, at work", self.story()));
        let sim = Sim::seed(self.seed);
        self.shape.add_disks(&sim, DiskModel::ssd());
        let model = run(&sim, self.work(&sim));
        let recording = sim.recording();
        drop(sim);
        let plan = CrashPlan::new(self.seed);
        let all = recording.crash_images_by(plan).count();
        let mut dice = Dice::new(self.seed, 1);
        let wanted = number("SAWMILL_CRASH_IMAGES").map_or(IMAGES_PER_TRIAL, |n| n as usize);
        let drawn: BTreeSet<usize> = (0..wanted).map(|_| dice.below(all as u64) as usize).collect();
        for (n, image) in recording.crash_images_by(plan).enumerate() {
            if drawn.contains(&n) {
                self.check(&image, &model.lock());
            }
        }
    }

    /// Writes before, while and after the disk begins to fail.
    async fn work(&self, sim: &Sim) -> Arc<Mutex<Model>> {
        let pool = self.shape.create(sim, brisk()).await;
        let fs = pool.filesystem(POOL).await.expect("the root file system opens");
        let model = clients::prepare(&pool, &fs.zfs, LOAD).await;
        sim.start_recording();
        let before_order = self.requests(sim);
        self.failing.order(sim, self.victim);
        clients::run(sim, &pool, &fs.zfs, &model, LOAD).await;
        let has_failed = self.has_failed(sim, before_order);
        pool.sync_now().await.expect("the pool goes on");
        if has_failed {
            sim.mark(A_GROUP_LATER);
        }
        let before = self.blocks_logged(&fs);
        clients::run(sim, &pool, &fs.zfs, &model, LOAD).await;
        if has_failed {
            self.check_told(&pool);
            let logged: Vec<u64> =
                self.blocks_logged(&fs).iter().zip(&before).map(|(now, then)| now - then).collect();
            self.check_homes(&logged);
        }
        model
    }

    /// Requests of the kind that is to fail.
    fn requests(&self, sim: &Sim) -> u64 {
        let disk = sim.disk(self.victim);
        match self.failing {
            Failing::Once(op, _) | Failing::FromThen(op, _) => disk.faults().seen(op),
            Failing::Gone(_) => 0,
        }
    }

    /// Whether it came to the failure.
    fn has_failed(&self, sim: &Sim, before_order: u64) -> bool {
        self.failing.is_lasting()
            && match self.failing {
                Failing::Once(_, nth) | Failing::FromThen(_, nth) => self.requests(sim) >= before_order + nth,
                Failing::Gone(_) => true,
            }
    }

    /// The vdev says that something is wrong.
    fn check_told(&self, pool: &Pool) {
        let leaf = pool.vdevs().leaves().into_iter().find(|leaf| leaf.path().as_os_str() == self.victim);
        let leaf = leaf.expect("the victim is a leaf");
        assert_ne!(leaf.state().0, VdevState::Online, "the state of {}", self.victim);
        assert_ne!(pool.vdevs().state().0, VdevState::Online, "the state of the pool");
        assert!(pool.vdevs().state().0.is_usable(), "the pool goes on");
        assert_eq!(pool.suspended(), None);
        let events = pool.log_events();
        let says_so = |event: &LogEvent| matches!(event, LogEvent::Failed { .. } | LogEvent::Spilled { .. });
        assert!(self.shape.name != LOG.name || events.iter().any(says_so), "events: {events:?}");
    }

    fn blocks_logged(&self, fs: &Filesystem) -> Vec<u64> {
        let stats = fs.log.as_ref().expect("a pool for writing has a log").stats();
        (0..4).map(|vdev| stats.homes.get(&VdevId::new(vdev)).map_or(0, |home| home.blocks)).collect()
    }

    /// Nothing more goes to a dead log; all goes to what is left, in the right order. A log that
    /// failed a flush, and that not for a commit, still gets the block that its chain has a place
    /// for: with a write that is stable by itself. That one is gone may be noticed by the first block
    /// for it only, when the other log was the faster until then.
    fn check_homes(&self, logged: &[u64]) {
        let on_dead = u64::from(matches!(
            self.failing,
            Failing::Once(FaultOp::Flush, _) | Failing::FromThen(FaultOp::Flush, _) | Failing::Gone(_)
        ));
        match self.shape.name {
            name if name == LOG.name => {
                assert!(logged[0] > 0 && logged[1] <= on_dead, "in the main pool: {logged:?}");
            }
            name if name == TWO_LOGS.name => {
                assert!(
                    logged[0] == 0 && logged[1] <= on_dead && logged[2] > 0,
                    "in the other log: {logged:?}"
                );
            }
            name if name == MIRRORED_LOG.name => {
                assert!(logged[0] == 0 && logged[1] > 0, "in the mirrored log: {logged:?}");
            }
            _ => assert!(logged[0] > 0, "in the main pool: {logged:?}"),
        }
    }

    /// Without its victim a pool is complete at any time if that is mirrored; a log that was
    /// alone must have had time for a txg to sync.
    fn may_miss_victim(&self, image: &CrashImage) -> bool {
        let is_mirrored = self.shape.name == MIRROR.name || self.shape.name == MIRRORED_LOG.name;
        is_mirrored || image.is_after(A_GROUP_LATER)
    }

    fn check(&self, image: &CrashImage, model: &Model) {
        let promise = Promise::of_image(image);
        tell(format!("{}, {}", self.story(), image.story()));
        let sim = image.boot(self.seed);
        self.import(&sim, model, &promise);
        if self.shape.name == MIRROR.name {
            tell(format!("{}, {}, then {} alone", self.story(), image.story(), self.victim));
            sim.disk("/a").faults().disappear();
            self.import(&sim, model, &promise);
        }
        if let Failing::FromThen(op, _) = self.failing {
            tell(format!("{}, {}, {} still failing at import", self.story(), image.story(), self.victim));
            let sim = image.boot(self.seed);
            sim.disk(self.victim).faults().fail_all(op);
            self.import(&sim, model, &promise);
        }
        if self.may_miss_victim(image) {
            tell(format!("{}, {}, {} missing at import", self.story(), image.story(), self.victim));
            let sim = image.boot(self.seed);
            sim.disk(self.victim).faults().disappear();
            self.import(&sim, model, &promise);
        }
    }

    fn import(&self, sim: &Sim, model: &Model, promise: &Promise) {
        run(sim, async {
            let is_mirrored = self.shape.name == MIRROR.name || self.shape.name == MIRRORED_LOG.name;
            let imported = self.shape.import(sim, brisk(), !is_mirrored).await;
            let pool = imported.expect("every crash state imports");
            let fs = pool.filesystem(POOL).await.expect("the log replays");
            model.check(&fs.zfs, promise).await;
            drop(fs);
            // Before it has ended, txgs may turn while blocks are counted.
            resilvered(&pool).await;
            space::check(&pool).await;
            pool.close(PoolState::Exported).await.expect("a pool closes");
        });
    }
}

/// Until every device that is in use has all it missed.
pub async fn resilvered(pool: &Pool) {
    for _ in 0..1000 {
        let scan = pool.scan().map(|scan| scan.phys);
        if scan.is_none_or(|phys| phys.state.get() != state::SCANNING) {
            return;
        }
        pool.env().sleep(Duration::from_millis(10)).await;
    }
    panic!("the resilver does not end");
}

/// A disk of that shape fails in every way.
fn fail(shape: &'static Shape, victim: &'static str, first_seed: u64) {
    let _tell = Tell;
    let only = number("SAWMILL_CRASH_SEED");
    for (n, failing) in ways().enumerate() {
        let seed = first_seed + n as u64;
        if only.is_none_or(|only| only == seed) {
            Trial { seed, shape, victim, failing }.run();
        }
    }
}

#[test]
fn a_failing_log_holds_nobody_up_and_loses_nothing() {
    fail(&LOG, "/l", 11_000);
}

#[test]
fn a_failing_log_among_two_leaves_all_to_the_other() {
    fail(&TWO_LOGS, "/l", 12_000);
}

#[test]
fn a_mirrored_log_goes_on_without_a_child() {
    fail(&MIRRORED_LOG, "/m", 13_000);
}

#[test]
fn a_mirror_goes_on_without_a_child_and_comes_back_after_a_crash_with_or_without_it() {
    fail(&MIRROR, "/b", 14_000);
}
