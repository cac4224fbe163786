//! One record, of whichever type.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::swap::{Field, Swapped, swap, swap_fields};
use super::{
    BACKUP_MAGIC, BEGIN_PAYLOAD_MAX_BYTES, BLOCK_PAYLOAD_MAX_BYTES, CHECKSUM_AT, DrrBegin, DrrEnd, DrrFree,
    DrrFreeobjects, DrrObject, DrrObjectRange, DrrRedact, DrrSpill, DrrWrite, DrrWriteByref,
    DrrWriteEmbedded, RECORD_BYTES,
};
use crate::ByteOrder;
use crate::blkptr::embedded::PAYLOAD_MAX_BYTES;
use crate::dnode::{DNODE_SLOTS_MAX, bonus_capacity};
use crate::error::{OndiskError, bad};

/// Where the type's own begins: after its number and the payload's length.
const BODY_AT: usize = 8;
/// Bytes of the words that payloads are padded to.
const PAD_BYTES: u64 = 8;
/// Bytes of the words that checksums are computed of.
const CHECKSUM_WORD_BYTES: u64 = 4;

/// Types of records, with the format's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum DrrType {
    /// See [`DrrBegin`].
    Begin = 0,
    /// See [`DrrObject`].
    Object = 1,
    /// See [`DrrFreeobjects`].
    Freeobjects = 2,
    /// See [`DrrWrite`].
    Write = 3,
    /// See [`DrrFree`].
    Free = 4,
    /// See [`DrrEnd`].
    End = 5,
    /// See [`DrrWriteByref`].
    WriteByref = 6,
    /// See [`DrrSpill`].
    Spill = 7,
    /// See [`DrrWriteEmbedded`].
    WriteEmbedded = 8,
    /// See [`DrrObjectRange`].
    ObjectRange = 9,
    /// See [`DrrRedact`].
    Redact = 10,
}

impl DrrType {
    /// All types, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Begin,
        Self::Object,
        Self::Freeobjects,
        Self::Write,
        Self::Free,
        Self::End,
        Self::WriteByref,
        Self::Spill,
        Self::WriteEmbedded,
        Self::ObjectRange,
        Self::Redact,
    ];

    /// The type with this number.
    ///
    /// # Errors
    /// When the format has no such number.
    pub fn from_raw(raw: u32) -> Result<Self, OndiskError> {
        let found = usize::try_from(raw).ok().and_then(|raw| Self::ALL.get(raw));
        found.copied().ok_or_else(|| bad("record", "type", raw))
    }

    /// The format's number.
    #[must_use]
    pub const fn raw(self) -> u32 {
        self as u32
    }

    /// The format's name, as `zstream dump` prints it after `DRR_`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Begin => "BEGIN",
            Self::Object => "OBJECT",
            Self::Freeobjects => "FREEOBJECTS",
            Self::Write => "WRITE",
            Self::Free => "FREE",
            Self::End => "END",
            Self::WriteByref => "WRITE_BYREF",
            Self::Spill => "SPILL",
            Self::WriteEmbedded => "WRITE_EMBEDDED",
            Self::ObjectRange => "OBJECT_RANGE",
            Self::Redact => "REDACT",
        }
    }
}

impl std::fmt::Display for DrrType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What is a type's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrrBody {
    /// A stream begins.
    Begin(DrrBegin),
    /// An object.
    Object(DrrObject),
    /// Numbers without objects.
    Freeobjects(DrrFreeobjects),
    /// A block.
    Write(DrrWrite),
    /// Bytes that are not there.
    Free(DrrFree),
    /// A stream ends.
    End(DrrEnd),
    /// A block that is somewhere already.
    WriteByref(DrrWriteByref),
    /// A spill block.
    Spill(DrrSpill),
    /// A block that lies in its pointer.
    WriteEmbedded(DrrWriteEmbedded),
    /// Encryption of a block of dnodes.
    ObjectRange(DrrObjectRange),
    /// Bytes that are left out.
    Redact(DrrRedact),
}

