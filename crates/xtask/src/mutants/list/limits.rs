//! Bounds of time and memory.

use super::{Mutant, lib, test};

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "mount-waits-for-the-delete-queue",
        what: "A file system is not used before all objects of its delete queue are freed.",
        file: "crates/pool/src/dataset/files.rs",
        old: "self.find_leftovers(how.open).await;",
        new: "self.find_leftovers(how.open).await;
            if MUTANT {
                let _ = self.purge().await;
            }",
        lane: test("sawmill-pool", "crash", "a_file_system_is_used_while_files_without_a_name_are_freed"),
    },
    Mutant {
        name: "copy-walks-holes",
        what: "A copy of a range shares the blocks of a long hole one by one.",
        file: "crates/front-fuse/src/copy.rs",
        old: "self.long_hole(copy).await? {",
        new: "self.long_hole(copy).await?.filter(|_| !MUTANT) {",
        lane: lib("sawmill-front-fuse", "a_long_hole_is_copied_at_once"),
    },
    Mutant {
        name: "pointer-table-too-large",
        what: "The pointer table of a directory may exceed its bound by a factor of 64.",
        file: "crates/dmu/src/zap/header.rs",
        old: "by_leaves.max(TABLE_SHIFT_FREE)",
        new: "by_leaves.max(TABLE_SHIFT_FREE + if MUTANT { 6 } else { 0 })",
        lane: lib("sawmill-dmu", "names_of_nearly_one_hash_make_no_large_table"),
    },
    Mutant {
        name: "dirty-blocks-counted-by-length",
        what: "Dirty data counts the lengths of blocks and not the memory that the blocks take.",
        file: "crates/dmu/src/dnode.rs",
        old: "memory_bytes.saturating_sub(bytes)",
        new: "if MUTANT { 0 } else { memory_bytes.saturating_sub(bytes) }",
        lane: test("sawmill-dmu", "objset", "dirty_blocks_count_as_the_memory_that_they_take"),
    },
    Mutant {
        name: "cached-blocks-counted-by-length",
        what: "The cache counts the lengths of blocks and not the memory that the blocks take.",
        file: "crates/zio/src/cache/shard.rs",
        old: "buf.map_or(0, |buf| buf.memory_bytes())",
        new: "buf.map_or(0, |buf| if MUTANT { buf.len() } else { buf.memory_bytes() })",
        lane: lib("sawmill-zio", "a_small_block_counts_as_the_memory_that_it_takes"),
    },
    Mutant {
        name: "access-times-keep-files-in-memory",
        what: "Files that were read stay in memory until somebody stores their access times.",
        file: "crates/zpl/src/cache.rs",
        old: "if known.znodes.len() <= CROWDED * self.room() {",
        new: "if MUTANT || known.znodes.len() <= CROWDED * self.room() {",
        lane: lib("sawmill-zpl", "files_that_were_read_once_do_not_stay_in_memory"),
    },
    Mutant {
        name: "rewrite-walks-holes",
        what: "A rewrite of a file includes the holes near the beginning of the file.",
        file: "crates/cli/src/zfs/rewrite.rs",
        old: "next_data(last.end)",
        new: "next_data(last.end).or(Some(last.end).filter(|&at| MUTANT && at < 4 * PIECE_BYTES))",
        lane: lib("sawmill-cli", "holes_are_asked_for_in_no_piece_but_the_first"),
    },
];
