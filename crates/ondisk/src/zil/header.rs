//! Where a dataset's intent log starts.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::blkptr::Blkptr;

/// Bytes in a header.
pub const ZIL_HEADER_BYTES: usize = 192;

/// Bits of [`ZilHeader::flags`].
pub mod flags {
    /// Records wait to be replayed. Never meaningful on disk after a replay ended.
    pub const REPLAY_NEEDED: u64 = 1 << 0;
    /// `claim_lr_seq` is valid.
    pub const CLAIM_LR_SEQ_VALID: u64 = 1 << 1;
}

/// Where a dataset's intent log starts. Lives inside `ObjsetPhys`, so it changes only when a txg
/// syncs; the chain it points to grows without touching it.
///
/// ```text
///   0 claim_txg   8 replay_seq   16 log (blkptr, 128 bytes)   144 claim_blk_seq
/// 152 flags     160 claim_lr_seq   168 pad (24 bytes)         192 end
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ZilHeader {
    /// The txg in which an import claimed the chain's blocks; zero until then.
    pub claim_txg: U64,
    /// Highest record sequence number that has been replayed.
    pub replay_seq: U64,
    /// The first block; a hole when there is no log.
    pub log: Blkptr,
    /// Highest block sequence number that was claimed.
    pub claim_blk_seq: U64,
    /// See [`flags`].
    pub flags: U64,
    /// Highest record sequence number that was claimed.
    pub claim_lr_seq: U64,
    /// Zero.
    pub pad: [U64; 3],
}
const _: () = assert!(size_of::<ZilHeader>() == ZIL_HEADER_BYTES);
const _: () = assert!(std::mem::offset_of!(ZilHeader, claim_blk_seq) == 144);
const _: () = assert!(std::mem::offset_of!(ZilHeader, claim_lr_seq) == 160);
