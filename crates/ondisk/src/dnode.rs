//! The dnode: one object of an objset: its type, its size, and the roots of its block tree.
//!
//! ```text
//!   0 type           1 indirect shift  2 levels   3 nblkptr   4 bonus type   5 checksum
//!   6 compression    7 flags           8 data block size in sectors (u16)   10 bonus len (u16)
//!  12 extra slots   13 zero           16 max block id (u64)                 24 used (u64)
//!  32 zero (4 words)
//!  64 blkptr 0 | blkptr 1 .. nblkptr-1 | bonus ...              | spill blkptr | end
//!                                                                 last 128 bytes, if flagged
//! ```
//! A dnode takes one slot of 512 bytes or several in a row (`extra slots` more), within one 16 KiB
//! block. What follows the header is shared out: one to three blkptrs, the bonus (the object's own
//! small record), and at the very end a blkptr to a spill block that continues the bonus.
//!
//! Invariants
//! - [`DnodeImage`] holds all that a slot says; decoding what was encoded gives it back
//!   (test: `a_dnode_survives_encoding`), and re-encoding a dnode of OpenZFS gives its bytes.
//! - Nothing decoded reaches past the dnode's own slots (test: `any_bytes_decode_or_are_refused`).

#[cfg(test)]
mod tests;

use units::{BlockId, SECTOR_BYTES};
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::blkptr::{BLKPTR_BYTES, Blkptr};
use crate::checksum_kind::ChecksumKind;
use crate::compression_kind::CompressionKind;
use crate::error::{OndiskError, bad, short};
use crate::object_type::ObjectType;

/// Base-2 logarithm of a slot.
pub const DNODE_SHIFT: u32 = 9;
/// A slot: the smallest dnode.
pub const DNODE_SLOT_BYTES: usize = 1 << DNODE_SHIFT;
/// The header, before the first blkptr.
pub const DNODE_HEADER_BYTES: usize = 64;
/// A block of the meta-dnode: also the largest dnode.
pub const DNODE_BLOCK_BYTES: usize = 16 << 10;
/// Slots in such a block.
pub const DNODES_PER_BLOCK: usize = DNODE_BLOCK_BYTES / DNODE_SLOT_BYTES;
/// Most slots a dnode takes.
pub const DNODE_SLOTS_MAX: usize = DNODES_PER_BLOCK;
/// Most blkptrs in a dnode.
pub const NBLKPTR_MAX: usize = 3;
/// Smallest indirect block: base-2 logarithm.
pub const INDIRECT_SHIFT_MIN: u8 = 12;
/// Largest indirect block, and what new objects get: base-2 logarithm.
pub const INDIRECT_SHIFT_MAX: u8 = 17;
/// Largest indirect block that is read: the format's largest block.
const INDIRECT_SHIFT_READ_MAX: u8 = 24;
/// Smallest one that is read.
const INDIRECT_SHIFT_READ_MIN: u8 = 10;
/// The end of the longest object: offsets are signed to users.
const OBJECT_BYTES_MAX: u128 = 1 << 63;
/// Most levels an object can need: 2^64 bytes of 512-byte blocks under 4 KiB indirects.
pub const LEVELS_MAX: u8 = 12;
/// Object numbers are below 2^48.
pub const OBJECT_SHIFT_MAX: u32 = 48;

/// Bonus room of a dnode of so many slots that has one blkptr and no spill.
#[must_use]
pub const fn bonus_capacity(slots: usize) -> usize {
    slots.saturating_mul(DNODE_SLOT_BYTES).saturating_sub(DNODE_HEADER_BYTES + BLKPTR_BYTES)
}

/// Bits of `flags`.
pub mod flags {
    /// `used` counts bytes; without it, sectors (old pools).
    pub const USED_BYTES: u8 = 1 << 0;
    /// Counted in its owner's space.
    pub const USERUSED_ACCOUNTED: u8 = 1 << 1;
    /// The last 128 bytes are the spill blkptr.
    pub const SPILL_BLKPTR: u8 = 1 << 2;
    /// Counted in its owner's number of objects.
    pub const USEROBJUSED_ACCOUNTED: u8 = 1 << 3;
}

