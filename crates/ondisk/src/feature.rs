//! Features: how pools of version 5000 say what their format needs.
//!
//! A feature is *disabled* (not in any ZAP), *enabled* (in a ZAP with count 0) or *active* (count
//! above 0: something on disk uses it). An active feature that a reader does not know keeps it from
//! opening the pool; if it only matters to writers, the pool can still be opened read-only. The
//! counts lie in two ZAPs of the MOS, `features_for_write` for the latter kind and
//! `features_for_read` for the others; those needed to read the MOS itself are in the labels too.
//!
//! Here are all features that OpenZFS 2.3 has, whether we support them or not: that is the layer
//! above's to say.

#[cfg(test)]
mod tests;

/// A feature of OpenZFS 2.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// Datasets are destroyed in the background.
    AsyncDestroy,
    /// Snapshots share one empty list of dead blocks.
    EmptyBpobj,
    /// Blocks can be compressed with LZ4.
    Lz4Compress,
    /// Crash dumps can span several devices.
    MultiVdevCrashDump,
    /// Space maps count free segments by size.
    SpacemapHistogram,
    /// The pool records when each feature was enabled.
    EnabledTxg,
    /// Holes record when they came to be, which makes incremental sends exact.
    HoleBirth,
    /// Datasets can carry named values, as other features need.
    ExtensibleDataset,
    /// Blocks that shrink to 112 bytes live in their block pointer.
    EmbeddedData,
    /// A snapshot's place in time can be kept without its data.
    Bookmarks,
    /// Numbers of file systems and snapshots can be limited.
    FilesystemLimits,
    /// Blocks can be larger than 128 KiB.
    LargeBlocks,
    /// Dnodes can be larger than 512 bytes.
    LargeDnode,
    /// Blocks can be checksummed with SHA-512.
    Sha512,
    /// Blocks can be checksummed with Skein.
    Skein,
    /// Blocks can be checksummed with Edon-R.
    Edonr,
    /// Objects are counted by user and group.
    UserobjAccounting,
    /// Datasets can be encrypted.
    Encryption,
    /// Space and objects are counted by project.
    ProjectQuota,
    /// Top-level devices can be removed from a pool.
    DeviceRemoval,
    /// Mappings of removed devices shrink as their blocks are freed.
    ObsoleteCounts,
    /// The pool's state can be kept, to go back to.
    ZpoolCheckpoint,
    /// Space maps say large segments in few words.
    SpacemapV2,
    /// Devices can be set aside for kinds of blocks.
    AllocationClasses,
    /// A resilver can wait for the one under way.
    ResilverDefer,
    /// Bookmarks can hold more.
    BookmarkV2,
    /// Bookmarks can list blocks to leave out of a send.
    RedactionBookmarks,
    /// Datasets can lack blocks that a send left out.
    RedactedDatasets,
    /// Space written since a bookmark is known.
    BookmarkWritten,
    /// Changes of all space maps are logged in one.
    LogSpacemap,
    /// Clones list their own blocks, and are destroyed faster.
    Livelist,
    /// Mirrors can be rebuilt in the order of the disk.
    DeviceRebuild,
    /// Blocks can be compressed with Zstandard.
    ZstdCompress,
    /// RAID can have its spare space distributed.
    Draid,
    /// Extended attributes in system attributes are logged in the ZIL.
    Zilsaxattr,
    /// Damaged blocks are recorded by dataset.
    HeadErrlog,
    /// Blocks can be checksummed with BLAKE3.
    Blake3,
    /// Files can share blocks.
    BlockCloning,
    /// The root of the device tree has a ZAP too.
    VdevZapsV2,
    /// More snapshots can be given to a redaction.
    RedactionListSpill,
    /// RAID-Z can be widened by a device.
    RaidzExpansion,
    /// Dedup tables are logged and can be limited and pruned.
    FastDedup,
    /// File names can have up to 1023 bytes.
    Longname,
    /// Micro ZAPs can be larger than 128 KiB.
    LargeMicrozap,
}

/// Only matters to writers.
const READONLY_COMPAT: u8 = 1 << 0;
/// Needed to read the MOS.
const MOS: u8 = 1 << 1;
/// Active as soon as it is enabled.
const ACTIVATE_ON_ENABLE: u8 = 1 << 2;
/// Datasets that use it say so.
const PER_DATASET: u8 = 1 << 3;
/// What they say is an array of words, not just that they do.
const VALUE_ARRAY: u8 = 1 << 4;

