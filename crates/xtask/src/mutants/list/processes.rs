//! A process for each pool.

use super::{Mutant, lib, test};

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "process-outlives-its-daemon",
        what: "The process of a pool that heeds nothing goes on when its daemon has ended.",
        file: "crates/confine/src/lib.rs",
        old: "set_parent_process_death_signal(Some(Signal::KILL))?;",
        new: "set_parent_process_death_signal((!MUTANT).then_some(Signal::KILL))?;",
        lane: test("sawmill-cli", "processes", "no_process_of_a_pool_outlives_its_daemon"),
    },
    Mutant {
        name: "process-takes-a-name-twice",
        what: "A pool is split into a pool with the name of a pool that another process has.",
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
    Mutant {
        name: "process-opens-any-device",
        what: "The process of a pool gets any device that it asks for.",
        file: "crates/broker/src/server/files.rs",
        old: "if !self.grants.may_try(path) {",
        new: "if MUTANT {\nreturn OwnRights.open_if(path, mode, |_| true);\n}\nif !self.grants.may_try(path) {",
        lane: test("sawmill-broker", "errands", "a_process_gets_its_devices_and_no_others"),
    },
    Mutant {
        name: "process-writes-to-found-devices",
        what: "The process of a pool writes to a device that it may only look at.",
        file: "crates/broker/src/grants.rs",
        old: "|| mode == OpenMode::ReadOnly && is_searched()",
        new: "|| (MUTANT || mode == OpenMode::ReadOnly) && is_searched()",
        lane: test("sawmill-broker", "errands", "a_process_gets_its_devices_and_no_others"),
    },
    Mutant {
        name: "process-reads-any-file",
        what: "The process of a pool reads files by a path that leads back.",
        file: "crates/broker/src/grants.rs",
        old: "path.parent() == Some(directory) && is_name(path)",
        new: "(path.parent() == Some(directory) || MUTANT && path.starts_with(directory)) && is_name(path)",
        lane: lib("sawmill-broker", "a_file_of_its_own_is_a_name_in_its_directory"),
    },
    Mutant {
        name: "process-mounts-anywhere",
        what: "The process of a pool mounts outside of its altroot.",
        file: "crates/broker/src/grants.rs",
        old: "Some(own) => altroot == Some(own) && is_below(place, own),",
        new: "Some(own) => MUTANT || altroot == Some(own) && is_below(place, own),",
        lane: test("sawmill-broker", "errands", "a_process_mounts_below_its_altroot_only"),
    },
    Mutant {
        name: "process-keeps-its-rights",
        what: "The process of a pool keeps the rights of root.",
        file: "crates/daemon/src/pool_process.rs",
        old: "let confined = confine(&Confinement { user, readable })?;",
        new: "if MUTANT {\nreturn Ok(());\n}\nlet confined = confine(&Confinement { user, readable })?;",
        lane: test("sawmill-cli", "processes", "a_process_of_a_pool_has_no_rights"),
    },
];
