//! The data virtual address: a vdev, an offset in it, and how much is allocated there.

use units::{Asize, SECTOR_BYTES, VdevId, VdevOffset};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bits;

/// Largest allocation a DVA can name, in sectors.
const ASIZE_BITS: u32 = 24;
const VDEV_LOW: u32 = 32;
const VDEV_BITS: u32 = 24;
const OFFSET_BITS: u32 = 63;
const GANG_BIT: u32 = 63;

/// A DVA as it lies on disk: two words, see [`crate::blkptr`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct DvaPhys {
    size_word: U64,
    offset_word: U64,
}
const _: () = assert!(size_of::<DvaPhys>() == 16);

/// One place on one top-level vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dva {
    /// The top-level vdev.
    pub vdev: VdevId,
    /// Where in its allocatable space.
    pub offset: VdevOffset,
    /// How much is allocated; for a gang, its members included.
    pub asize: Asize,
    /// Whether a gang header lies there instead of the block.
    pub gang: bool,
}

impl Dva {
    /// Names nothing.
    pub const EMPTY: Self =
        Self { vdev: VdevId::new(0), offset: VdevOffset::new(0), asize: Asize::new(0), gang: false };

    /// Whether it names any space.
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        self.asize.get() != 0
    }

    /// The two words of the format.
    ///
    /// # Panics
    /// When offset or asize is not whole sectors, or does not fit.
    #[must_use]
    pub fn encode(&self) -> DvaPhys {
        let size = bits::set(0, 0, ASIZE_BITS, whole_sectors(self.asize.get()));
        let offset = bits::set(0, 0, OFFSET_BITS, whole_sectors(self.offset.get()));
        DvaPhys {
            size_word: U64::new(bits::set(size, VDEV_LOW, VDEV_BITS, self.vdev.get().into())),
            offset_word: U64::new(bits::with_flag(offset, GANG_BIT, self.gang)),
        }
    }
}

impl Default for Dva {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl std::fmt::Display for Dva {
    /// As `zdb` prints it: `<vdev:offset:asize>`, the last two in hex bytes.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{}:{:x}:{:x}>", self.vdev, self.offset.get(), self.asize.get())
    }
}

fn whole_sectors(bytes: u64) -> u64 {
    assert!(bytes.is_multiple_of(SECTOR_BYTES), "a DVA counts whole sectors");
    bytes / SECTOR_BYTES
}

impl DvaPhys {
    /// Both words zero.
    pub const EMPTY: Self = Self { size_word: U64::ZERO, offset_word: U64::ZERO };

    /// Whether both words are zero: what makes a blkptr a hole.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// The fields. An offset past 64 bits of bytes saturates, and then lies on no vdev.
    #[must_use]
    pub fn decode(&self) -> Dva {
        let (size, offset) = (self.size_word.get(), self.offset_word.get());
        let vdev = bits::get(size, VDEV_LOW, VDEV_BITS);
        Dva {
            vdev: VdevId::new(u32::try_from(vdev).unwrap_or(u32::MAX)),
            offset: VdevOffset::new(bits::get(offset, 0, OFFSET_BITS).saturating_mul(SECTOR_BYTES)),
            asize: Asize::new(bits::get(size, 0, ASIZE_BITS).saturating_mul(SECTOR_BYTES)),
            gang: bits::flag(offset, GANG_BIT),
        }
    }
}
