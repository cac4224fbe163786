//! A bookmark: a snapshot's place in time, kept after the snapshot went.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{OndiskError, short};

/// Words of a bookmark before `bookmark_v2`.
pub const BOOKMARK_WORDS_V1: usize = 3;
/// Words of a bookmark since.
pub const BOOKMARK_WORDS: usize = 12;

/// A bookmark: the value of its name in a dataset's ZAP of bookmarks, all words.
///
/// ```text
///  0 guid   1 creation txg   2 creation time | 3 redaction list   4 flags
///  5 referenced   6 compressed   7 uncompressed   8..10 the same, freed before the next snapshot
/// 11 ivset guid
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct BookmarkPhys {
    /// Guid of the snapshot.
    pub guid: U64,
    /// Its creation txg.
    pub creation_txg: U64,
    /// When it was made.
    pub creation_time: U64,
    /// Object that lists blocks left out of a redacted send.
    pub redaction_object: U64,
    /// 1: the `freed` figures are valid; 2: the snapshot still exists.
    pub flags: U64,
    /// Space the snapshot referred to: allocated, before copies, before compression.
    pub referenced: [U64; 3],
    /// How much of it was freed before the next snapshot.
    pub freed_before_next: [U64; 3],
    /// Identifies the IVs of an encrypted snapshot.
    pub ivset_guid: U64,
}
const _: () = assert!(size_of::<BookmarkPhys>() == 8 * BOOKMARK_WORDS);

impl BookmarkPhys {
    /// Puts a bookmark together from a ZAP value; what an old one lacks reads as zero.
    ///
    /// # Errors
    /// When there are less than three words.
    pub fn from_words(words: &[u64]) -> Result<Self, OndiskError> {
        if words.len() < BOOKMARK_WORDS_V1 {
            return Err(short("bookmark", 8 * BOOKMARK_WORDS_V1, words.len().saturating_mul(8)));
        }
        Ok(super::phys_of_words(words))
    }

    /// All words.
    #[must_use]
    pub fn to_words(&self) -> Vec<u64> {
        super::words_of_phys(self)
    }
}
