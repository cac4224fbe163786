//! Names of things: vdevs, objects, blocks, log records.

use crate::newtype;

newtype! {
    /// Index of a top-level vdev in the pool's vdev tree: what a DVA carries (24 bits).
    VdevId(u32)
}
newtype! {
    /// A pool's or a vdev's random 64-bit name, unique for good.
    Guid(u64)
}
newtype! {
    /// Number of an object (a dnode) within its objset. 0 is the meta-dnode.
    ObjectId(u64)
}
newtype! {
    /// MOS object number of the dataset that owns an objset; 0 is the MOS itself.
    ObjsetId(u64)
}
newtype! {
    /// Index of a block within an object at one level.
    BlockId(u64)
}
newtype! {
    /// Height of a block in an object's tree: 0 is data.
    Level(u8)
}
newtype! {
    /// Sequence number of a log block, or of a log record.
    ZilSeq(u64)
}

impl ObjsetId {
    /// The meta-objset.
    pub const MOS: Self = Self::new(0);
}

impl ObjectId {
    /// The meta-dnode, whose data blocks are the objset's dnodes.
    pub const META_DNODE: Self = Self::new(0);
}

impl ZilSeq {
    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.get().wrapping_add(1))
    }
}
