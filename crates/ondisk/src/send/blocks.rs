//! Records of what is in objects.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::swap::{Field, Swapped};

/// A block, which is the payload:
///
/// ```text
///   0 object          8 type (u32)   12 zero (u32)    16 offset              24 logical size
///  32 to guid        40 checksum (u8)  41 flags       42 compression (u8)    43 zero (5)
///  48 key: the block's checksum (4 words), sizes and compression             88 compressed size
///  96 salt (8)      104 IV (12)     116 MAC (16)     132 zero (4)           136 end
/// ```
/// The key is that of the deduplication tables ([`crate::ddt::key`]). Compression and compressed size are zero unless
/// the payload is compressed; salt, IV and MAC unless the stream is raw.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct DrrWrite {
    /// Which object.
    pub object: U64,
    /// Its [`crate::ObjectType`].
    pub object_type: U32,
    /// Zero.
    pub pad: U32,
    /// Where in the object, in bytes.
    pub offset: U64,
    /// Bytes of it.
    pub logical_bytes: U64,
    /// As in BEGIN.
    pub toguid: U64,
    /// A [`crate::ChecksumKind`]: what the key's checksum is; `Off` where there is no key.
    pub checksum: u8,
    /// See [`super::record_flags`].
    pub flags: u8,
    /// A [`crate::CompressionKind`] of the payload; 0 where it is the logical bytes.
    pub compression: u8,
    /// Zero.
    pub pad2: [u8; 5],
    /// See [`crate::ddt::key`].
    pub key: [U64; 5],
    /// Bytes of a compressed payload.
    pub compressed_bytes: U64,
    /// The block's key was derived with it.
    pub salt: [u8; 8],
    /// Initialization vector.
    pub iv: [u8; 12],
    /// Authenticates the block.
    pub mac: [u8; 16],
    /// Zero.
    pub pad3: [u8; 4],
}
const _: () = assert!(size_of::<DrrWrite>() == 136);
const _: () = assert!(std::mem::offset_of!(DrrWrite, key) == 48);
const _: () = assert!(std::mem::offset_of!(DrrWrite, mac) == 116);

impl Swapped for DrrWrite {
    const FIELDS: &'static [Field] = &[
        Field::Words64(1),
        Field::Words32(2),
        Field::Words64(3),
        Field::Bytes(8),
        Field::Words64(6),
        Field::Bytes(40),
    ];
}

impl DrrWrite {
    /// Bytes of the payload.
    #[must_use]
    pub const fn payload_bytes(&self) -> u64 {
        if self.compression == 0 { self.logical_bytes.get() } else { self.compressed_bytes.get() }
    }
}

/// A block that is the same as another, in this stream or at the receiver; no longer sent:
///
/// ```text
///   0 object      8 offset       16 length      24 to guid   32 ref guid   40 ref object   48 ref offset
///  56 checksum (u8)  57 flags    58 zero (6)    64 key (5 words)          104 end
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct DrrWriteByref {
    /// Which object.
    pub object: U64,
    /// Where in the object, in bytes.
    pub offset: U64,
    /// Bytes of it.
    pub length: U64,
    /// As in BEGIN.
    pub toguid: U64,
    /// The snapshot that has the other.
    pub refguid: U64,
    /// Object of the other.
    pub ref_object: U64,
    /// Where in that object, in bytes.
    pub ref_offset: U64,
    /// As in [`DrrWrite`].
    pub checksum: u8,
    /// See [`super::record_flags`].
    pub flags: u8,
    /// Zero.
    pub pad: [u8; 6],
    /// As in [`DrrWrite`].
    pub key: [U64; 5],
}
const _: () = assert!(size_of::<DrrWriteByref>() == 104);

impl Swapped for DrrWriteByref {
    const FIELDS: &'static [Field] = &[Field::Words64(7), Field::Bytes(8), Field::Words64(5)];
}

