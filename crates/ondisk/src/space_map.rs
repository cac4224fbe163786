//! Space maps: the allocations and frees of a region of a vdev, in the order they happened.
//!
//! ```text
//!  debug     63 62 | 61 60  | 59 ......... 50 | 49 ................... 0
//!             1  0 | action | sync pass       | txg
//!  one word  63    | 62 ................... 16 | 15   | 14 .......... 0
//!             0    | offset                    | type | run - 1
//!  two words 63 62 | 61 60  | 59 ................. 24 | 23 .......... 0
//!             1  1 | zero   | run - 1                 | vdev
//!            63    | 62 .............................................. 0
//!            type  | offset
//! ```
//! Type 0 allocates, 1 frees. Offsets and runs count units of the map's shift (a vdev's sectors; 512
//! bytes in log space maps), offsets from the start of its region. A two-word entry never lies across two blocks of the
//! object: a debug entry of zeroes fills a block's last word instead.
//!
//! The bonus of the object is [`SpaceMapPhys`].
//!
//! Invariants
//! - What the [`Encoder`] writes, [`decode`] reads back as the same runs, split at most
//!   (test: `runs_survive_encoding`), in blocks no entry crosses (test: `no_entry_crosses_a_block`).

#[cfg(test)]
mod tests;

use units::{Txg, VdevId};
use zerocopy::little_endian::{I64, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bits;
use crate::error::{OndiskError, bad, short};

/// Buckets of the histogram.
pub const HISTOGRAM_BUCKETS: usize = 32;
/// Size of the bonus before histograms were added.
pub const SPACE_MAP_BYTES_V0: usize = 24;
/// Block size of new space-map objects: base-2 logarithm (128 KiB). OpenZFS reads any.
pub const SPACE_MAP_BLOCK_SHIFT: u32 = 17;

const RUN1_BITS: u32 = 15;
const OFFSET1_BITS: u32 = 47;
const RUN2_BITS: u32 = 36;
const OFFSET2_BITS: u32 = 63;
const VDEV_BITS: u32 = 24;

/// The bonus of a space-map object.
///
/// ```text
///  0 object   8 length   16 allocated (signed)   24 zero (5 words)   64 histogram   320 end
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct SpaceMapPhys {
    /// Own object number; no longer used.
    pub object: U64,
    /// Bytes of entries.
    pub length: U64,
    /// Bytes allocated, as the entries add up.
    pub allocated: I64,
    /// Zero.
    pub pad: [U64; 5],
    /// Free segments by size: bucket *i* counts those of 2^(i + shift) bytes up to twice that; the
    /// last one all larger ones.
    pub histogram: [U64; HISTOGRAM_BUCKETS],
}
const _: () = assert!(size_of::<SpaceMapPhys>() == 320);
const _: () = assert!(std::mem::offset_of!(SpaceMapPhys, histogram) == 64);

/// How far a metaslab is flushed, while the pool logs space maps (feature `log_spacemap`): one such
/// word for each metaslab lies in the object that the vdev's ZAP names, at metaslab number times 8.
/// Changes of this txg and later are in the logs, one log object for each txg.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct MetaslabUnflushedPhys {
    /// The first txg whose changes are not in the metaslab's own map.
    pub unflushed_txg: U64,
}
const _: () = assert!(size_of::<MetaslabUnflushedPhys>() == 8);

impl SpaceMapPhys {
    /// Reads a bonus of either size; an old one reads as one without histogram.
    ///
    /// # Errors
    /// When it is shorter than 24 bytes.
    pub fn decode(bonus: &[u8]) -> Result<Self, OndiskError> {
        if bonus.len() < SPACE_MAP_BYTES_V0 {
            return Err(short("space map", SPACE_MAP_BYTES_V0, bonus.len()));
        }
        let mut phys = Self::default();
        let len = bonus.len().min(size_of::<Self>());
        let (from, to) = (bonus.get(..len), phys.as_mut_bytes().get_mut(..len));
        if let (Some(from), Some(to)) = (from, to) {
            to.copy_from_slice(from);
        }
        Ok(phys)
    }
}

/// What an entry does with its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MapType {
    /// Takes it.
    Alloc,
    /// Gives it back.
    Free,
}

impl MapType {
    const fn bit(self) -> bool {
        matches!(self, Self::Free)
    }

