//! The checksum functions of the format, by number.
//!
//! The number lies in every blkptr and, as the `checksum` property, in datasets. "Embedded"
//! kinds keep the checksum inside the block itself (see [`crate::ZioEck`]) because nothing that
//! points at the block could know it: labels, gang headers, intent-log blocks.

use crate::error::{OndiskError, bad};

/// A checksum function, with the format's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ChecksumKind {
    /// Property value only: what the parent dataset has.
    Inherit = 0,
    /// Property value only: the default, fletcher4.
    On = 1,
    /// No checksum; verifies anything.
    Off = 2,
    /// SHA-256 inside a label part, seeded with the part's offset on the leaf.
    Label = 3,
    /// SHA-256 inside a gang block header, seeded with its place and birth.
    GangHeader = 4,
    /// Fletcher2 inside an old-style intent-log block (chain at the end).
    Zilog = 5,
    /// Fletcher, second order over 64-bit words; too weak for metadata.
    Fletcher2 = 6,
    /// Fletcher, fourth order over 32-bit words; the default.
    Fletcher4 = 7,
    /// SHA-256.
    Sha256 = 8,
    /// Fletcher4 inside an intent-log block whose chain comes first.
    Zilog2 = 9,
    /// As `Off`; RAID-Z blocks of embedded parity tests.
    Noparity = 10,
    /// SHA-512, cut to 256 bits.
    Sha512 = 11,
    /// Skein, keyed with the pool's salt.
    Skein = 12,
    /// Edon-R, keyed with the pool's salt.
    Edonr = 13,
    /// BLAKE3, keyed with the pool's salt.
    Blake3 = 14,
}

impl ChecksumKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 15] = [
        Self::Inherit,
        Self::On,
        Self::Off,
        Self::Label,
        Self::GangHeader,
        Self::Zilog,
        Self::Fletcher2,
        Self::Fletcher4,
        Self::Sha256,
        Self::Zilog2,
        Self::Noparity,
        Self::Sha512,
        Self::Skein,
        Self::Edonr,
        Self::Blake3,
    ];

    /// The kind with this number.
    ///
    /// # Errors
    /// When the format has no such number.
    pub fn from_raw(raw: u8) -> Result<Self, OndiskError> {
        Self::ALL.get(usize::from(raw)).copied().ok_or_else(|| bad("checksum", "kind", raw))
    }

    /// The format's number.
    #[must_use]
    pub const fn raw(self) -> u8 {
        self as u8
    }

    /// The name that properties and `zdb` use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inherit => "inherit",
            Self::On => "on",
            Self::Off => "off",
            Self::Label => "label",
            Self::GangHeader => "gang_header",
            Self::Zilog => "zilog",
            Self::Fletcher2 => "fletcher2",
            Self::Fletcher4 => "fletcher4",
            Self::Sha256 => "sha256",
            Self::Zilog2 => "zilog2",
            Self::Noparity => "noparity",
            Self::Sha512 => "sha512",
            Self::Skein => "skein",
            Self::Edonr => "edonr",
            Self::Blake3 => "blake3",
        }
    }

    /// Whether the checksum lies inside the block, over a seed called the verifier.
    #[must_use]
    pub const fn is_embedded(self) -> bool {
        matches!(self, Self::Label | Self::GangHeader | Self::Zilog | Self::Zilog2)
    }

    /// Strong enough for metadata; weaker choices become fletcher4 there.
    #[must_use]
    pub const fn is_metadata_grade(self) -> bool {
        matches!(
            self,
            Self::Label
                | Self::GangHeader
                | Self::Fletcher4
                | Self::Sha256
                | Self::Sha512
                | Self::Skein
                | Self::Edonr
                | Self::Blake3
        )
    }

    /// Strong enough to call two blocks equal without comparing them.
    #[must_use]
    pub const fn is_dedup_grade(self) -> bool {
        matches!(self, Self::Sha256 | Self::Sha512 | Self::Skein | Self::Blake3)
    }

    /// Strong enough to skip a rewrite whose checksum does not change.
    #[must_use]
    pub const fn is_nopwrite_grade(self) -> bool {
        self.is_dedup_grade() || matches!(self, Self::Edonr)
    }

    /// Needs the pool's 32-byte salt.
    #[must_use]
    pub const fn is_salted(self) -> bool {
        matches!(self, Self::Skein | Self::Edonr | Self::Blake3)
    }
}
