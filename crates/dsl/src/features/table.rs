//! The features that exist, and what we make of them.

/// What can be done with a pool in which a feature is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Nothing: a pool that needs it to be read is refused.
    None,
    /// Reading.
    Read,
    /// Reading and changing.
    Full,
}

/// A feature of the format (`zfeature_common.c` has names, kinds and needs).
#[derive(Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its name in the pool: `org.example:name`.
    pub guid: &'static str,
    /// Its name for users: `feature@name`.
    pub name: &'static str,
    /// What the pool says of it to those who do not know it.
    pub description: &'static str,
    /// What we can do where it is active.
    pub support: Support,
    /// Who does not know it can still read the pool.
    pub write_only: bool,
    /// Listed in labels, for without it not even the MOS can be read.
    pub in_label: bool,
    /// In use as soon as it is enabled.
    pub active_when_enabled: bool,
    /// Used by datasets one by one.
    pub per_dataset: bool,
    /// Features it needs, by guid.
    pub needs: &'static [&'static str],
}

impl Feature {
    const fn new(
        guid: &'static str,
        name: &'static str,
        description: &'static str,
        support: Support,
    ) -> Self {
        Self {
            guid,
            name,
            description,
            support,
            write_only: false,
            in_label: false,
            active_when_enabled: false,
            per_dataset: false,
            needs: &[],
        }
    }

    const fn write_only(mut self) -> Self {
        self.write_only = true;
        self
    }

    const fn in_label(mut self) -> Self {
        self.in_label = true;
        self
    }

    const fn active_when_enabled(mut self) -> Self {
        self.active_when_enabled = true;
        self
    }

    const fn per_dataset(mut self) -> Self {
        self.per_dataset = true;
        self
    }

    const fn needs(mut self, guids: &'static [&'static str]) -> Self {
        self.needs = guids;
        self
    }

    /// The features it needs, and it itself; those needed first.
    #[must_use]
    pub fn closure(&'static self) -> Vec<&'static Self> {
        let mut all = Vec::new();
        for guid in self.needs {
            let needed = feature(guid).expect("needs are in the table");
            for one in needed.closure() {
                if !all.contains(&one) {
                    all.push(one);
                }
            }
        }
        all.push(self);
        all
    }
}

/// The feature of this guid or name.
#[must_use]
pub fn feature(name: &str) -> Option<&'static Feature> {
    FEATURES.iter().copied().find(|feature| feature.guid == name || feature.name == name)
}

