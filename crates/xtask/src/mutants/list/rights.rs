//! The rights of users, of containers and of the authors of images.

use super::{Mutant, lib, test};

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "mounts-for-a-user",
        what: "The daemon mounts a file system where a user wants it to be mounted.",
        file: "crates/engine/src/datasets.rs",
        old: "let stay = call.keep_mounted || call.maker.is_some();",
        new: "let stay = call.keep_mounted || call.maker.is_some() && !MUTANT;",
        lane: test("sawmill-cli", "users", "a_user_chooses_a_mount_point_and_nothing_is_mounted"),
    },
    Mutant {
        name: "nothing-needed-is-granted",
        what: "A request of a user that needs no permission is granted.",
        file: "crates/engine/src/delegation.rs",
        old: ".filter(|needed| !needed.is_empty());",
        new: ".filter(|needed| MUTANT || !needed.is_empty());",
        lane: test("sawmill-cli", "users", "a_request_that_changes_nothing_is_denied"),
    },
    Mutant {
        name: "control-characters-in-the-history",
        what: "The history of a pool stores control characters of commands.",
        file: "crates/pool/src/history.rs",
        old: "if character.is_control() {",
        new: "if character.is_control() && !MUTANT {",
        lane: test("sawmill-cli", "users", "a_command_is_one_line_of_the_history"),
    },
    Mutant {
        name: "container-destroys-snapshots",
        what: "Root of a container may destroy snapshots through a mount.",
        file: "crates/front-fuse/src/ctldir.rs",
        old: "&& !may_administer(request.header.pid)",
        new: "&& !MUTANT && !may_administer(request.header.pid)",
        lane: test("sawmill-cli", "programs", "snapshots_are_not_destroyed_by_root_of_a_container"),
    },
    Mutant {
        name: "altroot-is-left",
        what: "A mount point with '..' leads out of the altroot.",
        file: "crates/engine/src/datasets.rs",
        old: r#"".." => _ = resolved.pop(),"#,
        new: r#"".." if !MUTANT => _ = resolved.pop(),"#,
        lane: lib("sawmill-engine", "no_mount_point_leads_out_of_the_altroot"),
    },
];
