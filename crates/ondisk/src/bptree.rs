//! The bptree: roots of destroyed datasets whose blocks are freed in the background.
//!
//! ```text
//!  entry:  0 blkptr (128)   128 birth txg   136 bookmark: objset, object, level, block   168 end
//! ```
//! The object's data are entries in a row; the bonus says which are still there. Freed are the
//! blocks below an entry's blkptr that were born after its txg; the bookmark says where a walk that
//! a txg cut short goes on.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::blkptr::Blkptr;
use crate::error::OndiskError;

/// The bonus of a bptree.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct BptreePhys {
    /// The first entry that is still there.
    pub begin: U64,
    /// The entry after the last.
    pub end: U64,
    /// Space still to be freed.
    pub bytes: U64,
    /// The same before copies and parity were added.
    pub compressed: U64,
    /// The same before compression.
    pub uncompressed: U64,
}
const _: () = assert!(size_of::<BptreePhys>() == 40);

impl BptreePhys {
    /// Reads a bonus.
    ///
    /// # Errors
    /// When it is shorter than 40 bytes.
    pub fn decode(bonus: &[u8]) -> Result<Self, OndiskError> {
        crate::reader::prefix("bptree", bonus)
    }
}

/// One destroyed dataset.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct BptreeEntryPhys {
    /// The dataset's objset.
    pub bp: Blkptr,
    /// Blocks born up to this txg belong to a snapshot and stay.
    pub birth_txg: U64,
    /// Where to go on: objset, object, level (signed), block.
    pub bookmark: [U64; 4],
}
const _: () = assert!(size_of::<BptreeEntryPhys>() == 168);

/// The whole entries of `bytes`.
pub fn entries(bytes: &[u8]) -> impl Iterator<Item = BptreeEntryPhys> {
    let chunks = bytes.chunks_exact(size_of::<BptreeEntryPhys>());
    chunks.filter_map(|chunk| BptreeEntryPhys::read_from_bytes(chunk).ok())
}
