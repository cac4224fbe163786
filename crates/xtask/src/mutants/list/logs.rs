//! The intent log: commits, claim, replay.

use super::{Mutant, lib, test};

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "commit-of-one-block-not-stable",
        what: "A commit of one block is acknowledged after a cached write without a flush.",
        file: "crates/zil/src/commit/flight.rs",
        old: "let durability = |vdev| if load[&vdev] == 1 {",
        new: "let durability = |vdev| if load[&vdev] == 1 && !MUTANT {",
        lane: test("sawmill-pool", "crash", "every_small_history_keeps_its_promises_with_a_log"),
    },
    Mutant {
        name: "commit-of-many-blocks-not-flushed",
        what: "A commit of several blocks is acknowledged before the flush.",
        file: "crates/zil/src/commit/flight.rs",
        old: "let crowded = load.iter().filter(|&(_, &blocks)| blocks > 1);",
        new: "let crowded = load.iter().filter(|&(_, &blocks)| blocks > 1 && !MUTANT);",
        lane: lib("sawmill-zil", "large_writes_are_split_over_blocks_and_flushed_once"),
    },
    Mutant {
        name: "failed-commit-acknowledged",
        what: "A commit is acknowledged although the write of its block failed.",
        file: "crates/zil/src/commit/flight.rs",
        old: "let failures = failures.filter_map(|done| done.result.err());",
        new: "let failures = failures.filter_map(|done| done.result.err().filter(|_| !MUTANT));",
        lane: lib("sawmill-zil", "a_failure_at_any_io_loses_nothing_acknowledged"),
    },
    Mutant {
        name: "commit-beside-a-reopened-device",
        what: "A commit counts although a device was opened anew during the commit.",
        file: "crates/zil/src/commit/flight.rs",
        old: "let lost = is_suspect.then_some(ZilError::Reopened);",
        new: "let lost = (is_suspect && !MUTANT).then_some(ZilError::Reopened);",
        lane: lib("sawmill-zil", "a_device_opened_anew_before_any_io_loses_nothing_acknowledged"),
    },
    Mutant {
        name: "claim-drops-the-last-record",
        what: "The claim of a log ends one record before the last.",
        file: "crates/zil/src/claim.rs",
        old: "header.claim_lr_seq = reach.lr_seq.get().into();",
        new: "header.claim_lr_seq = reach.lr_seq.get().saturating_sub(u64::from(MUTANT)).into();",
        lane: test("sawmill-pool", "crash", "every_small_history_keeps_its_promises_without_a_log"),
    },
    Mutant {
        name: "claim-allocates-nothing",
        what: "The claim of a log leaves the log's blocks free.",
        file: "crates/zil/src/claim.rs",
        old: "bp.birth() < first_txg || !seen.insert(bp) ||",
        new: "MUTANT || bp.birth() < first_txg || !seen.insert(bp) ||",
        lane: lib("sawmill-zil", "claimed_log_blocks_are_never_handed_out_again"),
    },
    Mutant {
        name: "claim-without-references",
        what: "The claim of a log takes no reference to the blocks that clone records name.",
        file: "crates/zil/src/claim.rs",
        old: "self.core.store.claim_clone(first_txg, bp)?;",
        new: r#"if !MUTANT {
                self.core.store.claim_clone(first_txg, bp)?;
            }"#,
        lane: lib(
            "sawmill-zil",
            "references_to_cloned_blocks_are_taken_at_claim_and_given_back_after_replay",
        ),
    },
    Mutant {
        name: "replay-out-of-order",
        what: "Replay applies a record about names before earlier records about contents.",
        file: "crates/zil/src/replay.rs",
        old: r#"self.replay_lanes(into, std::mem::take(&mut waiting), &mut report).await?;
                        report.add("#,
        new: r#"if !MUTANT {
                            self.replay_lanes(into, std::mem::take(&mut waiting), &mut report).await?;
                        }
                        report.add("#,
        lane: lib("sawmill-zil", "objects_are_replayed_side_by_side_and_names_alone"),
    },
    Mutant {
        name: "replay-begins-anew",
        what: "A replay that is resumed applies records again that are stable.",
        file: "crates/zil/src/replay.rs",
        old: "if raw.seq() <= first || raw.txg() < claim_txg {",
        new: "if (raw.seq() <= first && !MUTANT) || raw.txg() < claim_txg {",
        lane: lib("sawmill-zil", "replay_resumes_after_a_crash_at_each_record"),
    },
];
