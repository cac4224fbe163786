//! A redaction list: which blocks of a snapshot a redacted send leaves out.
//!
//! ```text
//!  bookmark ── redaction object ──► MOS object ─┬─ bonus, or spill block: RedactionListPhys, guids of snapshots
//!                                               └─ blocks: RedactBlockPhys*, by object and block
//! ```

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{OndiskError, short};

/// Bytes of a list's header before the guids.
pub const REDACTION_LIST_BYTES: usize = 32;
/// Bytes of a run of blocks.
pub const REDACT_BLOCK_BYTES: usize = 32;

/// How far a list leads, and how much is in it. The guids of the snapshots come behind it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct RedactionListPhys {
    /// The last object that was looked at; all ones: the list is complete.
    pub last_object: U64,
    /// Its last block that was looked at; all ones as well.
    pub last_block: U64,
    /// Runs of blocks.
    pub entries: U64,
    /// Snapshots.
    pub snapshots: U64,
}
const _: () = assert!(size_of::<RedactionListPhys>() == REDACTION_LIST_BYTES);

impl RedactionListPhys {
    /// A header and the guids behind it.
    ///
    /// # Errors
    /// When there are fewer bytes than that.
    pub fn decode(bytes: &[u8]) -> Result<(Self, Vec<u64>), OndiskError> {
        let what = "redaction list";
        let (phys, rest) =
            Self::read_from_prefix(bytes).map_err(|_| short(what, REDACTION_LIST_BYTES, bytes.len()))?;
        let guids: Vec<u64> =
            rest.chunks_exact(8).filter_map(|word| U64::read_from_bytes(word).ok()).map(U64::get).collect();
        let count = usize::try_from(phys.snapshots.get()).unwrap_or(usize::MAX);
        let guids = guids.get(..count);
        let guids = guids.ok_or_else(|| short(what, count.saturating_mul(8), rest.len()))?;
        Ok((phys, guids.to_vec()))
    }

    /// The same as bytes.
    #[must_use]
    pub fn encode(&self, guids: &[u64]) -> Vec<u8> {
        let mut bytes = self.as_bytes().to_vec();
        bytes.extend(guids.iter().flat_map(|guid| guid.to_le_bytes()));
        bytes
    }

    /// Whether nothing is missing in the list.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.last_object.get() == u64::MAX && self.last_block.get() == u64::MAX
    }
}

/// A run of blocks of an object.
///
/// ```text
///  0 object   8 first block   16 │63  block size in sectors  48│47  how many  0│   24 padding
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct RedactBlockPhys {
    /// Which object.
    pub object: U64,
    /// The first block.
    pub block: U64,
    /// See the drawing; how many is kept less one.
    pub size_count: U64,
    /// Zero.
    pub padding: U64,
}
const _: () = assert!(size_of::<RedactBlockPhys>() == REDACT_BLOCK_BYTES);

impl RedactBlockPhys {
    const COUNT_BITS: u32 = 48;
    const SECTOR_SHIFT: u32 = 9;
    /// More blocks than this are several runs.
    pub const COUNT_MAX: u64 = (1 << Self::COUNT_BITS) - 1;

    /// A run of `count` blocks, which is one at least and [`Self::COUNT_MAX`] at most.
    #[must_use]
    pub const fn new(object: u64, block: u64, count: u64, block_bytes: u32) -> Self {
        let sectors = (block_bytes >> Self::SECTOR_SHIFT) as u64;
        Self {
            object: U64::new(object),
            block: U64::new(block),
            size_count: U64::new(sectors << Self::COUNT_BITS | count.saturating_sub(1) & Self::COUNT_MAX),
            padding: U64::ZERO,
        }
    }

    /// How many blocks.
    #[must_use]
    pub fn count(&self) -> u64 {
        (self.size_count.get() & Self::COUNT_MAX).saturating_add(1)
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.size_count.get() >> Self::COUNT_BITS << Self::SECTOR_SHIFT
    }

    /// The runs that some bytes have.
    pub fn decode_all(bytes: &[u8]) -> impl Iterator<Item = Self> {
        bytes.chunks_exact(REDACT_BLOCK_BYTES).filter_map(|run| Self::read_from_bytes(run).ok())
    }
}
