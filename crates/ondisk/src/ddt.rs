//! Deduplication tables: blocks that are written once and referred to from many places.
//!
//! ```text
//!  MOS directory ─ "DDT-sha256" ─► ZAP: version (1), flags, tables by class, logs     (version 1)
//!                ─ "DDT-sha256-zap-CLASS" ─► a table by itself                         (version 0)
//!                ─ "DDT-statistics" ─► ZAP: table's name ─► 64 rows of 8 words
//!
//!  table: ZAP   key: 5 words = checksum (4), sizes and compression
//!               value: how it is packed (1 byte), then slots
//!  slot:        DVAs (6 words)   references   birth   [since when, in flat tables]
//! ```
//! Flat tables have one slot in an entry; those of version 0 have four: ditto copies (obsolete), and
//! blocks of one, two and three copies. An entry with one reference is in the class `unique`, others
//! in `duplicate`. Row *i* of the statistics counts entries with 2^i references up to twice that:
//! blocks, their sizes (logical, physical, charged), and the same four times the references.
//!
//! A log of version 1 has entries that are not in a table yet.

use zerocopy::IntoBytes;

use crate::{Blkptr, CompressionKind};

/// What names in the MOS directory begin with.
pub const DDT_PREFIX: &str = "DDT-";
/// What names of logs begin with, in a table's directory.
pub const DDT_LOG_PREFIX: &str = "DDT-log-";
/// Between a checksum's name and a class's.
pub const DDT_TYPE: &str = "-zap-";
/// Classes by number, the obsolete one of ditto copies first.
pub const DDT_CLASSES: [&str; 3] = ["ditto", "duplicate", "unique"];
/// The only version that has a directory.
pub const DDT_VERSION: u64 = 1;
/// Flag of tables with one slot in an entry.
pub const DDT_FLAG_FLAT: u64 = 1 << 0;
/// Flag of tables with logs.
pub const DDT_FLAG_LOG: u64 = 1 << 1;
/// Words of a class's statistics.
pub const DDT_HISTOGRAM_WORDS: usize = DDT_HISTOGRAM_ROWS * DDT_ROW_WORDS;
/// Rows of the statistics of a table; row n is of entries with 2^n to 2^(n+1)-1 references.
pub const DDT_HISTOGRAM_ROWS: usize = 64;
/// Words of one row.
pub const DDT_ROW_WORDS: usize = 8;
/// Data block of a table, and base-2 logarithm of it and of its indirect blocks.
pub const DDT_BLOCK_SHIFT: u8 = 15;
/// Where in a log's bonus the log's length is.
pub const DDT_LOG_LENGTH_AT: usize = 8;

/// Bit of the packing byte: the writer's order was little-endian.
const LITTLE_ENDIAN: u8 = 0x80;
/// Words of a slot.
const SLOT_WORDS: usize = 8;
const SLOTS: usize = 4;
/// Within a slot.
const REFERENCES: usize = 6;
const BIRTH: usize = 7;
/// In a blkptr.
const DVAS_BYTES: usize = 48;
const PROP_AT: usize = 48;
/// Sizes and compression, as in a blkptr.
const KEY_PROP_MASK: u64 = (1 << 39) - 1;
const KEY_CRYPT: u32 = 39;
const DEDUP: u64 = 1 << 62;

/// The key of a block.
#[must_use]
pub fn key(bp: &Blkptr) -> [u64; 5] {
    let [a, b, c, d] = bp.checksum();
    let prop = word(bp.as_bytes(), PROP_AT) & KEY_PROP_MASK;
    [a, b, c, d, prop | u64::from(bp.uses_crypt()) << KEY_CRYPT]
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>());
    found.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The value of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DdtEntry {
    words: Vec<u64>,
    flat: bool,
}

/// Words of an entry's value.
#[must_use]
pub const fn entry_words(flat: bool) -> usize {
    if flat { SLOT_WORDS.saturating_add(1) } else { SLOT_WORDS.saturating_mul(SLOTS) }
}

impl DdtEntry {
    /// Reads a value once it is unpacked; `None` when it has another length.
    #[must_use]
    pub fn decode(bytes: &[u8], is_little: bool, flat: bool) -> Option<Self> {
        let read =
            |bytes: &[u8; 8]| if is_little { u64::from_le_bytes(*bytes) } else { u64::from_be_bytes(*bytes) };
        let (words, rest) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(read).collect();
        (rest.is_empty() && words.len() == entry_words(flat)).then_some(Self { words, flat })
    }

