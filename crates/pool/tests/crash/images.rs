//! Recorded runs, and what a power cut could have left.

use std::collections::BTreeSet;
use std::time::Duration;

use dsl::PropValue;
use pool::Tuning;
use sim::{CrashImage, CrashPlan, DiskModel, Recording, Sim};
use vdev::PoolState;

use crate::clients::{self, Load};
use crate::dice::Dice;
use crate::earlier;
use crate::model::Model;
use crate::promise::Promise;
use crate::shape::{DRAID, LOG, MIRROR, MIRRORED_LOG, POOL, RAIDZ, SINGLE, STRIPE, Shape, TWO_LOGS, brisk};
use crate::space;
use crate::story::{Tell, number, run, tell};
use crate::variants::{CrashedImage, ImportWay, WAYS};

/// Images of each run that are imported, drawn from all.
const IMAGES_PER_RUN: usize = 10;
/// Of these, one in so many is also judged by `zdb`, before and after replay.
const ZDB_ONE_IN: usize = 50;
/// One in so many is also opened as of the txgs before its last.
const EARLIER_ONE_IN: usize = 4;
/// One image in so many is also imported in another way.
const OTHER_WAY_ONE_IN: usize = 2;
/// `zdb` checks the pool that went back to an older txg in the runs of one seed in so many.
const ZDB_OF_OLDER_ONE_IN: u64 = 3;
/// And in one of so many the power is cut again while the log is replayed.
const TWICE_ONE_IN: usize = 4;

struct Run {
    seed: u64,
    shape: &'static Shape,
    large: bool,
    /// What is freed is discarded.
    trims: bool,
    /// Of blocks that were written in place for the log.
    placed_bytes: u64,
    recording: Recording,
    model: Model,
}

impl Run {
    /// Clients at work; the pool is left as it is.
    fn record(seed: u64, shape: &'static Shape) -> Self {
        Self::record_with(seed, shape, false, |_| ())
    }

    /// The same with large writes among the others, to files of several kinds.
    fn record_large(seed: u64, shape: &'static Shape) -> Self {
        Self::record_with(seed, shape, true, |_| ())
    }

    /// The same, something done to the disks before the clients begin.
    fn record_with(seed: u64, shape: &'static Shape, large: bool, spoil: impl Fn(&Sim)) -> Self {
        let mut dice = Dice::new(seed, 0);
        let disk = if dice.one_in(3) { DiskModel::instant() } else { DiskModel::ssd() };
        let load = Load {
            clients: 1 + dice.below(if large { 2 } else { 4 }),
            operations: 40,
            pause: Duration::from_micros([0, 300, 3000][dice.below(3) as usize]),
            large,
        };
        let tuning = Tuning {
            txg_timeout: Duration::from_millis([2, 20, 200][dice.below(3) as usize]),
            dirty_limit_bytes: dice.one_in(3).then_some(300_000),
            ..brisk()
        };
        let trims = large && dice.one_in(2);
        let props = if large { large_props(&mut dice) } else { Vec::new() };
        tell(format!(
            "seed {seed}, shape \"{}\", {load:?}, {tuning:?}, {props:?}, trims {trims}, recording",
            shape.name
        ));
        let sim = Sim::seed(seed);
        shape.add_disks(&sim, disk);
        let mut placed_bytes = 0;
        let model = run(&sim, async {
            let pool = shape.create_with(&sim, tuning, &props).await;
            let fs = pool.filesystem(POOL).await.expect("the root file system opens");
            if trims {
                pool.set_pool_prop("autotrim", Some(PropValue::Number(1))).await.expect("set");
            }
            let model = clients::prepare(&pool, &fs.zfs, load).await;
            sim.start_recording();
            spoil(&sim);
            clients::run(&sim, &pool, &fs.zfs, &model, load).await;
            placed_bytes = fs.log.as_ref().expect("a log").stats().placed_bytes;
            model
        });
        let recording = sim.recording();
        drop(sim);
        let model = std::mem::take(&mut *model.lock());
        Self { seed, shape, large, trims, placed_bytes, recording, model }
    }

