//! Replication: streams that are sent and received, and a tree that follows another tree.

use super::{Mutant, lib, test};

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "clone-sent-before-its-origin",
        what: "A replication package has the stream of a clone before the stream of the clone's origin.",
        file: "crates/engine/src/package/streams.rs",
        old: "!self.waits_for_parent(at) && !self.waits_for_origin(at) {",
        new: "!self.waits_for_parent(at) && (MUTANT || !self.waits_for_origin(at)) {",
        lane: lib("sawmill-engine", "datasets_are_sent_after_those_above_them_and_those_they_are_clones_of"),
    },
    Mutant {
        name: "promoted-clone-not-sent",
        what: "A clone and the dataset of its origin are not sent if each waits for the other.",
        file: "crates/engine/src/package/streams.rs",
        old: "let Some(at) = stuck else { return Ok(order) };",
        new: "let Some(at) = stuck.filter(|_| !MUTANT) else { return Ok(order) };",
        lane: lib("sawmill-engine", "a_promoted_clone_below_its_origin_is_sent_as_it_was_before"),
    },
    Mutant {
        name: "dataset-missing-in-a-package",
        what: "A package may lack a dataset, and no error names the dataset.",
        file: "crates/engine/src/package/streams.rs",
        old: "Err(PackageError::LeftOut { dataset: branch.member.name.clone() })",
        new: r#"if MUTANT {
            return Ok(streams);
        }
        Err(PackageError::LeftOut { dataset: branch.member.name.clone() })"#,
        lane: lib("sawmill-engine", "a_dataset_without_the_last_snapshot_is_an_error_that_names_it"),
    },
    Mutant {
        name: "excluded-dataset-not-listed",
        what: "A package does not list the datasets that are excluded.",
        file: "crates/engine/src/gather.rs",
        old: "let Some(tosnap_txg) = to else { continue };",
        new: "let Some(tosnap_txg) = to.filter(|_| !(MUTANT && is_left_out)) else { continue };",
        lane: test("sawmill-cli", "streams", "what_is_excluded_stays_on_the_replica"),
    },
    Mutant {
        name: "source-found-in-another-dataset",
        what: "A stream that goes on starts from any snapshot of the pool with the right guid.",
        file: "crates/engine/src/by_guid.rs",
        old: "let view = held.pool.view().await;",
        new: r#"if MUTANT {
            return self.snapshot_near(held, &held.pool.name(), guid).await;
        }
        let view = held.pool.view().await;"#,
        lane: test("sawmill-cli", "streams", "what_is_received_in_part_goes_on_from_its_own_history"),
    },
    Mutant {
        name: "earlier-token-refused",
        what: "A receive refuses a stream that begins before the end of the part that was kept.",
        file: "crates/pool/src/receive/resume.rs",
        old: "object.zip(offset).is_some_and(|begins| begins <= (state.point.object, state.point.offset));",
        new: r#"object.zip(offset).is_some_and(|begins| {
                let end = (state.point.object, state.point.offset);
                if MUTANT { begins == end } else { begins <= end }
            });"#,
        lane: test("sawmill-cli", "streams", "a_token_that_was_read_too_early_leads_to_the_same_end"),
    },
    Mutant {
        name: "embedded-spill-block-refused",
        what: "A spill block that lies in its pointer is received as a block of the file.",
        file: "crates/stream/src/receive/blocks.rs",
        old: "match is_spill(write) {",
        new: "match is_spill(write) && !MUTANT {",
        lane: lib("sawmill-pool", "a_spill_block_that_lies_in_its_pointer_is_received_as_one"),
    },
    Mutant {
        name: "missing-target-created",
        what: "A receive with -d or -e creates a target that does not exist.",
        file: "crates/engine/src/receive.rs",
        old: "if call.naming != ReceiveNaming::Target && !call.target.contains('@') {",
        new: "if !MUTANT && call.naming != ReceiveNaming::Target && !call.target.contains('@') {",
        lane: test("sawmill-cli", "streams", "a_target_that_is_not_there_or_in_the_way_is_refused"),
    },
    Mutant {
        name: "kept-part-prevents-destroy",
        what: "A recursive destroy does not destroy the part of a stream that was kept for a dataset.",
        file: "crates/engine/src/datasets.rs",
        old: "for head in &heads {",
        new: "for head in heads.iter().filter(|_| !MUTANT) {",
        lane: test(
            "sawmill-cli",
            "streams",
            "what_is_kept_of_a_stream_gets_no_snapshot_and_goes_with_its_dataset",
        ),
    },
    Mutant {
        name: "receive-leaves-extra-snapshots",
        what: "A forced receive leaves snapshots that the sender does not have.",
        file: "crates/engine/src/align/plan.rs",
        old: "None if self.force => going.push(full(snap)),",
        new: "None if self.force && !MUTANT => going.push(full(snap)),",
        lane: lib("sawmill-engine", "what_the_sender_has_not_goes_from_below"),
    },
    Mutant {
        name: "promotion-chain-not-followed",
        what: "A receive does not follow a promotion past the first origin of a chain of clones.",
        file: "crates/engine/src/align/plan.rs",
        old: "older.extend(guids.chain(owner.origin));",
        new: "older.extend(guids.chain(owner.origin.filter(|_| !MUTANT)));",
        lane: lib("sawmill-engine", "a_promotion_is_followed_along_a_chain_of_clones"),
    },
    Mutant {
        name: "dataset-not-moved-below-a-new-one",
        what: "A receive does not move a dataset below another dataset of the package.",
        file: "crates/engine/src/align/plan.rs",
        old: "(Some(at), Some(theirs)) => counterparts[at] == Some(theirs),",
        new: "(Some(at), Some(theirs)) => counterparts[at] == Some(theirs) && !MUTANT,",
        lane: lib("sawmill-engine", "a_dataset_whose_place_is_not_there_yet_waits_where_it_is"),
    },
    Mutant {
        name: "tree-not-aligned-after-streams",
        what: "A receive does not align the tree with the package after the streams were received.",
        file: "crates/engine/src/receive.rs",
        old: "self.align_with(&held, call, &whole, Moment::After).await?;",
        new: r#"if !MUTANT {
            self.align_with(&held, call, &whole, Moment::After).await?;
        }"#,
        lane: test("sawmill-cli", "streams", "a_promoted_clone_below_its_origin_is_replicated"),
    },
];