/// What is known about a feature.
#[derive(Clone, Copy, Debug)]
pub struct FeatureInfo {
    /// Its name on disk: reversed domain, colon, name.
    pub guid: &'static str,
    flags: u8,
    /// Features that must be enabled first.
    pub depends: &'static [Feature],
    /// For people, and for the MOS's `feature_descriptions`.
    pub description: &'static str,
}

impl FeatureInfo {
    /// The name people use, as in `feature@name`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.guid.split_once(':').map_or(self.guid, |(_, name)| name)
    }

    /// A pool with it active can be read by those who do not know it.
    #[must_use]
    pub const fn readonly_compat(&self) -> bool {
        self.flags & READONLY_COMPAT != 0
    }

    /// Needed to read the MOS, and therefore listed in labels while active.
    #[must_use]
    pub const fn mos(&self) -> bool {
        self.flags & MOS != 0
    }

    /// Active as soon as it is enabled, whether anything uses it or not.
    #[must_use]
    pub const fn activate_on_enable(&self) -> bool {
        self.flags & ACTIVATE_ON_ENABLE != 0
    }

    /// Its count is that of datasets using it, and each of these has its guid as a name.
    #[must_use]
    pub const fn per_dataset(&self) -> bool {
        self.flags & PER_DATASET != 0
    }

    /// Under that name lies an array of words rather than a zero.
    #[must_use]
    pub const fn value_is_array(&self) -> bool {
        self.flags & VALUE_ARRAY != 0
    }
}

const fn info(
    guid: &'static str,
    flags: u8,
    depends: &'static [Feature],
    description: &'static str,
) -> FeatureInfo {
    FeatureInfo { guid, flags, depends, description }
}

impl Feature {
    /// All features.
    pub const ALL: [Self; 44] = [
        Self::AsyncDestroy,
        Self::EmptyBpobj,
        Self::Lz4Compress,
        Self::MultiVdevCrashDump,
        Self::SpacemapHistogram,
        Self::EnabledTxg,
        Self::HoleBirth,
        Self::ExtensibleDataset,
        Self::EmbeddedData,
        Self::Bookmarks,
        Self::FilesystemLimits,
        Self::LargeBlocks,
        Self::LargeDnode,
        Self::Sha512,
        Self::Skein,
        Self::Edonr,
        Self::UserobjAccounting,
        Self::Encryption,
        Self::ProjectQuota,
        Self::DeviceRemoval,
        Self::ObsoleteCounts,
        Self::ZpoolCheckpoint,
        Self::SpacemapV2,
        Self::AllocationClasses,
        Self::ResilverDefer,
        Self::BookmarkV2,
        Self::RedactionBookmarks,
        Self::RedactedDatasets,
        Self::BookmarkWritten,
        Self::LogSpacemap,
        Self::Livelist,
        Self::DeviceRebuild,
        Self::ZstdCompress,
        Self::Draid,
        Self::Zilsaxattr,
        Self::HeadErrlog,
        Self::Blake3,
        Self::BlockCloning,
        Self::VdevZapsV2,
        Self::RedactionListSpill,
        Self::RaidzExpansion,
        Self::FastDedup,
        Self::Longname,
        Self::LargeMicrozap,
    ];

