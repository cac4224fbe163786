//! The fields of each type of record, and values at which a receiver could go wrong.

use std::mem::offset_of;

use ondisk::send::{
    DrrBegin, DrrFree, DrrFreeobjects, DrrObject, DrrObjectRange, DrrSpill, DrrType, DrrWrite, DrrWriteByref,
    DrrWriteEmbedded,
};

use super::record::BODY_AT;

/// Values for a field.
#[derive(Clone, Copy)]
pub enum Odd {
    /// One of these.
    Value(&'static [u64]),
    /// The old value with one of these bits flipped.
    Bit(&'static [u64]),
}

/// A field of a record.
pub struct Field {
    pub at: usize,
    pub width: usize,
    pub odd: Odd,
}

const fn value(at: usize, width: usize, odd: &'static [u64]) -> Field {
    Field { at: BODY_AT + at, width, odd: Odd::Value(odd) }
}

const fn bit(at: usize, width: usize, odd: &'static [u64]) -> Field {
    Field { at: BODY_AT + at, width, odd: Odd::Bit(odd) }
}

const OBJECTS: &[u64] = &[
    0,
    1,
    2,
    7,
    31,
    32,
    33,
    1000,
    (1 << 17) - 1,
    1 << 31,
    u32::MAX as u64,
    (1 << 47) + 3,
    (1 << 48) - 33,
    (1 << 48) - 1,
    1 << 48,
    1 << 63,
    u64::MAX - 2,
    u64::MAX - 1,
    u64::MAX,
];
const PLACES: &[u64] = &[
    0,
    1,
    511,
    512,
    4096,
    (128 << 10) - 1,
    128 << 10,
    (128 << 10) + 1,
    1 << 20,
    16 << 20,
    1 << 40,
    1 << 50,
    1 << 62,
    (1 << 63) - (128 << 10),
    (1 << 63) - 1,
    1 << 63,
    u64::MAX - (128 << 10),
    u64::MAX - 511,
    u64::MAX - 1,
    u64::MAX,
];
const SIZES: &[u64] = &[
    0,
    1,
    3,
    4,
    8,
    112,
    192,
    320,
    511,
    512,
    513,
    1536,
    4096,
    130_560,
    128 << 10,
    (128 << 10) + 512,
    1 << 20,
    16 << 20,
    (16 << 20) + 512,
    1 << 31,
    u32::MAX as u64,
    1 << 32,
    u64::MAX,
];
/// Types of objects and of bonus buffers: of each layer, and one that does not exist.
const KINDS: &[u64] =
    &[0, 1, 3, 8, 10, 11, 12, 16, 17, 18, 19, 20, 21, 22, 23, 33, 44, 45, 46, 54, 128, 196, 216, 255, 256];
const BYTES: &[u64] = &[0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 18, 31, 32, 33, 64, 127, 128, 254, 255];
const FLAGS: &[u64] = &[1, 2, 4, 8, 16, 128];
const GUIDS: &[u64] = &[0, 1, 7, u64::MAX];
/// The header type and the features of a stream, as bits of its version word.
const VERSION: &[u64] = &[
    1,
    2,
    1 << 2,
    1 << 4,
    1 << 18,
    1 << 19,
    1 << 21,
    1 << 22,
    1 << 23,
    1 << 24,
    1 << 25,
    1 << 26,
    1 << 27,
    1 << 28,
    1 << 29,
    1 << 30,
    1 << 31,
    1 << 40,
    1 << 63,
];

const BEGIN: &[Field] = &[
    bit(offset_of!(DrrBegin, version_info), 8, VERSION),
    bit(offset_of!(DrrBegin, version_info), 8, VERSION),
    value(offset_of!(DrrBegin, creation_time), 8, PLACES),
    value(offset_of!(DrrBegin, objset_type), 4, &[0, 1, 2, 3, 4, 5, u32::MAX as u64]),
    bit(offset_of!(DrrBegin, flags), 4, FLAGS),
    value(offset_of!(DrrBegin, toguid), 8, GUIDS),
    value(offset_of!(DrrBegin, fromguid), 8, GUIDS),
];
const OBJECT: &[Field] = &[
    value(offset_of!(DrrObject, object), 8, OBJECTS),
    value(offset_of!(DrrObject, object_type), 4, KINDS),
    value(offset_of!(DrrObject, bonus_type), 4, KINDS),
    value(offset_of!(DrrObject, block_bytes), 4, SIZES),
    value(offset_of!(DrrObject, bonus_bytes), 4, SIZES),
    value(offset_of!(DrrObject, checksum), 1, BYTES),
    value(offset_of!(DrrObject, compression), 1, BYTES),
    value(offset_of!(DrrObject, slots), 1, BYTES),
    bit(offset_of!(DrrObject, flags), 1, FLAGS),
    value(offset_of!(DrrObject, raw_bonus_bytes), 4, SIZES),
    value(offset_of!(DrrObject, toguid), 8, GUIDS),
    value(offset_of!(DrrObject, indirect_shift), 1, BYTES),
    value(offset_of!(DrrObject, levels), 1, BYTES),
    value(offset_of!(DrrObject, nblkptr), 1, BYTES),
    value(offset_of!(DrrObject, max_block_id), 8, PLACES),
];
const FREEOBJECTS: &[Field] = &[
    value(offset_of!(DrrFreeobjects, first_object), 8, OBJECTS),
    value(offset_of!(DrrFreeobjects, objects), 8, OBJECTS),
];
const WRITE: &[Field] = &[
    value(offset_of!(DrrWrite, object), 8, OBJECTS),
    value(offset_of!(DrrWrite, object_type), 4, KINDS),
    value(offset_of!(DrrWrite, offset), 8, PLACES),
    value(offset_of!(DrrWrite, logical_bytes), 8, SIZES),
    value(offset_of!(DrrWrite, checksum), 1, BYTES),
    bit(offset_of!(DrrWrite, flags), 1, FLAGS),
    value(offset_of!(DrrWrite, compression), 1, BYTES),
    value(offset_of!(DrrWrite, compressed_bytes), 8, SIZES),
];
/// REDACT has the same fields.
const FREE: &[Field] = &[
    value(offset_of!(DrrFree, object), 8, OBJECTS),
    value(offset_of!(DrrFree, offset), 8, PLACES),
    value(offset_of!(DrrFree, length), 8, PLACES),
];
const BYREF: &[Field] = &[
    value(offset_of!(DrrWriteByref, object), 8, OBJECTS),
    value(offset_of!(DrrWriteByref, offset), 8, PLACES),
    value(offset_of!(DrrWriteByref, length), 8, SIZES),
    value(offset_of!(DrrWriteByref, refguid), 8, GUIDS),
    value(offset_of!(DrrWriteByref, ref_object), 8, OBJECTS),
    value(offset_of!(DrrWriteByref, ref_offset), 8, PLACES),
];
const SPILL: &[Field] = &[
    value(offset_of!(DrrSpill, object), 8, OBJECTS),
    value(offset_of!(DrrSpill, length), 8, SIZES),
    bit(offset_of!(DrrSpill, flags), 1, FLAGS),
    value(offset_of!(DrrSpill, compression), 1, BYTES),
    value(offset_of!(DrrSpill, compressed_bytes), 8, SIZES),
    value(offset_of!(DrrSpill, object_type), 4, KINDS),
];
const EMBEDDED: &[Field] = &[
    value(offset_of!(DrrWriteEmbedded, object), 8, OBJECTS),
    value(offset_of!(DrrWriteEmbedded, offset), 8, PLACES),
    value(offset_of!(DrrWriteEmbedded, length), 8, SIZES),
    value(offset_of!(DrrWriteEmbedded, compression), 1, BYTES),
    value(offset_of!(DrrWriteEmbedded, embedded_type), 1, BYTES),
    value(offset_of!(DrrWriteEmbedded, logical_bytes), 4, SIZES),
    value(offset_of!(DrrWriteEmbedded, physical_bytes), 4, BYTES),
];
const OBJECT_RANGE: &[Field] = &[
    value(offset_of!(DrrObjectRange, first_object), 8, OBJECTS),
    value(offset_of!(DrrObjectRange, slots), 8, OBJECTS),
];
/// The guid of an END behind its checksum.
const END: &[Field] = &[value(32, 8, GUIDS)];

/// The fields that mean something. The first field of each type between BEGIN and END is the
/// number of an object.
pub fn fields(drr_type: DrrType) -> &'static [Field] {
    match drr_type {
        DrrType::Begin => BEGIN,
        DrrType::Object => OBJECT,
        DrrType::Freeobjects => FREEOBJECTS,
        DrrType::Write => WRITE,
        DrrType::Free | DrrType::Redact => FREE,
        DrrType::End => END,
        DrrType::WriteByref => BYREF,
        DrrType::Spill => SPILL,
        DrrType::WriteEmbedded => EMBEDDED,
        DrrType::ObjectRange => OBJECT_RANGE,
    }
}
