//! A leaf of a fat ZAP: a hash table of chains of chunks.
//!
//! ```text
//!   0 block type   8 zero   16 prefix   24 magic u32   28 free chunks u16   30 entries u16
//!  32 prefix len u16   34 first free chunk u16   36 flags u8   37 zero   48 hash table u16[size/32]
//!  then chunks of 24 bytes, as many as fit
//!
//!  entry: 0 type=252  1 value int bytes  2 next entry u16   4 name chunk u16   6 name ints u16
//!         8 value chunk u16   10 value ints u16   12 collision number u32   16 hash u64
//!  array: 0 type=251  1 bytes[21]   22 next chunk u16
//!  free:  0 type=253  1 zero[21]    22 next chunk u16
//! ```
//! A name or value lies in a chain of array chunks, its integers big-endian (text: bytes, with a
//! NUL). `0xffff` ends a chain.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{OndiskError, bad, short};

/// The magic number of a leaf.
pub const ZAP_LEAF_MAGIC: u32 = 0x02ab_1eaf;
/// Bytes of a chunk.
pub const CHUNK_BYTES: usize = 24;
/// Bytes of name or value in an array chunk.
pub const ARRAY_BYTES: usize = 21;
/// A chunk not in use.
pub const CHUNK_FREE: u8 = 253;
/// A chunk that is an entry.
pub const CHUNK_ENTRY: u8 = 252;
/// A chunk that is part of a name or value.
pub const CHUNK_ARRAY: u8 = 251;
/// Ends a chain of chunks.
pub const CHAIN_END: u16 = 0xffff;
/// Flag: entries of equal hash are chained in the order of their collision numbers.
pub const ENTRIES_CD_SORTED: u8 = 1 << 0;

/// The first 48 bytes of a leaf.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct LeafHeaderPhys {
    /// [`super::BLOCK_LEAF`].
    pub block_type: U64,
    /// Zero.
    pub pad1: U64,
    /// The top bits that all hashes here share.
    pub prefix: U64,
    /// [`ZAP_LEAF_MAGIC`].
    pub magic: U32,
    /// Chunks not in use.
    pub free_chunks: U16,
    /// Entries.
    pub entries: U16,
    /// Bits in `prefix`.
    pub prefix_len: U16,
    /// First chunk not in use, or [`CHAIN_END`].
    pub free_list: U16,
    /// [`ENTRIES_CD_SORTED`].
    pub flags: u8,
    /// Zero.
    pub pad2: [u8; 11],
}
const _: () = assert!(size_of::<LeafHeaderPhys>() == 2 * CHUNK_BYTES);
const _: () = assert!(std::mem::offset_of!(LeafHeaderPhys, magic) == 24);
const _: () = assert!(std::mem::offset_of!(LeafHeaderPhys, flags) == 36);

/// A chunk that is an entry.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct LeafEntryPhys {
    /// [`CHUNK_ENTRY`].
    pub chunk_type: u8,
    /// Bytes of each of the value's integers: 1, 2, 4 or 8.
    pub value_int_bytes: u8,
    /// Next entry of the same place in the hash table, or [`CHAIN_END`].
    pub next: U16,
    /// First chunk of the name.
    pub name_chunk: U16,
    /// Length of the name: bytes with the NUL, or 64-bit words.
    pub name_ints: U16,
    /// First chunk of the value.
    pub value_chunk: U16,
    /// Integers in the value.
    pub value_ints: U16,
    /// Tells names of equal hash apart.
    pub cd: U32,
    /// The name's hash.
    pub hash: U64,
}
const _: () = assert!(size_of::<LeafEntryPhys>() == CHUNK_BYTES);
const _: () = assert!(std::mem::offset_of!(LeafEntryPhys, cd) == 12);

/// A chunk that is part of a name or value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct LeafArrayPhys {
    /// [`CHUNK_ARRAY`].
    pub chunk_type: u8,
    /// The part.
    pub bytes: [u8; ARRAY_BYTES],
    /// The next chunk, or [`CHAIN_END`].
    pub next: U16,
}
const _: () = assert!(size_of::<LeafArrayPhys>() == CHUNK_BYTES);

/// A chunk not in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct LeafFreePhys {
    /// [`CHUNK_FREE`].
    pub chunk_type: u8,
    /// Zero.
    pub pad: [u8; ARRAY_BYTES],
    /// The next free chunk, or [`CHAIN_END`].
    pub next: U16,
}
const _: () = assert!(size_of::<LeafFreePhys>() == CHUNK_BYTES);

