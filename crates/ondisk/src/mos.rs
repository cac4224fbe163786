//! Names in the MOS: its directory (object 1), and the ZAPs of vdevs and of the pool.

use units::ObjectId;

/// Object of the MOS directory.
pub const DIRECTORY: ObjectId = ObjectId::new(1);

/// Names in the MOS directory. Values are object numbers unless said otherwise.
pub mod directory {
    /// Packed nvlist: the pool's configuration.
    pub const CONFIG: &str = "config";
    /// DSL directory at the root.
    pub const ROOT_DATASET: &str = "root_dataset";
    /// bpobj of blocks to free in the next txgs.
    pub const SYNC_BPOBJ: &str = "sync_bplist";
    /// bpobj of blocks freed in the background.
    pub const FREE_BPOBJ: &str = "free_bpobj";
    /// Trees of destroyed datasets, freed in the background.
    pub const BPTREE_OBJ: &str = "bptree_obj";
    /// The bpobj that stands for all empty ones.
    pub const EMPTY_BPOBJ: &str = "empty_bpobj";
    /// ZAP: feature guid to reference count; needed to write.
    pub const FEATURES_FOR_WRITE: &str = "features_for_write";
    /// ZAP: feature guid to reference count; needed to read.
    pub const FEATURES_FOR_READ: &str = "features_for_read";
    /// ZAP: feature guid to description.
    pub const FEATURE_DESCRIPTIONS: &str = "feature_descriptions";
    /// ZAP: feature guid to the txg it was enabled in.
    pub const FEATURE_ENABLED_TXG: &str = "feature_enabled_txg";
    /// Error log of the scrub under way.
    pub const ERRLOG_SCRUB: &str = "errlog_scrub";
    /// Error log since.
    pub const ERRLOG_LAST: &str = "errlog_last";
    /// Packed nvlist of spares.
    pub const SPARES: &str = "spares";
    /// Packed nvlist of caches.
    pub const L2CACHE: &str = "l2cache";
    /// Value 1: space is counted without raidz's overhead.
    pub const DEFLATE: &str = "deflate";
    /// The history.
    pub const HISTORY: &str = "history";
    /// ZAP of the pool's properties.
    pub const PROPS: &str = "pool_props";
    /// ZAP of holds that go when a process does.
    pub const TMP_USERREFS: &str = "tmp_userrefs";
    /// Value: the pool version it was made with.
    pub const CREATION_VERSION: &str = "creation_version";
    /// Value: words of the state of a scrub or resilver.
    pub const SCAN: &str = "scan";
    /// Value: words of the state of a scrub of the error log.
    pub const ERRORSCRUB: &str = "error_scrub";
    /// Value: up to which txg all was scrubbed.
    pub const LAST_SCRUBBED_TXG: &str = "last_scrubbed_txg";
    /// Value: 32 bytes, the salt of keyed checksums.
    pub const CHECKSUM_SALT: &str = "org.illumos:checksum_salt";
    /// ZAP whose keys are the objects of all vdevs' ZAPs.
    pub const VDEV_ZAP_MAP: &str = "com.delphix:vdev_zap_map";
    /// Value: words of the state of a device removal.
    pub const REMOVING: &str = "com.delphix:removing";
    /// bpobj of blocks on removed devices that nobody refers to.
    pub const OBSOLETE_BPOBJ: &str = "com.delphix:obsolete_bpobj";
    /// Value: words of the state of condensing an indirect mapping.
    pub const CONDENSING_INDIRECT: &str = "com.delphix:condensing_indirect";
    /// Value: words of the checkpoint's uberblock.
    pub const ZPOOL_CHECKPOINT: &str = "com.delphix:zpool_checkpoint";
    /// ZAP: txg to log space map.
    pub const LOG_SPACEMAP_ZAP: &str = "com.delphix:log_spacemap_zap";
    /// ZAP of livelists to free.
    pub const DELETED_CLONES: &str = "com.delphix:deleted_clones";
    /// ZAP of figures of the dedup tables.
    pub const DDT_STATS: &str = "DDT-statistics";
}

/// Names in the ZAP of a vdev.
pub mod vdev_zap {
    /// Top-level: space map of what was freed of a removed vdev's blocks.
    pub const INDIRECT_OBSOLETE_SM: &str = "com.delphix:indirect_obsolete_sm";
    /// Top-level: value 1, a removed vdev's obsolete bytes were counted from the beginning.
    pub const OBSOLETE_COUNTS_ARE_PRECISE: &str = "com.delphix:obsolete_counts_are_precise";
    /// Top-level: value 1, a raidz's expansion has finished.
    pub const RAIDZ_EXPAND_STATE: &str = "org.openzfs:raidz_expand_state";
    /// Top-level: space map of what the checkpoint needs.
    pub const POOL_CHECKPOINT_SM: &str = "com.delphix:pool_checkpoint_sm";
    /// Top-level: object of words, for each metaslab the txg up to which it was flushed.
    pub const MS_UNFLUSHED_PHYS_TXGS: &str = "com.delphix:ms_unflushed_phys_txgs";
    /// Top-level: value, what the vdev is for: `log`, `special` or `dedup`.
    pub const ALLOCATION_BIAS: &str = "org.zfsonlinux:allocation_bias";
    /// Top-level: value, words of a sequential rebuild's state.
    pub const REBUILD_PHYS: &str = "org.openzfs:vdev_rebuild";
    /// Leaf: values of `zpool initialize`: where it is.
    pub const INITIALIZE_LAST_OFFSET: &str = "com.delphix:next_offset_to_initialize";
    /// Leaf: how it stands.
    pub const INITIALIZE_STATE: &str = "com.delphix:vdev_initialize_state";
    /// Leaf: when that changed.
    pub const INITIALIZE_ACTION_TIME: &str = "com.delphix:vdev_initialize_action_time";
    /// Leaf: values of `zpool trim`: where it is.
    pub const TRIM_LAST_OFFSET: &str = "org.zfsonlinux:next_offset_to_trim";
    /// Leaf: how it stands.
    pub const TRIM_STATE: &str = "org.zfsonlinux:vdev_trim_state";
    /// Leaf: when that changed.
    pub const TRIM_ACTION_TIME: &str = "org.zfsonlinux:vdev_trim_action_time";
    /// Leaf: how fast it goes.
    pub const TRIM_RATE: &str = "org.zfsonlinux:vdev_trim_rate";
    /// Leaf: whether all space is trimmed, or just what was used.
    pub const TRIM_PARTIAL: &str = "org.zfsonlinux:vdev_trim_partial";
    /// Leaf: whether it erases securely.
    pub const TRIM_SECURE: &str = "org.zfsonlinux:vdev_trim_secure";
}

/// Names of datasets that people do not see, in the root directory's children.
pub mod hidden {
    /// Accounts for the MOS's own space.
    pub const MOS: &str = "$MOS";
    /// Accounts for space being freed.
    pub const FREE: &str = "$FREE";
    /// Accounts for space leaked by damage.
    pub const LEAK: &str = "$LEAK";
    /// The origin of datasets that were not cloned.
    pub const ORIGIN: &str = "$ORIGIN";
}
