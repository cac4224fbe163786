//! What a log device would bring: a load that was measured, made again in a simulated world with one and without.
//!
//! ```text
//!  LoadShape ──────► Play: steps of writers ──► the engine itself ──► data vdevs: one disk each, fitted to what was
//!  a recording ──►  ([`crate::what_if`])                         │    measured of it
//!                                                                └──► perhaps a log of a named model
//! ```
//! The clock is virtual: a minute of commits takes a moment, and one seed gives one result. What the program itself
//! takes, which is no time there, is added as it was measured. What is left out: reads, writes that are not to be
//! stable at once, and the pool's other work at the time.

use std::path::PathBuf;
use std::time::Duration;

use advise::recorded::Step;
use advise::{LoadShape, VdevTimes};
use env::Env;
use futures::future::try_join_all;
use pool::{PoolError, Tuning};
use sim::{DiskModel, DiskSpec, Latency, Sim};
use units::{Latencies as Counts, ObjectId};
use vdev::PoolState;
use zpl::{Cred, NewNode, Zfs};

use crate::dice::Dice;
use crate::latencies::Latencies;
use crate::world::{self, POOL, STABLE, Shape};

/// Commits that are measured.
const COMMITS: usize = 2_000;
/// The file that is written to.
const SPAN_BYTES: u64 = 64 << 20;
/// Sizes of the simulated disks: what is not written takes nothing.
const MAIN_BYTES: u64 = 4 << 30;
const LOG_BYTES: u64 = 2 << 30;
const CACHE_BYTES: u64 = 64 << 20;
/// Data vdevs at most: more would be no faster for one write.
const VDEVS_MAX: usize = 8;
/// Requests that a fitted disk serves at once: what was measured has waited in its queues already.
const PARALLEL: usize = 32;
/// Nobody rests longer in the simulation: by then nothing is left of the commit before.
const REST_MAX: Duration = Duration::from_secs(10);
/// A commit without data has something to write, and none has more than this.
const BYTES_MIN: u64 = 512;
const BYTES_MAX: u64 = 8 << 20;
/// Counted less often than this, times are not relied on.
pub(crate) const COUNTED_MIN: u64 = 32;

/// How a load went.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Outcome {
    /// Commits a second: writers, by what each rests and waits.
    pub commits_per_second: f64,
    /// Microseconds from call to return, mean.
    pub mean_us: f64,
    /// The same, median.
    pub p50_us: f64,
    /// 99 %.
    pub p99_us: f64,
}

impl Outcome {
    /// Of times that are sorted.
    pub(crate) fn of(sorted: &Latencies, commits_per_second: f64) -> Self {
        Self {
            commits_per_second,
            mean_us: sorted.mean_us(),
            p50_us: sorted.at_us(0.5),
            p99_us: sorted.at_us(0.99),
        }
    }
}

/// A load that is to be made again.
#[derive(Clone, Debug)]
pub struct Play {
    /// What each writer does.
    pub writers: Vec<Vec<Step>>,
    /// How long they rest between commits, on the mean.
    pub rest: Duration,
    /// What a commit takes beside its devices.
    pub software: Duration,
    /// Bytes of a commit, as most are.
    pub bytes: u64,
    /// The disks that the data vdevs are.
    pub main: Vec<DiskModel>,
}

impl Play {
    /// Writers of that shape. Each rests up to twice its rest, so that they do not march in step.
    #[must_use]
    pub fn of(load: &LoadShape) -> Self {
        let (bytes, rest) = (u64::from(load.bytes), load.rest);
        let steps = |number: u32| {
            let mut dice = Dice::new(u64::from(number) + 1);
            let mut rested = || rest.min(REST_MAX) * 2 * (dice.roll() % 1024) as u32 / 1024;
            (0..COMMITS.div_ceil(load.writers as usize)).map(|_| Step { rest: rested(), bytes }).collect()
        };
        let writers = (0..load.writers).map(steps).collect();
        Self { writers, rest, software: load.software, bytes, main: load.vdevs.iter().map(fitted).collect() }
    }
}

