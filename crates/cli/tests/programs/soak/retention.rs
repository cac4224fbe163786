//! Recursive snapshots of the whole pool. The newest few are kept, and older ones are destroyed.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::pause;
use super::progress::SoakProgress;
use super::run::{CommandOutcome, Round};
use crate::mounted::{POOL, World};

/// The data sets of each recursive snapshot.
const SETS: [&str; 3] = ["tank", "tank/data", "tank/files"];
const LIST: &str = "list -H -o name -t snapshot -r tank";
const KEPT: u64 = 6;
const PAUSE: Duration = Duration::from_secs(2);

#[derive(Default)]
pub struct Retention {
    newest: u64,
    /// Snapshots that have been taken.
    kept: BTreeSet<u64>,
    /// Snapshots that a command was to take or to destroy, until the command succeeds.
    doubtful: BTreeSet<u64>,
}

impl Retention {
    pub fn work(&mut self, round: &Round<'_>, progress: &SoakProgress) {
        while !round.is_over() {
            self.take(round, progress);
            self.retire(round, progress);
            pause(round, PAUSE);
        }
    }

    fn take(&mut self, round: &Round<'_>, progress: &SoakProgress) {
        // No number is used twice, because a command that a kill cut off may have taken its snapshot.
        self.newest += 1;
        self.doubtful.insert(self.newest);
        let line = format!("snapshot -r {POOL}@keep{}", self.newest);
        if is_done(&round.must("zfs", &line)) {
            self.doubtful.remove(&self.newest);
            self.kept.insert(self.newest);
            progress.snapshots.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn retire(&mut self, round: &Round<'_>, progress: &SoakProgress) {
        let Some(listed) = round.may("zfs", LIST) else { return };
        let numbers = listed.lines().filter_map(|name| number(name.split_once('@')?.1));
        let due: BTreeSet<u64> = numbers.filter(|number| number + KEPT <= self.newest).collect();
        for number in due {
            self.kept.remove(&number);
            self.doubtful.insert(number);
            // A command that a kill cut off may have left the snapshots of some data sets.
            let ending = format!("@keep{number}");
            let whole = format!("{POOL}{ending}");
            let lines: Vec<String> = if listed.lines().any(|name| name == whole) {
                vec![format!("destroy -r {whole}")]
            } else {
                let left = listed.lines().filter(|name| name.ends_with(&ending));
                left.map(|name| format!("destroy {name}")).collect()
            };
            if !lines.iter().all(|line| is_done(&round.must("zfs", line))) {
                return;
            }
            self.doubtful.remove(&number);
            progress.destroyed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Checks that each data set has all snapshots that were taken, and none that were destroyed.
    pub fn judge(&self, world: &World) {
        let listed = world.zfs_prints(LIST);
        for set in SETS {
            let names = listed.lines().filter_map(|name| name.strip_prefix(set)?.strip_prefix('@'));
            let found: BTreeSet<u64> = names.filter_map(number).collect();
            let lost: Vec<&u64> = self.kept.difference(&found).collect();
            assert!(lost.is_empty(), "{set}: snapshots {lost:?} are lost of {:?}", self.kept);
            let more = found.iter().filter(|it| !self.kept.contains(it) && !self.doubtful.contains(it));
            let more: Vec<&u64> = more.collect();
            assert!(more.is_empty(), "{set}: snapshots {more:?} are back, beside {:?}", self.kept);
        }
    }
}

/// The number in the name of a snapshot of this module.
fn number(snapshot: &str) -> Option<u64> {
    snapshot.strip_prefix("keep")?.parse().ok()
}

fn is_done(outcome: &CommandOutcome) -> bool {
    matches!(outcome, CommandOutcome::Done(_))
}
