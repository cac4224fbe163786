//! Micro ZAPs: a single block of 64-byte entries, each a name and a `u64`.
//!
//! ```text
//! header:  0 block type   8 salt  16 normalisation  24 pad (40)   64
//! entry:   0 value        8 cd    12 pad (2)        14 name (50, with its NUL)   64
//! ```
//! A slot is free when its name is empty. Entries lie in any order; [`MicroIndex`] keeps
//! them in hash order in memory.

use std::collections::BTreeMap;

use ondisk::zap::{BLOCK_MICRO, MZAP_ENTRY_BYTES, MZAP_NAME_BYTES};

use super::bytes::{put_u32, put_u64, u32_at, u64_at};
use super::error::Damage;
use super::header::Params;
use super::key::{Key, hash_name};

/// Where in an entry its name is.
const NAME_AT: usize = MZAP_ENTRY_BYTES - MZAP_NAME_BYTES;
/// By how much the block grows when all slots are taken.
pub(super) const MICRO_GROW_BYTES: u32 = 512;

/// Names of one hash that a micro ZAP takes: they must all fit the one leaf of a fat ZAP, where
/// each could take five of a 16 KiB leaf's 638 chunks.
const SAME_HASH_MAX: usize = 638 / 5 - 1;

/// One slot's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MicroEntry<'a> {
    /// Without its NUL; empty: the slot is free.
    pub(super) name: &'a [u8],
    pub(super) cd: u32,
    pub(super) value: u64,
}

/// Slots in a block of so many bytes.
const fn slots(bytes: usize) -> usize {
    bytes / MZAP_ENTRY_BYTES - 1
}

/// True if the slot lies in a block of so many bytes.
pub(super) const fn has_slot(bytes: usize, slot: u16) -> bool {
    slot_at(slot) + MZAP_ENTRY_BYTES <= bytes
}

const fn slot_at(slot: u16) -> usize {
    MZAP_ENTRY_BYTES * (slot as usize + 1)
}

/// Reads a slot that lies within `bytes`.
pub(super) fn entry(bytes: &[u8], slot: u16) -> Result<MicroEntry<'_>, Damage> {
    let raw = &bytes[slot_at(slot)..slot_at(slot) + MZAP_ENTRY_BYTES];
    let name = &raw[NAME_AT..];
    let end = name.iter().position(|&byte| byte == 0).ok_or(Damage("micro ZAP name without end"))?;
    Ok(MicroEntry { name: &name[..end], cd: u32_at(raw, 8), value: u64_at(raw, 0) })
}

/// Fills a slot. `name` may end with its NUL.
pub(super) fn put_entry(bytes: &mut [u8], slot: u16, entry: &MicroEntry<'_>) {
    let raw = &mut bytes[slot_at(slot)..slot_at(slot) + MZAP_ENTRY_BYTES];
    raw.fill(0);
    put_u64(raw, 0, entry.value);
    put_u32(raw, 8, entry.cd);
    raw[NAME_AT..NAME_AT + entry.name.len()].copy_from_slice(entry.name);
}

/// Changes the value of a slot.
pub(super) fn put_value(bytes: &mut [u8], slot: u16, value: u64) {
    put_u64(bytes, slot_at(slot), value);
}

/// Empties a slot.
pub(super) fn clear_entry(bytes: &mut [u8], slot: u16) {
    bytes[slot_at(slot)..slot_at(slot) + MZAP_ENTRY_BYTES].fill(0);
}

/// Makes a block an empty micro ZAP.
pub(super) fn format(bytes: &mut [u8], params: &Params) {
    bytes.fill(0);
    put_u64(bytes, 0, BLOCK_MICRO);
    put_u64(bytes, 8, params.salt);
    put_u64(bytes, 16, params.normflags);
}

/// An entry's place in the order: hash and differentiator.
pub(super) type Place = (u64, u32);

/// Where a micro ZAP's entries are, in hash order, and which slots are free.
#[derive(Debug)]
pub(super) struct MicroIndex {
    pub(super) params: Params,
    order: BTreeMap<Place, u16>,
    /// The lowest last.
    free: Vec<u16>,
}

impl MicroIndex {
    /// Indexes a block.
    pub(super) fn load(bytes: &[u8]) -> Result<Self, Damage> {
        if bytes.len() < 2 * MZAP_ENTRY_BYTES || slots(bytes.len()) > usize::from(u16::MAX) {
            return Err(Damage("block size that a micro ZAP cannot have"));
        }
        let params = Params { salt: u64_at(bytes, 8), normflags: u64_at(bytes, 16), flags: 0 };
        let mut index = Self { params, order: BTreeMap::new(), free: Vec::new() };
        for slot in (0..slots(bytes.len()) as u16).rev() {
            let entry = entry(bytes, slot)?;
            if entry.name.is_empty() {
                index.free.push(slot);
            } else if index.order.insert((hash_name(&params, entry.name), entry.cd), slot).is_some() {
                return Err(Damage("two micro ZAP entries in one place of the order"));
            }
        }
        Ok(index)
    }

    /// Number of entries.
    pub(super) fn len(&self) -> u64 {
        self.order.len() as u64
    }

    /// The entry of this key: its place in the order, and its slot.
    pub(super) fn find(&self, bytes: &[u8], key: &Key) -> Result<Option<(Place, u16)>, Damage> {
        for (&place, &slot) in self.order.range((key.hash, 0)..=(key.hash, u32::MAX)) {
            if entry(bytes, slot)?.name == &key.bytes[..key.bytes.len() - 1] {
                return Ok(Some((place, slot)));
            }
        }
        Ok(None)
    }

    /// A differentiator for a new entry of this hash; `None` when there are too many of them.
    pub(super) fn unused_cd(&self, hash: u64) -> Option<u32> {
        let taken = self.order.range((hash, 0)..=(hash, u32::MAX)).map(|(&(_, cd), _)| cd);
        let mut cd = 0;
        let mut count = 0;
        for other in taken {
            count += 1;
            if other == cd {
                cd += 1;
            }
        }
        (count < SAME_HASH_MAX).then_some(cd)
    }

    /// A free slot.
    pub(super) fn free_slot(&self) -> Option<u16> {
        self.free.last().copied()
    }

    /// Notes that [`MicroIndex::free_slot`] has been filled.
    pub(super) fn fill(&mut self, hash: u64, cd: u32) {
        let slot = self.free.pop().expect("the slot was free");
        let other = self.order.insert((hash, cd), slot);
        assert!(other.is_none(), "a differentiator given out twice");
    }

    /// Notes that an entry has been removed.
    pub(super) fn clear(&mut self, place: Place) {
        if let Some(slot) = self.order.remove(&place) {
            self.free.push(slot);
        }
    }

    /// Notes that the block has grown.
    pub(super) fn grow(&mut self, from_bytes: u32, to_bytes: u32) {
        let (from, to) = (slots(from_bytes as usize) as u16, slots(to_bytes as usize) as u16);
        self.free.extend((from..to).rev());
    }

    /// Entries from a place on, in order: place and slot.
    pub(super) fn from(&self, hash: u64, cd: u32) -> impl Iterator<Item = (Place, u16)> {
        self.order.range((hash, cd)..).map(|(&place, &slot)| (place, slot))
    }
}
