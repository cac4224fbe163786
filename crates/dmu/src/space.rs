//! What a sync adds to and takes from an objset's space.

use std::ops::AddAssign;

use ondisk::{Blkptr, ChecksumKind, Compression};
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

/// How an objset stores its blocks: what its dataset's properties come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjsetProps {
    /// File data.
    pub data: BlockClass,
    /// Dnodes, indirect blocks, directories and everything else that is not file data.
    pub metadata: BlockClass,
    /// Whether file data is read ahead of who reads it in a row.
    pub prefetch: bool,
}

impl ObjsetProps {
    /// What a dataset has by default: fletcher4, lz4 (or lzjb, before there was lz4), one copy of data, two of metadata.
    #[must_use]
    pub fn dataset_default() -> Self {
        Self { data: Self::class(1), metadata: Self::class(2), prefetch: true }
    }

    /// What the meta-objset has: three copies of everything.
    #[must_use]
    pub fn mos() -> Self {
        Self { data: Self::class(3), metadata: Self::class(3), prefetch: false }
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
