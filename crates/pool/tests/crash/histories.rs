//! Every small history, with states that a power cut in its last step could leave: all of them where up to
//! two writes are at risk at the cut, otherwise a sample (see [`CrashPlan`]).
//!
//! ```text
//!  a pool made once ─► booted, imported ─► steps ─► the last one, recorded ─► crash images
//!                                                                                │ by content
//!                                             judged by the model ◄── imported once ◄┘
//! ```
//! A history that begins like another has the states of that one's last step too: they are made
//! there. One seed, one world: both are the same until they differ.
//!
//! `SAWMILL_CRASH_STEPS` says up to which length all histories are tried, in place of [`ALL_OF_STEPS`];
//! `SAWMILL_CRASH_HISTORIES`, how many are drawn of each length beyond that. `cargo xtask histories`
//! tries all, and those of the greatest length in parts: `SAWMILL_CRASH_PART` of `SAWMILL_CRASH_PARTS`,
//! and everything else with part 0.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use sim::{CrashImage, CrashPlan, DiskModel, Recording, Sim};
use vdev::PoolState;

use crate::dice::Dice;
use crate::found::Found;
use crate::ground::{Ground, quiet};
use crate::model::Model;
use crate::promise::Promise;
use crate::shape::{LOG, POOL, SINGLE, SINGLE_MIRRORED_LOG, SINGLE_TWO_LOGS, Shape};
use crate::space;
use crate::steps::{STEPS, Step, history};
use crate::story::{Tell, number, run, tell};

/// All histories of so many steps and fewer are tried.
const ALL_OF_STEPS: u32 = 1;
/// Of longer ones, up to this length, some are.
const STEPS_MAX: u32 = 3;
/// So many of each length.
const DRAWN: u64 = 12;
/// The space of one in so many images is accounted for.
const SPACE_ONE_IN: u64 = 16;
/// And in one of so many the power is cut again while the log is replayed.
const TWICE_ONE_IN: u64 = 16;
/// What was found in images is kept for so many of them.
const FOUND_KEPT: usize = 64;

/// When txgs are synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Groups {
    /// Not while the history lasts.
    Never,
    /// One before the last step: the log has been used, and goes on.
    BeforeLast,
    /// One after the last step, which is recorded too.
    AfterLast,
}

/// How much was looked at.
#[derive(Debug, Default)]
struct Count {
    histories: u64,
    images: u64,
    distinct: u64,
    twice: u64,
}

/// The histories of one ground.
struct Lane {
    ground: Ground,
    count: Count,
    /// By the images' contents.
    found: BTreeMap<u64, Rc<Found>>,
    /// The same, in the order of their coming.
    kept: VecDeque<u64>,
}

impl Lane {
    fn new(shape: &'static Shape, seed: u64) -> Self {
        let ground = Ground::new(shape, seed, DiskModel::instant());
        Self { ground, count: Count::default(), found: BTreeMap::new(), kept: VecDeque::new() }
    }

    /// Does the steps; what the disks did in the last one, and what may be found after it.
    fn record(&self, steps: &[Step], groups: Groups) -> (Recording, Model) {
        let sim = self.ground.boot();
        sim.stop_recording();
        run(&sim, async {
            let (pool, fs) = self.ground.open(&sim).await;
            let mut hand = self.ground.hand(&sim, &fs.zfs).await;
            let (last, before) = steps.split_last().expect("a history has steps");
            for step in before {
                hand.step(*step).await;
            }
            if groups == Groups::BeforeLast {
                pool.sync_now().await.expect("sync");
                hand.model.done().mark(&sim);
            }
            sim.start_recording();
            hand.step(*last).await;
            if groups == Groups::AfterLast {
                pool.sync_now().await.expect("sync");
                hand.model.done().mark(&sim);
            }
            let model = hand.model;
            let recording = sim.recording();
            sim.stop_recording();
            // What is dirty holds on to all of its world.
            pool.leave().await.expect("a pool is left");
            (recording, model)
        })
    }

    /// Tries one history.
    fn check(&mut self, steps: &[Step], groups: Groups, plan: CrashPlan) {
        let story = format!("{}, {steps:?}, groups {groups:?}", self.ground.story());
        tell(format!("{story}: at work"));
        let (recording, model) = self.record(steps, groups);
        self.count.histories += 1;
        for image in recording.crash_images_by(plan) {
            self.count.images += 1;
            let digest = image.digest();
            tell(format!("{story}, {}", image.story()));
            let found = match self.found.get(&digest) {
                Some(found) => Rc::clone(found),
                None => self.look(digest, &image, &model, &story),
            };
            model.judge(&found, &Promise::of_image(&image));
        }
    }