    /// The value as it is packed.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Numbers of the slots that are in use.
    pub fn slots(&self) -> impl Iterator<Item = usize> + '_ {
        let count = if self.flat { 1 } else { SLOTS };
        (0..count).filter(|slot| self.at(*slot, BIRTH) != 0)
    }

    /// The slot that a block is in: the first copy lies at the same place, and is as old.
    #[must_use]
    pub fn slot_of(&self, bp: &Blkptr) -> Option<usize> {
        let first = [word(bp.as_bytes(), 0), word(bp.as_bytes(), 8)];
        self.slots().find(|&slot| {
            [self.at(slot, 0), self.at(slot, 1)] == first && self.at(slot, BIRTH) == bp.physical_birth().get()
        })
    }

    /// How many references a slot has.
    #[must_use]
    pub fn references(&self, slot: usize) -> u64 {
        self.at(slot, REFERENCES)
    }

    /// One reference more; how many there are.
    ///
    /// `None` when the slot is empty, or full.
    pub fn add_reference(&mut self, slot: usize) -> Option<u64> {
        let more = self.references(slot).checked_add(1).filter(|&more| more > 1)?;
        let at = slot.saturating_mul(SLOT_WORDS).saturating_add(REFERENCES);
        *self.words.get_mut(at)? = more;
        Some(more)
    }

    /// One reference less; how many are left. With the last one the slot is empty.
    ///
    /// `None` when there was none.
    pub fn drop_reference(&mut self, slot: usize) -> Option<u64> {
        let left = self.references(slot).checked_sub(1)?;
        let start = slot.saturating_mul(SLOT_WORDS);
        let words = self.words.get_mut(start..start.saturating_add(SLOT_WORDS))?;
        match left {
            0 => words.fill(0),
            left => *words.get_mut(REFERENCES)? = left,
        }
        Some(left)
    }

    /// The block that a slot holds, of those that look like `bp`, as if it were in no table.
    #[must_use]
    pub fn block(&self, slot: usize, bp: &Blkptr) -> Option<Blkptr> {
        let mut bytes = bp.as_bytes().to_vec();
        let start = slot.saturating_mul(SLOT_WORDS);
        let dvas = self.words.get(start..start.saturating_add(REFERENCES))?;
        let dvas: Vec<u8> = dvas.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.get_mut(..DVAS_BYTES)?.copy_from_slice(&dvas);
        let prop = word(bp.as_bytes(), PROP_AT) & !DEDUP;
        bytes.get_mut(PROP_AT..PROP_AT.saturating_add(8))?.copy_from_slice(&prop.to_le_bytes());
        Blkptr::decode(&bytes).ok()
    }

    fn at(&self, slot: usize, index: usize) -> u64 {
        let at = slot.saturating_mul(SLOT_WORDS).saturating_add(index);
        self.words.get(at).copied().unwrap_or(0)
    }
}

/// How a value is packed: its compression, and whether its words are little-endian.
#[must_use]
pub fn packing(byte: u8) -> Option<(CompressionKind, bool)> {
    let kind = CompressionKind::from_raw(byte & !LITTLE_ENDIAN).ok()?;
    Some((kind, byte & LITTLE_ENDIAN != 0))
}

/// The byte that says so, of little-endian words.
#[must_use]
pub fn packing_byte(kind: CompressionKind) -> u8 {
    kind.raw() | LITTLE_ENDIAN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_counts_down_and_gives_its_block() {
        for (flat, slot) in [(true, 0), (false, 1)] {
            let mut words = vec![0_u64; entry_words(flat)];
            words[slot * SLOT_WORDS..][..8].copy_from_slice(&[1, 77, 1, 99, 0, 0, 2, 40]);
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            let mut entry = DdtEntry::decode(&bytes, false, flat).unwrap();
            assert_eq!(entry.slots().collect::<Vec<_>>(), [slot]);
            let mut raw = [0_u8; 128];
            raw[..8].copy_from_slice(&1_u64.to_le_bytes());
            raw[8..16].copy_from_slice(&77_u64.to_le_bytes());
            raw[55] = 1 << 6;
            raw[80] = 40;
            let bp = Blkptr::decode(&raw).unwrap();
            assert!(bp.dedup());
            assert_eq!(entry.slot_of(&bp), Some(slot));
            assert_eq!(entry.slot_of(&bp.with_births(bp.birth(), units::Txg::new(39))), None);
            let block = entry.block(slot, &bp).unwrap();
            assert!(!block.dedup() && block.dvas().count() == 2);
            assert_eq!(block.dva(1).offset.get(), 99 << 9);
            assert_eq!(entry.drop_reference(slot), Some(1));
            assert_eq!(DdtEntry::decode(&entry.encode(), true, flat), Some(entry.clone()));
            assert_eq!(entry.drop_reference(slot), Some(0));
            assert_eq!((entry.slots().count(), entry.drop_reference(slot)), (0, None));
        }
        assert_eq!(DdtEntry::decode(&[0; 71], true, true), None);
    }
}
