//! The daemon's resident memory and open descriptors, and whether they grow while no daemon is
//! killed.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::MEMORY_MIB;
use super::progress::SoakProgress;
use crate::mounted::World;

const LOOK_EVERY: Duration = Duration::from_millis(500);
const LINE_EVERY: Duration = Duration::from_secs(60);
/// The first samples do not count, because a new daemon reads its pools, and its first requests
/// fill caches. A round of less than 80 s has a quarter of its time as its warm-up.
const WARM_UP: Duration = Duration::from_secs(20);
/// Fewer samples than this show nothing.
const SAMPLES_MIN: usize = 6;
/// How much more memory the last third of the samples may have at its maximum than the first third
/// has at its own.
///
/// The daemon keeps its caches within a budget (`SAWMILL_MEMORY`). Memory beside the budget goes up
/// and down with blocks on their way to the disks, with streams, with scrubs and resilvers, and
/// with freed memory that the allocator keeps, which is a fifth of the budget
/// (docs/decisions/2026-11-22-allocator.md). Half of the budget covers all of these. A long round
/// lasts 20 minutes, in which a leak of 70 KiB each second exceeds the bound; at 200 transactions
/// each second, this is 350 bytes for each transaction.
const GROWTH_MAX_KIB: u64 = (MEMORY_MIB << 10) / 2;
/// A round shorter than this may end before the caches are full. Its bound has the whole budget in
/// addition.
const CACHES_FILL: Duration = Duration::from_secs(300);
/// How many more descriptors the last third may have at its maximum.
///
/// The four programs have two commands at a time at most, each with a connection and perhaps a
/// pipe; a device that comes back is open twice for a moment. A descriptor that is lost with each
/// command, snapshot or fault is above the bound within a minute or two.
const DESCRIPTORS_GROWTH_MAX: u64 = 24;

/// What the daemon had at a moment of a round.
#[derive(Clone, Copy, Debug)]
struct DaemonSample {
    at: Duration,
    resident_kib: u64,
    descriptors: u64,
}

pub struct Gauge {
    begun: Instant,
    /// How many lines have been printed.
    lines: u32,
    round: Instant,
    processes: Vec<Pid>,
    /// The samples of this round.
    samples: Vec<DaemonSample>,
    resident_max_kib: u64,
    descriptors_max: u64,
}

impl Gauge {
    pub fn new() -> Self {
        Self {
            begun: Instant::now(),
            lines: 0,
            round: Instant::now(),
            processes: Vec::new(),
            samples: Vec::new(),
            resident_max_kib: 0,
            descriptors_max: 0,
        }
    }

    /// A round begins, with a daemon that must live until it is killed.
    pub fn begin(&mut self, world: &World) {
        self.processes = world.processes();
        self.round = Instant::now();
        self.samples.clear();
    }

    /// Takes a sample when one is due, and prints a line each minute.
    pub fn look(&mut self, world: &World, progress: &SoakProgress) {
        let at = self.round.elapsed();
        if self.samples.last().is_some_and(|last| at < last.at + LOOK_EVERY) {
            return;
        }
        assert_eq!(world.processes(), self.processes, "a process is another one");
        let resident_kib = world.processes_kib("VmRSS").expect("the daemon lives");
        let descriptors =
            fs::read_dir(world.server_proc().join("fd")).expect("the daemon lives").count() as u64;
        self.samples.push(DaemonSample { at, resident_kib, descriptors });
        self.resident_max_kib = self.resident_max_kib.max(resident_kib);
        self.descriptors_max = self.descriptors_max.max(descriptors);
        if self.begun.elapsed() >= LINE_EVERY * (self.lines + 1) {
            self.lines = (self.begun.elapsed().as_secs() / LINE_EVERY.as_secs()) as u32;
            let (seconds, rss) = (self.begun.elapsed().as_secs(), resident_kib >> 10);
            println!(
                "{:02}:{:02} {progress}, RSS {rss} MiB, descriptors {descriptors}",
                seconds / 60,
                seconds % 60
            );
        }
    }

    /// Checks that neither memory nor descriptors grew in a round of this length without a kill.
    pub fn judge(&self, time: Duration) {
        let warm_up = WARM_UP.min(time / 4);
        let settled = self.samples.iter().filter(|sample| sample.at >= warm_up);
        let settled: Vec<&DaemonSample> = settled.collect();
        let count = settled.len();
        assert!(count >= SAMPLES_MIN, "only {count} samples");
        let resident: Vec<u64> = settled.iter().map(|sample| sample.resident_kib).collect();
        let descriptors: Vec<u64> = settled.iter().map(|sample| sample.descriptors).collect();
        let filling_kib = if time < CACHES_FILL { MEMORY_MIB << 10 } else { 0 };
        let bound_kib = GROWTH_MAX_KIB + filling_kib;
        let (first, last) = maxima(&resident);
        let (few, many) = maxima(&descriptors);
        println!(
            "{} s without a kill: RSS {} MiB, then {} MiB (bound: {} MiB more); \
             descriptors {few}, then {many} (bound: {DESCRIPTORS_GROWTH_MAX} more)",
            time.as_secs(),
            first >> 10,
            last >> 10,
            bound_kib >> 10
        );
        assert!(last <= first + bound_kib, "memory grows: {first} KiB, then {last} KiB: {resident:?}");
        assert!(many <= few + DESCRIPTORS_GROWTH_MAX, "descriptors: {few}, then {many}: {descriptors:?}");
    }

    /// The most that any daemon had.
    pub fn summary(&self) -> String {
        let (rss, descriptors) = (self.resident_max_kib >> 10, self.descriptors_max);
        format!("RSS at most {rss} MiB, descriptors at most {descriptors}")
    }
}

/// The maxima of the first and of the last third.
fn maxima(values: &[u64]) -> (u64, u64) {
    let third = values.len() / 3;
    let max = |values: &[u64]| values.iter().copied().max().unwrap_or(0);
    (max(&values[..third]), max(&values[values.len() - third..]))
}

#[test]
fn what_goes_up_and_down_is_flat_and_what_goes_up_is_not() {
    assert_eq!(maxima(&[5, 9, 5, 9, 5, 9, 5, 9, 5]), (9, 9));
    assert_eq!(maxima(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), (3, 10));
}
