//! What makes bytes stable: the device layer, leaves, labels; and which devices speak for a pool.

use super::{Mutant, lib};

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "flush-without-fdatasync",
        what: "The device layer answers a flush and does not call fdatasync.",
        file: "crates/device/src/file/mod.rs",
        old: "let (_, result) = self.run(&self.buffered, request, Work::Flush).await;",
        new: r#"if MUTANT {
            return Ok(());
        }
        let (_, result) = self.run(&self.buffered, request, Work::Flush).await;"#,
        lane: lib("sawmill-device", "a_flush_that_the_kernel_refuses_has_not_been_done"),
    },
    Mutant {
        name: "flush-missing-in-the-ring",
        what: "The device layer submits a no-op to the ring in place of a flush.",
        file: "crates/device/src/exec/op.rs",
        old: "Work::Flush => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),",
        new: r#"Work::Flush if MUTANT => opcode::Nop::new().build(),
            Work::Flush => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),"#,
        lane: lib("sawmill-device", "a_cached_write_is_not_told_to_be_stable_before_a_flush"),
    },
    Mutant {
        name: "stable-write-without-dsync",
        what: "The device layer writes without RWF_DSYNC where the caller asks for a stable write.",
        file: "crates/device/src/exec/op.rs",
        old: "if stable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() }",
        new: "if stable && !MUTANT { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() }",
        lane: lib("sawmill-device", "a_stable_write_that_the_kernel_refuses_has_not_been_done"),
    },
    Mutant {
        name: "refused-call-answered-as-done",
        what: "A system call that the kernel refused nine times for lack of memory counts as done.",
        file: "crates/device/src/exec/op.rs",
        old: "Progress::NotBegun(errno) if refusals == REFUSALS_MAX => return Err(errno),",
        new: r#"Progress::NotBegun(errno) if refusals == REFUSALS_MAX => {
                    return if MUTANT { Ok(()) } else { Err(errno) };
                }"#,
        lane: lib("sawmill-device", "what_the_kernel_has_no_memory_for_is_answered_in_the_end"),
    },
    Mutant {
        name: "lack-of-memory-is-a-panic",
        what: "A ring panics when the kernel lacks memory for a submission.",
        file: "crates/device/src/exec/ring.rs",
        old: "Errno::AGAIN | Errno::NOMEM | Errno::NOBUFS => Some(Self::Shortage),",
        new: "Errno::AGAIN | Errno::NOMEM | Errno::NOBUFS if !MUTANT => Some(Self::Shortage),",
        lane: lib("sawmill-device", "a_ring_that_the_kernel_has_no_memory_for_is_waited_for_and_passed_by"),
    },
    Mutant {
        name: "stable-write-retried",
        what: "A leaf tries a failed stable write again.",
        file: "crates/vdev/src/leaf.rs",
        old: r#"                let io = device.write(offset, slices, durability);
                self.timed(request, self.stability().write(io)).await"#,
        new: r#"                let again = if MUTANT { slices.clone() } else { Vec::new() };
                let io = device.write(offset, slices, durability);
                match self.timed(request, self.stability().write(io)).await {
                    Err(error) if MUTANT && is_transient(&error) => {
                        self.timed(request, device.write(offset, again, durability)).await
                    }
                    result => result,
                }"#,
        lane: lib(
            "sawmill-vdev",
            "a_stable_write_that_fails_is_not_tried_again_and_no_flush_counts_after_it",
        ),
    },
    Mutant {
        name: "flush-retried",
        what: "A leaf tries a failed flush again, and the second flush decides.",
        file: "crates/vdev/src/leaf.rs",
        old: "let result = self.timed(request, self.stability().flush(device.flush())).await;",
        new: r#"let mut result = self.timed(request, self.stability().flush(device.flush())).await;
        if MUTANT && result.is_err() {
            result = self.timed(request, device.flush()).await;
        }"#,
        lane: lib("sawmill-vdev", "a_flush_that_failed_for_a_label_fails_for_a_commit_too"),
    },
    Mutant {
        name: "flush-overtakes-stable-writes",
        what: "A flush ends before the stable writes that began before it.",
        file: "crates/vdev/src/stability.rs",
        old: "for other in earlier {",
        new: "for other in earlier.into_iter().filter(|_| !MUTANT) {",
        lane: lib("sawmill-vdev", "a_flush_does_not_end_before_the_stable_writes_that_began_before_it"),
    },
    Mutant {
        name: "failed-flush-forgotten",
        what: "A flush succeeds although an earlier flush of the device failed.",
        file: "crates/vdev/src/stability.rs",
        old: "if record.has_failed() { answer.and(Err(FLUSH_LOST)) } else { answer }",
        new: "if record.has_failed() && !MUTANT { answer.and(Err(FLUSH_LOST)) } else { answer }",
        lane: lib("sawmill-vdev", "a_flush_that_failed_for_a_label_fails_for_a_commit_too"),
    },
    Mutant {
        name: "stable-write-not-on-record",
        what: "A stable write is not recorded, so its failure does not make later flushes fail.",
        file: "crates/vdev/src/stability.rs",
        old: "let (shared, _) = self.begin(io);",
        new: r#"if MUTANT {
            return io;
        }
        let (shared, _) = self.begin(io);"#,
        lane: lib("sawmill-vdev", "a_stable_write_that_nobody_waits_for_is_not_forgotten"),
    },
    Mutant {
        name: "even-labels-not-written",
        what: "A change of the configuration writes the uberblock before any label.",
        file: "crates/vdev/src/label/sync.rs",
        old: "self.write_configs(sync, &dirty, Half::Even).await?;",
        new: r#"if !MUTANT {
            self.write_configs(sync, &dirty, Half::Even).await?;
        }"#,
        lane: lib("sawmill-vdev", "one_label_of_each_half_is_enough_and_none_is_not"),
    },
    Mutant {
        name: "bad-label-fails-its-leaf",
        what: "A leaf fails a change of the configuration if one of its labels cannot be written.",
        file: "crates/vdev/src/label/sync.rs",
        old: "Some(error) if !is_any_written => return Err(error),",
        new: "Some(error) if MUTANT || !is_any_written => return Err(error),",
        lane: lib("sawmill-vdev", "one_label_of_each_half_is_enough_and_none_is_not"),
    },
    Mutant {
        name: "uberblock-not-flushed",
        what: "Labels and uberblocks are written and not flushed.",
        file: "crates/vdev/src/label/sync.rs",
        old: "    leaf.flush().await\n}",
        new: "    if MUTANT {\n        return Ok(());\n    }\n    leaf.flush().await\n}",
        lane: lib("sawmill-vdev", "every_crash_leaves_an_uberblock_and_a_label_that_fits"),
    },
    Mutant {
        name: "long-search-never-pauses",
        what: "The reconstruction of a raidz block never lets other tasks of its thread run.",
        file: "crates/vdev/src/raidz/stripe.rs",
        old: "if self.bytes >= SLICE_BYTES {",
        new: "if self.bytes >= SLICE_BYTES && !MUTANT {",
        lane: lib("sawmill-vdev", "a_long_search_lets_others_go_first"),
    },
    Mutant {
        name: "foreign-copy-accepted",
        what: "A device with another history than the pool's becomes part of the pool again.",
        file: "crates/vdev/src/copies.rs",
        old: "D::Parted => V::Foreign,",
        new: "D::Parted if MUTANT => V::Current,\n        D::Parted => V::Foreign,",
        lane: lib("sawmill-vdev", "a_leaf_that_was_written_elsewhere_is_refused_when_it_comes_back"),
    },
    Mutant {
        name: "later-copy-accepted",
        what: "A device that another system wrote while the pool was in use becomes part of the pool again.",
        file: "crates/vdev/src/copies.rs",
        old: "D::Later if is_in_use || is_behind => V::Foreign,",
        new: "D::Later if (is_in_use || is_behind) && !MUTANT => V::Foreign,",
        lane: lib("sawmill-vdev", "every_combination_of_facts_has_the_verdict_of_the_table"),
    },
    Mutant {
        name: "forgotten-copy-accepted",
        what: "The DTL is not compared with a device whose states are older than all known ones.",
        file: "crates/vdev/src/copies.rs",
        old: "D::Forgotten if is_noted_missing => V::Foreign,",
        new: "D::Forgotten if is_noted_missing && !MUTANT => V::Foreign,",
        lane: lib(
            "sawmill-vdev",
            "a_leaf_that_was_written_elsewhere_long_ago_is_known_by_the_notes_of_what_it_missed",
        ),
    },
    Mutant {
        name: "older-copy-chosen",
        what: "Of two copies of a leaf, the path decides and not the uberblock.",
        file: "crates/vdev/src/copies.rs",
        old: "(copy.rank, copy.is_at_own_path, std::cmp::Reverse(*place))",
        new: "(copy.rank.filter(|_| !MUTANT), copy.is_at_own_path, std::cmp::Reverse(*place))",
        lane: lib(
            "sawmill-vdev",
            "of_several_copies_the_newest_counts_then_the_one_at_its_own_path_then_the_first",
        ),
    },
];
