//! A blkptr taken apart, to build one or to change one.

use units::{Level, Lsize, Psize, SECTOR_BYTES, Txg};
use zerocopy::little_endian::U64;

use super::{Blkptr, Dva, SIZE_MAX_BYTES, prop, put};
use crate::bits;
use crate::checksum_kind::ChecksumKind;
use crate::compression_kind::CompressionKind;
use crate::error::OndiskError;
use crate::object_type::ObjectType;

/// The fields of a blkptr that leads to a block: neither hole, embedded nor encrypted.
/// [`BlkptrParts::to_blkptr`] always marks it little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlkptrParts {
    /// Where the copies lie; unused ones empty.
    pub dvas: [Dva; 3],
    /// Logical size: whole sectors.
    pub lsize: Lsize,
    /// Physical size: whole sectors.
    pub psize: Psize,
    /// How psize became lsize.
    pub compression: CompressionKind,
    /// What the checksum is.
    pub checksum_kind: ChecksumKind,
    /// What the block holds.
    pub object_type: ObjectType,
    /// Height in the object's tree.
    pub level: Level,
    /// Logical birth.
    pub birth: Txg,
    /// Physical birth; the logical one unless the block was cloned, deduplicated or rewritten.
    pub physical_birth: Txg,
    /// See [`Blkptr::fill`].
    pub fill: u64,
    /// The checksum words.
    pub checksum: [u64; 4],
    /// In the dedup table.
    pub dedup: bool,
    /// Rewritten at its physical birth.
    pub rewritten: bool,
}

impl Default for BlkptrParts {
    /// One sector of nothing: uncompressed, fletcher4, level 0, no DVA.
    fn default() -> Self {
        Self {
            dvas: [Dva::EMPTY; 3],
            lsize: Lsize::new(SECTOR_BYTES),
            psize: Psize::new(SECTOR_BYTES),
            compression: CompressionKind::Off,
            checksum_kind: ChecksumKind::Fletcher4,
            object_type: ObjectType::NONE,
            level: Level::new(0),
            birth: Txg::ZERO,
            physical_birth: Txg::ZERO,
            fill: 0,
            checksum: [0; 4],
            dedup: false,
            rewritten: false,
        }
    }
}

/// A size as `prop` stores it: sectors, less one.
///
/// # Panics
/// When it is zero, not whole sectors or above 32 MiB.
pub(super) fn sectors_less_one(bytes: u64) -> u64 {
    assert!(bytes.is_multiple_of(SECTOR_BYTES) && bytes <= SIZE_MAX_BYTES, "no block has {bytes} bytes");
    (bytes / SECTOR_BYTES).checked_sub(1).expect("a block is not empty")
}

impl BlkptrParts {
    /// Builds the blkptr, little-endian.
    ///
    /// # Panics
    /// When a size, an offset or the level does not fit its field.
    #[must_use]
    pub fn to_blkptr(&self) -> Blkptr {
        let physical = if self.physical_birth == self.birth { Txg::ZERO } else { self.physical_birth };
        Blkptr {
            dva: self.dvas.map(|dva| dva.encode()),
            prop: U64::new(self.prop_word()),
            prop2: U64::new(bits::with_flag(0, prop::REWRITE, self.rewritten)),
            pad: U64::ZERO,
            physical_birth: U64::new(physical.get()),
            birth: U64::new(self.birth.get()),
            fill: U64::new(self.fill),
            checksum: self.checksum.map(U64::new),
        }
    }

    fn prop_word(&self) -> u64 {
        let mut word = bits::with_flag(0, prop::LITTLE_ENDIAN, true);
        word = put(word, prop::LSIZE, sectors_less_one(self.lsize.get()));
        word = put(word, prop::PSIZE, sectors_less_one(self.psize.get()));
        word = put(word, prop::COMPRESSION, self.compression.raw().into());
        word = put(word, prop::CHECKSUM, self.checksum_kind.raw().into());
        word = put(word, prop::TYPE, self.object_type.raw().into());
        word = put(word, prop::LEVEL, self.level.get().into());
        bits::with_flag(word, prop::DEDUP, self.dedup)
    }
}

impl TryFrom<&Blkptr> for BlkptrParts {
    type Error = OndiskError;

    /// Refuses what parts cannot say: embedded and encrypted blkptrs, unknown functions.
    fn try_from(bp: &Blkptr) -> Result<Self, OndiskError> {
        if bp.is_embedded() || bp.uses_crypt() {
            return Err(OndiskError::Unsupported { what: "blkptr", detail: "embedded or encrypted" });
        }
        Ok(Self {
            dvas: [bp.dva(0), bp.dva(1), bp.dva(2)],
            lsize: bp.lsize(),
            psize: bp.psize(),
            compression: bp.compression()?,
            checksum_kind: bp.checksum_kind()?,
            object_type: bp.object_type(),
            level: bp.level(),
            birth: bp.birth(),
            physical_birth: bp.physical_birth(),
            fill: bp.fill(),
            checksum: bp.checksum(),
            dedup: bp.dedup(),
            rewritten: bp.rewritten(),
        })
    }
}
