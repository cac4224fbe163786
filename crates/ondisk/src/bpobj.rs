//! The bpobj: a long list of blkptrs, most often of blocks waiting to be freed.
//!
//! The object's data are blkptrs in a row; its bonus counts them. A bpobj can take in others as
//! *subobjs*: their object numbers lie in an object of type `BPOBJ_SUBOBJ`, in a row of words. An
//! entry's fill count has no meaning here; its lowest bit tells, in livelists, a free from an
//! allocation.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::blkptr::{BLKPTR_BYTES, Blkptr};
use crate::error::{OndiskError, short};

/// Size of the bonus in pools of version 3 to 10: counts only.
pub const BPOBJ_BYTES_V0: usize = 16;
/// Size of the bonus since compressed sizes are kept.
pub const BPOBJ_BYTES_V1: usize = 32;
/// Size of the bonus since subobjs came.
pub const BPOBJ_BYTES_V2: usize = 48;
/// Size of the bonus since livelists came.
pub const BPOBJ_BYTES: usize = 56;

/// The bonus of a bpobj.
///
/// ```text
///  0 blkptrs   8 bytes   16 compressed   24 uncompressed   32 subobj list   40 subobjs
/// 48 freed    56 end
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct BpobjPhys {
    /// Entries of its own.
    pub blkptrs: U64,
    /// Space that entries take, subobjs' too, as `asize` (deflated).
    pub bytes: U64,
    /// The same as psize.
    pub compressed: U64,
    /// The same as lsize.
    pub uncompressed: U64,
    /// Object that lists the subobjs; zero for none.
    pub subobjs: U64,
    /// Subobjs.
    pub subobj_count: U64,
    /// Entries of its own that say "freed" (livelists).
    pub freed: U64,
}
const _: () = assert!(size_of::<BpobjPhys>() == BPOBJ_BYTES);

impl BpobjPhys {
    /// Reads a bonus of any of its sizes; what an old one lacks reads as zero.
    ///
    /// # Errors
    /// When it is shorter than the oldest.
    pub fn decode(bonus: &[u8]) -> Result<Self, OndiskError> {
        if bonus.len() < BPOBJ_BYTES_V0 {
            return Err(short("bpobj", BPOBJ_BYTES_V0, bonus.len()));
        }
        let mut phys = Self::default();
        phys.as_mut_bytes().iter_mut().zip(bonus).for_each(|(to, from)| *to = *from);
        Ok(phys)
    }
}

/// The whole entries of `bytes`.
pub fn entries(bytes: &[u8]) -> impl Iterator<Item = Blkptr> {
    bytes.chunks_exact(BLKPTR_BYTES).filter_map(|chunk| Blkptr::read_from_bytes(chunk).ok())
}

/// Whether an entry of a livelist says that its block was freed.
#[must_use]
pub fn entry_is_free(bp: &Blkptr) -> bool {
    !bp.is_embedded() && bp.fill() & 1 == 1
}
