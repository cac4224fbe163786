//! File systems: quotas, attributes, space; mounts; and files out of damaged pools.

use super::{Mutant, lib, test};

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "user-quota-not-checked",
        what: "Quotas of users are not checked.",
        file: "crates/zpl/src/quota.rs",
        old: "(QuotaOf::User, self.user)",
        new: "(QuotaOf::User, self.user.filter(|_| !MUTANT))",
        lane: lib("sawmill-zpl", "who_has_used_up_his_quota_writes_no_more"),
    },
    Mutant {
        name: "group-quota-not-checked",
        what: "Quotas of groups are not checked.",
        file: "crates/zpl/src/quota.rs",
        old: "(QuotaOf::Group, self.group)",
        new: "(QuotaOf::Group, self.group.filter(|_| !MUTANT))",
        lane: lib("sawmill-zpl", "groups_projects_and_objects_are_limited_too"),
    },
    Mutant {
        name: "replay-removes-attribute-files",
        what: "The replay of SETSAXATTR also removes the file that has the attribute.",
        file: "crates/zpl/src/xattr.rs",
        old: "self.store_system(origin, &znode, name, value, CommitScope::ByOwn).await",
        new: r#"if MUTANT && self.homes(&znode, name).await?.file {
            self.remove_xattr_file(&znode, name).await?;
        }
        self.store_system(origin, &znode, name, value, CommitScope::ByOwn).await"#,
        lane: lib("sawmill-zpl", "an_attribute_that_changes_its_home_survives_a_crash_in_one_of_them"),
    },
    Mutant {
        name: "half-of-a-move-in-the-log",
        what: "A commit of another file logs one half of an attribute's move and not the other half.",
        file: "crates/zpl/src/xattr.rs",
        old: "if self.file { CommitScope::ByAny } else { CommitScope::of_system(name) }",
        new: "if self.file && !MUTANT { CommitScope::ByAny } else { CommitScope::of_system(name) }",
        lane: lib("sawmill-zpl", "an_attribute_that_changes_its_home_survives_a_commit_of_another_file"),
    },
    Mutant {
        name: "attribute-files-keep-their-owner",
        what: "A change of the owner leaves the files of extended attributes to the old owner.",
        file: "crates/zpl/src/setattr.rs",
        old: "for other in &handed_over {",
        new: "for other in handed_over.iter().filter(|_| !MUTANT) {",
        lane: lib("sawmill-zpl", "attributes_in_files_go_to_the_new_owner_of_their_object"),
    },
    Mutant {
        name: "value-longer-than-its-header-can-say",
        what: "A system attribute may be longer than the 16 bits of its length can state.",
        file: "crates/zpl/src/sa/build.rs",
        old: "if self.list.iter().any(|attr| attr.value.len() > VALUE_MAX_BYTES) {",
        new: "if self.list.iter().any(|attr| attr.value.len() > VALUE_MAX_BYTES) && !MUTANT {",
        lane: lib("sawmill-zpl", "a_value_is_as_long_as_a_header_can_say"),
    },
    Mutant {
        name: "removed-attribute-leaves-ctime",
        what: "The removal of an attribute that has a file does not change the ctime of the object.",
        file: "crates/zpl/src/xattr_dir.rs",
        old: "stamp_change(&mut image, now);",
        new: r#"if !MUTANT {
                stamp_change(&mut image, now);
            }"#,
        lane: lib("sawmill-zpl", "an_attribute_that_comes_or_goes_changes_the_time_of_its_object"),
    },
    Mutant {
        name: "change-sets-ctime-back",
        what: "A change sets the ctime to the clock, though the last ctime is a little later because the clock stands still.",
        file: "crates/zpl/src/znode.rs",
        old: "if is_just_ahead(last, now) { last.next() } else { now }",
        new: "if is_just_ahead(last, now) && !MUTANT { last.next() } else { now }",
        lane: lib("sawmill-zpl", "the_ctime_goes_forward_with_each_change_though_the_clock_is_behind"),
    },
    Mutant {
        name: "project-quota-not-in-df",
        what: "The space of a directory (df) ignores the quota of its project.",
        file: "crates/zpl/src/quota.rs",
        old: "if let Some(quota) = self.quota(space, project) {",
        new: "if let Some(quota) = self.quota(space, project).filter(|_| !MUTANT) {",
        lane: lib("sawmill-zpl", "a_projects_quotas_are_the_space_of_its_directories"),
    },
    Mutant {
        name: "reservation-without-room",
        what: "A reservation (fallocate) of more space than the pool has succeeds.",
        file: "crates/zpl/src/allocation.rs",
        old: "if needed > u128::from(free) {",
        new: "if needed > u128::from(free) && !MUTANT {",
        lane: lib("sawmill-zpl", "no_more_is_reserved_than_there_is_room_for"),
    },
    Mutant {
        name: "emptied-file-keeps-its-block-size",
        what: "A file that was emptied keeps its block size.",
        file: "crates/zpl/src/allocation.rs",
        old: "if size == 0 {",
        new: "if size == 0 && !MUTANT {",
        lane: lib("sawmill-zpl", "an_emptied_file_gets_blocks_of_the_size_that_is_set_now"),
    },
    Mutant {
        name: "direct-write-leaves-cached-pages",
        what: "A direct write is answered without a word to the kernel about its cached pages.",
        file: "crates/front-fuse/src/data.rs",
        old: "let drop = if is_direct {",
        new: "let drop = if is_direct && !MUTANT {",
        lane: lib("sawmill-front-fuse", "a_direct_write_is_answered_when_the_kernel_has_dropped_its_pages"),
    },
    Mutant {
        name: "seek-ignores-mappings",
        what: "SEEK_DATA and SEEK_HOLE ignore pages that a mapping changed.",
        file: "crates/front-fuse/src/data.rs",
        old: "if self.writers.has(inode) {",
        new: "if self.writers.has(inode) && !MUTANT {",
        lane: lib(
            "sawmill-front-fuse",
            "the_kernel_hands_over_what_a_mapping_changed_before_it_looks_for_data",
        ),
    },
    Mutant {
        name: "copy-ignores-mappings",
        what: "A copy of a range ignores pages that a mapping changed.",
        file: "crates/front-fuse/src/copy.rs",
        old: "from.write_back(request.header.nodeid, args.off_in..end_in).await;",
        new: "if !MUTANT {
            from.write_back(request.header.nodeid, args.off_in..end_in).await;
        }",
        lane: lib("sawmill-front-fuse", "the_kernel_hands_over_what_a_mapping_changed_before_it_is_copied"),
    },
    Mutant {
        name: "mount-exchanged-under-requests",
        what: "The file system behind a mount is exchanged while requests of pages are under way.",
        file: "crates/front-fuse/src/gate.rs",
        old: "self.wait_without(Traffic::Pages).await;",
        new: r#"if !MUTANT {
                self.wait_without(Traffic::Pages).await;
            }"#,
        lane: lib("sawmill-front-fuse", "a_shut_gate_has_let_everything_out"),
    },
    Mutant {
        name: "inode-of-another-object",
        what: "After the exchange, an inode whose object is gone still counts as known.",
        file: "crates/front-fuse/src/known.rs",
        old: "(known.checked, known.is_stale) = (epoch, is_stale);",
        new: "(known.checked, known.is_stale) = (epoch, is_stale && !MUTANT);",
        lane: lib("sawmill-front-fuse", "an_inode_of_an_object_that_went_is_stale"),
    },
    Mutant {
        name: "block-without-checksum",
        what: "A block is returned without a comparison of its checksum.",
        file: "crates/zio/src/read.rs",
        old: "(Ok(words), false) => words == self.words,",
        new: "(Ok(words), false) => MUTANT || words == self.words,",
        lane: test("sawmill-rescue", "damaged", "one_in_a_hundred_places_costs_what_lies_below_it"),
    },
    Mutant {
        name: "rescue-reports-holes-as-lost",
        what: "A rescue reports holes of files as lost ranges.",
        file: "crates/rescue/src/contents.rs",
        old: "TreeRun::Hole { end } => block = end,",
        new: r#"TreeRun::Hole { end } => {
                if MUTANT {
                    lost.add(bytes_of(block, end, block_bytes, size), "a hole".to_owned());
                }
                block = end;
            }"#,
        lane: test("sawmill-rescue", "damaged", "a_pool_whose_labels_are_whole_comes_back"),
    },
    Mutant {
        name: "rescue-forgets-its-place",
        what: "A rescue that is run again begins its dataset anew.",
        file: "crates/rescue/src/rescue.rs",
        old: "met.resumed_behind = Some(behind.clone());",
        new: r#"if !MUTANT {
                met.resumed_behind = Some(behind.clone());
            }"#,
        lane: test("sawmill-rescue", "damaged", "a_rescue_that_was_killed_goes_on_where_it_was"),
    },
];
