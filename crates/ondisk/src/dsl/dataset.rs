//! A dataset: a head or a snapshot.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::blkptr::Blkptr;

/// Bytes of the bonus.
pub const DSL_DATASET_BYTES: usize = 320;

/// Bits of [`DslDatasetPhys::flags`].
pub mod flags {
    /// Being received into, or half destroyed: not to be mounted.
    pub const INCONSISTENT: u64 = 1 << 0;
    /// May not be promoted.
    pub const NOPROMOTE: u64 = 1 << 1;
    /// `unique_bytes` is right (always, but in very old pools).
    pub const UNIQUE_ACCURATE: u64 = 1 << 2;
    /// To be destroyed once its last hold or clone goes.
    pub const DEFER_DESTROY: u64 = 1 << 3;
    /// Holds a file system that ignores case in names.
    pub const CI_DATASET: u64 = 1 << 16;
}

/// Names in a dataset object that was turned into a ZAP (feature `extensible_dataset`). Names of
/// features are there too, for features that count the datasets that use them.
pub mod names {
    /// ZAP of bookmarks.
    pub const BOOKMARKS: &str = "com.delphix:bookmarks";
    /// Deadlist of blocks moved by device removal.
    pub const REMAP_DEADLIST: &str = "com.delphix:remap_deadlist";
    /// Identifies the set of IVs of an encrypted snapshot.
    pub const IVSET_GUID: &str = "com.datto:ivset_guid";
    /// A receive to be resumed: guid of the snapshot it starts from.
    pub const RESUME_FROMGUID: &str = "com.delphix:resume_fromguid";
    /// The same: name of the snapshot.
    pub const RESUME_TONAME: &str = "com.delphix:resume_toname";
    /// The same: guid of the snapshot.
    pub const RESUME_TOGUID: &str = "com.delphix:resume_toguid";
    /// The same: object to go on with.
    pub const RESUME_OBJECT: &str = "com.delphix:resume_object";
    /// The same: offset in it.
    pub const RESUME_OFFSET: &str = "com.delphix:resume_offset";
    /// The same: bytes received.
    pub const RESUME_BYTES: &str = "com.delphix:resume_bytes";
    /// The same: the stream may have large blocks.
    pub const RESUME_LARGEBLOCK: &str = "com.delphix:resume_largeblockok";
    /// The same: it may have embedded blocks.
    pub const RESUME_EMBEDOK: &str = "com.delphix:resume_embedok";
    /// The same: it may have compressed blocks.
    pub const RESUME_COMPRESSOK: &str = "com.delphix:resume_compressok";
    /// The same: it is raw.
    pub const RESUME_RAWOK: &str = "com.datto:resume_rawok";
    /// The same: snapshots of the redaction bookmark it starts from.
    pub const RESUME_REDACT_BOOKMARK_SNAPS: &str = "com.delphix:resume_redact_book_snaps";
}

/// The bonus of a dataset:
///
/// ```text
///   0 dir               8 prev snapshot    16 prev snapshot txg   24 next snapshot
///  32 snapshot names   40 children         48 creation time       56 creation txg
///  64 deadlist         72 referenced       80 compressed          88 uncompressed
///  96 unique          104 fsid guid       112 guid               120 flags
/// 128 blkptr (128)    256 next clones     264 props              272 holds   280 zero (5)   320
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct DslDatasetPhys {
    /// Its directory.
    pub dir: U64,
    /// The snapshot before it, or the origin of a clone; zero for none.
    pub prev_snapshot: U64,
    /// That snapshot's creation txg: blocks born later are this dataset's own.
    pub prev_snapshot_txg: U64,
    /// The snapshot (or head) after it; zero in a head.
    pub next_snapshot: U64,
    /// ZAP: name to snapshot; zero in a snapshot.
    pub snapshot_names: U64,
    /// Clones and following snapshots that refer to this snapshot; zero in a head.
    pub children: U64,
    /// Seconds since 1970.
    pub creation_time: U64,
    /// When it was made.
    pub creation_txg: U64,
    /// Blocks the previous snapshot has and this dataset no longer.
    pub deadlist: U64,
    /// Space of all blocks that can be reached.
    pub referenced_bytes: U64,
    /// The same before copies and parity were added.
    pub compressed_bytes: U64,
    /// The same before compression.
    pub uncompressed_bytes: U64,
    /// Space that only this dataset refers to.
    pub unique_bytes: U64,
    /// 56 random bits for NFS handles; changed if another dataset has the same.
    pub fsid_guid: U64,
    /// Its name for good.
    pub guid: U64,
    /// See [`flags`].
    pub flags: U64,
    /// Leads to the objset.
    pub bp: Blkptr,
    /// ZAP: clones of this snapshot.
    pub next_clones: U64,
    /// ZAP: properties of a snapshot.
    pub props: U64,
    /// ZAP: holds on a snapshot.
    pub user_refs: U64,
    /// Zero.
    pub pad: [U64; 5],
}
const _: () = assert!(size_of::<DslDatasetPhys>() == DSL_DATASET_BYTES);
const _: () = assert!(std::mem::offset_of!(DslDatasetPhys, bp) == 128);
const _: () = assert!(std::mem::offset_of!(DslDatasetPhys, user_refs) == 272);

impl DslDatasetPhys {
    /// Reads a bonus.
    ///
    /// # Errors
    /// When it is shorter than 320 bytes.
    pub fn decode(bonus: &[u8]) -> Result<Self, crate::OndiskError> {
        crate::reader::prefix("dsl dataset", bonus)
    }

    /// Whether it is a snapshot.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.children.get() != 0
    }
}