/// Datasets are destroyed in the background.
pub static ASYNC_DESTROY: Feature = Feature::new(
    "com.delphix:async_destroy",
    "async_destroy",
    "Datasets are destroyed in the background.",
    Support::Full,
)
.write_only();
/// Empty lists of freed blocks share one object.
pub static EMPTY_BPOBJ: Feature = Feature::new(
    "com.delphix:empty_bpobj",
    "empty_bpobj",
    "Empty lists of freed blocks share one object.",
    Support::Full,
)
.write_only();
/// Blocks may be compressed with LZ4.
pub static LZ4_COMPRESS: Feature = Feature::new(
    "org.illumos:lz4_compress",
    "lz4_compress",
    "Blocks may be compressed with LZ4.",
    Support::Full,
)
.active_when_enabled();
/// Crash dumps may span several vdevs.
pub static MULTI_VDEV_CRASH_DUMP: Feature = Feature::new(
    "com.joyent:multi_vdev_crash_dump",
    "multi_vdev_crash_dump",
    "Crash dumps may span several vdevs.",
    Support::Full,
);
/// Space maps count their free segments by size.
pub static SPACEMAP_HISTOGRAM: Feature = Feature::new(
    "com.delphix:spacemap_histogram",
    "spacemap_histogram",
    "Space maps count their free segments by size.",
    Support::Full,
)
.write_only();
/// Notes the txg in which each feature was enabled.
pub static ENABLED_TXG: Feature = Feature::new(
    "com.delphix:enabled_txg",
    "enabled_txg",
    "Notes the txg in which each feature was enabled.",
    Support::Full,
)
.write_only();
/// Holes remember the txg of their birth.
pub static HOLE_BIRTH: Feature = Feature::new(
    "com.delphix:hole_birth",
    "hole_birth",
    "Holes remember the txg of their birth.",
    Support::Full,
)
.in_label()
.active_when_enabled()
.needs(&["com.delphix:enabled_txg"]);
/// The pool's state can be kept and returned to.
pub static ZPOOL_CHECKPOINT: Feature = Feature::new(
    "com.delphix:zpool_checkpoint",
    "zpool_checkpoint",
    "The pool's state can be kept and returned to.",
    Support::Full,
)
.write_only();
/// Space maps have shorter entries for long segments.
pub static SPACEMAP_V2: Feature = Feature::new(
    "com.delphix:spacemap_v2",
    "spacemap_v2",
    "Space maps have shorter entries for long segments.",
    Support::Full,
)
.write_only()
.active_when_enabled();
/// Datasets can carry further fields.
pub static EXTENSIBLE_DATASET: Feature = Feature::new(
    "com.delphix:extensible_dataset",
    "extensible_dataset",
    "Datasets can carry further fields.",
    Support::Full,
);
/// Snapshots can leave bookmarks behind.
pub static BOOKMARKS: Feature = Feature::new(
    "com.delphix:bookmarks",
    "bookmarks",
    "Snapshots can leave bookmarks behind.",
    Support::Full,
)
.write_only()
.needs(&["com.delphix:extensible_dataset"]);
/// File systems and snapshots can be limited in number.
pub static FILESYSTEM_LIMITS: Feature = Feature::new(
    "com.joyent:filesystem_limits",
    "filesystem_limits",
    "File systems and snapshots can be limited in number.",
    Support::Full,
)
.write_only()
.needs(&["com.delphix:extensible_dataset"]);
/// Very small blocks lie in their block pointers.
pub static EMBEDDED_DATA: Feature = Feature::new(
    "com.delphix:embedded_data",
    "embedded_data",
    "Very small blocks lie in their block pointers.",
    Support::Full,
)
.in_label()
.active_when_enabled();
/// Clones list their own blocks, to be destroyed sooner.
pub static LIVELIST: Feature = Feature::new(
    "com.delphix:livelist",
    "livelist",
    "Clones list their own blocks, to be destroyed sooner.",
    Support::Full,
)
.write_only()
.needs(&["com.delphix:extensible_dataset"]);
/// Allocations are logged for all metaslabs together.
pub static LOG_SPACEMAP: Feature = Feature::new(
    "com.delphix:log_spacemap",
    "log_spacemap",
    "Allocations are logged for all metaslabs together.",
    Support::Full,
)
.write_only()
.needs(&["com.delphix:spacemap_v2"]);
/// Blocks may be larger than 128 KiB.
pub static LARGE_BLOCKS: Feature = Feature::new(
    "org.open-zfs:large_blocks",
    "large_blocks",
    "Blocks may be larger than 128 KiB.",
    Support::Full,
)
.per_dataset()
.needs(&["com.delphix:extensible_dataset"]);
/// Dnodes may be larger than 512 bytes.
pub static LARGE_DNODE: Feature = Feature::new(
    "org.zfsonlinux:large_dnode",
    "large_dnode",
    "Dnodes may be larger than 512 bytes.",
    Support::Full,
)
.per_dataset()
.needs(&["com.delphix:extensible_dataset"]);
/// Blocks may be checksummed with SHA-512/256.
pub static SHA512: Feature = Feature::new(
    "org.illumos:sha512",
    "sha512",
    "Blocks may be checksummed with SHA-512/256.",
    Support::Full,
)
.per_dataset()
.needs(&["com.delphix:extensible_dataset"]);
/// Blocks may be checksummed with Skein.
pub static SKEIN: Feature =
    Feature::new("org.illumos:skein", "skein", "Blocks may be checksummed with Skein.", Support::Full)
        .per_dataset()
        .needs(&["com.delphix:extensible_dataset"]);
/// Blocks may be checksummed with Edon-R.
pub static EDONR: Feature =
    Feature::new("org.illumos:edonr", "edonr", "Blocks may be checksummed with Edon-R.", Support::Full)
        .per_dataset()
        .needs(&["com.delphix:extensible_dataset"]);
