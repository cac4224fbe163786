//! Blocks that cannot be read, and places that take no writes.

use super::{Mutant, lib, test};

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "damaged-file-ends-the-delete-queue",
        what: "A damaged object in the delete queue keeps the others from being freed.",
        file: "crates/zpl/src/unlink.rs",
        old: "Err(error) if error.is_loss() => {",
        new: "Err(error) if error.is_loss() && !MUTANT => {",
        lane: lib("sawmill-zpl", "a_damaged_object_stays_in_the_delete_queue_and_the_others_are_freed"),
    },
    Mutant {
        name: "damaged-block-ends-a-free",
        what: "A txg fails where an indirect block of a removed file cannot be read.",
        file: "crates/dmu/src/sync_read.rs",
        old: "error.is_loss() && self.goes_on()",
        new: "error.is_loss() && self.goes_on() && !MUTANT",
        lane: test(
            "sawmill-pool",
            "damage",
            "what_lies_below_a_damaged_indirect_block_is_leaked_counted_and_named",
        ),
    },
    Mutant {
        name: "damaged-gang-header-ends-a-free",
        what: "A txg fails where the header of a freed gang cannot be read.",
        file: "crates/zio/src/gang.rs",
        old: "match error.is_loss() {",
        new: "match error.is_loss() && !MUTANT {",
        lane: test("sawmill-pool", "damage", "a_gang_whose_header_is_damaged_is_freed_without_its_members"),
    },
    Mutant {
        name: "damaged-space-map-forbids-import",
        what: "An import fails where a space map cannot be read.",
        file: "crates/pool/src/space/maps.rs",
        old: r#"match self.read_metaslab(dsl, zio, place, logs).await {
            Err(error) if error.is_loss() => {"#,
        new: r#"match self.read_metaslab(dsl, zio, place, logs).await {
            Err(error) if error.is_loss() && !MUTANT => {"#,
        lane: test("sawmill-pool", "damage", "a_damaged_space_map_takes_its_metaslab_out_of_use"),
    },
    Mutant {
        name: "read-only-import-needs-space-maps",
        what: "A read-only import fails where a log of space maps cannot be read.",
        file: "crates/pool/src/import.rs",
        old: "true => space_maps.load_to_look(&dsl, &zio, &mapped).await,",
        new: r#"true if MUTANT => space_maps.load(&dsl, &zio, &mapped).await?,
        true => space_maps.load_to_look(&dsl, &zio, &mapped).await,"#,
        lane: test("sawmill-pool", "damage", "a_damaged_space_map_takes_its_metaslab_out_of_use"),
    },
    Mutant {
        name: "damaged-history-forbids-import",
        what: "An import fails where the history of the pool cannot be read.",
        file: "crates/dsl/src/history.rs",
        old: "Err(error) if error.is_loss() && SyncRead::Record.goes_on() => {",
        new: "Err(error) if error.is_loss() && SyncRead::Record.goes_on() && !MUTANT => {",
        lane: test("sawmill-pool", "damage", "a_damaged_history_begins_anew"),
    },
    Mutant {
        name: "metaslab-of-a-bad-place-not-avoided",
        what: "Blocks are still placed in a metaslab after one of its places took no write.",
        file: "crates/zio/src/write.rs",
        old: "if !error.is_absence() && !self.vdevs.unusable().contains(&dva.vdev) {",
        new: "if !MUTANT && !error.is_absence() && !self.vdevs.unusable().contains(&dva.vdev) {",
        lane: lib("sawmill-zio", "a_block_goes_elsewhere_at_once_when_its_place_takes_no_writes"),
    },
];
