//! What is kept of the time between two looks at a pool: what the page's charts are drawn of.

use advise::{Measured, Times};
use control::{IoCounters, LogFacts, LogVdevInfo, VdevClass};
use live::{Interval, LogVdev, Look};
use serde::{Serialize, Serializer};
use units::Latencies;

/// About a second. Rates are a second's, sizes in bytes, times in microseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Tick {
    /// Later ones have higher numbers.
    pub(crate) number: u64,
    /// When it ended, in milliseconds since 1970.
    pub(crate) at_millis: u64,
    /// How long it was.
    pub(crate) seconds: f64,
    /// Commits that had something to do.
    pub(crate) commits: f64,
    /// How many of them were under way at a time.
    pub(crate) under_way: f64,
    /// How many shared a write of the log.
    pub(crate) per_batch: f64,
    /// Data that was made stable.
    pub(crate) data_bytes: f64,
    /// What was written as log blocks.
    pub(crate) log_bytes: f64,
    /// How long commits took, by powers of two of nanoseconds: pairs of a number `i` and how many took less than 2^i ns, and
    /// not less than half of that.
    #[serde(serialize_with = "pairs_of_times")]
    pub(crate) latency: Latencies,
    /// What a commit waited for on the mean. The parts add up to the mean commit.
    stages: Vec<(&'static str, f64)>,
    /// Log blocks: pairs of a number `i` and how many there were of (i + 1) * 4 KiB.
    #[serde(serialize_with = "pairs")]
    blocks: Vec<u64>,
    /// What the pool's devices read and wrote.
    io: Io,
    /// Operations under way at a time on the devices of data vdevs.
    pub(crate) data_in_flight: f64,
    /// The same of log vdevs.
    pub(crate) log_in_flight: f64,
    /// Log vdevs.
    logs: Vec<LogTick>,
}

/// What went to and from devices in a second.
#[derive(Clone, Copy, Debug, Serialize)]
struct Io {
    reads: f64,
    writes: f64,
    read_bytes: f64,
    written_bytes: f64,
}

/// A log vdev.
#[derive(Clone, Debug, Serialize)]
struct LogTick {
    id: u64,
    space_bytes: u64,
    held_bytes: u64,
    /// Log blocks written.
    writes: f64,
    bytes: f64,
    in_flight: f64,
    write_us: Option<f64>,
    flush_us: Option<f64>,
}

impl Tick {
    /// Of what lies between two looks; none when the pool was opened anew meanwhile.
    pub(crate) fn of(
        interval: &Interval,
        early: &Look,
        late: &Look,
        number: u64,
        at_millis: u64,
    ) -> Option<Self> {
        let measured = Measured::between(early.facts.clone(), late.facts.clone())?;
        let io = late.pool.root.stats.io.since(early.pool.root.stats.io);
        let in_flight = |class| in_flight(&measured.facts, class) / interval.seconds;
        Some(Self {
            number,
            at_millis,
            seconds: interval.seconds,
            commits: interval.load.commits_per_second,
            under_way: interval.load.under_way,
            per_batch: interval.load.commits_per_batch,
            data_bytes: interval.load.data_bytes_per_second,
            log_bytes: interval.load.log_bytes_per_second,
            latency: interval.latency,
            stages: interval.mean.each().to_vec(),
            io: Io::of(io, interval.seconds),
            data_in_flight: in_flight(VdevClass::Normal),
            log_in_flight: in_flight(VdevClass::Log),
            logs: interval.logs.iter().filter(|vdev| vdev.is_log).map(LogTick::of).collect(),
            blocks: interval.block_sizes.clone(),
        })
    }
}

impl Io {
    fn of(counters: IoCounters, seconds: f64) -> Self {
        let rate = |count: u64| count as f64 / seconds;
        Self {
            reads: rate(counters.reads),
            writes: rate(counters.writes),
            read_bytes: rate(counters.read_bytes),
            written_bytes: rate(counters.written_bytes),
        }
    }
}

impl LogTick {
    fn of(vdev: &LogVdev) -> Self {
        Self {
            id: vdev.id,
            space_bytes: vdev.space_bytes,
            held_bytes: vdev.held_bytes,
            writes: vdev.writes_per_second,
            bytes: vdev.bytes_per_second,
            in_flight: vdev.in_flight,
            write_us: mean(vdev.write),
            flush_us: mean(vdev.flush),
        }
    }
}

fn mean(times: Option<Times>) -> Option<f64> {
    times.map(|times| times.mean_us)
}

/// What the operations of a class's devices took, added up, in seconds.
fn in_flight(facts: &LogFacts, class: VdevClass) -> f64 {
    let tops = facts.vdevs.iter().filter(|vdev: &&LogVdevInfo| vdev.class == class);
    let leaves = tops.flat_map(|vdev| &vdev.leaves);
    let nanos = leaves.map(|leaf| leaf.reads.nanos + leaf.writes.nanos + leaf.flushes.nanos);
    nanos.sum::<u64>() as f64 / 1e9
}

fn pairs_of_times<S: Serializer>(latencies: &Latencies, serializer: S) -> Result<S::Ok, S::Error> {
    pairs(&latencies.counts, serializer)
}

/// Counts that are not zero, with their places.
fn pairs<S: Serializer>(counts: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(counts.iter().enumerate().filter(|(_, count)| **count > 0))
}
