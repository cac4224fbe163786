//! A process for each pool.

use super::{Mutant, test};

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "process-outlives-its-daemon",
        what: "The process of a pool goes on when its daemon has ended.",
        file: "crates/daemon/src/pool_process.rs",
        old: "while input.read(&mut [0]).is_ok_and(|read| read > 0) {}",
        new: "while input.read(&mut [0]).is_ok_and(|read| MUTANT || read > 0) {}",
        lane: test("sawmill-cli", "processes", "no_process_of_a_pool_outlives_its_daemon"),
    },
    Mutant {
        name: "process-takes-a-name-twice",
        what: "A pool is imported under the name of a pool that another process has.",
        file: "crates/engine/src/siblings.rs",
        old: "any(|sibling| sibling.pool == name)",
        new: "any(|sibling| sibling.pool == name && !MUTANT)",
        lane: test("sawmill-cli", "processes", "two_pools_of_one_name_are_not_open_at_once"),
    },
    Mutant {
        name: "process-starts-without-end",
        what: "A pool whose processes end again and again is opened again and again.",
        file: "crates/supervisor/src/deaths.rs",
        old: "self.0.len() < MOST",
        new: "MUTANT || self.0.len() < MOST",
        lane: test("sawmill-cli", "processes", "a_pool_whose_processes_end_again_and_again_stays_closed"),
    },
    Mutant {
        name: "process-loses-mounts-below",
        what: "A pool that is mounted below a pool whose process has ended is not mounted again.",
        file: "crates/supervisor/src/watch.rs",
        old: "inner.mount_those(&inner.seats.all(), &Mount::default())",
        new: "inner.mount_those(&if MUTANT { Vec::new() } else { inner.seats.all() }, &Mount::default())",
        lane: test(
            "sawmill-cli",
            "processes",
            "a_pool_whose_process_ends_loses_nothing_and_no_other_pool_notices",
        ),
    },
];
