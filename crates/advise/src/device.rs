//! What a device lies on, what is doubtful about it, and how long it lives.

use crate::endurance::{Life, Rating};
use crate::{Measured, Times};
use control::{DiskInfo, LeafOps, LogLeafInfo, StorageInfo, VdevClass};
use serde::Serialize;
use units::Latencies;

/// Fewer flushes tell nothing.
const FLUSHES_MIN: u64 = 16;
/// Of all flushes, at least that part had something to write: what a txg writes is flushed three times, and the
/// first two may find nothing on a device.
const PERCENT: f64 = 90.0;
/// A disk of 15,000 turns a minute turns once in 4 ms: half a turn, on the mean, before anything is written.
const TURN_US: f64 = 2_000.0;
/// Flash takes some hundred microseconds to keep a page.
const FLASH_US: f64 = 70.0;
/// File systems that are memory.
const MEMORY_FILE_SYSTEMS: [&str; 3] = ["tmpfs", "ramfs", "devtmpfs"];

/// Why a device is not to be relied on without a look. None of these is proof.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Doubt {
    /// The file is in memory: nothing of it outlives a power cut.
    InMemory,
    /// It turns, and nine of ten flushes were faster than it can reach a place.
    FlushFasterThanTurn {
        /// They took less, in microseconds.
        p90_below_us: f64,
    },
    /// It is flash with a volatile cache, and nine of ten flushes were faster than flash keeps anything.
    FlushFasterThanFlash {
        /// They took less, in microseconds.
        p90_below_us: f64,
    },
}

/// A device.
#[derive(Clone, Debug, Serialize)]
pub struct Device {
    /// Where it was last seen.
    pub path: String,
    /// It is of a log vdev.
    pub is_log: bool,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Of a file: the kind of file system that it is in.
    pub file_system: Option<String>,
    /// The disks below; none where the system does not tell.
    pub disks: Vec<DiskInfo>,
    /// One of them turns; none where unknown.
    pub is_rotational: Option<bool>,
    /// One of them has a write cache that forgets at a power cut; none where unknown.
    pub has_volatile_cache: Option<bool>,
    /// One of them is made up by a hypervisor.
    pub is_virtual: bool,
    /// A write, on the mean, in microseconds.
    pub write_mean_us: Option<f64>,
    /// Bytes written to it a second: log blocks, and labels; of data vdevs everything.
    pub written_bytes_per_second: f64,
    /// How long flushes took.
    pub flush: Option<Times>,
    /// How many flushes were measured.
    pub flushes: u64,
    /// What is doubtful.
    pub doubt: Option<Doubt>,
    /// Of log devices that are rated: how long it lives.
    pub life: Option<Life>,
}

impl Device {
    /// Those of log vdevs, then those of data vdevs.
    pub(crate) fn all(measured: &Measured, rating: Option<Rating>) -> Vec<Self> {
        let of = |is_log: bool| {
            let tops = measured.facts.vdevs.iter().filter(move |top| (top.class == VdevClass::Log) == is_log);
            tops.flat_map(|top| &top.leaves).map(move |leaf| Self::new(leaf, is_log, measured, rating))
        };
        of(true).chain(of(false)).collect()
    }

    fn new(leaf: &LogLeafInfo, is_log: bool, measured: &Measured, rating: Option<Rating>) -> Self {
        let seconds = measured.span.as_secs_f64();
        let rate = if seconds > 0.0 { leaf.writes.bytes as f64 / seconds } else { 0.0 };
        let times = Latencies::from_counts(&leaf.flush_times);
        let StorageInfo { file_system, disks } = leaf.storage.clone();
        let rated = rating.filter(|_| is_log);
        Self {
            path: leaf.path.clone(),
            is_log,
            size_bytes: leaf.size_bytes,
            is_rotational: any(&disks, |disk| disk.is_rotational),
            has_volatile_cache: any(&disks, |disk| disk.has_volatile_cache),
            is_virtual: disks.iter().any(|disk| disk.is_virtual),
            write_mean_us: mean_us(&leaf.writes),
            written_bytes_per_second: rate,
            flush: Times::of(&times),
            flushes: times.total(),
            doubt: doubt(&leaf.storage, &times),
            life: rated.and_then(|rating| Life::of_leaf(rating, leaf, rate)),
            file_system,
            disks,
        }
    }
}

/// What one took on the mean, in microseconds; none without any.
#[must_use]
pub fn mean_us(ops: &LeafOps) -> Option<f64> {
    (ops.ops > 0).then(|| ops.nanos as f64 / ops.ops as f64 / 1e3)
}

/// Yes if one says so, no if all deny it.
fn any(disks: &[DiskInfo], tells: impl Fn(&DiskInfo) -> Option<bool>) -> Option<bool> {
    let told: Vec<Option<bool>> = disks.iter().map(tells).collect();
    match told.contains(&Some(true)) {
        true => Some(true),
        false => (!told.is_empty() && !told.contains(&None)).then_some(false),
    }
}

/// What is doubtful about a device whose flushes took so long. What a hypervisor does is not to be seen from here.
fn doubt(storage: &StorageInfo, flushes: &Latencies) -> Option<Doubt> {
    if storage.file_system.as_deref().is_some_and(|kind| MEMORY_FILE_SYSTEMS.contains(&kind)) {
        return Some(Doubt::InMemory);
    }
    let disks = &storage.disks;
    if flushes.total() < FLUSHES_MIN || disks.iter().any(|disk| disk.is_virtual) {
        return None;
    }
    let p90_below_us = flushes.percentile(PERCENT).as_secs_f64() * 1e6;
    let (turns, forgets) =
        (any(disks, |disk| disk.is_rotational), any(disks, |disk| disk.has_volatile_cache));
    match (turns, forgets) {
        // One that has no volatile cache has nothing to flush.
        (_, Some(false)) => None,
        (Some(true), _) => (p90_below_us <= TURN_US).then_some(Doubt::FlushFasterThanTurn { p90_below_us }),
        (Some(false), Some(true)) => {
            (p90_below_us <= FLASH_US).then_some(Doubt::FlushFasterThanFlash { p90_below_us })
        }
        _ => None,
    }
}
