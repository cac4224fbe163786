//! What a sync adds to and takes from an objset's space.

use std::ops::AddAssign;

use ondisk::{Blkptr, ChecksumKind, Compression, ObjectType};
use zio::Keep;
use zio::Zio;

/// Change of an objset's space, in bytes; may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceDelta {
    /// Allocated, all copies, less the parity of raidz.
    pub used: i64,
    /// After compression, one copy.
    pub compressed: i64,
    /// Before compression, one copy.
    pub uncompressed: i64,
}

impl SpaceDelta {
    /// The same the other way.
    #[must_use]
    pub const fn negated(self) -> Self {
        Self { used: -self.used, compressed: -self.compressed, uncompressed: -self.uncompressed }
    }

    /// Counts `bp` in.
    pub fn add(&mut self, zio: &Zio, bp: &Blkptr) {
        *self += Self::of(zio, bp);
    }

    /// Counts `bp` out.
    pub fn remove(&mut self, zio: &Zio, bp: &Blkptr) {
        *self += Self::of(zio, bp).negated();
    }

    /// The space of one block; nothing for a hole. Sizes of blocks never reach 2^63.
    #[must_use]
    pub fn of(zio: &Zio, bp: &Blkptr) -> Self {
        if bp.is_hole() {
            return Self::default();
        }
        let used = zio.charged_bytes(bp);
        let compressed = bp.psize().get();
        // What compression saves on metadata is not shown to users (`BP_GET_UCSIZE`).
        let is_metadata = bp.level().get() > 0 || bp.object_type().is_metadata();
        let uncompressed = if is_metadata { compressed } else { bp.lsize().get() };
        Self { used: used as i64, compressed: compressed as i64, uncompressed: uncompressed as i64 }
    }
}

impl AddAssign for SpaceDelta {
    fn add_assign(&mut self, other: Self) {
        self.used += other.used;
        self.compressed += other.compressed;
        self.uncompressed += other.uncompressed;
    }
}

/// How one kind of block is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockClass {
    /// Which checksum.
    pub checksum: ChecksumKind,
    /// Which compression, at which level.
    pub compression: Compression,
    /// How many copies: 1 to 3.
    pub copies: u8,
    /// Whether what is read and written stays in the cache (`primarycache`), and may go to cache devices from there
    /// (`secondarycache`). Indirect blocks stay in memory always.
    pub keep: Keep,
    /// Blocks that take up to so many bytes may go to special vdevs.
    pub special_small_bytes: u64,
}

impl BlockClass {
    /// Whether indirect blocks of this class stay, or those above blocks of another one.
    pub(crate) fn keep_indirect(&self) -> Keep {
        if self.keep == Keep::Yes { Keep::Yes } else { Keep::InMemory }
    }
}

/// Which metadata has a copy more than data (`redundant_metadata`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redundancy {
    /// All of it.
    #[default]
    All,
    /// All but the lowest indirect blocks of files and volumes, so that a block that is lost takes some data along.
    Most,
    /// What a whole file system hangs on.
    Some,
    /// None.
    None,
}

/// Height of indirect blocks of files from which on [`Redundancy::Most`] has a copy more
/// (`zfs_redundant_metadata_most_ditto_level`).
const MOST_LEVEL: u8 = 2;

impl Redundancy {
    /// Whether a block of an object of this type, at this height, has a copy more.
    #[must_use]
    pub fn covers(self, object_type: ObjectType, level: u8) -> bool {
        match self {
            Self::All => true,
            Self::Most => level >= MOST_LEVEL || object_type.is_metadata(),
            Self::Some => is_critical(object_type),
            Self::None => false,
        }
    }

    /// Whether a spill block has.
    #[must_use]
    pub const fn covers_spills(self) -> bool {
        matches!(self, Self::All | Self::Most)
    }
}

/// Whether a file system hangs on an object of this type (`DMU_OT_IS_CRITICAL`).
fn is_critical(object_type: ObjectType) -> bool {
    let of_files = [ObjectType::DNODE, ObjectType::DIRECTORY_CONTENTS, ObjectType::SA];
    object_type.is_metadata() && !of_files.contains(&object_type)
}

/// How an objset stores its blocks: what its dataset's properties come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjsetProps {
    /// File data.
    pub data: BlockClass,
    /// Dnodes, indirect blocks, directories and everything else that is not file data.
    pub metadata: BlockClass,
    /// Which metadata has as many copies as `metadata` says; the rest has as many as data.
    pub redundancy: Redundancy,
    /// Whether file data is read ahead of who reads it in a row.
    pub prefetch: bool,
}

impl ObjsetProps {
    /// What a dataset has by default: fletcher4, lz4 (or lzjb, before there was lz4), one copy of data, two of metadata.
    #[must_use]
    pub fn dataset_default() -> Self {
        let redundancy = Redundancy::All;
        Self { data: Self::class(1), metadata: Self::class(2), redundancy, prefetch: true }
    }

    /// What the meta-objset has: three copies of everything.
    #[must_use]
    pub fn mos() -> Self {
        let redundancy = Redundancy::All;
        Self { data: Self::class(3), metadata: Self::class(3), redundancy, prefetch: false }
    }

    fn class(copies: u8) -> BlockClass {
        BlockClass {
            checksum: ChecksumKind::Fletcher4,
            compression: Compression::ON,
            copies,
            keep: Keep::Yes,
            special_small_bytes: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redundant_metadata_is_what_openzfs_makes_of_it() {
        use Redundancy::{All, Most, None, Some};
        let of = |object_type, level| {
            [All, Most, Some, None].map(|redundancy: Redundancy| redundancy.covers(object_type, level))
        };
        assert_eq!(of(ObjectType::PLAIN_FILE_CONTENTS, 1), [true, false, false, false]);
        assert_eq!(of(ObjectType::PLAIN_FILE_CONTENTS, 2), [true, true, false, false]);
        assert_eq!(of(ObjectType::DIRECTORY_CONTENTS, 0), [true, true, false, false]);
        assert_eq!(of(ObjectType::DNODE, 0), [true, true, false, false]);
        assert_eq!(of(ObjectType::OBJSET, 0), [true, true, true, false]);
        assert_eq!([All, Most, Some, None].map(Redundancy::covers_spills), [true, true, false, false]);
    }
}
