//! Log vdevs and their devices.

use crate::interval::rate;
use advise::{Life, Measured, Rating, Times, mean_us};
use control::{LogLeafInfo, LogVdevInfo, VdevClass, VdevKind, VdevState};
use serde::Serialize;
use std::time::Duration;
use units::Latencies;

/// A log vdev between two looks, or a data vdev that took log blocks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogVdev {
    /// Its number.
    pub id: u64,
    /// It is a log; what is none takes log blocks where there is no log, or none that can.
    pub is_log: bool,
    /// What it is made of.
    pub kind: VdevKind,
    /// State.
    pub state: VdevState,
    /// Log blocks written to it a second.
    pub writes_per_second: f64,
    /// Bytes of those.
    pub bytes_per_second: f64,
    /// How long writes of log blocks took.
    pub write: Option<Times>,
    /// How long flushes after them took.
    pub flush: Option<Times>,
    /// Log blocks on their way to it at a time, on the mean.
    pub in_flight: f64,
    /// Allocatable space, in bytes.
    pub space_bytes: u64,
    /// What is taken of that, in bytes.
    pub held_bytes: u64,
    /// Its devices.
    pub devices: Vec<LogDevice>,
}

/// A device of such a vdev. Unlike its vdev it counts everything that was written to it, labels too.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogDevice {
    /// Its lasting name.
    pub guid: u64,
    /// Where it was last seen.
    pub path: String,
    /// State.
    pub state: VdevState,
    /// Reads a second.
    pub reads_per_second: f64,
    /// Writes a second.
    pub writes_per_second: f64,
    /// Bytes of those.
    pub bytes_per_second: f64,
    /// Flushes a second.
    pub flushes_per_second: f64,
    /// A write on the mean, in microseconds; none without any.
    pub write_mean_us: Option<f64>,
    /// How long flushes took.
    pub flush: Option<Times>,
    /// Reads, writes and flushes under way at a time, on the mean: what each took, over the time that went by.
    pub in_flight: f64,
    /// Of a log device that is rated: how long it lives at the rate at which it was written since the pool was opened.
    pub life: Option<Life>,
}

impl LogVdev {
    /// Log vdevs, then what else took log blocks, at a moment since the pool was opened.
    pub(crate) fn all(measured: &Measured, moment: Duration, rating: Option<Rating>) -> Vec<Self> {
        let is_log = |top: &LogVdevInfo| top.class == VdevClass::Log;
        let tops = || measured.facts.vdevs.iter();
        let those =
            tops().filter(|top| is_log(top)).chain(tops().filter(|top| !is_log(top) && top.blocks > 0));
        those.map(|top| Self::of(top, measured, moment, rating.filter(|_| is_log(top)))).collect()
    }

    fn of(top: &LogVdevInfo, measured: &Measured, moment: Duration, rating: Option<Rating>) -> Self {
        let seconds = measured.span.as_secs_f64();
        let since_import = measured.vdevs_since_import.iter().flat_map(|top| &top.leaves);
        let life = |leaf: &LogLeafInfo| {
            let all = since_import.clone().find(|other| other.guid == leaf.guid)?;
            Life::of_leaf(rating?, leaf, rate(all.writes.bytes, moment.as_secs_f64()))
        };
        let writes = Latencies::from_counts(&top.writes);
        Self {
            id: top.id,
            is_log: top.class == VdevClass::Log,
            kind: top.kind,
            state: top.state,
            writes_per_second: rate(top.blocks, seconds),
            bytes_per_second: rate(top.block_bytes, seconds),
            in_flight: rate(writes.total(), seconds) * writes.mean().as_secs_f64(),
            write: Times::of(&writes),
            flush: Times::of(&Latencies::from_counts(&top.flushes)),
            space_bytes: top.space_bytes,
            held_bytes: top.held_bytes,
            devices: top.leaves.iter().map(|leaf| LogDevice::of(leaf, seconds, life(leaf))).collect(),
        }
    }

    /// How full it is, in percent.
    #[must_use]
    pub fn fill_percent(&self) -> f64 {
        match self.space_bytes {
            0 => 0.0,
            space => self.held_bytes as f64 * 100.0 / space as f64,
        }
    }
}

impl LogDevice {
    fn of(leaf: &LogLeafInfo, seconds: f64, life: Option<Life>) -> Self {
        let nanos = leaf.reads.nanos + leaf.writes.nanos + leaf.flushes.nanos;
        Self {
            guid: leaf.guid,
            path: leaf.path.clone(),
            state: leaf.state,
            reads_per_second: rate(leaf.reads.ops, seconds),
            writes_per_second: rate(leaf.writes.ops, seconds),
            bytes_per_second: rate(leaf.writes.bytes, seconds),
            flushes_per_second: rate(leaf.flushes.ops, seconds),
            write_mean_us: mean_us(&leaf.writes),
            flush: Times::of(&Latencies::from_counts(&leaf.flush_times)),
            in_flight: rate(nanos, seconds) / 1e9,
            life,
        }
    }
}
