//! The block reference table: which blocks several files share since one was cloned from another.
//!
//! ```text
//!  MOS directory ─ "com.fudosecurity:brt:vdev:N" ─► object: one 16-bit count for each 16 MiB of
//!     the vdev, how many entries lie there; bonus: BrtVdevPhys
//!        └─► ZAP with keys of one word: offset of a block's first copy ─► references beyond the first
//! ```
//! A count of 0 answers nearly every question without a look into the ZAP. A value there is eight
//! bytes in the writer's order; with the feature `block_cloning_endian` one 64-bit integer.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{OndiskError, short};

/// Prefix of the names under which the MOS directory lists the tables, a vdev's number behind it.
pub const BRT_OBJECT_PREFIX: &str = "com.fudosecurity:brt:vdev:";

/// Bytes of a vdev that one count is about: so few that even blocks of 512 bytes cannot overflow it.
pub const BRT_RANGE_BYTES: u64 = 16 << 20;

/// Block size of the object with the counts.
pub const BRT_COUNTS_BLOCK_BYTES: u32 = 32 << 10;

/// Base-2 logarithm of the ZAP's blocks, indirect ones too.
pub const BRT_ZAP_SHIFT: u8 = 13;

/// The bonus of a vdev's object.
///
/// ```text
///  0 entries   8 counts   16 byte order   24 sum of counts   32 bytes per count   40 used   48 saved   56 end
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct BrtVdevPhys {
    /// The ZAP.
    pub entries: U64,
    /// How many counts there are.
    pub counts: U64,
    /// Of the counts, and of values of eight bytes: 0 for little-endian, 1 for big.
    pub byte_order: U64,
    /// Sum of all counts.
    pub total: U64,
    /// Bytes of the vdev that one count is about.
    pub range_bytes: U64,
    /// Space of shared blocks, each counted once.
    pub used_bytes: U64,
    /// Space that the further references would take.
    pub saved_bytes: U64,
}
const _: () = assert!(size_of::<BrtVdevPhys>() == 56);

impl BrtVdevPhys {
    /// Reads a bonus.
    ///
    /// # Errors
    /// When it is too short.
    pub fn decode(bonus: &[u8]) -> Result<Self, OndiskError> {
        let phys = Self::read_from_prefix(bonus).ok().map(|(phys, _)| phys);
        phys.ok_or_else(|| short("block reference table", size_of::<Self>(), bonus.len()))
    }
}