    /// Positions of the images to look at, drawn evenly from all.
    fn draw(&self, plan: CrashPlan) -> BTreeSet<usize> {
        let all = self.recording.crash_images_by(plan).count();
        let wanted = number("SAWMILL_CRASH_IMAGES").map_or(IMAGES_PER_RUN, |n| n as usize);
        if all <= wanted {
            return (0..all).collect();
        }
        let mut dice = Dice::new(self.seed, 1);
        (0..wanted).map(|n| n * all / wanted + dice.below((all / wanted) as u64) as usize).collect()
    }

    fn check_all(&self, number: usize) {
        let plan = CrashPlan::new(self.seed);
        let drawn = self.draw(plan);
        let images = self.recording.crash_images_by(plan).enumerate().filter(|(n, _)| drawn.contains(n));
        for (turn, (_, image)) in images.enumerate() {
            let zdb_one_in = if self.large { IMAGES_PER_RUN } else { ZDB_ONE_IN };
            self.check(&image, turn, (number * IMAGES_PER_RUN + turn) % zdb_one_in == zdb_one_in / 2);
        }
    }

    fn check(&self, image: &CrashImage, turn: usize, by_zdb: bool) {
        let promise = Promise::of_image(image);
        let story = format!("seed {}, shape \"{}\", {}", self.seed, self.shape.name, image.story());
        let sim = image.boot(self.seed);
        if by_zdb {
            tell(format!("{story}: zdb before replay"));
            space::by_zdb(self.shape, |path, offset, len| image.peek(path, offset, len));
        }
        tell(story.clone());
        self.import(&sim, &promise);
        if by_zdb {
            tell(format!("{story}: zdb after replay"));
            space::judged_by_zdb(self.shape, &sim);
        }
        if turn.is_multiple_of(EARLIER_ONE_IN) {
            earlier::check(image, self.shape, self.trims);
        }
        if turn.is_multiple_of(OTHER_WAY_ONE_IN) {
            let (shape, model, seed) = (self.shape, &self.model, self.seed);
            let crashed = CrashedImage { image, shape, model, promise: &promise, seed, story: &story };
            let way = WAYS[turn / OTHER_WAY_ONE_IN % WAYS.len()];
            crashed.check(way, by_zdb || way == ImportWay::Older && seed.is_multiple_of(ZDB_OF_OLDER_ONE_IN));
        }
        if turn.is_multiple_of(TWICE_ONE_IN) {
            self.check_twice(&sim.recording(), &promise, turn, &story);
        }
    }

    /// A power cut during an import, its replay, or soon after.
    fn check_twice(&self, recording: &Recording, promise: &Promise, turn: usize, story: &str) {
        let plan = CrashPlan::new(self.seed + turn as u64);
        let all = recording.crash_images_by(plan).count();
        let chosen = Dice::new(self.seed, 2 + turn as u64).below(all as u64) as usize;
        let image = recording.crash_images_by(plan).nth(chosen).expect("an image just counted");
        tell(format!("{story}; and again, {}", image.story()));
        self.import(&image.boot(self.seed + 1), promise);
    }

    fn import(&self, sim: &Sim, promise: &Promise) {
        run(sim, async {
            let pool = self.shape.import(sim, brisk(), false).await.expect("every crash state imports");
            let fs = pool.filesystem(POOL).await.expect("the log replays");
            self.model.check(&fs.zfs, promise).await;
            drop(fs);
            space::check(&pool).await;
            pool.close(PoolState::Exported).await.expect("a pool closes");
        });
    }
}

/// Of the root file system: sizes of records, copies, whether all data are to be written in place.
fn large_props(dice: &mut Dice) -> Vec<(&'static str, u64)> {
    let mut props = vec![("recordsize", [128 << 10, 128 << 10, 1 << 20][dice.below(3) as usize])];
    if dice.one_in(3) {
        props.push(("logbias", 1));
    }
    if dice.one_in(4) {
        props.push(("copies", 2));
    }
    props
}

