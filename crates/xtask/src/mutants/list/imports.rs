//! Imports that find devices and states, and devices that join a vdev or make it larger.

use super::{Mutant, lib, test};

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "failed-import-keeps-its-devices",
        what: "An import that fails after the pool was started leaves the devices open.",
        file: "crates/pool/src/import.rs",
        old: r#"pool.abandon().await;
                Err(error)"#,
        new: r#"if !MUTANT {
                    pool.abandon().await;
                }
                Err(error)"#,
        lane: test(
            "sawmill-pool",
            "crash",
            "an_import_that_fails_at_any_request_leaves_nothing_open_and_can_be_tried_again",
        ),
    },
    Mutant {
        name: "import-renames-devices",
        what: "A plain import does not try the paths that the labels name.",
        file: "crates/pool/src/import.rs",
        old: "if self.own_paths {",
        new: "if self.own_paths && !MUTANT {",
        lane: test(
            "sawmill-pool",
            "crash",
            "a_device_keeps_the_name_that_its_label_has_unless_it_is_looked_for_elsewhere",
        ),
    },
    Mutant {
        name: "listed-directories-not-searched",
        what: "An import with a cache file does not search the directories of the listed devices.",
        file: "crates/cli/src/zpool/import.rs",
        old: "paths.extend(directories);",
        new: r#"if !MUTANT {
            paths.extend(directories);
        }"#,
        lane: test("sawmill-cli", "promises", "a_cache_file_of_the_users_is_openzfss"),
    },
    Mutant {
        name: "rewind-without-a-limit",
        what: "An import with -F goes back further than the txgs whose space was not reused.",
        file: "crates/pool/src/import/rewind.rs",
        old: "Self::Recent => tried.get() + TXG_DEFER >= newest.get(),",
        new: "Self::Recent => MUTANT || tried.get() + TXG_DEFER >= newest.get(),",
        lane: lib("sawmill-pool", "a_rewind_goes_no_further_back_than_it_was_allowed"),
    },
    Mutant {
        name: "vdev-does-not-grow",
        what: "A vdev does not grow when its last small device is replaced, although autoexpand is on.",
        file: "crates/pool/src/space/expand.rs",
        old: "if !self.may_grow.swap(false, Ordering::AcqRel) {",
        new: "if !self.may_grow.swap(false, Ordering::AcqRel) || MUTANT {",
        lane: test("sawmill-pool", "workloads", "a_vdev_grows_once_the_last_small_device_is_replaced"),
    },
    Mutant {
        name: "replacement-too-small-by-a-sector",
        what: "A replacement needs more room than all metaslabs of its vdev take.",
        file: "crates/vdev/src/spec.rs",
        old: "if leaf_asize(leaf.psize()) < top.min_asize_of_leaf() {",
        new: r#"let needed = if MUTANT { top.asize_of_leaf() } else { top.min_asize_of_leaf() };
        if leaf_asize(leaf.psize()) < needed {"#,
        lane: test("sawmill-pool", "workloads", "a_replacement_needs_room_for_all_metaslabs_and_no_more"),
    },
    Mutant {
        name: "ashift-of-the-pool-for-a-joining-device",
        what: "The property ashift of the pool applies to a device that joins a vdev.",
        file: "crates/engine/src/attach.rs",
        old: "let new = NewLeaf { path, ashift: settings.ashift, ..NewLeaf::default() };",
        new: r#"let of_pool = if MUTANT { held.pool.ashift().await.unwrap_or_default() } else { None };
        let new = NewLeaf { path, ashift: settings.ashift.or(of_pool), ..NewLeaf::default() };"#,
        lane: test("sawmill-cli", "devices", "a_device_joins_a_vdev_with_the_sectors_that_the_vdev_has"),
    },
];
