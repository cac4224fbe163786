//! `sawmill what-if`: a load that was recorded, made again in a simulated world with a log device and without.
//!
//! Each writer of the recording does what it did: rests as long, writes as much, waits. Disks of data vdevs take what the
//! recording saw them take for log blocks and flushes, time by time, where that was often enough; what else they do, and
//! what was seen too seldom, takes what the pool has counted of it since it was opened. How far that may be off is told by
//! doing it several times: with disks as they were in the whole recording, and in each half of it, and with several seeds.

use std::ops::Range;
use std::time::Duration;

use advise::recorded::{Explained, explained, span, writers};
use advise::{LoadShape, Measured, VdevTimes};
use control::{BatchInfo, LogRecording, VdevClass};
use pool::PoolError;
use sim::{DiskModel, Latency};

use crate::gain::{self, COUNTED_MIN, Outcome, Play, fitted};
use crate::latencies::Latencies;

/// Commits that are made again, the first of a recording.
const COMMITS_MAX: usize = 5_000;
/// Each way of fitting disks is tried with so many seeds.
const SEEDS: u64 = 3;

/// What came of it.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Answer {
    /// Commits that were made again.
    pub commits: usize,
    /// Writers that made them.
    pub writers: usize,
    /// The pool had log devices already.
    pub has_logs: bool,
    /// How they went when they were recorded.
    pub recorded: Outcome,
    /// How they go without any log device.
    pub without: Vec<Outcome>,
    /// How they go with the one that was asked for: as many, in the same order.
    pub with: Vec<Outcome>,
}

impl Answer {
    /// How many times shorter a commit is with the log, by the figure that is meant: least and most of all trials. A pool
    /// that has logs already is not compared with what it would be without, which nobody has seen, but with what it was.
    #[must_use]
    pub fn factor(&self, figure: impl Fn(&Outcome) -> f64) -> Range<f64> {
        let before = |without| if self.has_logs { &self.recorded } else { without };
        let pairs = self.without.iter().map(before).zip(&self.with);
        range(pairs.map(|(before, with)| figure(before) / figure(with).max(f64::MIN_POSITIVE)))
    }
}

/// The least and the most of some figures.
#[must_use]
pub fn range(figures: impl Iterator<Item = f64>) -> Range<f64> {
    figures.fold(f64::INFINITY..0.0, |seen, figure| seen.start.min(figure)..seen.end.max(figure))
}

/// Makes a recorded load again. None when nothing was recorded, or nothing is known of the data vdevs.
///
/// # Errors
/// When the simulated pool fails, which its disks give no reason for.
pub fn run(recording: &LogRecording, log: DiskModel, seed: u64) -> Result<Option<Answer>, PoolError> {
    let writers = writers(recording, COMMITS_MAX);
    let measured = Measured::between(recording.before.clone(), recording.after.clone());
    let Some(shape) = measured.as_ref().and_then(LoadShape::of).filter(|_| !writers.is_empty()) else {
        return Ok(None);
    };
    let steps = || writers.iter().flatten();
    let commits = steps().count();
    let mut sizes: Vec<u64> = steps().map(|step| step.bytes).collect();
    sizes.sort_unstable();
    let all = explained(recording);
    let (first, second) = recording.batches.split_at(recording.batches.len() / 2);
    let play = |batches: &[BatchInfo]| Play {
        writers: writers.clone(),
        rest: steps().map(|step| step.rest).sum::<Duration>() / u32::try_from(commits).unwrap_or(u32::MAX),
        software: software(&all),
        bytes: sizes[sizes.len() / 2],
        main: disks(recording, &shape.vdevs, batches),
    };
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for play in [&recording.batches, first, second].map(play) {
        for seed in seed..seed + SEEDS {
            without.push(gain::run(&play, None, seed)?);
            with.push(gain::run(&play, Some(log), seed)?);
        }
    }
    let has_logs = recording.after.vdevs.iter().any(|vdev| vdev.class == VdevClass::Log);
    let recorded = recorded(&all, commits, span(recording));
    Ok(Some(Answer { commits, writers: writers.len(), has_logs, recorded, without, with }))
}

/// What a commit takes that no device does, on the mean.
fn software(all: &[Explained<'_>]) -> Duration {
    let waited = || all.iter().filter(|one| one.batch.is_some());
    let nanos: u64 = waited().map(|one| one.parts.assemble + one.parts.wake).sum();
    Duration::from_nanos(nanos / (waited().count() as u64).max(1))
}

/// How the first so many commits went that had something to do.
fn recorded(all: &[Explained<'_>], commits: usize, span: Duration) -> Outcome {
    let had_work = |one: &&Explained<'_>| one.commit.batch.is_some() || one.commit.txg.is_some();
    let mut worked: Vec<_> = all.iter().filter(had_work).map(|one| one.commit).collect();
    let commits_per_second = worked.len() as f64 / span.as_secs_f64().max(f64::MIN_POSITIVE);
    worked.sort_by_key(|commit| commit.began);
    let mut times = Latencies::default();
    worked.iter().take(commits).for_each(|commit| times.push(Duration::from_nanos(commit.took)));
    Outcome::of(&times.sorted(), commits_per_second)
}

/// Disks for the data vdevs, as these batches saw them.
fn disks(recording: &LogRecording, times: &[VdevTimes], batches: &[BatchInfo]) -> Vec<DiskModel> {
    let data = recording.after.vdevs.iter().filter(|vdev| vdev.class == VdevClass::Normal);
    data.zip(times).map(|(vdev, times)| Seen::of(vdev.id, batches).disk(fitted(times))).collect()
}

/// What one vdev took, in nanoseconds.
#[derive(Default)]
struct Seen {
    lone_writes: Vec<u64>,
    other_writes: Vec<u64>,
    flushes: Vec<u64>,
}

impl Seen {
    fn of(vdev: u64, batches: &[BatchInfo]) -> Self {
        let mut seen = Self::default();
        for batch in batches {
            let writes: Vec<u64> =
                batch.writes.iter().filter(|write| write.vdev == vdev).map(|write| write.took).collect();
            match writes.as_slice() {
                &[lone] => seen.lone_writes.push(lone),
                several => seen.other_writes.extend(several),
            }
            seen.flushes
                .extend(batch.flushes.iter().filter(|flush| flush.vdev == vdev).map(|flush| flush.took));
        }
        seen
    }

    /// A disk like that one, as far as it was seen.
    fn disk(self, counted: DiskModel) -> DiskModel {
        let or = |times: Vec<u64>, else_: Latency| quantiles(times).unwrap_or(else_);
        DiskModel {
            stable_write: or(self.lone_writes, counted.stable_write),
            write: or(self.other_writes, counted.write),
            flush: or(self.flushes, counted.flush),
            ..counted
        }
    }
}

/// None when there are too few.
fn quantiles(mut times: Vec<u64>) -> Option<Latency> {
    times.sort_unstable();
    let last = times.len().checked_sub(1)?;
    let at = |permille: usize| Duration::from_nanos(times[last * permille / 1000]);
    (times.len() as u64 >= COUNTED_MIN).then(|| Latency { quantiles: [0, 500, 900, 990, 1000].map(at) })
}

#[cfg(test)]
mod tests;
