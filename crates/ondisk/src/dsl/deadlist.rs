//! A deadlist: bpobjs by birth, of what a snapshot holds back from being freed.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the bonus.
pub const DSL_DEADLIST_BYTES: usize = 320;

/// The bonus of a deadlist. The object is a ZAP: from the txg (in hex) above which a block's birth
/// lies, to the bpobj that lists it. (Before version 26 a deadlist is a plain bpobj.)
///
/// ```text
///  0 used   8 compressed   16 uncompressed   24 zero (37 words)   320 end
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DslDeadlistPhys {
    /// Space that its blocks take.
    pub used: U64,
    /// The same before copies and parity were added.
    pub compressed: U64,
    /// The same before compression.
    pub uncompressed: U64,
    /// Zero.
    pub pad: [U64; 37],
}
const _: () = assert!(size_of::<DslDeadlistPhys>() == DSL_DEADLIST_BYTES);

impl Default for DslDeadlistPhys {
    fn default() -> Self {
        Self { used: U64::ZERO, compressed: U64::ZERO, uncompressed: U64::ZERO, pad: [U64::ZERO; 37] }
    }
}

impl DslDeadlistPhys {
    /// Reads a bonus.
    ///
    /// # Errors
    /// When it is shorter than 320 bytes.
    pub fn decode(bonus: &[u8]) -> Result<Self, crate::OndiskError> {
        crate::reader::prefix("deadlist", bonus)
    }
}