impl DrrBody {
    /// Its type.
    #[must_use]
    pub const fn drr_type(&self) -> DrrType {
        match self {
            Self::Begin(_) => DrrType::Begin,
            Self::Object(_) => DrrType::Object,
            Self::Freeobjects(_) => DrrType::Freeobjects,
            Self::Write(_) => DrrType::Write,
            Self::Free(_) => DrrType::Free,
            Self::End(_) => DrrType::End,
            Self::WriteByref(_) => DrrType::WriteByref,
            Self::Spill(_) => DrrType::Spill,
            Self::WriteEmbedded(_) => DrrType::WriteEmbedded,
            Self::ObjectRange(_) => DrrType::ObjectRange,
            Self::Redact(_) => DrrType::Redact,
        }
    }

    fn decode(drr_type: DrrType, bytes: &mut [u8], order: ByteOrder) -> Result<Self, OndiskError> {
        Ok(match drr_type {
            DrrType::Begin => Self::Begin(take(bytes, order)?),
            DrrType::Object => Self::Object(take(bytes, order)?),
            DrrType::Freeobjects => Self::Freeobjects(take(bytes, order)?),
            DrrType::Write => Self::Write(take(bytes, order)?),
            DrrType::Free => Self::Free(take(bytes, order)?),
            DrrType::End => Self::End(take(bytes, order)?),
            DrrType::WriteByref => Self::WriteByref(take(bytes, order)?),
            DrrType::Spill => Self::Spill(take(bytes, order)?),
            DrrType::WriteEmbedded => Self::WriteEmbedded(take(bytes, order)?),
            DrrType::ObjectRange => Self::ObjectRange(take(bytes, order)?),
            DrrType::Redact => Self::Redact(take(bytes, order)?),
        })
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Begin(begin) => begin.as_bytes(),
            Self::Object(object) => object.as_bytes(),
            Self::Freeobjects(objects) => objects.as_bytes(),
            Self::Write(write) => write.as_bytes(),
            Self::Free(free) => free.as_bytes(),
            Self::End(end) => end.as_bytes(),
            Self::WriteByref(write) => write.as_bytes(),
            Self::Spill(spill) => spill.as_bytes(),
            Self::WriteEmbedded(write) => write.as_bytes(),
            Self::ObjectRange(range) => range.as_bytes(),
            Self::Redact(redact) => redact.as_bytes(),
        }
    }
}

/// The structure at the start of `bytes`, swapped there if need be.
fn take<T>(bytes: &mut [u8], order: ByteOrder) -> Result<T, OndiskError>
where
    T: Swapped + FromBytes + KnownLayout + Immutable,
{
    if order == ByteOrder::Big {
        swap::<T>(bytes)?;
    }
    crate::reader::prefix("record", bytes)
}

/// A record without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrrRecord {
    /// Bytes of a BEGIN's payload. Other records say nothing here: see [`Self::payload_bytes`].
    pub payload_len: u32,
    /// What is its type's own.
    pub body: DrrBody,
    /// Fletcher4 from BEGIN up to here. Zero in a BEGIN, in what very old systems sent, and in the two ENDs
    /// that are a compound stream's own.
    pub checksum: [u64; 4],
}

impl DrrRecord {
    /// A record without a payload length and checksum.
    #[must_use]
    pub const fn new(body: DrrBody) -> Self {
        Self { payload_len: 0, body, checksum: [0; 4] }
    }

    /// The byte order of the stream whose first record this is.
    ///
    /// # Errors
    /// When it is no BEGIN of either order.
    pub fn order_of(begin: &[u8; RECORD_BYTES]) -> Result<ByteOrder, OndiskError> {
        let magic: U64 = crate::reader::prefix("BEGIN", begin.get(BODY_AT..).unwrap_or_default())?;
        let swapped = magic.get().swap_bytes();
        match magic.get() {
            BACKUP_MAGIC => Ok(ByteOrder::Little),
            _ if swapped == BACKUP_MAGIC => Ok(ByteOrder::Big),
            found => Err(OndiskError::BadMagic { what: "BEGIN", expected: BACKUP_MAGIC, found }),
        }
    }

