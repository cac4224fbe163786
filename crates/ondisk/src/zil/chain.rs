//! What links a log block to the next one.

use units::{ObjsetId, ZilSeq};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::blkptr::{Blkptr, ByteOrder};
use crate::checksum_kind::ChecksumKind;
use crate::error::{OndiskError, bad, short};
use crate::label::{ECK_BYTES, ZioEck};
use crate::swap::words;

/// Bytes in a chain structure.
pub const ZIL_CHAIN_BYTES: usize = 184;
/// The slim form is checksummed over whole multiples of this.
pub const ZIL_MIN_BLOCK_BYTES: u64 = 4096;

/// Where a block keeps its chain structure; told by its blkptr's checksum kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainForm {
    /// `zilog`: at the end of the block, which is hashed and written whole.
    Trailer,
    /// `zilog2`: at the start, so that only the used part needs to be hashed and written.
    Slim,
}

/// Links a block to the next.
///
/// ```text
///   0 zero   8 next block (blkptr, 128 bytes)   136 used bytes   144 eck (40)   184 end
/// ```
/// `used` counts the records, and in the slim form this structure too.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ZilChain {
    /// Zero.
    pub pad: U64,
    /// Where the next block will be; its checksum words are its seed.
    pub next: Blkptr,
    /// Bytes used.
    pub used: U64,
    /// The block's checksum.
    pub eck: ZioEck,
}
const _: () = assert!(size_of::<ZilChain>() == ZIL_CHAIN_BYTES);
const _: () = assert!(std::mem::offset_of!(ZilChain, used) == 136);
const _: () = assert!(std::mem::offset_of!(ZilChain, eck) == ZIL_CHAIN_BYTES - ECK_BYTES);

impl ChainForm {
    /// The form that blocks with this checksum have.
    ///
    /// # Errors
    /// When it is not a log block's checksum.
    pub fn of(kind: ChecksumKind) -> Result<Self, OndiskError> {
        match kind {
            ChecksumKind::Zilog => Ok(Self::Trailer),
            ChecksumKind::Zilog2 => Ok(Self::Slim),
            other => Err(bad("log block", "checksum", other.raw())),
        }
    }

    /// The checksum kind of blocks of this form.
    #[must_use]
    pub const fn checksum_kind(self) -> ChecksumKind {
        match self {
            Self::Trailer => ChecksumKind::Zilog,
            Self::Slim => ChecksumKind::Zilog2,
        }
    }
}

impl ZilChain {
    /// A chain structure whose trailer is seeded for hashing.
    #[must_use]
    pub fn new(next: Blkptr, used: u64, seed: [u64; 4]) -> Self {
        Self { pad: U64::ZERO, next, used: U64::new(used), eck: ZioEck::seeded(seed) }
    }

    /// Reads the chain structure of `block` (one whole log block, of either byte order) without
    /// looking at `used`: what a checksum needs.
    ///
    /// # Errors
    /// When the block is too short, or the eck has no magic.
    pub fn read(form: ChainForm, block: &[u8]) -> Result<Self, OndiskError> {
        let chain = match form {
            ChainForm::Slim => Self::read_from_prefix(block).map(|(chain, _)| chain).ok(),
            ChainForm::Trailer => Self::read_from_suffix(block).map(|(_, chain)| chain).ok(),
        };
        let mut chain = chain.ok_or_else(|| short("log block", ZIL_CHAIN_BYTES, block.len()))?;
        if ZioEck::order(chain.eck.as_bytes())? == ByteOrder::Big {
            words::<8>(chain.as_mut_bytes());
        }
        Ok(chain)
    }

    /// The byte order of whoever wrote `block`.
    ///
    /// # Errors
    /// As [`ZilChain::read`].
    pub fn order(form: ChainForm, block: &[u8]) -> Result<ByteOrder, OndiskError> {
        match form {
            ChainForm::Slim => ZioEck::order(block.get(..ZIL_CHAIN_BYTES).unwrap_or_default()),
            ChainForm::Trailer => ZioEck::order(block),
        }
    }

    /// Decodes the chain structure and the bytes of the block's records.
    ///
    /// # Errors
    /// As [`ZilChain::read`], and when `used` goes past the block.
    pub fn decode(form: ChainForm, block: &[u8]) -> Result<(Self, &[u8]), OndiskError> {
        let chain = Self::read(form, block)?;
        let used = usize::try_from(chain.used.get()).unwrap_or(usize::MAX);
        let records = match form {
            ChainForm::Slim => block.get(ZIL_CHAIN_BYTES..used),
            ChainForm::Trailer => {
                let room = block.len().saturating_sub(ZIL_CHAIN_BYTES);
                block.get(..used).filter(|records| records.len() <= room)
            }
        };
        let records = records.ok_or_else(|| bad("log block", "used", chain.used.get()))?;
        Ok((chain, records))
    }

    /// How many bytes from the block's start are hashed (and must be written): all of a trailer
    /// block, the used part of a slim one rounded up to 4 KiB. `None` when that is past the block.
    #[must_use]
    pub fn hashed_bytes(&self, form: ChainForm, block_bytes: u64) -> Option<u64> {
        match form {
            ChainForm::Trailer => Some(block_bytes),
            ChainForm::Slim => {
                let used = self.used.get().checked_next_multiple_of(ZIL_MIN_BLOCK_BYTES)?;
                (used <= block_bytes).then_some(used)
            }
        }
    }

    /// The seed that the next block's blkptr carries.
    #[must_use]
    pub fn next_seed(&self) -> ChainSeed {
        ChainSeed::of(&self.next)
    }
}

/// What ties a block to its chain: the checksum words of the blkptr that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainSeed {
    /// Random for each chain.
    pub guid: [u64; 2],
    /// The dataset.
    pub objset: ObjsetId,
    /// One for a chain's first block, then counted up.
    pub seq: ZilSeq,
}

impl ChainSeed {
    /// The seed in a log block's blkptr.
    #[must_use]
    pub fn of(bp: &Blkptr) -> Self {
        Self::from_words(bp.checksum())
    }

    /// The seed in four words.
    #[must_use]
    pub const fn from_words(words: [u64; 4]) -> Self {
        let [guid0, guid1, objset, seq] = words;
        Self { guid: [guid0, guid1], objset: ObjsetId::new(objset), seq: ZilSeq::new(seq) }
    }

    /// The four words.
    #[must_use]
    pub const fn words(self) -> [u64; 4] {
        let [guid0, guid1] = self.guid;
        [guid0, guid1, self.objset.get(), self.seq.get()]
    }

    /// The seed of the block after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self { seq: self.seq.next(), ..self }
    }
}
