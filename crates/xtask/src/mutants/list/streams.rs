//! Replication: the order of streams, and a tree that follows another tree.

use super::{Mutant, lib};

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
];