/// Makes the load again, with a log of that model or without one.
///
/// # Errors
/// When the simulated pool fails, which its disks give no reason for.
pub fn run(play: &Play, log: Option<DiskModel>, seed: u64) -> Result<Outcome, PoolError> {
    let sim = Sim::seed(seed);
    let unseen = [fitted(&VdevTimes::default())];
    let disks = if play.main.is_empty() { &unseen } else { play.main.as_slice() };
    let add = |(at, disk): (usize, &DiskModel)| {
        let path = PathBuf::from(format!("/main{at}"));
        sim.add_disk(path.clone(), DiskSpec::new(MAIN_BYTES, *disk));
        path
    };
    let main: Vec<PathBuf> = disks.iter().take(VDEVS_MAX).enumerate().map(add).collect();
    let log = log.map(|model| {
        let path = PathBuf::from("/log");
        sim.add_disk(path.clone(), DiskSpec::new(LOG_BYTES, model));
        path
    });
    sim.stop_recording();
    sim.run_until(async {
        let shape = Shape {
            main,
            log: log.into_iter().collect(),
            record: world::record_of(usize::try_from(play.bytes).unwrap_or(usize::MAX)),
            ..Shape::default()
        };
        let tuning = Tuning { cache_bytes: CACHE_BYTES, ..Tuning::default() };
        let pool = world::create(sim.env(), POOL, &shape, tuning).await?;
        let fs = pool.filesystem(POOL).await?;
        let file = fs.zfs.create(fs.zfs.root(), b"data", NewNode::File, 0o600, Cred::default()).await?.object;
        // The first commit makes the log's chain; it is not what is measured.
        fs.zfs.write(file, 0, &[1], STABLE).await?;
        pool.sync_now().await?;
        let writers =
            (1..).zip(&play.writers).map(|(number, steps)| write(&sim, &fs.zfs, file, play, steps, number));
        let mut all = Latencies::default();
        try_join_all(writers).await?.into_iter().for_each(|latencies| all.append(latencies));
        drop(fs);
        pool.close(PoolState::Destroyed).await?;
        let all = all.sorted();
        let turn_secs = play.rest.as_secs_f64() + all.mean_us() / 1e6;
        Ok(Outcome::of(&all, play.writers.len() as f64 / turn_secs.max(f64::MIN_POSITIVE)))
    })
}

/// One writer's part of all commits.
async fn write(
    sim: &Sim,
    zfs: &Zfs,
    file: ObjectId,
    play: &Play,
    steps: &[Step],
    number: u64,
) -> Result<Latencies, PoolError> {
    let mut dice = Dice::new(number);
    let whole = |step: &Step| step.bytes.clamp(BYTES_MIN, BYTES_MAX) as usize;
    let data = dice.noise(steps.iter().map(whole).max().unwrap_or(0));
    let mut latencies = Latencies::default();
    for step in steps {
        let bytes = whole(step);
        let places = SPAN_BYTES / bytes as u64;
        sim.sleep(step.rest.min(REST_MAX)).await;
        let begun = sim.now();
        zfs.write(file, dice.roll() % places * bytes as u64, &data[..bytes], STABLE).await?;
        sim.sleep(play.software).await;
        latencies.push(sim.now() - begun);
    }
    Ok(latencies)
}

/// A disk that takes what was measured of a vdev.
pub(crate) fn fitted(times: &VdevTimes) -> DiskModel {
    let flushes = if times.log_flushes.total() >= COUNTED_MIN { &times.log_flushes } else { &times.flushes };
    let flush = spread(flushes);
    let is_known = times.log_writes.total() >= COUNTED_MIN;
    // A lone block goes out as one stable write, several are flushed after.
    let is_mostly_lone = times.log_flushes.total() * 4 < times.log_writes.total();
    let stable_write = match (is_known, is_mostly_lone) {
        (true, true) => spread(&times.log_writes),
        (true, false) => sum(spread(&times.log_writes), flush),
        (false, _) => sum(around(times.write_mean), flush),
    };
    DiskModel {
        read: around(times.read_mean),
        write: around(times.write_mean),
        stable_write,
        flush,
        bytes_per_second: u64::MAX,
        parallel: PARALLEL,
        has_volatile_cache: true,
        platter: None,
    }
}

