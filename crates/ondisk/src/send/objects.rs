//! Records of objects.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::swap::{Field, Swapped};

/// An object as it is to be, made if there is none; its bonus is the payload, padded to whole words of 64 bits:
///
/// ```text
///   0 object          8 type (u32)     12 bonus type (u32)   16 block size (u32)   20 bonus length (u32)
///  24 checksum (u8)  25 compression   26 slots              27 flags              28 raw bonus length (u32)
///  32 to guid        40 indirect shift  41 levels           42 nblkptr            43 zero (5)
///  48 max block id   56 end
/// ```
/// From byte 28 on, but for the guid, only raw streams say something.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct DrrObject {
    /// Its number.
    pub object: U64,
    /// An [`crate::ObjectType`].
    pub object_type: U32,
    /// Another, of its bonus.
    pub bonus_type: U32,
    /// Bytes of a data block; 128 KiB for a larger one that is sent in pieces.
    pub block_bytes: U32,
    /// Bytes of bonus.
    pub bonus_bytes: U32,
    /// Checksum function of the object; 0 to inherit.
    pub checksum: u8,
    /// Compression function of the object; 0 to inherit.
    pub compression: u8,
    /// Slots of the dnode; old streams say 0 for 1.
    pub slots: u8,
    /// See [`super::record_flags`].
    pub flags: u8,
    /// Bytes of the encrypted bonus, which is sent whole.
    pub raw_bonus_bytes: U32,
    /// As in BEGIN.
    pub toguid: U64,
    /// Base-2 logarithm of an indirect block.
    pub indirect_shift: u8,
    /// Height of the tree.
    pub levels: u8,
    /// Block pointers in the dnode.
    pub nblkptr: u8,
    /// Zero.
    pub pad: [u8; 5],
    /// Highest block.
    pub max_block_id: U64,
}
const _: () = assert!(size_of::<DrrObject>() == 56);
const _: () = assert!(std::mem::offset_of!(DrrObject, raw_bonus_bytes) == 28);
const _: () = assert!(std::mem::offset_of!(DrrObject, max_block_id) == 48);

impl Swapped for DrrObject {
    const FIELDS: &'static [Field] = &[
        Field::Words64(1),
        Field::Words32(4),
        Field::Bytes(4),
        Field::Words32(1),
        Field::Words64(1),
        Field::Bytes(8),
        Field::Words64(1),
    ];
}

/// Numbers that no object has:
///
/// ```text
///   0 first object   8 how many   16 to guid   24 end
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct DrrFreeobjects {
    /// The first.
    pub first_object: U64,
    /// How many numbers.
    pub objects: U64,
    /// As in BEGIN.
    pub toguid: U64,
}
const _: () = assert!(size_of::<DrrFreeobjects>() == 24);

impl Swapped for DrrFreeobjects {
    const FIELDS: &'static [Field] = &[Field::Words64(3)];
}

/// What the block of dnodes that the next objects are in was encrypted with (raw streams):
///
/// ```text
///   0 first object   8 slots   16 to guid   24 salt (8)   32 IV (12)   44 MAC (16)   60 flags (u8)
///  61 zero (3)      64 end
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct DrrObjectRange {
    /// The first number in the block.
    pub first_object: U64,
    /// Slots of the block.
    pub slots: U64,
    /// As in BEGIN.
    pub toguid: U64,
    /// The block's key was derived with it.
    pub salt: [u8; 8],
    /// Initialization vector.
    pub iv: [u8; 12],
    /// Authenticates the block.
    pub mac: [u8; 16],
    /// See [`super::record_flags`].
    pub flags: u8,
    /// Zero.
    pub pad: [u8; 3],
}
const _: () = assert!(size_of::<DrrObjectRange>() == 64);
const _: () = assert!(std::mem::offset_of!(DrrObjectRange, flags) == 60);

impl Swapped for DrrObjectRange {
    const FIELDS: &'static [Field] = &[Field::Words64(3), Field::Bytes(40)];
}
