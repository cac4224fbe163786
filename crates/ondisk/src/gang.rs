//! The gang header: a block that could not be had in one piece, as a list of smaller ones.
//!
//! ```text
//!  0 blkptr   128 blkptr   256 blkptr   384 zero   472 eck   512 end
//! ```
//! The DVA of a ganged block leads here; its asize counts header and members. The members' data in
//! a row are the block's; a member may be a gang again. The header's checksum is seeded with its
//! own place and the block's physical birth, so that a stale header never verifies.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::blkptr::{Blkptr, ByteOrder};
use crate::error::OndiskError;
use crate::label::ZioEck;

/// Bytes of a gang header (larger ones came with the feature `dynamic_gang_header`).
pub const GANG_HEADER_BYTES: usize = 512;
/// Blkptrs in a gang header.
pub const GANG_BLKPTRS: usize = 3;

/// A gang header as it lies on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct GangHeaderPhys {
    /// The members; unused ones are holes.
    pub blkptrs: [Blkptr; GANG_BLKPTRS],
    /// Zero.
    pub pad: [u8; 88],
    /// The header's checksum.
    pub eck: ZioEck,
}
const _: () = assert!(size_of::<GangHeaderPhys>() == GANG_HEADER_BYTES);

/// The verifier of the gang header that `bp` leads to.
#[must_use]
pub fn gang_verifier(bp: &Blkptr) -> [u64; 4] {
    let dva = bp.dva(0);
    [dva.vdev.get().into(), dva.offset.get(), bp.physical_birth().get(), 0]
}

impl GangHeaderPhys {
    /// Lays out a header for hashing: its trailer holds the verifier.
    #[must_use]
    pub fn new(blkptrs: [Blkptr; GANG_BLKPTRS], verifier: [u64; 4]) -> Self {
        Self { blkptrs, pad: [0; 88], eck: ZioEck::seeded(verifier) }
    }

    /// Reads a header.
    ///
    /// # Errors
    /// When it is too short or has no eck magic.
    pub fn decode(block: &[u8]) -> Result<Self, OndiskError> {
        let mut header: Self = crate::reader::prefix("gang header", block)?;
        if ZioEck::order(header.as_bytes())? == ByteOrder::Big {
            crate::swap::words::<8>(header.as_mut_bytes());
        }
        Ok(header)
    }

    /// The members that are there.
    pub fn members(&self) -> impl Iterator<Item = &Blkptr> {
        self.blkptrs.iter().filter(|bp| !bp.is_hole())
    }
}
