//! The ZAP: names with values, on disk. Small ones are an array in one block, big ones a hash
//! table spread over blocks.
//!
//! ```text
//!  micro (one block):  | header 64 | entry 64 | entry 64 | ...                    all values u64
//!  fat:   block 0      | header ... (first half) | pointer table (second half) |
//!         other blocks | leaf: header 48 | hash table u16[] | chunks of 24 bytes |
//!                      | pointer table, once it outgrew block 0 |
//! ```
//! The first word of a block says which it is. The top bits of a name's hash index the pointer
//! table; its entry is the block number of the leaf; in the leaf, the following bits index the hash
//! table. What the hash is, and how leaves split, is the business of the layer above.
//!
//! This module has the shapes: headers, entries and chunks. Leaves are not little-endian arrays of
//! words: each field is swapped by its own size in foreign blocks.

mod fat;
mod leaf;
mod micro;
#[cfg(test)]
mod tests;

pub use fat::{ZAP_MAGIC, ZapHeaderPhys, ZapTablePhys, embedded_table_entries, flags};
pub use leaf::{
    ARRAY_BYTES, CHAIN_END, CHUNK_ARRAY, CHUNK_BYTES, CHUNK_ENTRY, CHUNK_FREE, ENTRIES_CD_SORTED,
    LeafArrayPhys, LeafChunk, LeafEntryPhys, LeafFreePhys, LeafHeaderPhys, LeafLayout, ZAP_LEAF_MAGIC,
};
pub use micro::{MZAP_ENTRY_BYTES, MZAP_NAME_BYTES, MzapEntryPhys, MzapHeaderPhys, entries};

/// First word of a fat ZAP's leaf.
pub const BLOCK_LEAF: u64 = 1 << 63;
/// First word of a fat ZAP's block 0.
pub const BLOCK_HEADER: u64 = (1 << 63) + 1;
/// First word of a micro ZAP.
pub const BLOCK_MICRO: u64 = (1 << 63) + 3;

/// Longest name of a fat ZAP, its NUL included.
pub const NAME_MAX_BYTES: usize = 256;
/// Longest name with the `longname` feature, its NUL included.
pub const LONG_NAME_MAX_BYTES: usize = 1024;
/// Longest value of a fat ZAP.
pub const VALUE_MAX_BYTES: usize = 8192;
/// Largest micro ZAP with the `large_microzap` feature off: 128 KiB.
pub const MICRO_MAX_BYTES: usize = 128 << 10;
/// Base-2 logarithm of a fat ZAP's blocks, as new ones are made.
pub const FAT_BLOCK_SHIFT: u32 = 14;

/// What a ZAP's first block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZapKind {
    /// One block of entries.
    Micro,
    /// Header of a hash table.
    Fat,
}

impl ZapKind {
    /// Tells the kind by the first word of block 0.
    ///
    /// # Errors
    /// When it is neither.
    pub fn of(block: &[u8]) -> Result<Self, crate::OndiskError> {
        let word: zerocopy::little_endian::U64 = crate::reader::prefix("zap", block)?;
        match word.get() {
            BLOCK_MICRO => Ok(Self::Micro),
            BLOCK_HEADER => Ok(Self::Fat),
            other => Err(crate::error::bad("zap", "block type", other)),
        }
    }
}