    const fn of(bit: bool) -> Self {
        if bit { Self::Free } else { Self::Alloc }
    }
}

/// One entry, its offset and run in units of the map's shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceMapEntry {
    /// Says in which txg and sync pass the following entries were written.
    Debug {
        /// What they do.
        action: MapType,
        /// The pass of the txg's sync.
        sync_pass: u16,
        /// The txg.
        txg: Txg,
    },
    /// Fills the last word of a block.
    Pad,
    /// Allocates or frees a run.
    Run(Run),
}

/// A run of space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Allocated or freed.
    pub map_type: MapType,
    /// Where it starts, in units from the start of the region.
    pub offset: u64,
    /// Its length in units; at least 1.
    pub length: u64,
    /// The vdev, in maps over all vdevs (log space maps). A two-word entry of another map decodes
    /// as vdev 0, which means nothing there.
    pub vdev: Option<VdevId>,
}

/// Decodes the entries of `bytes`: whole blocks, or the used part of the last one.
///
/// Ends after the first error.
pub fn decode(bytes: &[u8]) -> impl Iterator<Item = Result<SpaceMapEntry, OndiskError>> {
    let mut words = bytes.chunks_exact(8);
    let odd = !words.remainder().is_empty();
    let mut ended = false;
    std::iter::from_fn(move || {
        if ended {
            return None;
        }
        let next = match next_word(&mut words) {
            Some(word) => decode_entry(word, || next_word(&mut words)),
            None if odd => Err(short("space map", bytes.len().next_multiple_of(8), bytes.len())),
            None => return None,
        };
        ended = next.is_err() || (words.len() == 0 && !odd);
        Some(next)
    })
}

fn next_word(words: &mut std::slice::ChunksExact<'_, u8>) -> Option<u64> {
    words.next().and_then(|bytes| U64::read_from_bytes(bytes).ok()).map(U64::get)
}

fn decode_entry(word: u64, second: impl FnOnce() -> Option<u64>) -> Result<SpaceMapEntry, OndiskError> {
    match bits::get(word, 62, 2) {
        0b10 => decode_debug(word),
        0b11 => {
            let second = second().ok_or_else(|| bad("space map", "two-word entry", word))?;
            Ok(SpaceMapEntry::Run(decode_two(word, second)))
        }
        _ => Ok(SpaceMapEntry::Run(Run {
            map_type: MapType::of(bits::flag(word, RUN1_BITS)),
            offset: bits::get(word, 16, OFFSET1_BITS),
            length: bits::get(word, 0, RUN1_BITS).saturating_add(1),
            vdev: None,
        })),
    }
}

fn decode_debug(word: u64) -> Result<SpaceMapEntry, OndiskError> {
    let (txg, pass) = (bits::get(word, 0, 50), bits::get(word, 50, 10));
    if txg == 0 {
        return Ok(SpaceMapEntry::Pad);
    }
    let action = bits::get(word, 60, 2);
    let action = match action {
        0 => MapType::Alloc,
        1 => MapType::Free,
        _ => return Err(bad("space map", "debug action", action)),
    };
    let sync_pass = u16::try_from(pass).unwrap_or(u16::MAX);
    Ok(SpaceMapEntry::Debug { action, sync_pass, txg: Txg::new(txg) })
}

fn decode_two(first: u64, second: u64) -> Run {
    let vdev = u32::try_from(bits::get(first, 0, VDEV_BITS)).unwrap_or(u32::MAX);
    Run {
        map_type: MapType::of(bits::flag(second, OFFSET2_BITS)),
        offset: bits::get(second, 0, OFFSET2_BITS),
        length: bits::get(first, VDEV_BITS, RUN2_BITS).saturating_add(1),
        vdev: Some(VdevId::new(vdev)),
    }
}

/// The word of a debug entry.
///
/// # Panics
/// When the txg does not fit 50 bits, or the pass 10.
#[must_use]
pub fn debug_word(action: MapType, sync_pass: u16, txg: Txg) -> u64 {
    let word = bits::set(bits::set(0, 62, 2, 0b10), 60, 2, action.bit().into());
    bits::set(bits::set(word, 50, 10, sync_pass.into()), 0, 50, txg.get())
}

/// The debug entry that fills a block.
const PAD_WORD: u64 = 1 << 63;
/// Most units that a one-word entry takes.
const RUN1_MAX: u64 = 1 << RUN1_BITS;
/// Most units that a two-word entry takes.
const RUN2_MAX: u64 = 1 << RUN2_BITS;
/// First offset that a one-word entry cannot say.
const OFFSET1_END: u64 = 1 << OFFSET1_BITS;