/// A chunk, told by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafChunk {
    /// See [`LeafEntryPhys`].
    Entry(LeafEntryPhys),
    /// See [`LeafArrayPhys`].
    Array(LeafArrayPhys),
    /// See [`LeafFreePhys`].
    Free(LeafFreePhys),
}

impl LeafChunk {
    /// Decodes a chunk.
    ///
    /// # Errors
    /// When it has not 24 bytes or is of no kind.
    pub fn decode(bytes: &[u8]) -> Result<Self, OndiskError> {
        let too_short = || short("zap leaf chunk", CHUNK_BYTES, bytes.len());
        match bytes.first() {
            Some(&CHUNK_ENTRY) => {
                LeafEntryPhys::read_from_bytes(bytes).map(Self::Entry).map_err(|_| too_short())
            }
            Some(&CHUNK_ARRAY) => {
                LeafArrayPhys::read_from_bytes(bytes).map(Self::Array).map_err(|_| too_short())
            }
            Some(&CHUNK_FREE) => {
                LeafFreePhys::read_from_bytes(bytes).map(Self::Free).map_err(|_| too_short())
            }
            Some(&other) => Err(bad("zap leaf chunk", "type", other)),
            None => Err(too_short()),
        }
    }
}

/// Where things lie in a leaf of a given size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafLayout {
    block_shift: u32,
}

impl LeafLayout {
    /// The layout of leaves of `1 << block_shift` bytes.
    ///
    /// # Errors
    /// When leaves cannot be that small or large (512 bytes to 1 MiB; chunk numbers have 16 bits).
    pub fn new(block_shift: u32) -> Result<Self, OndiskError> {
        if (9..=20).contains(&block_shift) {
            Ok(Self { block_shift })
        } else {
            Err(bad("zap leaf", "block shift", block_shift))
        }
    }

    /// Bytes of the block.
    #[must_use]
    pub const fn block_bytes(self) -> usize {
        1_usize << self.block_shift
    }

    /// Base-2 logarithm of the places in the hash table.
    #[must_use]
    pub const fn hash_shift(self) -> u32 {
        self.block_shift.saturating_sub(5)
    }

    /// Places in the hash table.
    #[must_use]
    pub const fn hash_entries(self) -> usize {
        1_usize << self.hash_shift()
    }

    /// Where place `index` of the hash table lies in the block.
    #[must_use]
    pub const fn hash_offset(self, index: usize) -> usize {
        size_of::<LeafHeaderPhys>().saturating_add(index.saturating_mul(2))
    }

    /// Chunks in a leaf.
    #[must_use]
    pub const fn chunks(self) -> usize {
        let room = self.block_bytes().saturating_sub(self.hash_entries().saturating_mul(2));
        (room / CHUNK_BYTES).saturating_sub(2)
    }

    /// Where chunk `index` lies in the block.
    #[must_use]
    pub const fn chunk_offset(self, index: usize) -> usize {
        self.hash_offset(self.hash_entries()).saturating_add(index.saturating_mul(CHUNK_BYTES))
    }

    /// The bytes of chunk `index`; `None` past the last one.
    #[must_use]
    pub fn chunk(self, block: &[u8], index: u16) -> Option<&[u8]> {
        let index = usize::from(index);
        let start = self.chunk_offset(index);
        (index < self.chunks()).then(|| block.get(start..start.checked_add(CHUNK_BYTES)?)).flatten()
    }
}

impl LeafHeaderPhys {
    /// Reads and checks the start of a leaf.
    ///
    /// # Errors
    /// When it is no leaf, or counts more than fits one.
    pub fn decode(block: &[u8], layout: LeafLayout) -> Result<Self, OndiskError> {
        let header: Self = crate::reader::prefix("zap leaf", block)?;
        if block.len() != layout.block_bytes() {
            return Err(short("zap leaf", layout.block_bytes(), block.len()));
        }
        if header.block_type.get() != super::BLOCK_LEAF {
            return Err(bad("zap leaf", "block type", header.block_type.get()));
        }
        if header.magic.get() != ZAP_LEAF_MAGIC {
            let (expected, found) = (ZAP_LEAF_MAGIC.into(), header.magic.get().into());
            return Err(OndiskError::BadMagic { what: "zap leaf", expected, found });
        }
        if header.prefix_len.get() > 48 {
            return Err(bad("zap leaf", "prefix len", header.prefix_len.get()));
        }
        if usize::from(header.free_chunks.get()) > layout.chunks() {
            return Err(bad("zap leaf", "free chunks", header.free_chunks.get()));
        }
        Ok(header)
    }
}
