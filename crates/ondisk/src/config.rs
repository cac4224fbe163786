//! Names in configuration nvlists: in labels, in the MOS and in the cache file.
//!
//! A label has the pool's names, the guids of the leaf (`guid`) and of its top-level vdev
//! (`top_guid`), and under `vdev_tree` the configuration of that top-level vdev alone. The MOS has
//! the whole tree, with the root at its top.

/// Version of the pool.
pub const VERSION: &str = "version";
/// Name of the pool.
pub const POOL_NAME: &str = "name";
/// A [`PoolState`].
pub const POOL_STATE: &str = "state";
/// Txg in which the configuration was written; 0 in a label that only stakes a claim.
pub const POOL_TXG: &str = "txg";
/// Guid of the pool, and of the root vdev.
pub const POOL_GUID: &str = "pool_guid";
/// Known damage by old bugs; 0 for none.
pub const ERRATA: &str = "errata";
/// Host that has (had) the pool open.
pub const HOSTID: &str = "hostid";
/// Its name.
pub const HOSTNAME: &str = "hostname";
/// Comment by people.
pub const COMMENT: &str = "comment";
/// Feature sets to keep to.
pub const COMPATIBILITY: &str = "compatibility";
/// Flag: vdevs have ZAPs.
pub const HAS_PER_VDEV_ZAPS: &str = "com.delphix:has_per_vdev_zaps";
/// Number of top-level vdevs, holes included.
pub const VDEV_CHILDREN: &str = "vdev_children";
/// Ids of top-level holes.
pub const HOLE_ARRAY: &str = "hole_array";
/// Configuration of a vdev.
pub const VDEV_TREE: &str = "vdev_tree";
/// Features needed to read the MOS, as a list of flags.
pub const FEATURES_FOR_READ: &str = "features_for_read";
/// In labels: guid of the leaf's top-level vdev.
pub const TOP_GUID: &str = "top_guid";
/// In labels of spares: this is one.
pub const IS_SPARE: &str = "is_spare";
/// Configurations of spares.
pub const SPARES: &str = "spares";
/// Configurations of caches.
pub const L2CACHE: &str = "l2cache";
/// In the MOS while a pool is split, and of one that was split off until it is imported again: [`SPLIT_LIST`] or
/// [`SPLIT_GUID`].
pub const SPLIT: &str = "splitcfg";
/// Guids of the leaves that are leaving for a pool of their own, by top-level vdev; 0 where none does.
pub const SPLIT_LIST: &str = "guid_list";
/// The guid of the pool that this one was split off.
pub const SPLIT_GUID: &str = "split_guid";

