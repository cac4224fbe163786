//! Each request that a log device gets in a small history fails in its turn: once, from then on, or
//! with the device.
//!
//! Whatever fails, the history goes on to its end, in time; and what had been acknowledged is there
//! after a power cut at any moment, also on the device that failed, for it may have been the only
//! one that knew.

use std::collections::BTreeSet;
use std::time::Duration;

use env::{Env, FaultOp};
use pool::{PoolError, Tuning};
use sim::{CrashImage, CrashPlan, DiskModel, DiskSpec, Recording, Sim};
use units::VdevId;
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags};

use crate::found::Found;
use crate::ground::{Ground, quiet};
use crate::model::Model;
use crate::promise::Promise;
use crate::shape::{
    DISK_BYTES, LOG, LOG_DEADMAN, MIRROR, POOL, SINGLE, SINGLE_MIRRORED_LOG, SINGLE_TWO_LOGS, Shape,
};
use crate::space;
use crate::steps::{Op, Step};
use crate::story::{Tell, run, tell};

/// A failure holds the history up for at most so long; a txg takes less than that.
const DELAY_MAX: Duration = Duration::from_millis(500);
/// A hundred times what the disk takes for a stable write.
const SLOW: Duration = Duration::from_millis(70);

const fn stable(op: Op) -> Step {
    Step { op, fsync: true }
}

const fn loose(op: Op) -> Step {
    Step { op, fsync: false }
}

/// Before a txg, and after it: lone blocks, many blocks at once, names and contents.
const WORK: [&[Step]; 2] = [
    &[
        stable(Op::Create),
        stable(Op::Write(4096, 8 << 10)),
        stable(Op::Write(10_000, 200 << 10)),
        loose(Op::Append),
        stable(Op::Rename),
        loose(Op::Write(0, 40 << 10)),
        stable(Op::SetXattr),
    ],
    &[stable(Op::Write(50, 100)), stable(Op::Write(10_000, 200 << 10)), stable(Op::Link)],
];

/// In which way the victim fails.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    Once(FaultOp, u64),
    FromThen(FaultOp, u64),
    /// It is taken away at its nth request.
    Gone(u64),
    /// It answers nothing from its nth request on.
    Hang(u64),
    /// It takes a hundred times as long from its nth request on.
    Slow(u64),
}

impl Fault {
    fn order(self, sim: &Sim, victim: &str) {
        let disk = sim.disk(victim);
        let faults = disk.faults();
        match self {
            Self::None => {}
            Self::Once(op, nth) => faults.fail_nth(op, nth),
            Self::FromThen(op, nth) => faults.fail_range(op, nth, u64::MAX),
            Self::Gone(nth) => faults.disappear_at(nth),
            Self::Hang(nth) => disk.hang_from(nth),
            Self::Slow(nth) => disk.straggle_from(nth, SLOW),
        }
    }

    /// How long it may hold up the history.
    fn delay_max(self, shape: &Shape, requests: u32) -> Duration {
        let deadman = if shape.has_log() { LOG_DEADMAN } else { quiet().deadman };
        match self {
            // It is looked at four times in that time.
            Self::Hang(_) => DELAY_MAX + deadman + deadman / 4,
            Self::Slow(_) => DELAY_MAX + SLOW * requests,
            _ => DELAY_MAX,
        }
    }
}

/// What the work left.
struct Done {
    recording: Recording,
    model: Model,
    /// Requests of the victim: writes, flushes.
    requests: [u64; 2],
    /// Those before the first txg: commits' alone.
    of_commits: [u64; 2],
    took: Duration,
}

/// Seeds tried for one by which a log device has something to do.
const SEEDS_MAX: u64 = 20;

/// How much was looked at.
#[derive(Debug, Default)]
struct Count {
    trials: u64,
    images: u64,
    distinct: u64,
}

/// All trials on one ground.
struct Lane {
    ground: Ground,
    /// The log device that fails.
    victim: &'static str,
    count: Count,
    /// Contents of images, and how much had been promised.
    checked: BTreeSet<(u64, usize)>,
}

fn requests(sim: &Sim, victim: &str) -> [u64; 2] {
    let disk = sim.disk(victim);
    [FaultOp::Write, FaultOp::Flush].map(|op| disk.faults().seen(op))
}