    /// Imports an image that was not seen before.
    fn look(&mut self, digest: u64, image: &CrashImage, model: &Model, story: &str) -> Rc<Found> {
        self.count.distinct += 1;
        let turn = self.count.distinct;
        let sim = image.boot(self.ground.seed);
        let is_twice = turn % TWICE_ONE_IN == TWICE_ONE_IN / 2;
        if !is_twice {
            sim.stop_recording();
        }
        let found = Rc::new(self.import(&sim, turn.is_multiple_of(SPACE_ONE_IN)));
        if is_twice {
            let recording = sim.recording();
            drop(sim);
            self.look_twice(&recording, model, &Promise::of_image(image), story);
        }
        if self.kept.len() == FOUND_KEPT {
            let oldest = self.kept.pop_front().expect("as many as are kept");
            self.found.remove(&oldest);
        }
        self.kept.push_back(digest);
        self.found.insert(digest, Rc::clone(&found));
        found
    }

    /// A power cut during an import or its replay.
    fn look_twice(&mut self, recording: &Recording, model: &Model, promise: &Promise, story: &str) {
        let plan = CrashPlan::new(self.count.distinct);
        let all = recording.crash_images_by(plan).count() as u64;
        let chosen = Dice::new(self.ground.seed, self.count.distinct).below(all);
        let image = recording.crash_images_by(plan).nth(chosen as usize).expect("an image just counted");
        tell(format!("{story}, replayed; and again, {}", image.story()));
        self.count.twice += 1;
        model.judge(&self.import(&image.boot(self.ground.seed), true), promise);
    }

    fn import(&self, sim: &Sim, accounts: bool) -> Found {
        run(sim, async {
            let pool =
                self.ground.shape.import(sim, quiet(), false).await.expect("every crash state imports");
            let fs = pool.filesystem(POOL).await.expect("the log replays");
            let found = Found::read(&fs.zfs).await;
            drop(fs);
            if accounts {
                space::check(&pool).await;
                pool.close(PoolState::Exported).await.expect("a pool closes");
            } else {
                pool.leave().await.expect("a pool is left");
            }
            found
        })
    }
}

/// All histories of up to so many steps, and some that are longer.
fn check_all(shape: &'static Shape, seed: u64) {
    let _tell = Tell;
    let mut lane = Lane::new(shape, seed);
    let all_of = number("SAWMILL_CRASH_STEPS").map_or(ALL_OF_STEPS, |steps| steps as u32);
    let plan = CrashPlan { subsets: 4, tears: 2, ..CrashPlan::new(seed) };
    let (part, parts) =
        (number("SAWMILL_CRASH_PART").unwrap_or(0), number("SAWMILL_CRASH_PARTS").unwrap_or(1));
    // What follows the same first steps stays together: every part has all last steps then.
    let count = STEPS.pow(all_of);
    for at in (count * part).div_ceil(parts)..(count * (part + 1)).div_ceil(parts) {
        lane.check(&history(all_of, at), Groups::Never, plan);
    }
    said(&lane, all_of, &format!("part {part} of {parts} of all"));
    assert!(lane.count.distinct >= lane.count.histories, "{:?}", lane.count);
    if part == 0 {
        check_shorter(&mut lane, all_of, plan);
        check_drawn(&mut lane, all_of, plan, Dice::new(seed, 3));
        assert!(lane.count.images > lane.count.histories * 3, "{:?}", lane.count);
    }
}

/// Those with fewer steps, and those of one step with txgs around it.
fn check_shorter(lane: &mut Lane, all_of: u32, plan: CrashPlan) {
    for steps in 1..all_of {
        for at in 0..STEPS.pow(steps) {
            lane.check(&history(steps, at), Groups::Never, plan);
        }
        said(lane, steps, "all");
    }
    for at in 0..STEPS {
        for groups in [Groups::BeforeLast, Groups::AfterLast] {
            lane.check(&history(1, at), groups, plan);
        }
    }
    said(lane, 1, "all, with groups");
}

/// Some of those with more steps.
fn check_drawn(lane: &mut Lane, all_of: u32, plan: CrashPlan, mut dice: Dice) {
    for steps in all_of + 1..=STEPS_MAX {
        for _ in 0..number("SAWMILL_CRASH_HISTORIES").unwrap_or(DRAWN) {
            let steps = history(steps, dice.below(STEPS.pow(steps)));
            let groups = [Groups::Never, Groups::Never, Groups::BeforeLast, Groups::AfterLast];
            lane.check(&steps, groups[dice.below(4) as usize], plan);
        }
        said(lane, steps, "some");
    }
}

fn said(lane: &Lane, steps: u32, which: &str) {
    let (shape, count) = (lane.ground.shape.name, &lane.count);
    eprintln!("\"{shape}\", {which} histories of {steps} steps: {count:?} by now");
}

#[test]
fn every_small_history_keeps_its_promises_without_a_log() {
    check_all(&SINGLE, 41_000);
}

#[test]
fn every_small_history_keeps_its_promises_with_a_log() {
    check_all(&LOG, 42_000);
}

#[test]
fn every_small_history_keeps_its_promises_with_two_logs() {
    check_all(&SINGLE_TWO_LOGS, 43_000);
}

#[test]
fn every_small_history_keeps_its_promises_with_a_mirrored_log() {
    check_all(&SINGLE_MIRRORED_LOG, 44_000);
}