/// Kind of a vdev, see [`vdev_type`].
pub const TYPE: &str = "type";
/// Number of a vdev among its siblings.
pub const ID: &str = "id";
/// Guid of a vdev; in labels also of the leaf.
pub const GUID: &str = "guid";
/// Txg in which a vdev was added.
pub const CREATE_TXG: &str = "create_txg";
/// Vdevs below.
pub const CHILDREN: &str = "children";
/// Where a leaf was last seen.
pub const PATH: &str = "path";
/// Name by hardware.
pub const DEVID: &str = "devid";
/// Place by hardware.
pub const PHYS_PATH: &str = "phys_path";
/// Place in an enclosure.
pub const ENC_SYSFS_PATH: &str = "vdev_enc_sysfs_path";
/// Whether the leaf has the disk to itself.
pub const WHOLE_DISK: &str = "whole_disk";
/// Object of the array of a top-level vdev's space maps.
pub const METASLAB_ARRAY: &str = "metaslab_array";
/// Base-2 logarithm of a top-level vdev's metaslabs.
pub const METASLAB_SHIFT: &str = "metaslab_shift";
/// Base-2 logarithm of a top-level vdev's sectors.
pub const ASHIFT: &str = "ashift";
/// Allocatable bytes of a top-level vdev.
pub const ASIZE: &str = "asize";
/// Smallest allocation, as far as it matters.
pub const MIN_ALLOC: &str = "min_alloc";
/// Largest allocation.
pub const MAX_ALLOC: &str = "max_alloc";
/// Whether a top-level vdev is a log.
pub const IS_LOG: &str = "is_log";
/// Whether a top-level place is empty.
pub const IS_HOLE: &str = "is_hole";
/// What a new top-level vdev is for: `log`, `special` or `dedup`.
pub const ALLOCATION_BIAS: &str = "alloc_bias";
/// Parity of a raidz.
pub const NPARITY: &str = "nparity";
/// Object of a leaf's dirty time log: a space map over txgs.
pub const DTL: &str = "DTL";
/// Object of the root's ZAP.
pub const VDEV_ROOT_ZAP: &str = "com.klarasystems:vdev_zap_root";
/// Object of a top-level vdev's ZAP.
pub const VDEV_TOP_ZAP: &str = "com.delphix:vdev_zap_top";
/// Object of a leaf's ZAP.
pub const VDEV_LEAF_ZAP: &str = "com.delphix:vdev_zap_leaf";
/// Whether new blocks are not to be allocated here.
pub const NONALLOCATING: &str = "non_allocating";
/// Whether a top-level vdev is being removed.
pub const REMOVING: &str = "removing";
/// Txg up to which a resilver is needed.
pub const RESILVER_TXG: &str = "resilver_txg";
/// Txg up to which a rebuild is needed.
pub const REBUILD_TXG: &str = "rebuild_txg";
/// Whether a resilver was put off.
pub const RESILVER_DEFER: &str = "com.datto:resilver_defer";
/// People took a leaf offline.
pub const OFFLINE: &str = "offline";
/// A leaf had too many errors.
pub const FAULTED: &str = "faulted";
/// A leaf had errors.
pub const DEGRADED: &str = "degraded";
/// A leaf was pulled out.
pub const REMOVED: &str = "removed";
/// A spare is to be let go of once the leaf has everything again.
pub const UNSPARE: &str = "unspare";
/// A leaf was not there.
pub const NOT_PRESENT: &str = "not_present";
/// Why a leaf faulted.
pub const AUX_STATE: &str = "aux_state";
/// Object of a removed vdev's mapping.
pub const INDIRECT_OBJECT: &str = "com.delphix:indirect_object";
/// Object of the births of that mapping.
pub const INDIRECT_BIRTHS: &str = "com.delphix:indirect_births";
/// The vdev removed before this one.
pub const PREV_INDIRECT_VDEV: &str = "com.delphix:prev_indirect_vdev";
/// Whether a raidz is being widened.
pub const RAIDZ_EXPANDING: &str = "raidz_expanding";
/// When a top-level vdev was last enlarged: seconds since 1970.
pub const EXPANSION_TIME: &str = "expansion_time";
/// Data columns of a draid's groups.
pub const DRAID_NDATA: &str = "draid_ndata";
/// Children's space that a draid leaves for spares.
pub const DRAID_NSPARES: &str = "draid_nspares";
/// Groups of a draid's slices.
pub const DRAID_NGROUPS: &str = "draid_ngroups";
/// Children of one of a draid's failure domains.
pub const DRAID_NCHILDREN: &str = "draid_nchildren";
/// Txgs in which a raidz was widened.
pub const RAIDZ_EXPAND_TXGS: &str = "raidz_expand_txgs";

/// Kinds of vdevs.
pub mod vdev_type {
    /// The root.
    pub const ROOT: &str = "root";
    /// Each child has all data.
    pub const MIRROR: &str = "mirror";
    /// A mirror that ends when the new child is complete.
    pub const REPLACING: &str = "replacing";
    /// A mirror of a leaf and the spare that stands in for it.
    pub const SPARE: &str = "spare";
    /// Data and parity over the children.
    pub const RAIDZ: &str = "raidz";
    /// The same with distributed spare space.
    pub const DRAID: &str = "draid";
    /// Spare space of a draid as a leaf.
    pub const DRAID_SPARE: &str = "dspare";
    /// A device.
    pub const DISK: &str = "disk";
    /// A file.
    pub const FILE: &str = "file";
    /// A top-level vdev that could not be found.
    pub const MISSING: &str = "missing";
    /// A top-level place whose vdev was removed.
    pub const HOLE: &str = "hole";
    /// A top-level vdev that was removed, its blocks mapped elsewhere.
    pub const INDIRECT: &str = "indirect";
    /// A log, in commands.
    pub const LOG: &str = "log";
    /// A cache.
    pub const L2CACHE: &str = "l2cache";
}

/// What a label says about its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum PoolState {
    /// In use, or was when the machine stopped.
    Active = 0,
    /// Exported.
    Exported = 1,
    /// Destroyed.
    Destroyed = 2,
    /// The device is a spare.
    Spare = 3,
    /// The device is a cache.
    L2Cache = 4,
}

impl PoolState {
    /// The state with this number; `None` for those that are never written.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Option<Self> {
        match raw {
            0 => Some(Self::Active),
            1 => Some(Self::Exported),
            2 => Some(Self::Destroyed),
            3 => Some(Self::Spare),
            4 => Some(Self::L2Cache),
            _ => None,
        }
    }

    /// The format's number.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self as u64
    }
}
