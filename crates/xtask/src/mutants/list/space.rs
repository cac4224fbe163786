//! Free space: when it is used again, discarded, leaked; blocks that files share.

use super::{Mutant, lib, test};

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "freed-space-reused-at-once",
        what: "Space is allocated again as soon as the txg that freed the space is stable.",
        file: "crates/metaslab/src/rest.rs",
        old: "    rests().0\n",
        new: "    if MUTANT { 0 } else { rests().0 }\n",
        lane: test("sawmill-pool", "crash", "the_txgs_before_the_last_are_whole_in_every_image"),
    },
    Mutant {
        name: "freed-space-trimmed-too-early",
        what: "Freed space is discarded one txg before the space is free again.",
        file: "crates/metaslab/src/rest.rs",
        old: "    rests().1\n",
        new: "    rests().1 - u64::from(MUTANT)\n",
        lane: test("sawmill-pool", "crash", "the_txgs_before_the_last_are_whole_in_every_image"),
    },
    Mutant {
        name: "freed-space-never-reused",
        what: "Freed space rests for ever.",
        file: "crates/metaslab/src/metaslab.rs",
        old: "while self.resting.front().is_some_and(",
        new: "while !MUTANT && self.resting.front().is_some_and(",
        lane: lib("sawmill-metaslab", "freed_space_rests_until_two_more_txgs_are_done"),
    },
    Mutant {
        name: "block-reused-in-its-own-txg",
        what: "A block that is allocated and freed in one txg does not rest.",
        file: "crates/metaslab/src/metaslab.rs",
        old: r#"        self.check_allocated(txg, segment)?;
        let pending = self.pending_mut(txg);"#,
        new: r#"        self.check_allocated(txg, segment)?;
        if MUTANT && self.pending_mut(txg).allocs.covers(segment) {
            return self.unalloc(txg, segment);
        }
        let pending = self.pending_mut(txg);"#,
        lane: lib("sawmill-metaslab", "space_freed_in_the_txg_that_allocated_it_leaves_no_record_but_rests"),
    },
    Mutant {
        name: "sealed-metaslab-allocates",
        what: "A metaslab whose space map is lost counts as empty.",
        file: "crates/metaslab/src/metaslab.rs",
        old: "self.load([].into_iter())?;",
        new: r#"self.load([].into_iter())?;
        if MUTANT {
            return Ok(());
        }"#,
        lane: test("sawmill-pool", "damage", "a_damaged_space_map_takes_its_metaslab_out_of_use"),
    },
    Mutant {
        name: "deferred-frees-never-done",
        what: "No txg frees the blocks that the txg before it put on the list of deferred frees.",
        file: "crates/pool/src/txg/sync.rs",
        old: "self.deferred.free_all(tx, &self.zio).await?;",
        new: r#"if !MUTANT {
            self.deferred.free_all(tx, &self.zio).await?;
        }"#,
        lane: test("sawmill-pool", "crash", "what_a_group_defers_is_freed_by_the_next"),
    },
    Mutant {
        name: "leak-not-counted",
        what: "Space below a damaged block is leaked and not added to the leaked space.",
        file: "crates/pool/src/space/free.rs",
        old: "self.dsl.add_leaked_space(tx, SpaceDelta { used, ..SpaceDelta::default() }).await?;",
        new: r#"if !MUTANT {
            self.dsl.add_leaked_space(tx, SpaceDelta { used, ..SpaceDelta::default() }).await?;
        }"#,
        lane: test(
            "sawmill-pool",
            "damage",
            "what_lies_below_a_damaged_indirect_block_is_leaked_counted_and_named",
        ),
    },
    Mutant {
        name: "damaged-list-ends-the-txg",
        what: "A txg fails where a deadlist cannot be read.",
        file: "crates/dsl/src/bpobj.rs",
        old: "error.is_loss() && SyncRead::FreeList.goes_on()",
        new: "error.is_loss() && SyncRead::FreeList.goes_on() && !MUTANT",
        lane: test("sawmill-pool", "damage", "a_damaged_bpobj_gives_what_can_be_read_and_counts_the_rest"),
    },
    Mutant {
        name: "shared-block-freed",
        what: "A block is freed with the first of the files that share the block.",
        file: "crates/pool/src/shared/brt.rs",
        old: "if self.counts.get(range).is_none_or(|&count| count == 0) {",
        new: "if MUTANT || self.counts.get(range).is_none_or(|&count| count == 0) {",
        lane: test(
            "sawmill-pool",
            "together",
            "a_clone_outlives_what_it_was_taken_from_though_an_older_txg_is_syncing",
        ),
    },
    Mutant {
        name: "livelist-without-frees",
        what: "The livelist of a clone does not record the blocks that the clone frees.",
        file: "crates/dsl/src/dataset/livelist.rs",
        old: "self.add_to_livelist(tx, list, &died, true).await?;",
        new: r#"if !MUTANT {
            self.add_to_livelist(tx, list, &died, true).await?;
        }"#,
        lane: lib("sawmill-dsl", "a_livelist_has_what_a_clone_has_of_its_own"),
    },
    Mutant {
        name: "destroy-counts-blocks-only",
        what: "A step of a background destroy counts blocks and not objects, so that a step has no bound.",
        file: "crates/dmu/src/async_destroy.rs",
        old: "self.blocks.len() + self.objects",
        new: "self.blocks.len() + if MUTANT { 0 } else { self.objects }",
        lane: test("sawmill-dmu", "objset", "objects_without_blocks_are_taken_apart_in_steps_too"),
    },
];
