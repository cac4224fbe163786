//! The first block of a fat ZAP.
//!
//! ```text
//!  0 block type  8 magic
//! 16 pointer table: block, blocks, shift, next block, blocks copied
//! 56 free block  64 leaves  72 entries  80 salt  88 normalisation  96 flags  104 …
//! half the block: the embedded pointer table, in use while `blocks` is 0
//! ```

use ondisk::zap::{BLOCK_HEADER, ZAP_MAGIC, flags};

use super::bytes::{put_u64, u64_at};
use super::error::Damage;

/// 48 bits of the hash count rather than 28.
pub const ZAP_FLAG_HASH64: u64 = flags::HASH64;
/// Keys are arrays of `u64`, not names.
pub const ZAP_FLAG_UINT64_KEY: u64 = flags::UINT64_KEY;
/// The first word of a key is its hash.
pub const ZAP_FLAG_PRE_HASHED_KEY: u64 = flags::PRE_HASHED_KEY;

/// Smallest and largest block of a fat ZAP, as base-2 logarithms: a leaf's chunk numbers have
/// 16 bits.
const BLOCK_SHIFTS: std::ops::RangeInclusive<u32> = 9..=20;

/// A pointer table may grow to this size, as a base-2 logarithm of its pointers, however few leaves
/// there are.
const TABLE_SHIFT_FREE: u32 = 16;
/// Beyond that size, the base-2 logarithm of the largest number of pointers for each leaf. Names
/// with evenly distributed hashes need a few pointers for each leaf. Names that an attacker chose
/// for their hashes would need up to half a gigabyte.
const POINTERS_PER_LEAF_SHIFT: u32 = 8;

/// What decides how keys hash; the same in a micro and a fat ZAP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Params {
    pub(super) salt: u64,
    pub(super) normflags: u64,
    pub(super) flags: u64,
}

impl Params {
    /// How many top bits of the hash count.
    pub(super) const fn hash_bits(&self) -> u32 {
        if self.flags & ZAP_FLAG_HASH64 != 0 { 48 } else { 28 }
    }

    /// The bits of `hash` that count.
    pub(super) const fn cut(&self, hash: u64) -> u64 {
        hash & !(u64::MAX >> self.hash_bits())
    }

    /// Keys are arrays of `u64`.
    pub(super) const fn word_keys(&self) -> bool {
        self.flags & ZAP_FLAG_UINT64_KEY != 0
    }
}

/// Where the pointer table is, and how far a growth has come that OpenZFS spreads over many
/// operations (we grow in one).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    /// First block; 0 while embedded in the header.
    pub(super) block: u64,
    /// Blocks; 0 while embedded in the header.
    pub(super) blocks: u64,
    /// Base-2 logarithm of the number of pointers.
    pub(super) shift: u32,
    /// First block of the table twice as large, while it is being filled.
    pub(super) next_block: u64,
    /// Blocks of the old table already copied.
    pub(super) copied: u64,
}

/// The header, decoded. `encode` puts it back without touching the embedded table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) table: Table,
    /// First block number never used.
    pub(super) free_block: u64,
    pub(super) leaves: u64,
    pub(super) entries: u64,
    pub(super) params: Params,
    /// Base-2 logarithm of the block size.
    pub(super) block_shift: u32,
}

impl Header {
    /// Returns the largest size to which we grow the pointer table. Larger tables from other
    /// systems are used as they are.
    pub(super) fn table_shift_max(&self) -> u32 {
        let by_leaves = self.leaves.max(1).ilog2() + POINTERS_PER_LEAF_SHIFT;
        // Two bits stay unused, as in OpenZFS, because a table of that size is of no use.
        by_leaves.max(TABLE_SHIFT_FREE).min(self.params.hash_bits() - 2)
    }

    /// The header of a ZAP with no entries and one leaf in block 1.
    pub(super) fn new(block_shift: u32, params: Params) -> Self {
        let table = Table { shift: embedded_shift(block_shift), ..Table::default() };
        Self { table, free_block: 2, leaves: 1, entries: 0, params, block_shift }
    }

    /// Reads and checks the first block.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let block_shift = block_shift(bytes.len())?;
        if u64_at(bytes, 0) != BLOCK_HEADER || u64_at(bytes, 8) != ZAP_MAGIC {
            return Err(Damage("no ZAP header"));
        }
        let shift = u32::try_from(u64_at(bytes, 32)).map_err(|_| Damage("pointer table shift"))?;
        let table = Table {
            block: u64_at(bytes, 16),
            blocks: u64_at(bytes, 24),
            shift,
            next_block: u64_at(bytes, 40),
            copied: u64_at(bytes, 48),
        };
        let params =
            Params { salt: u64_at(bytes, 80), normflags: u64_at(bytes, 88), flags: u64_at(bytes, 96) };
        let header = Self {
            table,
            free_block: u64_at(bytes, 56),
            leaves: u64_at(bytes, 64),
            entries: u64_at(bytes, 72),
            params,
            block_shift,
        };
        header.check()?;
        Ok(header)
    }

    fn check(&self) -> Result<(), Damage> {
        let Table { block, blocks, shift, next_block, copied } = self.table;
        let shift_fits = if blocks == 0 {
            shift == embedded_shift(self.block_shift)
        } else {
            shift <= self.params.hash_bits()
                && shift >= self.block_shift - 3
                && blocks == 1 << (shift - (self.block_shift - 3))
        };
        if !shift_fits {
            return Err(Damage("pointer table of an impossible size"));
        }
        // Block numbers are multiplied by the block size: they must leave room for that.
        let highest = [block, next_block, self.free_block].into_iter().max().unwrap_or(0);
        if highest >= 1 << 40 || (blocks == 0) != (block == 0) {
            return Err(Damage("block numbers out of range"));
        }
        if copied > blocks || (next_block == 0 && copied != 0) || (next_block != 0 && blocks == 0) {
            return Err(Damage("pointer table growth makes no sense"));
        }
        Ok(())
    }

    /// Writes the header's own fields.
    pub(super) fn encode(&self, bytes: &mut [u8]) {
        let words = [
            BLOCK_HEADER,
            ZAP_MAGIC,
            self.table.block,
            self.table.blocks,
            u64::from(self.table.shift),
            self.table.next_block,
            self.table.copied,
            self.free_block,
            self.leaves,
            self.entries,
            self.params.salt,
            self.params.normflags,
            self.params.flags,
        ];
        for (index, word) in words.into_iter().enumerate() {
            put_u64(bytes, index * 8, word);
        }
    }

    /// Which pointer is for this hash.
    pub(super) const fn pointer_index(&self, hash: u64) -> u64 {
        prefix(hash, self.table.shift)
    }

    /// Pointers in one block of an external table.
    pub(super) const fn pointers_per_block(&self) -> u64 {
        1 << (self.block_shift - 3)
    }
}

/// Base-2 logarithm of the pointers that the header block itself holds: half of it.
pub(super) const fn embedded_shift(block_shift: u32) -> u32 {
    block_shift - 3 - 1
}

/// Base-2 logarithm of a fat ZAP's block size.
pub(super) fn block_shift(bytes: usize) -> Result<u32, Damage> {
    let shift = bytes.trailing_zeros();
    if bytes.is_power_of_two() && BLOCK_SHIFTS.contains(&shift) {
        Ok(shift)
    } else {
        Err(Damage("block size that a fat ZAP cannot have"))
    }
}

/// The top `bits` bits of `hash`.
pub(super) const fn prefix(hash: u64, bits: u32) -> u64 {
    if bits == 0 { 0 } else { hash >> (64 - bits) }
}
