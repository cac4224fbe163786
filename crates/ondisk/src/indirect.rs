//! Removed top-level vdevs: where their blocks lie now, and how much of that nobody refers to any more.
//!
//! ```text
//!  vdev config ─► indirect_object: mapping    bonus [`MappingPhys`], data: entries of 24 bytes
//!                     └─► counts object       a 32-bit word for each entry: its obsolete bytes
//!              ─► indirect_births: births     bonus: how many, data: [`BirthPhys`]
//!  vdev's ZAP ─► indirect_obsolete_sm         a space map of what became obsolete since the counts
//! ```
//! An entry says that a run of the removed vdev's space was copied elsewhere:
//! ```text
//!   0 source: mark (1 bit), offset in sectors (63)    8 target: a DVA, whose asize is the run's length
//!  24 end
//! ```
//! Entries are in the order of their sources, and do not overlap. The mark is `zdb`'s alone. A space map of what is
//! obsolete has entries of the type "alloc" only.

use units::{SECTOR_BYTES, VdevOffset};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bits;
use crate::blkptr::{Dva, DvaPhys};
use crate::error::{OndiskError, bad, short};

#[cfg(test)]
mod tests;

/// Size of an entry of a mapping.
pub const ENTRY_BYTES: usize = 24;
/// Size of a mapping's bonus before obsolete bytes were counted.
pub const MAPPING_BYTES_V0: usize = 24;

const OFFSET_BITS: u32 = 63;

/// The bonus of a mapping.
///
/// ```text
///  0 end of what is mapped   8 bytes mapped   16 entries   24 counts object   32 end
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct MappingPhys {
    /// Offset behind the last run's source.
    pub end: U64,
    /// The lengths of all runs, added up.
    pub bytes_mapped: U64,
    /// How many entries there are.
    pub entries: U64,
    /// Object with the obsolete bytes of each entry, a 32-bit word each; zero for none.
    pub counts_object: U64,
}
const _: () = assert!(size_of::<MappingPhys>() == 32);

impl MappingPhys {
    /// Reads a bonus of either of its sizes; without a counts object, that reads as zero.
    ///
    /// # Errors
    /// When it is shorter than the older one.
    pub fn decode(bonus: &[u8]) -> Result<Self, OndiskError> {
        if bonus.len() < MAPPING_BYTES_V0 {
            return Err(short("indirect mapping", MAPPING_BYTES_V0, bonus.len()));
        }
        let mut phys = Self::default();
        phys.as_mut_bytes().iter_mut().zip(bonus).for_each(|(to, from)| *to = *from);
        Ok(phys)
    }
}

/// An entry of a mapping as it lies on disk.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct EntryPhys {
    source_word: U64,
    target: DvaPhys,
}
const _: () = assert!(size_of::<EntryPhys>() == ENTRY_BYTES);

/// A run of a removed vdev's space, and where it was copied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it was on the removed vdev.
    pub source: VdevOffset,
    /// Where it is, or was copied to next; its asize is the run's length.
    pub target: Dva,
}

impl Entry {
    /// The two parts of the format.
    ///
    /// # Panics
    /// When an offset or the length is not whole sectors, or does not fit.
    #[must_use]
    pub fn encode(&self) -> EntryPhys {
        let source = self.source.get();
        assert!(source.is_multiple_of(SECTOR_BYTES), "a mapping counts whole sectors");
        let source_word = U64::new(bits::set(0, 0, OFFSET_BITS, source / SECTOR_BYTES));
        EntryPhys { source_word, target: self.target.encode() }
    }
}

impl EntryPhys {
    /// Takes it apart. The mark is left out.
    ///
    /// # Errors
    /// [`OndiskError::BadValue`] for a run of no length, and one that the format has no place for.
    pub fn decode(&self) -> Result<Entry, OndiskError> {
        let sectors = bits::get(self.source_word.get(), 0, OFFSET_BITS);
        let source = sectors.checked_mul(SECTOR_BYTES).ok_or(bad("indirect mapping", "source", sectors))?;
        let target = self.target.decode();
        if !target.is_valid() || target.gang {
            return Err(bad("indirect mapping", "length", target.asize.get()));
        }
        Ok(Entry { source: VdevOffset::new(source), target })
    }
}

/// The whole entries of `bytes`.
pub fn entries(bytes: &[u8]) -> impl Iterator<Item = Result<Entry, OndiskError>> {
    let whole = bytes.chunks_exact(ENTRY_BYTES).filter_map(|chunk| EntryPhys::read_from_bytes(chunk).ok());
    whole.map(|entry| entry.decode())
}

/// An entry of the births: what lies before `end` was copied in that txg, unless an earlier entry has it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct BirthPhys {
    /// Offset on the removed vdev.
    pub end: U64,
    /// When it was copied.
    pub txg: U64,
}
const _: () = assert!(size_of::<BirthPhys>() == 16);

/// How a removal stands: words under `com.delphix:removing` in the MOS directory.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct RemovingPhys {
    /// 1 while it goes on, 2 once it has finished, 3 when it was given up.
    pub state: U64,
    /// The vdev that is, or was last, removed; all ones for none.
    pub vdev: U64,
    /// The vdev whose removal finished last; all ones for none. Its configuration names the one before.
    pub last_removed: U64,
    /// When it began: seconds since 1970, UTC.
    pub start_secs: U64,
    /// When it ended.
    pub end_secs: U64,
    /// Bytes to copy.
    pub to_copy: U64,
    /// Bytes copied, or freed before they were.
    pub copied: U64,
}
const _: () = assert!(size_of::<RemovingPhys>() == 56);

impl RemovingPhys {
    /// State of a removal under way.
    pub const UNDER_WAY: u64 = 1;
    /// State of one that has finished.
    pub const FINISHED: u64 = 2;
    /// State of one that was given up.
    pub const CANCELED: u64 = 3;
    /// In place of a vdev's number: none.
    pub const NO_VDEV: u64 = u64::MAX;

    /// Whether blocks are being copied.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        self.state.get() == Self::UNDER_WAY
    }

    /// The words of the MOS directory.
    #[must_use]
    pub fn to_words(&self) -> Vec<u64> {
        let words = self.as_bytes().as_chunks::<8>().0.iter();
        words.map(|word| u64::from_le_bytes(*word)).collect()
    }

    /// From the words of the MOS directory.
    ///
    /// # Errors
    /// When there are fewer words than it has.
    pub fn decode(words: &[u64]) -> Result<Self, OndiskError> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (phys, _) = Self::read_from_prefix(&bytes)
            .map_err(|_| short("device removal", size_of::<Self>(), bytes.len()))?;
        Ok(phys)
    }
}
