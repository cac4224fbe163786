//! The compression functions of the format, by number.

use crate::error::{OndiskError, bad};

/// A compression function, with the format's number (7 bits in a blkptr).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum CompressionKind {
    /// Property value only: what the parent dataset has.
    Inherit = 0,
    /// Property value only: lz4, or lzjb in pools without `lz4_compress`.
    On = 1,
    /// Stored as it is.
    Off = 2,
    /// Lempel-Ziv by Jeff Bonwick.
    Lzjb = 3,
    /// All zeroes: becomes a hole, and never meets a disk.
    Empty = 4,
    /// zlib, level 1.
    Gzip1 = 5,
    /// zlib, level 2.
    Gzip2 = 6,
    /// zlib, level 3.
    Gzip3 = 7,
    /// zlib, level 4.
    Gzip4 = 8,
    /// zlib, level 5.
    Gzip5 = 9,
    /// zlib, level 6.
    Gzip6 = 10,
    /// zlib, level 7.
    Gzip7 = 11,
    /// zlib, level 8.
    Gzip8 = 12,
    /// zlib, level 9.
    Gzip9 = 13,
    /// Zero-length encoding: runs of zeroes only.
    Zle = 14,
    /// LZ4 block format after a big-endian 32-bit length.
    Lz4 = 15,
    /// Zstandard, without frame magic, after an 8-byte header with length, version and level.
    Zstd = 16,
}

impl CompressionKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 17] = [
        Self::Inherit,
        Self::On,
        Self::Off,
        Self::Lzjb,
        Self::Empty,
        Self::Gzip1,
        Self::Gzip2,
        Self::Gzip3,
        Self::Gzip4,
        Self::Gzip5,
        Self::Gzip6,
        Self::Gzip7,
        Self::Gzip8,
        Self::Gzip9,
        Self::Zle,
        Self::Lz4,
        Self::Zstd,
    ];

    /// The kind with this number.
    ///
    /// # Errors
    /// When the format has no such number.
    pub fn from_raw(raw: u8) -> Result<Self, OndiskError> {
        Self::ALL.get(usize::from(raw)).copied().ok_or_else(|| bad("compression", "kind", raw))
    }

    /// The format's number.
    #[must_use]
    pub const fn raw(self) -> u8 {
        self as u8
    }

    /// The name that properties and `zdb` use (`empty` is called `uncompressed` for `Off` by `zdb`).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inherit => "inherit",
            Self::On => "on",
            Self::Off => "uncompressed",
            Self::Lzjb => "lzjb",
            Self::Empty => "empty",
            Self::Gzip1 => "gzip-1",
            Self::Gzip2 => "gzip-2",
            Self::Gzip3 => "gzip-3",
            Self::Gzip4 => "gzip-4",
            Self::Gzip5 => "gzip-5",
            Self::Gzip6 => "gzip-6",
            Self::Gzip7 => "gzip-7",
            Self::Gzip8 => "gzip-8",
            Self::Gzip9 => "gzip-9",
            Self::Zle => "zle",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// The zlib level of a gzip kind.
    #[must_use]
    pub const fn gzip_level(self) -> Option<u8> {
        match self {
            Self::Gzip1 => Some(1),
            Self::Gzip2 => Some(2),
            Self::Gzip3 => Some(3),
            Self::Gzip4 => Some(4),
            Self::Gzip5 => Some(5),
            Self::Gzip6 => Some(6),
            Self::Gzip7 => Some(7),
            Self::Gzip8 => Some(8),
            Self::Gzip9 => Some(9),
            _ => None,
        }
    }
}
