//! Mounts that follow their datasets: all or none, in order, in place.

use super::{Mutant, test};

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "dead-mounts-stay-dead",
        what: "After a kill, only the mounts that properties ask for are made again.",
        file: "crates/engine/src/mounting.rs",
        old: "let mut due = self.orphans(&held).await;",
        new: "let mut due = if MUTANT { Vec::new() } else { self.orphans(&held).await };",
        lane: test("sawmill-cli", "programs", "what_was_mounted_is_mounted_again_after_a_kill"),
    },
    Mutant {
        name: "rename-forgets-the-mount",
        what: "A rename that keeps the mount leaves the mount under the old name of the dataset.",
        file: "crates/engine/src/rename.rs",
        old: "self.mounts.rename_below(name, new);",
        new: r#"if !MUTANT {
            self.mounts.rename_below(name, new);
        }"#,
        lane: test("sawmill-cli", "programs", "a_data_set_that_is_renamed_in_place_keeps_its_one_mount"),
    },
    Mutant {
        name: "parent-hides-its-child",
        what: "A file system is mounted over mounts below its mount point.",
        file: "crates/engine/src/taken.rs",
        old: "path.starts_with(place) && path != place",
        new: "!MUTANT && path.starts_with(place) && path != place",
        lane: test("sawmill-cli", "programs", "a_parent_is_never_mounted_over_its_child"),
    },
    Mutant {
        name: "only-one-mount-comes-back",
        what: "A change of a mount point mounts only one of the datasets again.",
        file: "crates/engine/src/taken.rs",
        old: "for one in &coming {",
        new: "for one in coming.iter().take(if MUTANT { 1 } else { usize::MAX }) {",
        lane: test("sawmill-cli", "programs", "what_was_mounted_below_is_mounted_again_at_the_new_place"),
    },
    Mutant {
        name: "refused-change-stays",
        what: "A mount point stays set although nothing can be mounted there.",
        file: "crates/engine/src/prop_change.rs",
        old: "let failure = match self.store(held, back).await {",
        new: r#"let restored = if MUTANT { Ok(()) } else { self.store(held, back).await };
        let failure = match restored {"#,
        lane: test("sawmill-cli", "programs", "what_is_refused_has_changed_nothing"),
    },
    Mutant {
        name: "unmount-leaves-what-is-below",
        what: "An unmount leaves the file systems below mounted.",
        file: "crates/engine/src/mounting.rs",
        old: "let mut those: Vec<_> = self.mounts.entries().into_iter().filter(is_below).collect();",
        new: r#"let meant = |other: &Arc<Entry>| is_below(other) && !MUTANT;
        let mut those: Vec<_> = self.mounts.entries().into_iter().filter(meant).collect();"#,
        lane: test("sawmill-cli", "programs", "an_unmount_takes_along_its_descendants"),
    },
    Mutant {
        name: "mount-writes-to-a-replica",
        what: "A mount begins the log of a dataset that has not changed since its latest snapshot.",
        file: "crates/pool/src/dataset.rs",
        old: "let primes = self.has_changed(open).await?;",
        new: "let primes = MUTANT || self.has_changed(open).await?;",
        lane: test("sawmill-cli", "programs", "a_mount_alone_writes_nothing_to_a_replica"),
    },
    Mutant {
        name: "rollback-unmounts",
        what: "A rollback unmounts the file system and fails while a file is open.",
        file: "crates/engine/src/in_place.rs",
        old: ".find(|entry| entry.is_of(dataset))",
        new: ".find(|entry| entry.is_of(dataset) && !MUTANT)",
        lane: test("sawmill-cli", "programs", "open_files_go_on_with_what_a_rollback_brought_back"),
    },
];
