//! A program that reads everything, and takes no turn.

use fastrand::Rng;

use crate::mounted::POOL;
use crate::run::Round;

/// The commands that it repeats. The first word is the program.
const LINES: &[&str] = &[
    "zpool status",
    "zpool list -v",
    "zpool iostat -v",
    "zpool history",
    "zpool get all tank",
    "zfs list -t all -r tank",
    "zfs get -r all tank",
];
/// Commands on a dataset that may be destroyed by then.
const OF_ONE: &[&str] = &["userspace", "get userused@0", "list -t all", "get written", "mount"];

pub struct Observer {
    rng: Rng,
}

impl Observer {
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed) }
    }

    /// Reads until the daemon is killed.
    pub fn work(&mut self, round: &Round<'_>) {
        while !round.is_over() {
            let line = self.rng.choice(LINES).expect("lines");
            let (program, words) = line.split_once(' ').expect("a program");
            round.reads(program, words);
            let Some(names) = round.may("zfs", &format!("list -H -o name -t all -r {POOL}")) else {
                continue;
            };
            let Some(name) = self.rng.choice(names.lines().collect::<Vec<_>>()) else { continue };
            self.look_at(round, name);
        }
    }

    fn look_at(&mut self, round: &Round<'_>, name: &str) {
        match (name.contains('@'), self.rng.u32(..3)) {
            (true, 0) => drop(round.may("zfs", &format!("send -nv {name}"))),
            (true, 1) => {
                let zfs = round.world.run_dir().with_file_name("bin").join("zfs");
                round.pipe(&format!("{} send {name} > /dev/null", zfs.display()));
            }
            (true, _) => {}
            (false, _) => {
                let words = self.rng.choice(OF_ONE).expect("words");
                let line = if *words == "mount" { "mount".to_owned() } else { format!("{words} {name}") };
                round.may("zfs", &line);
            }
        }
    }
}
