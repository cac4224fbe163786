//! Properties of pools, in the order of `zpool get all`, and the short names of features.

use super::{Access, Applies, Kind, PropDef};

const ANY: Applies = Applies { filesystem: true, volume: true, snapshot: true, bookmark: false };
const SIZE: Kind = Kind::Size { none_is_zero: false };
const SWITCH: Kind = Kind::Choice { help: "on | off", words: ondisk::props::BOOLEAN };

const fn ro(name: &'static str, column: &'static str, kind: Kind) -> PropDef {
    PropDef { name, column, kind, access: Access::ReadOnly, applies: ANY, default: "" }
}
const fn set(name: &'static str, column: &'static str, kind: Kind, default: &'static str) -> PropDef {
    PropDef { name, column, kind, access: Access::Set, applies: ANY, default }
}
const fn once(name: &'static str, column: &'static str, kind: Kind, default: &'static str) -> PropDef {
    PropDef { name, column, kind, access: Access::AtCreation, applies: ANY, default }
}

/// All properties of pools but features.
pub const POOL_PROPS: &[PropDef] = &[
    ro("size", "SIZE", SIZE),
    ro("capacity", "CAP", Kind::Percent),
    once("altroot", "ALTROOT", Kind::Text, ""),
    ro("health", "HEALTH", Kind::Text),
    ro("guid", "GUID", Kind::Id),
    set("version", "VERSION", Kind::Id, ""),
    set("bootfs", "BOOTFS", Kind::Text, ""),
    set("delegation", "DELEGATION", SWITCH, "on"),
    set("autoreplace", "REPLACE", SWITCH, "off"),
    set("cachefile", "CACHEFILE", Kind::Text, ""),
    set(
        "failmode",
        "FAILMODE",
        Kind::Choice { help: "wait | continue | panic", words: ondisk::props::FAILMODE },
        "wait",
    ),
    set("listsnapshots", "LISTSNAPS", SWITCH, "off"),
    set("autoexpand", "EXPAND", SWITCH, "off"),
    ro("dedupratio", "DEDUP", Kind::Ratio),
    ro("free", "FREE", SIZE),
    ro("allocated", "ALLOC", SIZE),
    once("readonly", "RDONLY", SWITCH, "off"),
    set("ashift", "ASHIFT", Kind::Id, "0"),
    set("comment", "COMMENT", Kind::Text, ""),
    ro("expandsize", "EXPANDSZ", SIZE),
    ro("freeing", "FREEING", SIZE),
    ro("fragmentation", "FRAG", Kind::Percent),
    ro("leaked", "LEAKED", SIZE),
    set("multihost", "MULTIHOST", SWITCH, "off"),
    ro("checkpoint", "CKPOINT", SIZE),
    ro("load_guid", "LOAD_GUID", Kind::Id),
    set("autotrim", "AUTOTRIM", SWITCH, "off"),
    set("compatibility", "COMPATIBILITY", Kind::Text, "off"),
    ro("bcloneused", "BCLONE_USED", SIZE),
    ro("bclonesaved", "BCLONE_SAVED", SIZE),
    ro("bcloneratio", "BCLONE_RATIO", Kind::Ratio),
    ro("dedup_table_size", "DDTSIZE", SIZE),
    set("dedup_table_quota", "DDTQUOTA", Kind::Text, "auto"),
    ro("last_scrubbed_txg", "LAST_SCRUBBED_TXG", Kind::Id),
];

/// Short names of the features of OpenZFS, in its order: to 2.3, then later ones.
pub const POOL_FEATURES: &[&str] = &[
    "async_destroy",
    "empty_bpobj",
    "lz4_compress",
    "multi_vdev_crash_dump",
    "spacemap_histogram",
    "enabled_txg",
    "hole_birth",
    "extensible_dataset",
    "embedded_data",
    "bookmarks",
    "filesystem_limits",
    "large_blocks",
    "large_dnode",
    "sha512",
    "skein",
    "edonr",
    "userobj_accounting",
    "encryption",
    "project_quota",
    "device_removal",
    "obsolete_counts",
    "zpool_checkpoint",
    "spacemap_v2",
    "allocation_classes",
    "resilver_defer",
    "bookmark_v2",
    "redaction_bookmarks",
    "redacted_datasets",
    "bookmark_written",
    "log_spacemap",
    "livelist",
    "device_rebuild",
    "zstd_compress",
    "draid",
    "zilsaxattr",
    "head_errlog",
    "blake3",
    "block_cloning",
    "vdev_zaps_v2",
    "redaction_list_spill",
    "raidz_expansion",
    "fast_dedup",
    "longname",
    "large_microzap",
    "draid_failure_domains",
    "block_cloning_endian",
    "dynamic_gang_header",
    "physical_rewrite",
];