/// Times as they were counted. A count says between which powers of two a time was: the middle is taken.
fn spread(counts: &Counts) -> Latency {
    let end = |percent| counts.percentile(percent);
    Latency { quantiles: [end(0.0) / 2, end(50.0) * 3 / 4, end(90.0) * 3 / 4, end(99.0) * 3 / 4, end(100.0)] }
}

/// Times of which the mean alone is known, as they usually lie around it.
fn around(mean: Duration) -> Latency {
    Latency { quantiles: [mean / 2, mean * 4 / 5, mean * 3 / 2, mean * 3, mean * 6] }
}

fn sum(a: Latency, b: Latency) -> Latency {
    Latency { quantiles: std::array::from_fn(|n| a.quantiles[n] + b.quantiles[n]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn counts(time: Duration) -> Counts {
        let mut counts = Counts::default();
        (0..100).for_each(|_| counts.note(time));
        counts
    }

    /// Writes of a data vdev that take about so long when they are to be stable.
    fn load(writers: u32, rest: Duration, stable: Duration) -> LoadShape {
        let times = VdevTimes {
            log_writes: counts(stable),
            flushes: counts(stable),
            write_mean: stable / 2,
            ..VdevTimes::default()
        };
        LoadShape { writers, rest, bytes: 8192, software: Duration::ZERO, vdevs: vec![times] }
    }

    fn run(load: &LoadShape, log: Option<DiskModel>, seed: u64) -> Result<Outcome, PoolError> {
        super::run(&Play::of(load), log, seed)
    }

    #[test]
    fn one_seed_gives_one_result() {
        let load = load(4, MS, MS * 6);
        let run = |seed| run(&load, DiskModel::named("ssd"), seed).expect("a simulated pool works");
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn a_lone_writer_waits_for_the_vdev_or_for_the_log_in_its_stead() {
        // 6 ms are in the bucket from 4.19 to 8.39 ms, whose middle is 6.29; one writer that never rests.
        let load = load(1, Duration::ZERO, MS * 6);
        let without = run(&load, None, 1).expect("a simulated pool works");
        assert!((4_194.0..8_389.0).contains(&without.p50_us), "{without:?}");
        assert!((120.0..220.0).contains(&without.commits_per_second), "{without:?}");
        // A stable write of that model takes 20 µs, and 4 µs for 8 KiB to pass.
        let with = run(&load, DiskModel::named("ssd-plp"), 1).expect("a simulated pool works");
        assert!((15.0..60.0).contains(&with.p50_us), "{with:?}");
        assert!(with.commits_per_second > 100.0 * without.commits_per_second, "{with:?}");
    }

    #[test]
    fn a_log_that_is_slower_than_the_pool_brings_nothing() {
        let load = load(1, MS, MS / 10);
        let without = run(&load, None, 1).expect("a simulated pool works");
        let with = run(&load, DiskModel::named("hdd-2007"), 1).expect("a simulated pool works");
        assert!(with.p50_us > 10.0 * without.p50_us, "{with:?} {without:?}");
    }

    #[test]
    fn a_load_that_hardly_is_one_takes_no_longer() {
        let day = load(1, Duration::from_secs(86_400), MS * 6);
        let without = run(&day, None, 1).expect("a simulated pool works");
        assert!((without.commits_per_second * 86_400.0 - 1.0).abs() < 0.01, "{without:?}");
    }

    #[test]
    fn a_load_has_the_rate_that_was_measured() {
        // Four writers that rest 20 ms on the mean and wait for about 6: 4 / 26.3 ms are 152 a second.
        let without = run(&load(4, MS * 20, MS * 6), None, 1).expect("a simulated pool works");
        assert!((120.0..180.0).contains(&without.commits_per_second), "{without:?}");
        let slow = LoadShape { software: MS * 50, ..load(1, Duration::ZERO, MS / 10) };
        let slow = run(&slow, None, 1).expect("a simulated pool works");
        assert!(slow.p50_us > 50_000.0, "{slow:?}");
    }
}
