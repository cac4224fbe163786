//! Datasets that several commands use at once, and snapshots that a command holds.

use super::{Mutant, lib, test};

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "destroyed-beside-openers",
        what: "A file system may be opened while it is being destroyed.",
        file: "crates/pool/src/dataset/destroy.rs",
        old: "let _nobody_opens_it = self.loading.write().await;",
        new: "let _nobody_opens_it = if MUTANT { None } else { Some(self.loading.write().await) };",
        lane: test(
            "sawmill-pool",
            "together",
            "a_file_system_is_destroyed_beside_readers_and_nobody_keeps_what_is_gone",
        ),
    },
    Mutant {
        name: "history-read-as-overwritten",
        what: "A reader of the history does not look for records that were overwritten meanwhile.",
        file: "crates/dsl/src/history.rs",
        old: "if at < oldest {",
        new: "if at < oldest && !MUTANT {",
        lane: test(
            "sawmill-pool",
            "together",
            "the_history_is_read_while_its_oldest_records_are_overwritten",
        ),
    },
    Mutant {
        name: "snapshot-of-a-partial-dataset",
        what: "A dataset that was received in part gets a snapshot.",
        file: "crates/dsl/src/snapshot.rs",
        old: "if self.dataset(of.dataset).await?.flags.get() & dataset_flags::INCONSISTENT != 0 {",
        new: "if self.dataset(of.dataset).await?.flags.get() & dataset_flags::INCONSISTENT != 0 && !MUTANT {",
        lane: test(
            "sawmill-pool",
            "together",
            "what_was_received_in_part_gets_no_snapshot_and_goes_with_its_dataset",
        ),
    },
    Mutant {
        name: "receive-leaves-its-dataset-idle",
        what: "A dataset is not busy while a stream is being received into the dataset.",
        file: "crates/pool/src/dataset/open.rs",
        old: "State::Receiving(receive) if receive.strong_count() > 0",
        new: "State::Receiving(receive) if !MUTANT && receive.strong_count() > 0",
        lane: test("sawmill-pool", "together", "a_receive_keeps_its_dataset_busy"),
    },
    Mutant {
        name: "received-reservation-not-checked",
        what: "Reservations and quotas of a receive are not checked before the stream is read.",
        file: "crates/pool/src/receive/place.rs",
        old: "self.check_order_props(order, is_new).await?;",
        new: r#"if !MUTANT {
            self.check_order_props(order, is_new).await?;
        }"#,
        lane: test(
            "sawmill-pool",
            "together",
            "what_a_receive_would_reserve_is_checked_before_the_stream_is_read",
        ),
    },
    Mutant {
        name: "pinned-snapshots-destroyed",
        what: "A snapshot that a send has still to send can be destroyed.",
        file: "crates/pool/src/dataset/readers.rs",
        old: "self.pins.contains_key(&objset)",
        new: "!MUTANT && self.pins.contains_key(&objset)",
        lane: test("sawmill-cli", "streams", "snapshots_that_are_to_be_sent_stay_until_the_send_ends"),
    },
    Mutant {
        name: "destroyed-dataset-known-again",
        what: "A dataset that a reader loads during its destroy is kept in memory.",
        file: "crates/dsl/src/known.rs",
        old: "let is_sound = known.1 == forgotten;",
        new: "let is_sound = MUTANT || known.1 == forgotten;",
        lane: lib("sawmill-dsl", "what_was_loaded_beside_a_destroy_is_not_kept"),
    },
    Mutant {
        name: "old-keys-of-a-deadlist-kept",
        what: "Keys of a deadlist that a reader reads during a change are kept in memory.",
        file: "crates/dsl/src/dataset/deadlist/keys.rs",
        old: "if known.changes == before.0 {",
        new: "if MUTANT || known.changes == before.0 {",
        lane: lib("sawmill-dsl", "keys_that_were_read_beside_a_change_are_not_kept"),
    },
    Mutant {
        name: "snapshot-of-a-comparison-stays",
        what: "The snapshot of zfs diff stays if another program reads the snapshot at the end.",
        file: "crates/engine/src/diff.rs",
        old: "Err(PoolError::Busy { .. }) => return ControlFlow::Continue(()),",
        new: "Err(PoolError::Busy { .. }) if !MUTANT => return ControlFlow::Continue(()),",
        lane: test(
            "sawmill-cli",
            "programs",
            "a_comparison_leaves_no_snapshot_when_somebody_reads_it_or_the_daemon_dies",
        ),
    },
    Mutant {
        name: "temporary-hold-outlives-a-crash",
        what: "An import does not release the temporary holds of the daemon that was killed.",
        file: "crates/pool/src/import.rs",
        old: "self.release_temporary_holds().await?;",
        new: r#"if !MUTANT {
                self.release_temporary_holds().await?;
            }"#,
        lane: test(
            "sawmill-cli",
            "programs",
            "a_comparison_leaves_no_snapshot_when_somebody_reads_it_or_the_daemon_dies",
        ),
    },
];