    /// The feature with this name on disk.
    #[must_use]
    pub fn from_guid(guid: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|feature| feature.info().guid == guid)
    }

    /// The feature that people call this.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|feature| feature.info().name() == name)
    }

    /// What is known about it.
    #[must_use]
    pub const fn info(self) -> FeatureInfo {
        match self {
            Self::AsyncDestroy => info(
                "com.delphix:async_destroy",
                READONLY_COMPAT,
                &[],
                "Datasets are destroyed in the background.",
            ),
            Self::EmptyBpobj => info(
                "com.delphix:empty_bpobj",
                READONLY_COMPAT,
                &[],
                "Snapshots share one empty list of dead blocks.",
            ),
            Self::Lz4Compress => info(
                "org.illumos:lz4_compress",
                ACTIVATE_ON_ENABLE,
                &[],
                "Blocks can be compressed with LZ4.",
            ),
            Self::MultiVdevCrashDump => {
                info("com.joyent:multi_vdev_crash_dump", 0, &[], "Crash dumps can span several devices.")
            }
            Self::SpacemapHistogram => info(
                "com.delphix:spacemap_histogram",
                READONLY_COMPAT,
                &[],
                "Space maps count free segments by size.",
            ),
            Self::EnabledTxg => info(
                "com.delphix:enabled_txg",
                READONLY_COMPAT,
                &[],
                "The pool records when each feature was enabled.",
            ),
            Self::HoleBirth => info(
                "com.delphix:hole_birth",
                MOS | ACTIVATE_ON_ENABLE,
                &[Feature::EnabledTxg],
                "Holes record when they came to be, which makes incremental sends exact.",
            ),
            Self::ExtensibleDataset => info(
                "com.delphix:extensible_dataset",
                0,
                &[],
                "Datasets can carry named values, as other features need.",
            ),
            Self::EmbeddedData => info(
                "com.delphix:embedded_data",
                MOS | ACTIVATE_ON_ENABLE,
                &[],
                "Blocks that shrink to 112 bytes live in their block pointer.",
            ),
            Self::Bookmarks => info(
                "com.delphix:bookmarks",
                READONLY_COMPAT,
                &[Feature::ExtensibleDataset],
                "A snapshot's place in time can be kept without its data.",
            ),
            Self::FilesystemLimits => info(
                "com.joyent:filesystem_limits",
                READONLY_COMPAT,
                &[Feature::ExtensibleDataset],
                "Numbers of file systems and snapshots can be limited.",
            ),
            Self::LargeBlocks => info(
                "org.open-zfs:large_blocks",
                PER_DATASET,
                &[Feature::ExtensibleDataset],
                "Blocks can be larger than 128 KiB.",
            ),
            Self::LargeDnode => info(
                "org.zfsonlinux:large_dnode",
                PER_DATASET,
                &[Feature::ExtensibleDataset],
                "Dnodes can be larger than 512 bytes.",
            ),
            Self::Sha512 => info(
                "org.illumos:sha512",
                PER_DATASET,
                &[Feature::ExtensibleDataset],
                "Blocks can be checksummed with SHA-512.",
            ),
            Self::Skein => info(
                "org.illumos:skein",
                PER_DATASET,
                &[Feature::ExtensibleDataset],
                "Blocks can be checksummed with Skein.",
            ),
            Self::Edonr => info(
                "org.illumos:edonr",
                PER_DATASET,
                &[Feature::ExtensibleDataset],
                "Blocks can be checksummed with Edon-R.",
            ),
            Self::UserobjAccounting => info(
                "org.zfsonlinux:userobj_accounting",
                READONLY_COMPAT | PER_DATASET,
                &[Feature::ExtensibleDataset],
                "Objects are counted by user and group.",
            ),
            Self::Encryption => info(
                "com.datto:encryption",
                PER_DATASET,
                &[Feature::ExtensibleDataset, Feature::BookmarkV2],
                "Datasets can be encrypted.",
            ),
            Self::ProjectQuota => info(
                "org.zfsonlinux:project_quota",
                READONLY_COMPAT | PER_DATASET,
                &[Feature::ExtensibleDataset],
                "Space and objects are counted by project.",
            ),
            Self::DeviceRemoval => {
                info("com.delphix:device_removal", MOS, &[], "Top-level devices can be removed from a pool.")
            }
            Self::ObsoleteCounts => info(
                "com.delphix:obsolete_counts",
                READONLY_COMPAT,
                &[Feature::ExtensibleDataset, Feature::DeviceRemoval],
                "Mappings of removed devices shrink as their blocks are freed.",
            ),
            Self::ZpoolCheckpoint => info(
                "com.delphix:zpool_checkpoint",
                READONLY_COMPAT,
                &[],
                "The pool's state can be kept, to go back to.",
            ),
            Self::SpacemapV2 => info(
                "com.delphix:spacemap_v2",
                READONLY_COMPAT | ACTIVATE_ON_ENABLE,
                &[],
                "Space maps say large segments in few words.",
            ),
            Self::AllocationClasses => info(
                "org.zfsonlinux:allocation_classes",
                READONLY_COMPAT,
                &[],
                "Devices can be set aside for kinds of blocks.",
            ),
            Self::ResilverDefer => info(
                "com.datto:resilver_defer",
                READONLY_COMPAT,
                &[],
                "A resilver can wait for the one under way.",
            ),
            Self::BookmarkV2 => info(
                "com.datto:bookmark_v2",
                0,
                &[Feature::ExtensibleDataset, Feature::Bookmarks],
                "Bookmarks can hold more.",
            ),
            Self::RedactionBookmarks => info(
                "com.delphix:redaction_bookmarks",
                0,
                &[Feature::BookmarkV2, Feature::ExtensibleDataset, Feature::Bookmarks],
                "Bookmarks can list blocks to leave out of a send.",
            ),
            Self::RedactedDatasets => info(
                "com.delphix:redacted_datasets",
                PER_DATASET | VALUE_ARRAY,
                &[Feature::ExtensibleDataset],
                "Datasets can lack blocks that a send left out.",
            ),
            Self::BookmarkWritten => info(
                "com.delphix:bookmark_written",
                0,
                &[Feature::BookmarkV2, Feature::ExtensibleDataset, Feature::Bookmarks],
                "Space written since a bookmark is known.",
            ),
            Self::LogSpacemap => info(
                "com.delphix:log_spacemap",
                READONLY_COMPAT,
                &[Feature::SpacemapV2],
                "Changes of all space maps are logged in one.",
            ),
            Self::Livelist => info(
                "com.delphix:livelist",
                READONLY_COMPAT,
                &[Feature::ExtensibleDataset],
                "Clones list their own blocks, and are destroyed faster.",
            ),
            Self::DeviceRebuild => info(
                "org.openzfs:device_rebuild",
                READONLY_COMPAT,
                &[],
                "Mirrors can be rebuilt in the order of the disk.",
            ),
            Self::ZstdCompress => info(
                "org.freebsd:zstd_compress",
                PER_DATASET,
                &[Feature::ExtensibleDataset],
                "Blocks can be compressed with Zstandard.",
            ),
            Self::Draid => info("org.openzfs:draid", MOS, &[], "RAID can have its spare space distributed."),
            Self::Zilsaxattr => info(
                "org.openzfs:zilsaxattr",
                READONLY_COMPAT | PER_DATASET,
                &[Feature::ExtensibleDataset],
                "Extended attributes in system attributes are logged in the ZIL.",
            ),
            Self::HeadErrlog => info(
                "com.delphix:head_errlog",
                ACTIVATE_ON_ENABLE,
                &[],
                "Damaged blocks are recorded by dataset.",
            ),
            Self::Blake3 => info(
                "org.openzfs:blake3",
                PER_DATASET,
                &[Feature::ExtensibleDataset],
                "Blocks can be checksummed with BLAKE3.",
            ),
            Self::BlockCloning => {
                info("com.fudosecurity:block_cloning", READONLY_COMPAT, &[], "Files can share blocks.")
            }
            Self::VdevZapsV2 => {
                info("com.klarasystems:vdev_zaps_v2", MOS, &[], "The root of the device tree has a ZAP too.")
            }
            Self::RedactionListSpill => info(
                "com.delphix:redaction_list_spill",
                0,
                &[Feature::RedactionBookmarks],
                "More snapshots can be given to a redaction.",
            ),
            Self::RaidzExpansion => {
                info("org.openzfs:raidz_expansion", MOS, &[], "RAID-Z can be widened by a device.")
            }
            Self::FastDedup => info(
                "com.klarasystems:fast_dedup",
                READONLY_COMPAT,
                &[],
                "Dedup tables are logged and can be limited and pruned.",
            ),
            Self::Longname => info(
                "org.zfsonlinux:longname",
                PER_DATASET,
                &[Feature::ExtensibleDataset],
                "File names can have up to 1023 bytes.",
            ),
            Self::LargeMicrozap => info(
                "com.klarasystems:large_microzap",
                READONLY_COMPAT | PER_DATASET,
                &[Feature::ExtensibleDataset, Feature::LargeBlocks],
                "Micro ZAPs can be larger than 128 KiB.",
            ),
        }
    }
}
