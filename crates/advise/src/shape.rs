//! The shape of a load: enough of it to make it again.

use crate::Measured;
use crate::load::Load;
use control::VdevClass;
use serde::Serialize;
use std::time::Duration;
use units::Latencies;

/// More writers than this are not told apart.
const WRITERS_MAX: f64 = 256.0;

/// A load that can be made again: so many writers, each of which makes a write stable, rests, and goes on.
///
/// ```text
///   under way = rate * latency      writers = under way, rounded up      rest = writers / rate - latency
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadShape {
    /// How many write at once.
    pub writers: u32,
    /// How long each rests between its writes.
    pub rest: Duration,
    /// Bytes of a write.
    pub bytes: u32,
    /// What a commit takes beside its devices: laying out blocks, and waking who waits.
    pub software: Duration,
    /// What a data vdev was seen to take since the pool was opened, one for each of them.
    #[serde(skip)]
    pub vdevs: Vec<VdevTimes>,
}

/// What a data vdev takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VdevTimes {
    /// Writes of log blocks; empty where those go to log vdevs.
    pub log_writes: Latencies,
    /// Flushes after those.
    pub log_flushes: Latencies,
    /// Flushes of its devices, for whatever reason.
    pub flushes: Latencies,
    /// Writes of its devices, on the mean.
    pub write_mean: Duration,
    /// Reads of its devices, on the mean.
    pub read_mean: Duration,
}

impl LoadShape {
    /// The load that was measured; none when there were no commits, or nothing is known of the data vdevs.
    #[must_use]
    pub fn of(measured: &Measured) -> Option<Self> {
        let load = Load::of(measured);
        let latency = measured.commit_times().mean().as_secs_f64();
        let vdevs = vdevs(measured);
        let is_known = vdevs.iter().any(|vdev| !vdev.write_mean.is_zero() && vdev.flushes.total() > 0);
        if load.commits == 0 || load.commits_per_second <= 0.0 || !is_known {
            return None;
        }
        let writers = load.under_way.ceil().clamp(1.0, WRITERS_MAX);
        let rest = (writers / load.commits_per_second - latency).max(0.0);
        let facts = &measured.facts;
        let bytes = (facts.data_bytes + facts.beside_bytes) / load.commits;
        Some(Self {
            writers: writers as u32,
            rest: Duration::try_from_secs_f64(rest).unwrap_or(Duration::MAX),
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX).clamp(512, 1 << 20),
            software: Latencies::from_counts(&facts.assemble).mean()
                + Latencies::from_counts(&facts.wake).mean(),
            vdevs,
        })
    }
}

fn vdevs(measured: &Measured) -> Vec<VdevTimes> {
    let tops = measured.vdevs_since_import.iter().filter(|top| top.class == VdevClass::Normal);
    let times = tops.map(|top| {
        let mut times = VdevTimes {
            log_writes: Latencies::from_counts(&top.writes),
            log_flushes: Latencies::from_counts(&top.flushes),
            ..VdevTimes::default()
        };
        let (mut writes, mut reads) = ((0, 0), (0, 0));
        for leaf in &top.leaves {
            times.flushes += Latencies::from_counts(&leaf.flush_times);
            writes = (writes.0 + leaf.writes.nanos, writes.1 + leaf.writes.ops);
            reads = (reads.0 + leaf.reads.nanos, reads.1 + leaf.reads.ops);
        }
        let mean = |(nanos, ops): (u64, u64)| Duration::from_nanos(nanos / ops.max(1));
        VdevTimes { write_mean: mean(writes), read_mean: mean(reads), ..times }
    });
    times.collect()
}