/// Runs of one shape with large writes.
fn crash_large(shape: &'static Shape, first_seed: u64, runs: u64) {
    let placed_bytes = crash_by(|seed| Run::record_large(seed, shape), first_seed, runs);
    assert!(placed_bytes > 0 || number("SAWMILL_CRASH_SEED").is_some(), "no data were written in place");
}

/// Runs of one shape.
fn crash(shape: &'static Shape, first_seed: u64, runs: u64) {
    crash_by(|seed| Run::record(seed, shape), first_seed, runs);
}

/// Says how much was written in place for the log.
fn crash_by(record: impl Fn(u64) -> Run, first_seed: u64, runs: u64) -> u64 {
    let _tell = Tell;
    let runs = number("SAWMILL_CRASH_RUNS").unwrap_or(runs);
    let seeds: Vec<u64> = match number("SAWMILL_CRASH_SEED") {
        Some(seed) => vec![seed],
        None => (first_seed..first_seed + runs).collect(),
    };
    let mut placed_bytes = 0;
    for (number, seed) in seeds.into_iter().enumerate() {
        let run = record(seed);
        placed_bytes += run.placed_bytes;
        run.check_all(number);
    }
    placed_bytes
}

/// Whether some image of the run breaks a promise.
fn is_found_out(run: &Run) -> bool {
    let images = run.recording.crash_images_by(CrashPlan::new(run.seed)).step_by(10);
    let breaks = |image: CrashImage| {
        let import = || run.import(&image.boot(run.seed), &Promise::of_image(&image));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(import)).is_err()
    };
    images.into_iter().any(breaks)
}

#[test]
fn a_log_that_lies_about_its_flushes_is_found_out() {
    assert!(is_found_out(&Run::record_with(7000, &LOG, false, |sim| sim.disk("/l").set_lying(true))));
}

#[test]
fn nothing_acknowledged_is_lost_by_a_crash_of_a_single_disk() {
    crash(&SINGLE, 1000, 4);
}

#[test]
fn nothing_acknowledged_is_lost_by_a_crash_of_a_stripe() {
    crash(&STRIPE, 2000, 3);
}

#[test]
fn nothing_acknowledged_is_lost_by_a_crash_of_a_mirror() {
    crash(&MIRROR, 3000, 3);
}

#[test]
fn nothing_acknowledged_is_lost_by_a_crash_of_a_raidz() {
    crash(&RAIDZ, 8000, 3);
}

#[test]
fn nothing_acknowledged_is_lost_by_a_crash_of_a_draid() {
    crash(&DRAID, 8100, 3);
}

#[test]
fn nothing_acknowledged_is_lost_by_a_crash_with_a_log() {
    crash(&LOG, 4000, 4);
}

#[test]
fn nothing_acknowledged_is_lost_by_a_crash_with_two_logs() {
    crash(&TWO_LOGS, 5000, 3);
}

#[test]
fn nothing_acknowledged_is_lost_by_a_crash_with_a_mirrored_log() {
    crash(&MIRRORED_LOG, 6000, 3);
}

#[test]
fn nothing_acknowledged_is_lost_by_a_crash_amid_large_writes_to_a_single_disk() {
    crash_large(&SINGLE, 15_000, 4);
}

#[test]
fn nothing_acknowledged_is_lost_by_a_crash_amid_large_writes_to_a_stripe() {
    crash_large(&STRIPE, 16_000, 3);
}

#[test]
fn nothing_acknowledged_is_lost_by_a_crash_amid_large_writes_to_a_mirror() {
    crash_large(&MIRROR, 17_000, 2);
}

#[test]
fn nothing_acknowledged_is_lost_by_a_crash_amid_large_writes_to_a_raidz() {
    crash_large(&RAIDZ, 18_000, 2);
}

#[test]
fn nothing_acknowledged_is_lost_by_a_crash_amid_large_writes_with_a_log() {
    // In place only where the data are not to go to the log.
    crash_by(|seed| Run::record_large(seed, &LOG), 19_000, 3);
}
