//! Compression with its level, as properties and the headers of zstd blocks number it.
//!
//! The word of a `compression` property:
//!
//! ```text
//!  63              7 6            0
//!  | level           | function   |     only zstd has levels; 102 + n means the nth fast one
//! ```
//! gzip's levels are functions of their own.

use crate::bits;
use crate::compression_kind::CompressionKind;
use crate::error::OndiskError;

/// A compression function at a level: what a `compression` word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Compression {
    /// The function.
    pub kind: CompressionKind,
    /// The level; 0 for the function's default.
    pub level: ZstdLevel,
}

/// A level of zstd, as its header and properties number it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ZstdLevel(u8);

impl ZstdLevel {
    /// The function's default: 3.
    pub const DEFAULT: Self = Self(0);
    /// The number above which fast levels start.
    const FAST: u8 = 102;

    /// Gives a raw number its type.
    #[must_use]
    pub const fn new(raw: u8) -> Self {
        Self(raw)
    }

    /// The format's number.
    #[must_use]
    pub const fn raw(self) -> u8 {
        self.0
    }

    /// What zstd calls it: 1 to 19, or negative for fast levels; `None` for a number the format
    /// does not have.
    #[must_use]
    pub fn level(self) -> Option<i32> {
        match self.0 {
            0 => Some(3),
            raw @ 1..=19 => Some(raw.into()),
            raw => {
                let index = usize::from(raw.checked_sub(Self::FAST)?.checked_sub(1)?);
                FAST_LEVELS.get(index).map(|level| level.saturating_neg())
            }
        }
    }
}

/// Fast levels of zstd in the order of their numbers, without their sign.
const FAST_LEVELS: [i32; 21] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 500, 1000];

impl From<CompressionKind> for Compression {
    /// At the function's default level.
    fn from(kind: CompressionKind) -> Self {
        Self::of(kind)
    }
}

impl Compression {
    /// None.
    pub const OFF: Self = Self::of(CompressionKind::Off);
    /// What `on` stands for in pools that know it.
    pub const LZ4: Self = Self::of(CompressionKind::Lz4);
    /// Whatever the pool thinks best.
    pub const ON: Self = Self::of(CompressionKind::On);

    /// A function at its default level.
    #[must_use]
    pub const fn of(kind: CompressionKind) -> Self {
        Self { kind, level: ZstdLevel::DEFAULT }
    }

    /// Takes a `compression` word apart.
    ///
    /// # Errors
    /// When the format has no such function or level.
    pub fn from_word(word: u64) -> Result<Self, OndiskError> {
        let kind = u8::try_from(bits::get(word, 0, 7)).unwrap_or(u8::MAX);
        let kind = CompressionKind::from_raw(kind)?;
        let level = u8::try_from(bits::get(word, 7, 57)).ok().map(ZstdLevel);
        let level = level.filter(|level| level.level().is_some());
        let level = level.ok_or_else(|| crate::error::bad("compression property", "level", word))?;
        Ok(Self { kind, level })
    }

    /// Puts the word together.
    #[must_use]
    pub const fn to_word(self) -> u64 {
        bits::set(bits::set(0, 0, 7, self.kind.raw() as u64), 7, 57, self.level.0 as u64)
    }
}