impl Lane {
    fn new(shape: &'static Shape, victim: &'static str, seed: u64) -> Self {
        let ground = Ground::new(shape, seed, DiskModel::ssd());
        Self { ground, victim, count: Count::default(), checked: BTreeSet::new() }
    }

    fn is_mirrored(&self) -> bool {
        self.ground.shape.name == SINGLE_MIRRORED_LOG.name
    }

    fn story(&self, fault: Fault) -> String {
        format!("{}, {} fails: {fault:?}", self.ground.story(), self.victim)
    }

    /// Does the work with that fault in it.
    fn work(&self, fault: Fault) -> Done {
        tell(format!("{}, at work", self.story(fault)));
        let sim = self.ground.boot();
        sim.stop_recording();
        run(&sim, async {
            let (pool, fs) = self.ground.open(&sim).await;
            let mut hand = self.ground.hand(&sim, &fs.zfs).await;
            sim.start_recording();
            let (before, begun) = (requests(&sim, self.victim), sim.now());
            let since = |now: [u64; 2]| [0, 1].map(|n| now[n] - before[n]);
            let mut of_commits = [0; 2];
            fault.order(&sim, self.victim);
            for (part, steps) in WORK.into_iter().enumerate() {
                if part > 0 {
                    of_commits = since(requests(&sim, self.victim));
                    let promise = hand.model.done();
                    pool.sync_now().await.expect("groups go on");
                    promise.mark(&sim);
                }
                for step in steps {
                    hand.step(*step).await;
                }
            }
            assert_eq!(pool.suspended(), None);
            let (requests, took) = (since(requests(&sim, self.victim)), sim.now() - begun);
            let (recording, model) = (sim.recording(), hand.model);
            sim.stop_recording();
            // What is dirty holds on to all of its world.
            pool.leave().await.expect("a pool is left");
            Done { recording, model, requests, of_commits, took }
        })
    }

    /// The work goes on in time, and loses nothing.
    fn check(&mut self, fault: Fault, healthy: Duration) {
        self.count.trials += 1;
        let done = self.work(fault);
        let [writes, flushes] = done.requests;
        let most = healthy + fault.delay_max(self.ground.shape, (writes + flushes) as u32);
        assert!(done.took < most, "took {:?}, {healthy:?} without a fault", done.took);
        let plan =
            CrashPlan { exhaustive_up_to: 0, subsets: 1, tears: 0, ..CrashPlan::new(self.ground.seed) };
        for image in done.recording.crash_images_by(plan) {
            self.count.images += 1;
            if self.checked.insert((image.digest(), image.marks().len())) {
                self.check_image(&image, &done.model, fault);
            }
        }
    }

    fn check_image(&mut self, image: &CrashImage, model: &Model, fault: Fault) {
        self.count.distinct += 1;
        let promise = Promise::of_image(image);
        tell(format!("{}, {}", self.story(fault), image.story()));
        let sim = image.boot(self.ground.seed);
        sim.stop_recording();
        model.judge(&self.import(&sim, self.count.distinct.is_multiple_of(16)), &promise);
        if let Fault::FromThen(op, _) = fault {
            tell(format!("{}, {}, still failing", self.story(fault), image.story()));
            let sim = image.boot(self.ground.seed);
            sim.stop_recording();
            sim.disk(self.victim).faults().fail_all(op);
            model.judge(&self.import(&sim, false), &promise);
        }
        if self.is_mirrored() {
            tell(format!("{}, {}, then without it", self.story(fault), image.story()));
            let sim = image.boot(self.ground.seed);
            sim.stop_recording();
            sim.disk(self.victim).faults().disappear();
            model.judge(&self.import(&sim, false), &promise);
        }
    }