/// A block that lies in its pointer; what lies there is the payload, padded to whole words of 64 bits:
///
/// ```text
///   0 object   8 offset   16 length   24 to guid   32 compression (u8)   33 etype (u8)   34 zero (6)
///  40 logical size (u32)  44 physical size (u32)   48 end
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct DrrWriteEmbedded {
    /// Which object.
    pub object: U64,
    /// Where in the object, in bytes.
    pub offset: U64,
    /// Bytes of a block of the object.
    pub length: U64,
    /// As in BEGIN.
    pub toguid: U64,
    /// A [`crate::CompressionKind`].
    pub compression: u8,
    /// As [`crate::Blkptr::embedded_type`].
    pub embedded_type: u8,
    /// Zero.
    pub pad: [u8; 6],
    /// Bytes of it, decompressed.
    pub logical_bytes: U32,
    /// Bytes in the pointer.
    pub physical_bytes: U32,
}
const _: () = assert!(size_of::<DrrWriteEmbedded>() == 48);

impl Swapped for DrrWriteEmbedded {
    const FIELDS: &'static [Field] = &[Field::Words64(4), Field::Bytes(8), Field::Words32(2)];
}

/// A spill block, which is the payload:
///
/// ```text
///   0 object   8 length   16 to guid   24 flags (u8)   25 compression (u8)   26 zero (6)
///  32 compressed size    40 salt (8)   48 IV (12)      60 MAC (16)           76 type (u32)   80 end
/// ```
/// From the compression on, only raw streams say something.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct DrrSpill {
    /// Whose.
    pub object: U64,
    /// Bytes of it.
    pub length: U64,
    /// As in BEGIN.
    pub toguid: U64,
    /// See [`super::record_flags`].
    pub flags: u8,
    /// A [`crate::CompressionKind`] of the payload.
    pub compression: u8,
    /// Zero.
    pub pad: [u8; 6],
    /// Bytes of a compressed payload; 0 where it is not.
    pub compressed_bytes: U64,
    /// The block's key was derived with it.
    pub salt: [u8; 8],
    /// Initialization vector.
    pub iv: [u8; 12],
    /// Authenticates the block.
    pub mac: [u8; 16],
    /// An [`crate::ObjectType`].
    pub object_type: U32,
}
const _: () = assert!(size_of::<DrrSpill>() == 80);
const _: () = assert!(std::mem::offset_of!(DrrSpill, object_type) == 76);

impl Swapped for DrrSpill {
    const FIELDS: &'static [Field] =
        &[Field::Words64(3), Field::Bytes(8), Field::Words64(1), Field::Bytes(36), Field::Words32(1)];
}

impl DrrSpill {
    /// Bytes of the payload.
    #[must_use]
    pub const fn payload_bytes(&self) -> u64 {
        match self.compressed_bytes.get() {
            0 => self.length.get(),
            compressed => compressed,
        }
    }
}

/// Bytes of an object that are not there:
///
/// ```text
///   0 object   8 offset   16 length   24 to guid   32 end
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct DrrFree {
    /// Which object.
    pub object: U64,
    /// Where in the object, in bytes.
    pub offset: U64,
    /// How many; [`super::TO_THE_END`] for all that follow.
    pub length: U64,
    /// As in BEGIN.
    pub toguid: U64,
}
const _: () = assert!(size_of::<DrrFree>() == 32);

impl Swapped for DrrFree {
    const FIELDS: &'static [Field] = &[Field::Words64(4)];
}

/// Bytes of an object that are left out on purpose: as [`DrrFree`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct DrrRedact {
    /// Which object.
    pub object: U64,
    /// Where in the object, in bytes.
    pub offset: U64,
    /// How many.
    pub length: U64,
    /// As in BEGIN.
    pub toguid: U64,
}
const _: () = assert!(size_of::<DrrRedact>() == 32);

impl Swapped for DrrRedact {
    const FIELDS: &'static [Field] = &[Field::Words64(4)];
}