/// Appends entries to a space map, minding its blocks.
#[derive(Clone, Debug)]
pub struct Encoder {
    out: Vec<u8>,
    /// Bytes of the map before `out`.
    start: u64,
    block_bytes: u64,
    two_words: bool,
}

impl Encoder {
    /// Goes on at `length` bytes of a map in blocks of `block_bytes`. `two_words` says whether the
    /// pool has the feature `spacemap_v2`; without it long runs are split.
    ///
    /// # Panics
    /// When `length` or `block_bytes` is not whole words.
    #[must_use]
    pub fn new(length: u64, block_bytes: u64, two_words: bool) -> Self {
        assert!(length.is_multiple_of(8) && block_bytes.is_multiple_of(8), "a space map has whole words");
        assert!(block_bytes > 0, "a block is not empty");
        Self { out: Vec::new(), start: length, block_bytes, two_words }
    }

    /// Appends a debug entry.
    pub fn debug(&mut self, action: MapType, sync_pass: u16, txg: Txg) {
        self.word(debug_word(action, sync_pass, txg));
    }

    /// Appends a run, in as many entries as it takes. One that names a vdev always takes two-word
    /// entries.
    ///
    /// # Panics
    /// When the run is empty or cannot be said in the entries allowed.
    pub fn run(&mut self, run: &Run) {
        assert!(run.length > 0, "a run is not empty");
        let end = run.offset.checked_add(run.length).expect("a run ends within 64 bits");
        let long = run.length > RUN1_MAX || end > OFFSET1_END;
        let two = run.vdev.is_some() || (self.two_words && long);
        assert!(self.two_words || !two, "two-word entries need spacemap_v2");
        let most = if two { RUN2_MAX } else { RUN1_MAX };
        let mut offset = run.offset;
        while offset < end {
            let length = end.saturating_sub(offset).min(most);
            let piece = Run { offset, length, ..*run };
            if two {
                self.two(&piece)
            } else {
                self.one(&piece)
            }
            offset = offset.saturating_add(length);
        }
    }

    fn one(&mut self, run: &Run) {
        let word = bits::set(0, 0, RUN1_BITS, run.length.saturating_sub(1));
        let word = bits::with_flag(word, RUN1_BITS, run.map_type.bit());
        self.word(bits::set(word, 16, OFFSET1_BITS, run.offset));
    }

    fn two(&mut self, run: &Run) {
        let here = self.start.saturating_add(self.out.len() as u64);
        if here.checked_rem(self.block_bytes) == Some(self.block_bytes.saturating_sub(8)) {
            self.word(PAD_WORD);
        }
        let vdev = run.vdev.map_or(0, |vdev| vdev.get().into());
        let first = bits::set(bits::set(0, 62, 2, 0b11), 0, VDEV_BITS, vdev);
        self.word(bits::set(first, VDEV_BITS, RUN2_BITS, run.length.saturating_sub(1)));
        self.word(bits::with_flag(
            bits::set(0, 0, OFFSET2_BITS, run.offset),
            OFFSET2_BITS,
            run.map_type.bit(),
        ));
    }

    fn word(&mut self, word: u64) {
        self.out.extend_from_slice(U64::new(word).as_bytes());
    }

    /// The bytes to write at the length given to [`Encoder::new`].
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.out
    }
}

impl SpaceMapPhys {
    /// Counts a free segment of `bytes` in the histogram of a map of this shift. A segment too
    /// large for the last bucket counts as so many of that bucket's size.
    pub fn count_free(&mut self, bytes: u64, shift: u32) {
        let Some(log) = bytes.checked_ilog2().and_then(|log| log.checked_sub(shift)) else { return };
        let last = HISTOGRAM_BUCKETS - 1;
        let index = usize::try_from(log).unwrap_or(last).min(last);
        let excess = usize::try_from(log).unwrap_or(last).saturating_sub(index);
        let weight = u32::try_from(excess).ok().and_then(|excess| 1_u64.checked_shl(excess));
        if let Some(bucket) = self.histogram.get_mut(index) {
            bucket.set(bucket.get().saturating_add(weight.unwrap_or(u64::MAX)));
        }
    }
}
