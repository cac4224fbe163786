//! The name of a block: which objset, object, level and number.

use units::{BlockId, Level, ObjectId, ObjsetId};

/// Where a block belongs, as `zdb` and `zpool status -v` name it. Only for messages: a block is
/// found by its blkptr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bookmark {
    /// The objset.
    pub objset: ObjsetId,
    /// The object in it.
    pub object: ObjectId,
    /// Height in the object's tree; 0 is data.
    pub level: Level,
    /// Number of the block at that level.
    pub block: BlockId,
}

impl Bookmark {
    /// The block `block` at `level` of an object.
    #[must_use]
    pub const fn new(objset: ObjsetId, object: ObjectId, level: Level, block: BlockId) -> Self {
        Self { objset, object, level, block }
    }
}

impl std::fmt::Display for Bookmark {
    /// `objset/object/level/block`, all decimal.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}/{}", self.objset, self.object, self.level, self.block)
    }
}