    /// Reads a record of a stream in that order.
    ///
    /// # Errors
    /// When its type is unknown, or a BEGIN has another magic.
    pub fn decode(bytes: &[u8; RECORD_BYTES], order: ByteOrder) -> Result<Self, OndiskError> {
        let mut bytes = *bytes;
        if order == ByteOrder::Big {
            swap_fields(&mut bytes, &[Field::Words32(2)])?;
        }
        let [raw_type, payload_len]: [U32; 2] = crate::reader::prefix("record", &bytes)?;
        let drr_type = DrrType::from_raw(raw_type.get())?;
        let checksum = match drr_type {
            DrrType::Begin => [0; 4],
            _ => checksum_words(&bytes, order)?,
        };
        let body = DrrBody::decode(drr_type, bytes.get_mut(BODY_AT..).unwrap_or_default(), order)?;
        match &body {
            DrrBody::Begin(begin) if begin.magic.get() != BACKUP_MAGIC => {
                let (expected, found) = (BACKUP_MAGIC, begin.magic.get());
                Err(OndiskError::BadMagic { what: "BEGIN", expected, found })
            }
            _ => Ok(Self { payload_len: payload_len.get(), body, checksum }),
        }
    }

    /// The record as it is sent: little-endian.
    #[must_use]
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let head = [U32::new(self.body.drr_type().raw()), U32::new(self.payload_len)];
        let mut record = [0; RECORD_BYTES];
        put(&mut record, 0, head.as_bytes());
        put(&mut record, BODY_AT, self.body.bytes());
        if self.body.drr_type() != DrrType::Begin {
            put(&mut record, CHECKSUM_AT, self.checksum.map(U64::new).as_bytes());
        }
        record
    }

    /// Bytes of the payload that follows.
    ///
    /// # Errors
    /// When that is more than any record of this type has, or no payload has that length.
    pub fn payload_bytes(&self) -> Result<u64, OndiskError> {
        let (len, most) = match &self.body {
            DrrBody::Begin(_) => (self.payload_len.into(), BEGIN_PAYLOAD_MAX_BYTES),
            DrrBody::Object(object) => (bonus_bytes(object), bonus_capacity(DNODE_SLOTS_MAX) as u64),
            DrrBody::Write(write) => {
                bounded("logical size", write.logical_bytes.get(), BLOCK_PAYLOAD_MAX_BYTES)?;
                (write.payload_bytes(), BLOCK_PAYLOAD_MAX_BYTES)
            }
            DrrBody::Spill(spill) => {
                bounded("length", spill.length.get(), BLOCK_PAYLOAD_MAX_BYTES)?;
                (spill.payload_bytes(), BLOCK_PAYLOAD_MAX_BYTES)
            }
            DrrBody::WriteEmbedded(write) => {
                (padded(write.physical_bytes.get().into()), PAYLOAD_MAX_BYTES as u64)
            }
            _ => (0, 0),
        };
        bounded("payload length", len, most)?;
        if !len.is_multiple_of(CHECKSUM_WORD_BYTES) {
            return Err(bad("record", "payload length", len));
        }
        Ok(len)
    }
}

fn bounded(field: &'static str, bytes: u64, most: u64) -> Result<(), OndiskError> {
    if bytes > most { Err(bad("record", field, bytes)) } else { Ok(()) }
}

fn bonus_bytes(object: &DrrObject) -> u64 {
    match object.raw_bonus_bytes.get() {
        0 => padded(object.bonus_bytes.get().into()),
        raw => raw.into(),
    }
}

const fn padded(bytes: u64) -> u64 {
    bytes.saturating_add(PAD_BYTES.saturating_sub(1)) & !PAD_BYTES.saturating_sub(1)
}

fn checksum_words(bytes: &[u8; RECORD_BYTES], order: ByteOrder) -> Result<[u64; 4], OndiskError> {
    let words: [U64; 4] = crate::reader::prefix("record", bytes.get(CHECKSUM_AT..).unwrap_or_default())?;
    Ok(words.map(|word| if order == ByteOrder::Big { word.get().swap_bytes() } else { word.get() }))
}

fn put(record: &mut [u8; RECORD_BYTES], at: usize, bytes: &[u8]) {
    let room = record.get_mut(at..).and_then(|rest| rest.get_mut(..bytes.len()));
    room.expect("a record has room for its parts").copy_from_slice(bytes);
}