    fn import(&self, sim: &Sim, accounts: bool) -> Found {
        run(sim, async {
            let pool = self.ground.shape.import(sim, quiet(), false).await;
            let pool = pool.expect("every crash state imports");
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

    /// Imports with that fault on order. What cannot go on says so, and can once the device is well
    /// and all is begun anew. How many reads, writes and flushes the victim saw.
    fn import_failing(&self, image: &CrashImage, model: &Model, fault: Fault) -> [u64; 3] {
        let story = format!("{} at import, {}", self.story(fault), image.story());
        tell(story.clone());
        let sim = image.boot(self.ground.seed);
        fault.order(&sim, self.victim);
        let found = run(&sim, async {
            let pool = self.ground.shape.import(&sim, quiet(), false).await?;
            let fs = pool.filesystem(POOL).await?;
            Ok::<_, PoolError>(Found::read(&fs.zfs).await)
        });
        let disk = sim.disk(self.victim);
        let seen = [FaultOp::Read, FaultOp::Write, FaultOp::Flush].map(|op| disk.faults().seen(op));
        let found = found.unwrap_or_else(|error| {
            assert!(self.may_stop(fault), "{error}");
            let again = sim.power_cut(self.ground.seed);
            tell(format!("{story}; told {error}; and again, {}", again.story()));
            self.import(&again.boot(self.ground.seed), false)
        });
        model.judge(&found, &Promise::of_image(image));
        seen
    }

    /// Only what is nowhere else stops an import.
    fn may_stop(&self, fault: Fault) -> bool {
        let is_needed = matches!(fault, Fault::Gone(_) | Fault::Hang(_) | Fault::Once(FaultOp::Read, _))
            || matches!(fault, Fault::FromThen(FaultOp::Read, _));
        is_needed && !self.is_mirrored()
    }
}

/// Each of the first `count` requests of that kind fails, or is the first that does.
fn each(op: FaultOp, count: u64) -> impl Iterator<Item = Fault> {
    (1..=count).flat_map(move |nth| [Fault::Once(op, nth), Fault::FromThen(op, nth)])
}

/// From the nth request on the device is not itself.
fn at_each(nth: u64) -> [Fault; 3] {
    [Fault::Gone(nth), Fault::Hang(nth), Fault::Slow(nth)]
}

fn check_all(shape: &'static Shape, victim: &'static str, seed: u64) {
    let _tell = Tell;
    // Of two logs one may have nearly all to do: then the other's faults would show nothing.
    let healthy = (seed..seed + SEEDS_MAX).map(|seed| {
        let lane = Lane::new(shape, victim, seed);
        let done = lane.work(Fault::None);
        (lane, done)
    });
    let is_used = |(_, done): &(Lane, Done)| done.requests[0] > 3 && done.requests[1] > 0;
    let (mut lane, done) = { healthy }.find(is_used).expect("a seed by which the device is used");
    let (seed, Done { recording, model, requests: [writes, flushes], took, .. }) = (lane.ground.seed, done);
    let late = (1..=writes + flushes).flat_map(at_each);
    for fault in each(FaultOp::Write, writes).chain(each(FaultOp::Flush, flushes)).chain(late) {
        lane.check(fault, took);
    }
    let last = recording.crash_images_by(CrashPlan::new(seed)).last().expect("an image at the end");
    let [reads, writes, flushes] = lane.import_failing(&last, &model, Fault::None);
    let faults = each(FaultOp::Read, reads).chain(each(FaultOp::Write, writes));
    let late = (1..=reads + writes + flushes).flat_map(at_each);
    let mut imports = 0;
    for fault in faults.chain(each(FaultOp::Flush, flushes)).chain(late) {
        lane.import_failing(&last, &model, fault);
        imports += 1;
    }
    let count = &lane.count;
    eprintln!("\"{}\", {victim}: {count:?}; {imports} imports with a fault in them", shape.name);
}

#[test]
fn any_request_of_a_log_may_fail() {
    check_all(&LOG, "/l", 51_000);
}

#[test]
fn any_request_of_one_of_two_logs_may_fail() {
    check_all(&SINGLE_TWO_LOGS, "/l", 52_000);
    check_all(&SINGLE_TWO_LOGS, "/m", 52_100);
}

#[test]
fn any_request_of_a_side_of_a_mirrored_log_may_fail() {
    check_all(&SINGLE_MIRRORED_LOG, "/l", 53_000);
}

/// Blocks of the log, and data that a commit writes in their place, for there is no log device. A flush
/// that fails is another matter: nobody knows what it lost of a txg, and of this vdev there is one.
#[test]
fn any_write_of_a_commit_to_the_main_pool_may_fail_once() {
    let _tell = Tell;
    let mut lane = Lane::new(&SINGLE, "/a", 55_000);
    let Done { of_commits: [writes, _], took, .. } = lane.work(Fault::None);
    assert!(writes > 6, "{writes} writes");
    for nth in 1..=writes {
        lane.check(Fault::Once(FaultOp::Write, nth), took);
    }
    eprintln!("without a log device: {:?}", lane.count);
}

#[test]
fn any_request_of_a_commit_to_a_side_of_a_mirror_may_fail() {
    let _tell = Tell;
    let mut lane = Lane::new(&MIRROR, "/b", 56_000);
    let Done { of_commits: [writes, flushes], took, .. } = lane.work(Fault::None);
    assert!(writes > 6 && flushes > 0, "{writes} writes, {flushes} flushes");
    let late = (1..=writes + flushes).flat_map(at_each);
    for fault in each(FaultOp::Write, writes).chain(each(FaultOp::Flush, flushes)).chain(late) {
        lane.check(fault, took);
    }
    eprintln!("a mirror, without a log device: {:?}", lane.count);
}

const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };
/// Commits that are timed, after as many as it takes to get used to a failure.
const TIMED: u64 = 1000;
const UNTIMED: u64 = 20;

/// What becomes of a log before commits are timed.
enum Spoil {
    Nothing,
    Fails(FaultOp),
    Gone,
    /// So much is written, and no txg ends.
    Fills(u64),
}

/// How long small commits take in virtual time, one after another.
fn time_of(shape: &Shape, seed: u64, spoil: &Spoil) -> Duration {
    let sim = Sim::seed(seed);
    for path in shape.disks() {
        let bytes = if path.as_os_str() == "/a" { 1 << 30 } else { DISK_BYTES };
        sim.add_disk(path, DiskSpec::new(bytes, DiskModel::ssd()));
    }
    sim.stop_recording();
    run(&sim, async {
        let pool = shape.create(&sim, Tuning { log_share_percent: 100, ..quiet() }).await;
        let fs = pool.filesystem(POOL).await.expect("the root file system opens");
        pool.sync_now().await.expect("sync");
        let made = fs.zfs.create(fs.zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await;
        let file = made.expect("create").object;
        let commit = async |at: u64, len: usize| {
            fs.zfs.write(file, at, &vec![7; len], SYNC).await.expect("write");
        };
        commit(0, 8 << 10).await;
        match spoil {
            Spoil::Nothing => {}
            Spoil::Fails(op) => sim.disk("/l").faults().fail_all(*op),
            Spoil::Gone => sim.disk("/l").faults().disappear(),
            Spoil::Fills(bytes) => {
                for at in 0..bytes >> 17 {
                    commit(at << 17, 1 << 17).await;
                }
            }
        }
        let times = async |commits: u64| {
            let begun = sim.now();
            for at in 0..commits {
                commit(at % 64 * 8192, 8 << 10).await;
            }
            sim.now() - begun
        };
        let first = times(UNTIMED).await;
        assert!(first < DELAY_MAX, "the first {UNTIMED} commits took {first:?}");
        let taken = times(TIMED).await;
        let homes = fs.log.as_ref().expect("a log").stats().homes;
        // What is written stable needs no flush.
        let stays = matches!(spoil, Spoil::Nothing | Spoil::Fails(FaultOp::Flush));
        assert!(stays || homes.contains_key(&VdevId::new(0)), "{homes:?}");
        taken
    })
}

#[test]
fn a_log_that_fails_or_fills_slows_nobody_below_the_main_pools_speed() {
    let _tell = Tell;
    const FILL: u64 = 80 << 20;
    let spoils = [
        ("writes fail", Spoil::Fails(FaultOp::Write), Spoil::Nothing),
        ("flushes fail", Spoil::Fails(FaultOp::Flush), Spoil::Nothing),
        ("it is gone", Spoil::Gone, Spoil::Nothing),
        ("it is full", Spoil::Fills(FILL), Spoil::Fills(FILL)),
    ];
    for (seed, (what, of_log, of_pool)) in (54_000..).zip(spoils) {
        tell(format!("seed {seed}, a log, {what}"));
        let spoiled = time_of(&LOG, seed, &of_log);
        let plain = time_of(&SINGLE, seed, &of_pool);
        eprintln!("{what}: {TIMED} commits in {spoiled:?}, without any log in {plain:?}");
        assert!(spoiled < plain * 5 / 4, "{what}: {spoiled:?}, without any log {plain:?}");
    }
}
