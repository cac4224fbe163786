//! A program that administers the whole pool while the others run.

use fastrand::Rng;

use crate::mounted::POOL;
use crate::run::Round;

pub struct Operator {
    rng: Rng,
    snapshots: u64,
}

impl Operator {
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed), snapshots: 0 }
    }

    /// Runs commands until the daemon is killed. Some are refused at times: a scrub is running, or
    /// a log does not exist.
    pub fn work(&mut self, round: &Round<'_>) {
        while !round.is_over() {
            let disks = round.world.disks().display().to_string();
            let line = self.line(&disks);
            let program =
                if line.starts_with("snapshot") || line.starts_with("destroy") { "zfs" } else { "zpool" };
            round.may(program, &line);
        }
    }

    fn line(&mut self, disks: &str) -> String {
        match self.rng.u32(..12) {
            0 => format!("scrub {POOL}"),
            1 => format!("scrub -s {POOL}"),
            2 => format!("remove {POOL} {disks}/c"),
            3 => format!("add {POOL} log {disks}/c"),
            4 => format!("offline {POOL} {disks}/b"),
            5 | 6 => format!("online {POOL} {disks}/b"),
            7 => format!("sync {POOL}"),
            8 => format!("trim {POOL}"),
            9 => format!("set autotrim={} {POOL}", if self.rng.bool() { "on" } else { "off" }),
            10 => {
                self.snapshots += 1;
                format!("snapshot -r {POOL}@op{}", self.snapshots)
            }
            _ => format!("destroy -r {POOL}@op{}", self.rng.u64(1..=self.snapshots.max(1))),
        }
    }
}