/// The first 64 bytes of a dnode.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct DnodePhys {
    /// What the object is; `NONE` for a free slot.
    pub object_type: ObjectType,
    /// Base-2 logarithm of the indirect block size.
    pub indirect_shift: u8,
    /// Height of the tree; 1 when the blkptrs here lead to data.
    pub levels: u8,
    /// Blkptrs here, 1 to 3.
    pub nblkptr: u8,
    /// What the bonus is.
    pub bonus_type: ObjectType,
    /// Checksum function of the object; 0 to inherit.
    pub checksum: u8,
    /// Compression function of the object; 0 to inherit.
    pub compression: u8,
    /// See [`flags`].
    pub flags: u8,
    /// Data block size in sectors.
    pub data_block_sectors: U16,
    /// Bytes of bonus.
    pub bonus_len: U16,
    /// Slots after the first.
    pub extra_slots: u8,
    /// Zero.
    pub pad2: [u8; 3],
    /// Highest block ever written.
    pub max_block_id: U64,
    /// Space allocated, all copies and indirect blocks included.
    pub used: U64,
    /// Zero.
    pub pad3: [U64; 4],
}
const _: () = assert!(size_of::<DnodePhys>() == DNODE_HEADER_BYTES);
const _: () = assert!(std::mem::offset_of!(DnodePhys, data_block_sectors) == 8);
const _: () = assert!(std::mem::offset_of!(DnodePhys, max_block_id) == 16);

impl DnodePhys {
    /// Reads the header at the start of a slot.
    ///
    /// # Errors
    /// When there are fewer than 64 bytes.
    pub fn read(slot: &[u8]) -> Result<Self, OndiskError> {
        crate::reader::prefix("dnode", slot)
    }

    /// Whether the slot holds an object. The slots that a large dnode continues in say nothing
    /// about themselves: step over them by [`DnodePhys::slots`].
    #[must_use]
    pub fn is_allocated(&self) -> bool {
        self.object_type != ObjectType::NONE
    }

    /// Slots the dnode takes.
    #[must_use]
    pub fn slots(&self) -> usize {
        usize::from(self.extra_slots).saturating_add(1)
    }
}

/// The allocated dnodes of a block, as (index of the first slot, their slots' bytes).
///
/// A dnode that claims to reach past the block is given what there is; decoding it then fails.
pub fn dnodes_of_block(block: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut index = 0_usize;
    std::iter::from_fn(move || {
        loop {
            let start = index.checked_mul(DNODE_SLOT_BYTES)?;
            let rest = block.get(start..)?;
            let header = DnodePhys::read(rest).ok()?;
            let first = index;
            if header.is_allocated() {
                index = index.checked_add(header.slots())?;
                let len = header.slots().saturating_mul(DNODE_SLOT_BYTES).min(rest.len());
                return rest.get(..len).map(|bytes| (first, bytes));
            }
            index = index.checked_add(1)?;
        }
    })
}

/// One dnode, taken out of its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnodeImage {
    /// What the object is; never `NONE`.
    pub object_type: ObjectType,
    /// Base-2 logarithm of the indirect block size.
    pub indirect_shift: u8,
    /// Height of the tree; at least 1.
    pub levels: u8,
    /// What the bonus is.
    pub bonus_type: ObjectType,
    /// Checksum function of the object; `Inherit` as a rule.
    pub checksum: ChecksumKind,
    /// Compression function of the object; `Inherit` as a rule.
    pub compression: CompressionKind,
    /// See [`flags`]. Encoding sets the spill flag as there is a spill blkptr or not, and the
    /// used-bytes flag once space is used.
    pub flags: u8,
    /// Data block size in sectors; at least 1.
    pub data_block_sectors: u16,
    /// Slots after the first.
    pub extra_slots: u8,
    /// Highest block ever written.
    pub max_block_id: BlockId,
    /// Space allocated, in bytes.
    pub used_bytes: u64,
    /// One to three roots of the block tree.
    pub blkptrs: Vec<Blkptr>,
    /// The object's own record; its length is the dnode's `bonus_len`.
    pub bonus: Vec<u8>,
    /// Continues the bonus.
    pub spill: Option<Blkptr>,
}