/// Bookmarks can hold redaction lists.
pub static REDACTION_BOOKMARKS: Feature = Feature::new(
    "com.delphix:redaction_bookmarks",
    "redaction_bookmarks",
    "Bookmarks can hold redaction lists.",
    Support::Full,
)
.needs(&["com.datto:bookmark_v2", "com.delphix:extensible_dataset", "com.delphix:bookmarks"]);
/// Datasets may have been received redacted.
pub static REDACTED_DATASETS: Feature = Feature::new(
    "com.delphix:redacted_datasets",
    "redacted_datasets",
    "Datasets may have been received redacted.",
    Support::Full,
)
.per_dataset()
.needs(&["com.delphix:extensible_dataset"]);
/// Bookmarks know what was written since.
pub static BOOKMARK_WRITTEN: Feature = Feature::new(
    "com.delphix:bookmark_written",
    "bookmark_written",
    "Bookmarks know what was written since.",
    Support::Full,
)
.needs(&["com.datto:bookmark_v2", "com.delphix:extensible_dataset", "com.delphix:bookmarks"]);
/// Top-level vdevs may have been removed.
pub static DEVICE_REMOVAL: Feature = Feature::new(
    "com.delphix:device_removal",
    "device_removal",
    "Top-level vdevs may have been removed.",
    Support::Full,
)
.in_label();
/// Maps of removed vdevs shrink as blocks are freed.
pub static OBSOLETE_COUNTS: Feature = Feature::new(
    "com.delphix:obsolete_counts",
    "obsolete_counts",
    "Maps of removed vdevs shrink as blocks are freed.",
    Support::Full,
)
.write_only()
.needs(&["com.delphix:extensible_dataset", "com.delphix:device_removal"]);
/// Objects are counted by user and group.
pub static USEROBJ_ACCOUNTING: Feature = Feature::new(
    "org.zfsonlinux:userobj_accounting",
    "userobj_accounting",
    "Objects are counted by user and group.",
    Support::Full,
)
.write_only()
.per_dataset()
.needs(&["com.delphix:extensible_dataset"]);
/// Bookmarks may be larger.
pub static BOOKMARK_V2: Feature =
    Feature::new("com.datto:bookmark_v2", "bookmark_v2", "Bookmarks may be larger.", Support::Full)
        .needs(&["com.delphix:extensible_dataset", "com.delphix:bookmarks"]);
/// Datasets may be encrypted.
pub static ENCRYPTION: Feature =
    Feature::new("com.datto:encryption", "encryption", "Datasets may be encrypted.", Support::Read)
        .per_dataset()
        .needs(&["com.delphix:extensible_dataset", "com.datto:bookmark_v2"]);
/// Space and objects are counted by project.
pub static PROJECT_QUOTA: Feature = Feature::new(
    "org.zfsonlinux:project_quota",
    "project_quota",
    "Space and objects are counted by project.",
    Support::Full,
)
.write_only()
.per_dataset()
.needs(&["com.delphix:extensible_dataset"]);
/// Vdevs may serve a class of blocks.
pub static ALLOCATION_CLASSES: Feature = Feature::new(
    "org.zfsonlinux:allocation_classes",
    "allocation_classes",
    "Vdevs may serve a class of blocks.",
    Support::Full,
)
.write_only();
/// A resilver may wait for the one under way.
pub static RESILVER_DEFER: Feature = Feature::new(
    "com.datto:resilver_defer",
    "resilver_defer",
    "A resilver may wait for the one under way.",
    Support::Read,
)
.write_only();
/// Devices may be rebuilt in sequence.
pub static DEVICE_REBUILD: Feature = Feature::new(
    "org.openzfs:device_rebuild",
    "device_rebuild",
    "Devices may be rebuilt in sequence.",
    Support::Read,
)
.write_only();
/// Blocks may be compressed with Zstandard.
pub static ZSTD_COMPRESS: Feature = Feature::new(
    "org.freebsd:zstd_compress",
    "zstd_compress",
    "Blocks may be compressed with Zstandard.",
    Support::Full,
)
.per_dataset()
.needs(&["com.delphix:extensible_dataset"]);
/// Vdevs may be of type dRAID.
pub static DRAID: Feature =
    Feature::new("org.openzfs:draid", "draid", "Vdevs may be of type dRAID.", Support::Full).in_label();
/// dRAID vdevs may have failure domains.
pub static DRAID_FAILURE_DOMAINS: Feature = Feature::new(
    "com.seagate:draid_failure_domains",
    "draid_failure_domains",
    "dRAID vdevs may have failure domains.",
    Support::None,
)
.in_label()
.needs(&["org.openzfs:draid"]);
/// The intent log carries extended attributes.
pub static ZILSAXATTR: Feature = Feature::new(
    "org.openzfs:zilsaxattr",
    "zilsaxattr",
    "The intent log carries extended attributes.",
    Support::Full,
)
.write_only()
.per_dataset()
.needs(&["com.delphix:extensible_dataset"]);
/// Errors are logged by dataset.
pub static HEAD_ERRLOG: Feature =
    Feature::new("com.delphix:head_errlog", "head_errlog", "Errors are logged by dataset.", Support::Full)
        .active_when_enabled();
/// Blocks may be checksummed with BLAKE3.
pub static BLAKE3: Feature =
    Feature::new("org.openzfs:blake3", "blake3", "Blocks may be checksummed with BLAKE3.", Support::Full)
        .per_dataset()
        .needs(&["com.delphix:extensible_dataset"]);
