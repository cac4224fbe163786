//! What lies between two looks.

use crate::logs::LogVdev;
use crate::users::{DatasetUse, ProcessUse, datasets, processes};
use crate::{Look, Point};
use advise::{Load, Measured, Rating, Times};
use control::{LogFacts, PoolHealth};
use serde::{Serialize, Serializer};
use std::time::Duration;
use units::Latencies;

/// What a pool's logs did between two looks. Rates are a second's, times are in microseconds, sizes in bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Interval {
    /// The pool's name.
    pub pool: String,
    /// Its health at the later look.
    pub health: PoolHealth,
    /// When the later look was: how long the pool had been open, in seconds.
    pub at_seconds: f64,
    /// How long it was, in seconds.
    pub seconds: f64,
    /// What commits did.
    pub load: Load,
    /// How long they took; none without commits.
    pub quantiles: Option<Quantiles>,
    /// The same by powers of two of nanoseconds: number `i` counts times below 2^i ns that are not in number `i - 1`.
    #[serde(serialize_with = "counts")]
    pub latency: Latencies,
    /// How long the stages took.
    pub stages: Stages,
    /// Where the time of a commit went, on the mean.
    pub mean: CommitMean,
    /// How often how many bytes were written as one log block: number `i` counts blocks of (i + 1) * 4 KiB.
    pub block_sizes: Vec<u64>,
    /// Log vdevs, and what else took log blocks.
    pub logs: Vec<LogVdev>,
    /// Datasets with commits, those with the most first.
    pub datasets: Vec<DatasetUse>,
    /// Programs that asked for something to be stable, those that asked most often first.
    pub processes: Vec<ProcessUse>,
}

/// How long something took, as far as powers of two tell: each is at most twice the true time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// Half of all took less, in microseconds.
    pub p50_below_us: f64,
    /// 99 of 100 took less.
    pub p99_below_us: f64,
    /// All took less.
    pub max_below_us: f64,
}

impl Quantiles {
    /// Of what was counted; none when nothing was.
    #[must_use]
    pub fn of(latency: &Latencies) -> Option<Self> {
        let below = |percent: f64| micros(latency.percentile(percent));
        (latency.total() > 0).then(|| Self {
            p50_below_us: below(50.0),
            p99_below_us: below(99.0),
            max_below_us: below(100.0),
        })
    }
}

/// How long the stages of commits took; none where nothing was timed.
///
/// ```text
///  commit ── queue ──► assemble ──► write ──► flush ──► wake ──► returns
/// ```
/// `queue` and `wake` are a commit's, the others a write of the log's, which answers one commit or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stages {
    /// Until a write of the log takes the commit's first record.
    pub queue: Option<Times>,
    /// Until blocks are laid out.
    pub assemble: Option<Times>,
    /// Until the last block is written.
    pub write: Option<Times>,
    /// Until devices were flushed; none where each write is stable by itself.
    pub flush: Option<Times>,
    /// Until the commit goes on.
    pub wake: Option<Times>,
}

impl Stages {
    fn of(measured: &Measured) -> Self {
        let times = |counts: &[u64]| Times::of(&Latencies::from_counts(counts));
        let facts = &measured.facts;
        Self {
            queue: times(&facts.queue),
            assemble: times(&facts.assemble),
            write: times(&facts.write),
            flush: times(&facts.flush),
            wake: times(&facts.wake),
        }
    }

    /// All of them in their order, with their names.
    #[must_use]
    pub fn each(&self) -> [(&'static str, Option<Times>); 5] {
        let Self { queue, assemble, write, flush, wake } = *self;
        [("queue", queue), ("assemble", assemble), ("write", write), ("flush", flush), ("wake", wake)]
    }
}

/// What a commit waited for on the mean, in microseconds. The parts add up to the mean time of a commit that had something to
/// do; a stage that few commits met counts for little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CommitMean {
    /// Until a write of the log was begun.
    pub queue_us: f64,
    /// Until its blocks were laid out.
    pub assemble_us: f64,
    /// Until the last block was written.
    pub write_us: f64,
    /// Until devices were flushed.
    pub flush_us: f64,
    /// Until the commit went on.
    pub wake_us: f64,
    /// All of commits that no write of the log ended: they waited for a txg.
    pub txg_us: f64,
}

impl CommitMean {
    fn of(facts: &LogFacts) -> Self {
        let commits = facts.commits.saturating_sub(facts.commits_empty).max(1) as f64;
        let part =
            |place: usize| facts.parts_nanos.get(place).map_or(0.0, |&nanos| nanos as f64 / commits / 1e3);
        Self {
            queue_us: part(0),
            assemble_us: part(1),
            write_us: part(2),
            flush_us: part(3),
            wake_us: part(4),
            txg_us: part(5),
        }
    }

    /// All parts in their order, with their names.
    #[must_use]
    pub fn each(&self) -> [(&'static str, f64); 6] {
        let Self { queue_us, assemble_us, write_us, flush_us, wake_us, txg_us } = *self;
        [
            ("queue", queue_us),
            ("assemble", assemble_us),
            ("write", write_us),
            ("flush", flush_us),
            ("wake", wake_us),
            ("txg", txg_us),
        ]
    }
}

impl Interval {
    /// From one look to a later one, for log devices that are rated so; none when the pool was opened anew meanwhile, or
    /// no time went by.
    #[must_use]
    pub fn between(early: &Look, late: &Look, rating: Option<Rating>) -> Option<Self> {
        let is_new = !early.goes_on_in(late) || early.moment() == late.moment();
        let measured = (!is_new).then(|| Measured::between(early.facts.clone(), late.facts.clone()))??;
        let latency = measured.commit_times();
        let seconds = measured.span.as_secs_f64();
        Some(Self {
            pool: late.pool.name.clone(),
            health: late.pool.health,
            at_seconds: late.moment().as_secs_f64(),
            seconds,
            load: Load::of(&measured),
            quantiles: Quantiles::of(&latency),
            latency,
            stages: Stages::of(&measured),
            mean: CommitMean::of(&measured.facts),
            block_sizes: measured.facts.block_sizes.clone(),
            logs: LogVdev::all(&measured, late.moment(), rating),
            datasets: datasets(&early.users, &late.users, seconds),
            processes: processes(&early.users, &late.users, seconds),
        })
    }

    /// What a series keeps of it.
    #[must_use]
    pub fn point(&self) -> Point {
        Point {
            at_seconds: self.at_seconds,
            seconds: self.seconds,
            commits_per_second: self.load.commits_per_second,
            data_bytes_per_second: self.load.data_bytes_per_second,
            written_bytes_per_second: self.load.written_bytes_per_second,
            quantiles: self.quantiles,
            latency: self.latency,
        }
    }
}

/// A second's; zero where no time went by.
pub(crate) fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

pub(crate) fn counts<S: Serializer>(latencies: &Latencies, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(latencies.counts)
}