impl DnodeImage {
    /// A new object: nothing written, one level, `blkptrs` holes.
    ///
    /// # Panics
    /// When `nblkptr` is not 1 to 3.
    #[must_use]
    pub fn new(object_type: ObjectType, data_block_sectors: u16, nblkptr: usize) -> Self {
        assert!((1..=NBLKPTR_MAX).contains(&nblkptr), "a dnode has 1 to 3 blkptrs");
        Self {
            object_type,
            indirect_shift: INDIRECT_SHIFT_MAX,
            levels: 1,
            bonus_type: ObjectType::NONE,
            checksum: ChecksumKind::Inherit,
            compression: CompressionKind::Inherit,
            flags: 0,
            data_block_sectors,
            extra_slots: 0,
            max_block_id: BlockId::new(0),
            used_bytes: 0,
            blkptrs: vec![Blkptr::HOLE; nblkptr],
            bonus: Vec::new(),
            spill: None,
        }
    }

    /// Slots the dnode takes.
    #[must_use]
    pub fn slots(&self) -> usize {
        usize::from(self.extra_slots).saturating_add(1)
    }

    /// Data block size in bytes.
    #[must_use]
    pub fn data_block_bytes(&self) -> u64 {
        u64::from(self.data_block_sectors).saturating_mul(SECTOR_BYTES)
    }

    /// Bytes of bonus that fit beside the blkptrs, and the spill blkptr if there is one.
    #[must_use]
    pub fn bonus_capacity(&self) -> usize {
        let spill = if self.spill.is_some() { BLKPTR_BYTES } else { 0 };
        let extra_blkptrs = self.blkptrs.len().saturating_sub(1).saturating_mul(BLKPTR_BYTES);
        bonus_capacity(self.slots()).saturating_sub(extra_blkptrs).saturating_sub(spill)
    }

    /// Decodes the dnode that starts at `slots`; more bytes than it takes may follow.
    ///
    /// # Errors
    /// When the slot is free, or a field cannot be.
    pub fn decode(slots: &[u8]) -> Result<Self, OndiskError> {
        let header = DnodePhys::read(slots)?;
        check_header(&header)?;
        let len = header.slots().saturating_mul(DNODE_SLOT_BYTES);
        let bytes = slots.get(..len).ok_or_else(|| short("dnode", len, slots.len()))?;
        let (_, tail) = bytes.split_at_checked(DNODE_HEADER_BYTES).unwrap_or_default();
        let (spill, tail) = decode_spill(&header, tail)?;
        let (blkptrs, room) = decode_blkptrs(&header, tail)?;
        let bonus_len = usize::from(header.bonus_len.get());
        let bonus = room.get(..bonus_len).ok_or_else(|| bad("dnode", "bonus len", header.bonus_len.get()))?;
        Ok(Self {
            object_type: header.object_type,
            indirect_shift: header.indirect_shift,
            levels: header.levels,
            bonus_type: header.bonus_type,
            checksum: ChecksumKind::from_raw(header.checksum)?,
            compression: CompressionKind::from_raw(header.compression)?,
            flags: header.flags,
            data_block_sectors: header.data_block_sectors.get(),
            extra_slots: header.extra_slots,
            max_block_id: BlockId::new(header.max_block_id.get()),
            used_bytes: used_bytes(&header),
            blkptrs,
            bonus: bonus.to_vec(),
            spill,
        })
    }

    /// Writes the dnode over `slots`, which must be just its own; unused bytes become zero.
    ///
    /// # Panics
    /// When the length is not that of its slots, or blkptrs and bonus do not fit.
    pub fn encode(&self, slots: &mut [u8]) {
        let len = self.slots().saturating_mul(DNODE_SLOT_BYTES);
        assert_eq!(slots.len(), len, "a dnode is written over just its slots");
        assert!((1..=NBLKPTR_MAX).contains(&self.blkptrs.len()), "a dnode has 1 to 3 blkptrs");
        assert!(self.bonus.len() <= self.bonus_capacity(), "the bonus fits beside blkptrs and spill");
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(self.header().as_bytes());
        self.blkptrs.iter().for_each(|bp| bytes.extend_from_slice(bp.as_bytes()));
        bytes.extend_from_slice(&self.bonus);
        if let Some(spill) = &self.spill {
            bytes.resize(len.saturating_sub(BLKPTR_BYTES), 0);
            bytes.extend_from_slice(spill.as_bytes());
        }
        bytes.resize(len, 0);
        slots.copy_from_slice(&bytes);
    }

