//! How often everything has happened, and how often it must have.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug, Default)]
pub struct SoakProgress {
    pub kills: AtomicU64,
    /// Transactions of the counting script, which are counted when an epoch of clients has ended.
    pub commits: AtomicU64,
    /// Files that fio wrote and verified to the end.
    pub verified: AtomicU64,
    pub snapshots: AtomicU64,
    /// Snapshots that were destroyed.
    pub destroyed: AtomicU64,
    pub sends: AtomicU64,
    /// Faults of devices that came back.
    pub faults: AtomicU64,
    /// Faults because of which the pool was degraded.
    pub noticed: AtomicU64,
    /// Faults and scrubs that were refused, because a device lacked something.
    pub refused: AtomicU64,
    pub scrubs: AtomicU64,
    /// Scrubs that repaired something.
    pub repairs: AtomicU64,
}

/// What must have happened: once in the shortest run, and in ten minutes.
///
/// The floors leave room for a machine that is ten times as slow as the pauses of the programs
/// allow. With pauses alone, ten minutes have 300 snapshots, 300 streams, 200 files of fio and 100
/// faults of devices. Kills happen in half of the time: a short round lasts 43 s at most, and two
/// minutes for the judge after each round leave two kills. The commits of eight clients share
/// writes of the log, so that one commit each second needs a flush every few seconds.
const FLOORS: &[(&str, u64, u64)] = &[
    ("kills", 2, 2),
    ("commits", 20, 600),
    ("verified", 1, 10),
    ("snapshots", 2, 30),
    ("sends", 1, 10),
    ("faults", 1, 5),
    ("noticed", 0, 2),
    ("scrubs", 0, 1),
];

impl SoakProgress {
    fn counts(&self) -> [(&'static str, u64); 11] {
        [
            ("kills", &self.kills),
            ("commits", &self.commits),
            ("verified", &self.verified),
            ("snapshots", &self.snapshots),
            ("destroyed", &self.destroyed),
            ("sends", &self.sends),
            ("faults", &self.faults),
            ("noticed", &self.noticed),
            ("refused", &self.refused),
            ("scrubs", &self.scrubs),
            ("repairs", &self.repairs),
        ]
        .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }

    /// Everything has happened often enough for so much time.
    pub fn check(&self, elapsed: Duration) {
        let counts = self.counts();
        for (name, once, in_ten_minutes) in FLOORS {
            let floor = (*once).max(in_ten_minutes * elapsed.as_secs() / 600);
            let count = counts.iter().find(|(of, _)| of == name).map_or(0, |(_, count)| *count);
            assert!(count >= floor, "{name}: {count} of {floor} at least in {elapsed:?}: {self}");
        }
    }
}

impl fmt::Display for SoakProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, count)) in self.counts().iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{name} {count}")?;
        }
        Ok(())
    }
}
