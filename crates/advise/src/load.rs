//! What commits did.

use crate::Measured;
use serde::Serialize;
use std::time::Duration;
use units::Latencies;

/// How long something took, in microseconds. Times are counted by powers of two of nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// About the mean: at most half too much, a third too little.
    pub mean_us: f64,
    /// Half of all took less; at most twice the true time.
    pub p50_below_us: f64,
    /// 99 of 100 took less; at most twice the true time.
    pub p99_below_us: f64,
}

impl Times {
    /// Of what was counted; none when nothing was.
    #[must_use]
    pub fn of(latencies: &Latencies) -> Option<Self> {
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        (latencies.total() > 0).then(|| Self {
            mean_us: us(latencies.mean()),
            p50_below_us: us(latencies.percentile(50.0)),
            p99_below_us: us(latencies.percentile(99.0)),
        })
    }
}

/// What commits did. Rates are a second's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Load {
    /// Commits that had something to make stable.
    pub commits: u64,
    /// Of those a second's.
    pub commits_per_second: f64,
    /// How many were under way at a time, on the mean: rate times latency.
    pub under_way: f64,
    /// How long they took.
    pub latency: Option<Times>,
    /// Commits that shared a write of the log, on the mean.
    pub commits_per_batch: f64,
    /// Data of writes that were made stable, in bytes.
    pub data_bytes_per_second: f64,
    /// Bytes written as log blocks.
    pub written_bytes_per_second: f64,
    /// What a log device takes, or would: log blocks, and data that lie beside the log without one.
    pub log_bytes_per_second: f64,
    /// Bytes of a log block, on the mean.
    pub block_bytes: f64,
    /// Of what is written as log blocks: data, in percent.
    pub data_percent: f64,
    /// What records begin with, and records of names and attributes.
    pub head_percent: f64,
    /// What ties blocks together, and padding.
    pub padding_percent: f64,
    /// Commits that had to wait for a txg: the log could not take them.
    pub waited_for_txg: u64,
    /// Writes and flushes of logs that failed.
    pub errors: u64,
}

impl Load {
    /// Of what was measured.
    #[must_use]
    pub fn of(measured: &Measured) -> Self {
        let facts = &measured.facts;
        let seconds = measured.span.as_secs_f64();
        let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let part = |bytes: u64, of: u64| if of > 0 { bytes as f64 * 100.0 / of as f64 } else { 0.0 };
        let mean = |sum: u64, of: u64| if of > 0 { sum as f64 / of as f64 } else { 0.0 };
        let times = measured.commit_times();
        let latency = Times::of(&times);
        let commits = facts.commits.saturating_sub(facts.commits_empty);
        let written = facts.written_bytes;
        Self {
            commits,
            commits_per_second: rate(commits),
            under_way: rate(commits) * latency.map_or(0.0, |times| times.mean_us) / 1e6,
            latency,
            commits_per_batch: mean(commits, facts.batches),
            data_bytes_per_second: rate(facts.data_bytes + facts.beside_bytes),
            written_bytes_per_second: rate(written),
            log_bytes_per_second: rate(written + facts.beside_bytes),
            block_bytes: mean(written, facts.block_sizes.iter().sum()),
            data_percent: part(facts.data_bytes, written),
            head_percent: part(facts.record_bytes.saturating_sub(facts.data_bytes), written),
            padding_percent: part(written.saturating_sub(facts.record_bytes), written),
            waited_for_txg: facts.fallbacks,
            errors: facts.errors,
        }
    }
}