    fn header(&self) -> DnodePhys {
        let spill = if self.spill.is_some() { flags::SPILL_BLKPTR } else { 0 };
        let used = if self.used_bytes > 0 { flags::USED_BYTES } else { 0 };
        DnodePhys {
            object_type: self.object_type,
            indirect_shift: self.indirect_shift,
            levels: self.levels,
            nblkptr: u8::try_from(self.blkptrs.len()).expect("at most 3"),
            bonus_type: self.bonus_type,
            checksum: self.checksum.raw(),
            compression: self.compression.raw(),
            flags: (self.flags & !flags::SPILL_BLKPTR) | spill | used,
            data_block_sectors: U16::new(self.data_block_sectors),
            bonus_len: U16::new(u16::try_from(self.bonus.len()).expect("the bonus is below 16 KiB")),
            extra_slots: self.extra_slots,
            pad2: [0; 3],
            max_block_id: U64::new(self.max_block_id.get()),
            used: U64::new(self.used_bytes),
            pad3: [U64::ZERO; 4],
        }
    }
}

fn used_bytes(header: &DnodePhys) -> u64 {
    if header.flags & flags::USED_BYTES != 0 {
        header.used.get()
    } else {
        header.used.get().saturating_mul(SECTOR_BYTES)
    }
}

fn check_header(header: &DnodePhys) -> Result<(), OndiskError> {
    if !header.is_allocated() || !header.object_type.is_valid() {
        return Err(bad("dnode", "type", header.object_type.raw()));
    }
    if !(1..=LEVELS_MAX).contains(&header.levels) {
        return Err(bad("dnode", "levels", header.levels));
    }
    if !(INDIRECT_SHIFT_READ_MIN..=INDIRECT_SHIFT_READ_MAX).contains(&header.indirect_shift) {
        return Err(bad("dnode", "indirect shift", header.indirect_shift));
    }
    if !(1..=NBLKPTR_MAX).contains(&usize::from(header.nblkptr)) {
        return Err(bad("dnode", "nblkptr", header.nblkptr));
    }
    if header.slots() > DNODE_SLOTS_MAX {
        return Err(bad("dnode", "extra slots", header.extra_slots));
    }
    if header.data_block_sectors.get() == 0 {
        return Err(bad("dnode", "data block size", 0_u64));
    }
    if !reaches(header) {
        return Err(bad("dnode", "max block id", header.max_block_id.get()));
    }
    Ok(())
}

/// Whether the tree is high enough for the highest block, and that block ends within the largest of files.
fn reaches(header: &DnodePhys) -> bool {
    let fan_shift = u32::from(header.indirect_shift).saturating_sub(crate::BLKPTR_SHIFT);
    let shift = fan_shift.saturating_mul(u32::from(header.levels).saturating_sub(1));
    let capacity = u128::from(header.nblkptr).checked_shl(shift).filter(|_| shift < u64::BITS);
    let blocks = u128::from(header.max_block_id.get()).saturating_add(1);
    let sectors = blocks.saturating_mul(u128::from(header.data_block_sectors.get()));
    let bytes = sectors.saturating_mul(u128::from(SECTOR_BYTES));
    capacity.is_none_or(|capacity| blocks <= capacity) && bytes <= OBJECT_BYTES_MAX
}

fn decode_spill<'a>(header: &DnodePhys, tail: &'a [u8]) -> Result<(Option<Blkptr>, &'a [u8]), OndiskError> {
    if header.flags & flags::SPILL_BLKPTR == 0 {
        return Ok((None, tail));
    }
    let at = tail.len().saturating_sub(BLKPTR_BYTES);
    let (tail, spill) = tail.split_at_checked(at).unwrap_or_default();
    Ok((Some(Blkptr::decode(spill)?), tail))
}

fn decode_blkptrs<'a>(header: &DnodePhys, tail: &'a [u8]) -> Result<(Vec<Blkptr>, &'a [u8]), OndiskError> {
    let mut from = crate::reader::Reader::new("dnode", tail);
    let blkptrs = (0..header.nblkptr).map(|_| from.read()).collect::<Result<_, _>>()?;
    Ok((blkptrs, from.rest()))
}
