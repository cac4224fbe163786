//! One device at a time fails in some way and comes back. Scrubs run between these faults.
//!
//! A device is taken offline and brought back before a fault of the device is injected. The daemon
//! refuses to take a data device offline while the device's sibling lacks data, and syncs what only
//! the device has before it takes a log device offline. After an accepted command, the pool thus
//! survives the fault.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::pause;
use super::progress::SoakProgress;
use super::run::Round;
use crate::mounted::{POOL, World};

const DEVICES: [&str; 4] = ["a", "b", "c", "d"];
const HELD_MIN: Duration = Duration::from_millis(500);
const HELD_MORE: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_millis(500);
/// How long a device may take to come back and to get what it lacks, on a machine that is busy
/// otherwise.
const PATIENCE: Duration = Duration::from_secs(300);
/// A scrub follows when the number of faults is a multiple of this.
const SCRUB_EVERY: u64 = 3;

/// What happens to a device.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// The device is offline until a command brings it back.
    Offline,
    /// Each write fails.
    WritesFail,
    /// Each request fails, and the device cannot be opened.
    Lost,
    /// Each request takes 20 ms, four at a time.
    Slow,
}

const TROUBLES: [Trouble; 4] = [Trouble::Offline, Trouble::WritesFail, Trouble::Lost, Trouble::Slow];

impl Trouble {
    /// Returns the arguments of `zinject` that cause the fault. An offline device needs no `zinject`.
    fn injection(self, device: &str) -> Option<String> {
        match self {
            Self::Offline => None,
            Self::WritesFail => Some(format!("-d {device} -e io -T write {POOL}")),
            Self::Lost => Some(format!("-q -d {device} {POOL}")),
            Self::Slow => Some(format!("-d {device} -D 20:4 {POOL}")),
        }
    }
}

pub struct Drill {
    rng: Rng,
    faults: u64,
}

impl Drill {
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed ^ 0x9e37_79b9_7f4a_7c15), faults: 0 }
    }

    pub fn work(&mut self, round: &Round<'_>, progress: &SoakProgress) {
        // A device may still lack what was written before the kill.
        wait_until_whole(round);
        while !round.is_over() {
            self.step(round, progress);
            if !round.is_over() && self.faults.is_multiple_of(SCRUB_EVERY) {
                scrub(round, progress);
            }
            pause(round, PAUSE);
        }
    }

    fn step(&mut self, round: &Round<'_>, progress: &SoakProgress) {
        let device = DEVICES[self.rng.usize(..DEVICES.len())];
        let trouble = TROUBLES[self.rng.usize(..TROUBLES.len())];
        let held = HELD_MIN + HELD_MORE.mul_f64(self.rng.f64());
        let device = path(round.world, device);
        if round.may("zpool", &format!("offline {POOL} {device}")).is_none() {
            progress.refused.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if let Some(words) = trouble.injection(&device) {
            let online = round.may("zpool", &format!("online {POOL} {device}"));
            let begun = online.and_then(|_| round.may("zinject", &words));
            assert!(begun.is_some() || round.is_over(), "{trouble:?} of {device} is refused");
        }
        pause(round, held);
        if round.is_over() {
            return;
        }
        if status(round).is_some_and(|status| status.contains(" state: DEGRADED\n")) {
            progress.noticed.fetch_add(1, Ordering::Relaxed);
        }
        round.may("zinject", "-c all");
        wait_until_whole(round);
        self.faults += 1;
        progress.faults.fetch_add(1, Ordering::Relaxed);
    }
}

/// Brings all devices back after a restart. The new daemon knows of no injected fault, and devices
/// that were offline still are.
pub fn bring_back(world: &World) {
    world.may_fail(&format!("clear {POOL}"));
    for device in DEVICES {
        world.may_fail(&format!("online {POOL} {}", path(world, device)));
    }
}

fn path(world: &World, device: &str) -> String {
    world.disks().join(device).display().to_string()
}

/// What `zpool status` prints; nothing when the round is over.
fn status(round: &Round<'_>) -> Option<String> {
    let status = round.may("zpool", &format!("status {POOL}"));
    assert!(status.is_some() || round.is_over(), "zpool status fails");
    status
}

/// Brings devices back until all are online and have everything, or the round is over.
pub fn wait_until_whole(round: &Round<'_>) {
    let begun = Instant::now();
    while !round.is_over() {
        let Some(status) = status(round) else { return };
        let is_online = status.contains(" state: ONLINE\n");
        if is_online && !status.contains("resilver in progress") && !status.contains("(resilvering)") {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "a device does not come back: {status}");
        if !is_online {
            bring_back(round.world);
        }
        pause(round, PAUSE);
    }
}

/// Has the pool read everything. No error may be left.
fn scrub(round: &Round<'_>, progress: &SoakProgress) {
    if round.may("zpool", &format!("scrub {POOL}")).is_none() {
        // A resilver may have begun anew.
        progress.refused.fetch_add(1, Ordering::Relaxed);
        return;
    }
    while !round.is_over() {
        pause(round, PAUSE);
        let Some(status) = status(round) else { return };
        if status.contains("scrub in progress") {
            continue;
        }
        if let Some((_, result)) = status.split_once("scrub repaired ") {
            let line = result.lines().next().unwrap_or_default();
            assert!(line.contains(" with 0 errors"), "{status}");
            progress.scrubs.fetch_add(1, Ordering::Relaxed);
            let is_idle = line.starts_with("0 ") || line.starts_with("0B ");
            progress.repairs.fetch_add(u64::from(!is_idle), Ordering::Relaxed);
        }
        return;
    }
}
