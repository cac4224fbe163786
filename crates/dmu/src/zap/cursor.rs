//! Places in iteration order.

use super::value::ZapValue;

/// A place in a ZAP's iteration order, between entries. Its raw form is what directory offsets
/// are made of, and equals OpenZFS's serialised cursor:
///
/// ```text
///  63                 28 27            0
/// ┌─────────────────────┬───────────────┐
/// │ cd                  │ top 28 bits   │   (48 bits where ZAP_FLAG_HASH64 is set)
/// │                     │ of the hash   │
/// └─────────────────────┴───────────────┘
/// ```
/// All bits set: past the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cursor(u64);

impl Cursor {
    /// Before the first entry.
    pub const START: Self = Self(0);
    /// After the last entry.
    pub const END: Self = Self(u64::MAX);

    /// A place that was given out as a number; any number is taken.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The number to give out.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The place before the entry with this hash and differentiator.
    pub(super) fn pack(hash: u64, cd: u32, hash_bits: u32) -> Self {
        Self(hash >> (64 - hash_bits) | u64::from(cd) << hash_bits)
    }

    /// Hash and differentiator; `None` past the end.
    pub(super) fn unpack(self, hash_bits: u32) -> Option<(u64, u32)> {
        if self == Self::END {
            return None;
        }
        let cd = u32::try_from(self.0 >> hash_bits).unwrap_or(0);
        Some((self.0 << (64 - hash_bits), cd))
    }
}

/// One entry met in iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZapEntry {
    /// The name without its NUL; of a ZAP with `u64` keys, the words in big-endian bytes.
    pub name: Vec<u8>,
    /// The value.
    pub value: ZapValue,
    /// The place after this entry: iteration resumes here.
    pub next: Cursor,
}
