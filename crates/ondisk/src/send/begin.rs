//! The two ends of a substream.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::features::StreamFeatures;
use super::swap::{Field, Swapped};
use crate::bits;
use crate::error::{OndiskError, bad};

/// Bytes of a name, with the NUL after it.
pub const TONAME_BYTES: usize = 256;
/// Where the features are in the version word.
const FEATURES: (u32, u32) = (2, 56);
/// Where the type of header is.
const HEADER_TYPE: (u32, u32) = (0, 2);

/// What follows a BEGIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HeaderType {
    /// One snapshot.
    Substream = 1,
    /// Several, each a substream.
    Compound = 2,
}

/// How a stream begins:
///
/// ```text
///   0 magic      8 header type and features   16 creation time   24 objset type (u32)   28 flags (u32)
///  32 to guid   40 from guid                  48 to name (256, ended by NUL)           304 end
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DrrBegin {
    /// [`super::BACKUP_MAGIC`].
    pub magic: U64,
    /// See [`StreamFeatures`].
    pub version_info: U64,
    /// When the snapshot was taken, in seconds since 1970; zero in a compound stream's.
    pub creation_time: U64,
    /// An [`crate::ObjsetType`]; zero in a compound stream's.
    pub objset_type: U32,
    /// See [`super::begin_flags`].
    pub flags: U32,
    /// The snapshot that is sent.
    pub toguid: U64,
    /// The snapshot that the receiver must have; zero for a full stream.
    pub fromguid: U64,
    /// Name of the snapshot that is sent.
    pub toname: [u8; TONAME_BYTES],
}
const _: () = assert!(size_of::<DrrBegin>() == 304);
const _: () = assert!(std::mem::offset_of!(DrrBegin, toname) == 48);

impl Swapped for DrrBegin {
    const FIELDS: &'static [Field] =
        &[Field::Words64(3), Field::Words32(2), Field::Words64(2), Field::Bytes(TONAME_BYTES)];
}

impl DrrBegin {
    /// A BEGIN with the magic and nothing else but these.
    #[must_use]
    pub fn new(header: HeaderType, features: StreamFeatures) -> Self {
        let word = bits::set(0, HEADER_TYPE.0, HEADER_TYPE.1, header as u64);
        let word = bits::set(word, FEATURES.0, FEATURES.1, features.bits());
        Self {
            magic: U64::new(super::BACKUP_MAGIC),
            version_info: U64::new(word),
            creation_time: U64::ZERO,
            objset_type: U32::ZERO,
            flags: U32::ZERO,
            toguid: U64::ZERO,
            fromguid: U64::ZERO,
            toname: [0; TONAME_BYTES],
        }
    }

    /// What follows.
    ///
    /// # Errors
    /// When the header says neither or both.
    pub fn header_type(&self) -> Result<HeaderType, OndiskError> {
        match bits::get(self.version_info.get(), HEADER_TYPE.0, HEADER_TYPE.1) {
            1 => Ok(HeaderType::Substream),
            2 => Ok(HeaderType::Compound),
            other => Err(bad("BEGIN", "header type", other)),
        }
    }

    /// What a receiver must know.
    #[must_use]
    pub fn features(&self) -> StreamFeatures {
        StreamFeatures::from_bits(bits::get(self.version_info.get(), FEATURES.0, FEATURES.1))
    }

    /// The name of the snapshot.
    ///
    /// # Errors
    /// When it is no text, or has no end.
    pub fn name(&self) -> Result<&str, OndiskError> {
        let error = OndiskError::BadText { what: "BEGIN", field: "toname" };
        let end = self.toname.iter().position(|&byte| byte == 0);
        let name = end.and_then(|end| self.toname.get(..end)).ok_or_else(|| error.clone())?;
        std::str::from_utf8(name).map_err(|_| error)
    }

    /// The same with another name, cut where it is longer than 255 bytes.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.toname = [0; TONAME_BYTES];
        let room = TONAME_BYTES.saturating_sub(1);
        self.toname.iter_mut().take(room).zip(name.bytes()).for_each(|(to, from)| *to = from);
        self
    }
}

impl std::fmt::Debug for DrrBegin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DrrBegin")
            .field("header", &self.header_type())
            .field("features", &format_args!("{:#x}", self.features().bits()))
            .field("creation_time", &self.creation_time.get())
            .field("objset_type", &self.objset_type.get())
            .field("flags", &format_args!("{:#x}", self.flags.get()))
            .field("toguid", &format_args!("{:#x}", self.toguid.get()))
            .field("fromguid", &format_args!("{:#x}", self.fromguid.get()))
            .field("toname", &String::from_utf8_lossy(&self.toname).trim_end_matches('\0'))
            .finish_non_exhaustive()
    }
}

/// How it ends:
///
/// ```text
///   0 checksum (4 words)   32 to guid   40 end
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct DrrEnd {
    /// Fletcher4 of all since BEGIN, this record not included. Zero at the end of a compound stream.
    pub checksum: [U64; 4],
    /// As in BEGIN. Zero at the end of a compound stream, and of its nvlist.
    pub toguid: U64,
}
const _: () = assert!(size_of::<DrrEnd>() == 40);

impl Swapped for DrrEnd {
    const FIELDS: &'static [Field] = &[Field::Words64(5)];
}