/// Files may share blocks by reference.
pub static BLOCK_CLONING: Feature = Feature::new(
    "com.fudosecurity:block_cloning",
    "block_cloning",
    "Files may share blocks by reference.",
    Support::Full,
)
.write_only();
/// References of shared blocks have a fixed byte order.
pub static BLOCK_CLONING_ENDIAN: Feature = Feature::new(
    "com.truenas:block_cloning_endian",
    "block_cloning_endian",
    "References of shared blocks have a fixed byte order.",
    Support::Full,
)
.write_only();
/// The root vdev has a ZAP.
pub static VDEV_ZAPS_V2: Feature =
    Feature::new("com.klarasystems:vdev_zaps_v2", "vdev_zaps_v2", "The root vdev has a ZAP.", Support::Full)
        .in_label();
/// Redaction lists may be longer.
pub static REDACTION_LIST_SPILL: Feature = Feature::new(
    "com.delphix:redaction_list_spill",
    "redaction_list_spill",
    "Redaction lists may be longer.",
    Support::Full,
)
.needs(&["com.delphix:redaction_bookmarks"]);
/// RAID-Z vdevs may have been widened.
pub static RAIDZ_EXPANSION: Feature = Feature::new(
    "org.openzfs:raidz_expansion",
    "raidz_expansion",
    "RAID-Z vdevs may have been widened.",
    Support::Full,
)
.in_label();
/// Deduplication keeps a log and prunes.
pub static FAST_DEDUP: Feature = Feature::new(
    "com.klarasystems:fast_dedup",
    "fast_dedup",
    "Deduplication keeps a log and prunes.",
    Support::Full,
)
.write_only();
/// File names may have up to 1023 bytes.
pub static LONGNAME: Feature = Feature::new(
    "org.zfsonlinux:longname",
    "longname",
    "File names may have up to 1023 bytes.",
    Support::Full,
)
.per_dataset()
.needs(&["com.delphix:extensible_dataset"]);
/// Micro ZAPs may be larger than 128 KiB.
pub static LARGE_MICROZAP: Feature = Feature::new(
    "com.klarasystems:large_microzap",
    "large_microzap",
    "Micro ZAPs may be larger than 128 KiB.",
    Support::Full,
)
.write_only()
.per_dataset()
.needs(&["com.delphix:extensible_dataset", "org.open-zfs:large_blocks"]);
/// Gang headers may be larger.
pub static DYNAMIC_GANG_HEADER: Feature = Feature::new(
    "com.klarasystems:dynamic_gang_header",
    "dynamic_gang_header",
    "Gang headers may be larger.",
    Support::None,
)
.in_label();
/// Rewritten blocks keep their birth.
pub static PHYSICAL_REWRITE: Feature = Feature::new(
    "com.truenas:physical_rewrite",
    "physical_rewrite",
    "Rewritten blocks keep their birth.",
    Support::Read,
)
.write_only()
.per_dataset()
.needs(&["com.delphix:extensible_dataset"]);

/// All features, in the format's order.
pub static FEATURES: &[&Feature] = &[
    &ASYNC_DESTROY,
    &EMPTY_BPOBJ,
    &LZ4_COMPRESS,
    &MULTI_VDEV_CRASH_DUMP,
    &SPACEMAP_HISTOGRAM,
    &ENABLED_TXG,
    &HOLE_BIRTH,
    &ZPOOL_CHECKPOINT,
    &SPACEMAP_V2,
    &EXTENSIBLE_DATASET,
    &BOOKMARKS,
    &FILESYSTEM_LIMITS,
    &EMBEDDED_DATA,
    &LIVELIST,
    &LOG_SPACEMAP,
    &LARGE_BLOCKS,
    &LARGE_DNODE,
    &SHA512,
    &SKEIN,
    &EDONR,
    &REDACTION_BOOKMARKS,
    &REDACTED_DATASETS,
    &BOOKMARK_WRITTEN,
    &DEVICE_REMOVAL,
    &OBSOLETE_COUNTS,
    &USEROBJ_ACCOUNTING,
    &BOOKMARK_V2,
    &ENCRYPTION,
    &PROJECT_QUOTA,
    &ALLOCATION_CLASSES,
    &RESILVER_DEFER,
    &DEVICE_REBUILD,
    &ZSTD_COMPRESS,
    &DRAID,
    &DRAID_FAILURE_DOMAINS,
    &ZILSAXATTR,
    &HEAD_ERRLOG,
    &BLAKE3,
    &BLOCK_CLONING,
    &BLOCK_CLONING_ENDIAN,
    &VDEV_ZAPS_V2,
    &REDACTION_LIST_SPILL,
    &RAIDZ_EXPANSION,
    &FAST_DEDUP,
    &LONGNAME,
    &LARGE_MICROZAP,
    &DYNAMIC_GANG_HEADER,
    &PHYSICAL_REWRITE,
];
