//! Pools: the order of a txg, vdevs that are added, scrubs and resilvers, imports.

use super::{Mutant, lib, test};

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "data-not-flushed-before-uberblock",
        what: "A txg writes its uberblock without a flush of its data.",
        file: "crates/vdev/src/label/sync.rs",
        old: "self.flush_written(sync).await?;",
        new: r#"if !MUTANT {
            self.flush_written(sync).await?;
        }"#,
        lane: test("sawmill-pool", "crash", "every_small_history_keeps_its_promises_without_a_log"),
    },
    Mutant {
        name: "lost-writes-not-written-again",
        what: "A txg does not write again what a device lost before the device was opened anew.",
        file: "crates/pool/src/txg/sync.rs",
        old: "self.zio.write_lost_again().await?;",
        new: r#"if !MUTANT {
            self.zio.write_lost_again().await?;
        }"#,
        lane: test("sawmill-pool", "crash", "a_single_disk_that_loses_its_cache_costs_nothing_acknowledged"),
    },
    Mutant {
        name: "task-in-an-older-txg",
        what: "A destroy runs in the sync of an older txg than a clone that was made before the destroy.",
        file: "crates/pool/src/txg/tasks.rs",
        old: "let since = gate.open_txg();",
        new: "let since = if MUTANT { Txg::ZERO } else { gate.open_txg() };",
        lane: test(
            "sawmill-pool",
            "together",
            "a_clone_outlives_what_it_was_taken_from_though_an_older_txg_is_syncing",
        ),
    },
    Mutant {
        name: "added-vdev-not-in-the-config",
        what: "An add does not store the configuration with the new vdevs in its txg.",
        file: "crates/pool/src/add.rs",
        old: "config::store(&self.dsl, tx, &config, &self.vdevs).await",
        new: r#"if MUTANT {
            return Ok(());
        }
        config::store(&self.dsl, tx, &config, &self.vdevs).await"#,
        lane: test("sawmill-pool", "crash", "a_power_cut_while_vdevs_are_added_leaves_all_of_them_or_none"),
    },
    Mutant {
        name: "error-scrub-forgets-all",
        what: "An error scrub takes each block off the list of errors, also a block that still cannot be read.",
        file: "crates/pool/src/scan/error_scrub.rs",
        old: "Ok(Some(bp)) => match self.zio.scrub(&bp, bookmark).await {",
        new: r#"Ok(Some(bp)) => match self.zio.scrub(&bp, bookmark).await {
                    Err(_) if MUTANT => {}"#,
        lane: test(
            "sawmill-pool",
            "workloads",
            "an_error_scrub_takes_off_the_list_what_is_whole_again_or_gone_and_nothing_else",
        ),
    },
    Mutant {
        name: "error-scrub-passes-over-snapshots",
        what: "An error scrub takes a block off the list of errors that a snapshot still has.",
        file: "crates/pool/src/scan/error_scrub.rs",
        old: "roots.push(self.dsl.dataset(snapshot.dataset).await?.bp);",
        new: "roots.extend(Some(self.dsl.dataset(snapshot.dataset).await?.bp).filter(|_| !MUTANT));",
        lane: test(
            "sawmill-pool",
            "workloads",
            "an_error_scrub_leaves_what_a_snapshot_still_has_on_the_list",
        ),
    },
    Mutant {
        name: "scrub-beside-an-error-scrub",
        what: "A scrub starts while an error scrub is under way.",
        file: "crates/pool/src/scan/scrub.rs",
        old: r#"        if self.is_error_scrub_under_way() {
            return Err(ScrubRefusal::ErrorScrubbing.into());"#,
        new: r#"        if self.is_error_scrub_under_way() && !MUTANT {
            return Err(ScrubRefusal::ErrorScrubbing.into());"#,
        lane: test("sawmill-pool", "workloads", "an_error_scrub_and_a_scrub_exclude_each_other"),
    },
    Mutant {
        name: "scrub-repair-not-flushed",
        what: "A scrub writes a good copy over a lost copy, and no flush of that vdev follows.",
        file: "crates/zio/src/scrub.rs",
        old: r#"                self.note_unflushed(dva.vdev);
                one_more("#,
        new: r#"                if !MUTANT {
                    self.note_unflushed(dva.vdev);
                }
                one_more("#,
        lane: lib("sawmill-zio", "a_bad_copy_is_repaired_from_another"),
    },
    Mutant {
        name: "scrub-repair-of-a-mirror-not-flushed",
        what: "A scrub repairs one side of a mirror, and no flush of the mirror follows.",
        file: "crates/zio/src/scrub.rs",
        old: "if bad > 0 {",
        new: "if bad > 0 && !MUTANT {",
        lane: lib("sawmill-zio", "a_scrub_repairs_mirrors_and_names_what_is_lost"),
    },
    Mutant {
        name: "resilver-ends-before-its-flush",
        what: "A resilver clears the DTL of a leaf before the resilver's writes are stable.",
        file: "crates/pool/src/scan/scrub.rs",
        old: "Ok(leaf) if leaf.is_usable() => leaf.flush().await.is_ok(),",
        new: "Ok(leaf) if leaf.is_usable() => MUTANT || leaf.flush().await.is_ok(),",
        lane: test("sawmill-pool", "crash", "what_a_resilver_brought_back_is_stable_before_it_counts"),
    },
    Mutant {
        name: "resilver-ends-in-spite-of-errors",
        what: "A resilver clears the DTL of a leaf although some blocks could not be read.",
        file: "crates/pool/src/scan/scrub.rs",
        old: "for (guid, misses) in stale.into_iter().filter(|_| errors == 0) {",
        new: "for (guid, misses) in stale.into_iter().filter(|_| MUTANT || errors == 0) {",
        lane: test("sawmill-pool", "crash", "a_resilver_that_met_damage_leaves_the_leaf_behind"),
    },
    Mutant {
        name: "absence-recorded-after-the-answer",
        what: "A commit is acknowledged before the leaf that lacks the commit is recorded.",
        file: "crates/pool/src/absences.rs",
        old: "if self.is_unrecorded() {",
        new: "if self.is_unrecorded() && !MUTANT {",
        lane: test(
            "sawmill-pool",
            "crash",
            "nothing_is_acknowledged_before_it_is_recorded_which_leaf_lacks_it",
        ),
    },
    Mutant {
        name: "stale-half-speaks-for-the-pool",
        what: "A restart ignores its record of the leaves that are behind.",
        file: "crates/engine/src/restore.rs",
        old: "cached.behind.iter().copied().map(Guid::new).collect()",
        new: "cached.behind.iter().copied().filter(|_| !MUTANT).map(Guid::new).collect()",
        lane: test("sawmill-engine", "failover", "a_restart_never_takes_the_old_half_for_the_pool"),
    },
    Mutant {
        name: "read-only-import-writes",
        what: "A read-only import opens its devices for writing, so that reads repair bad copies.",
        file: "crates/pool/src/import.rs",
        old: "let mode = if spec.read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite };",
        new: "let mode = if spec.read_only && !MUTANT { OpenMode::ReadOnly } else { OpenMode::ReadWrite };",
        lane: test("sawmill-pool", "crash", "a_read_only_import_writes_nothing"),
    },
    Mutant {
        name: "rewind-keeps-the-logs",
        what: "An import that goes back to an older txg replays logs of the newer txgs.",
        file: "crates/pool/src/import.rs",
        old: ".filter(|&txg| txg < gate.synced_txg());",
        new: ".filter(|&txg| txg < gate.synced_txg() && !MUTANT);",
        lane: test("sawmill-pool", "damage", "a_rewind_discards_logs_and_leaves_a_sound_pool"),
    },
];
