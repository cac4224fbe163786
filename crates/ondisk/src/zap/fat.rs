//! Block 0 of a fat ZAP.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{OndiskError, bad};

/// The magic number of a fat ZAP.
pub const ZAP_MAGIC: u64 = 0x2_f52a_b2ab;

/// Bits of [`ZapHeaderPhys::flags`].
pub mod flags {
    /// Hashes keep their top 48 bits, and collision numbers stay below 2^16; without it 28 bits
    /// are kept. Either way hash and collision number together fit a directory cookie.
    pub const HASH64: u64 = 1 << 0;
    /// Keys are arrays of 64-bit words, not text.
    pub const UINT64_KEY: u64 = 1 << 1;
    /// The first word of the key is the hash already.
    pub const PRE_HASHED_KEY: u64 = 1 << 2;
}

/// A pointer table that is not in block 0.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ZapTablePhys {
    /// Its first block; zero while the table is in block 0.
    pub block: U64,
    /// Its blocks.
    pub blocks: U64,
    /// Base-2 logarithm of its entries.
    pub shift: U64,
    /// First block of the table twice as large that it is being copied to; zero when not.
    pub next_block: U64,
    /// Blocks copied so far.
    pub blocks_copied: U64,
}

/// The start of block 0.
///
/// ```text
///   0 block type   8 magic   16 pointer table (5 words)   56 next free block
///  64 leaves      72 entries 80 salt   88 normalization   96 flags   104 zero ...
///  half the block: pointer table, while it has no more entries than fit there
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ZapHeaderPhys {
    /// [`super::BLOCK_HEADER`].
    pub block_type: U64,
    /// [`ZAP_MAGIC`].
    pub magic: U64,
    /// Where the pointer table is, and how large.
    pub table: ZapTablePhys,
    /// First block never used.
    pub free_block: U64,
    /// Leaves.
    pub leaves: U64,
    /// Entries.
    pub entries: U64,
    /// Random; stirred into hashes.
    pub salt: U64,
    /// How names are normalized before they are compared; zero for not.
    pub normalization: U64,
    /// See [`flags`].
    pub flags: U64,
}
const _: () = assert!(size_of::<ZapHeaderPhys>() == 104);
const _: () = assert!(std::mem::offset_of!(ZapHeaderPhys, free_block) == 56);

/// Base-2 logarithm of the entries of a pointer table within a block 0 of `1 << block_shift` bytes:
/// half the block, 8 bytes each.
#[must_use]
pub const fn embedded_table_entries(block_shift: u32) -> u32 {
    block_shift.saturating_sub(4)
}

impl ZapHeaderPhys {
    /// Reads and checks the start of block 0.
    ///
    /// # Errors
    /// When it is no header, or its pointer table cannot be.
    pub fn decode(block: &[u8]) -> Result<Self, OndiskError> {
        let header: Self = crate::reader::prefix("fat zap", block)?;
        if header.block_type.get() != super::BLOCK_HEADER {
            return Err(bad("fat zap", "block type", header.block_type.get()));
        }
        if header.magic.get() != ZAP_MAGIC {
            let (expected, found) = (ZAP_MAGIC, header.magic.get());
            return Err(OndiskError::BadMagic { what: "fat zap", expected, found });
        }
        if header.table.shift.get() > 48 {
            return Err(bad("fat zap", "table shift", header.table.shift.get()));
        }
        Ok(header)
    }

    /// Whether the pointer table is in block 0.
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        self.table.blocks.get() == 0
    }
}
