//! Snapshots of the database's file system, each of which is sent to a second pool of the same
//! daemon: what is new since the snapshot before, or the rest of a stream that a kill cut off.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::progress::SoakProgress;
use super::run::{CommandOutcome, Round};
use super::{MEMORY_MIB, pause};
use crate::mounted::World;
use crate::replicas::Pair;

/// The second pool.
pub const COPIES: &str = "copies";
pub const COPY: &str = "copies/data";
const SOURCE: &str = "tank/data";
const KEPT: usize = 3;
const PAUSE: Duration = Duration::from_secs(2);

/// Where the second pool's device is, apart from those of the first pool.
pub fn disks(world: &World) -> PathBuf {
    world.run_dir().with_file_name("copies")
}

/// Makes the second pool, which has no mount point.
pub fn create_pool(world: &World, disk_mib: u64) {
    fs::create_dir(disks(world)).expect("a directory");
    let disk = disks(world).join("e");
    fs::File::create(&disk).and_then(|file| file.set_len(disk_mib << 20)).expect("a disk");
    world.zpool(&format!("create -m none {COPIES} {}", disk.display()));
}

#[derive(Default)]
pub struct Replication {
    /// The number of the newest snapshot that a command was to take.
    newest: usize,
}

impl Replication {
    pub fn work(&mut self, round: &Round<'_>, progress: &SoakProgress) {
        while !round.is_over() {
            self.step(round, progress);
            pause(round, PAUSE);
        }
    }

    /// Takes a snapshot, and sends until the copy has the snapshot.
    pub fn step(&mut self, round: &Round<'_>, progress: &SoakProgress) {
        // No number is used twice, because a command that a kill cut off may have taken its snapshot.
        self.newest += 1;
        let line = format!("snapshot {SOURCE}@{}", self.newest);
        if !matches!(round.must("zfs", &line), CommandOutcome::Done(_)) {
            return;
        }
        let pair = Pair { from: round.world, to: round.world, copy: COPY, since: "-i" };
        while let Some(what) = pair.next(self.newest) {
            // `next` may have met the kill, and then its answer does not describe the copy.
            if round.is_over() {
                return;
            }
            // After a kill, one of the two programs may start the next daemon, with this budget.
            let script = format!("export SAWMILL_MEMORY={MEMORY_MIB}m; {}", pair.line(&what, ""));
            let (is_done, err) = round.pipe(&script);
            if is_done {
                progress.sends.fetch_add(1, Ordering::Relaxed);
            } else if !round.is_over() {
                assert!(Round::is_busy(&err), "{script}: {err}");
                pause(round, PAUSE);
            }
        }
        [SOURCE, COPY].iter().for_each(|set| self.retire(round, set));
    }

    /// Destroys all snapshots of this module but the newest few.
    fn retire(&self, round: &Round<'_>, set: &str) {
        let Some(names) = round.may("zfs", &format!("list -Ho name -t snapshot {set}")) else { return };
        let numbers = names.lines().filter_map(|name| name.split('@').nth(1)?.parse::<usize>().ok());
        for number in numbers.filter(|number| number + KEPT <= self.newest) {
            if round.is_over() {
                return;
            }
            round.must("zfs", &format!("destroy {set}@{number}"));
        }
    }
}
