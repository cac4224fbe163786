//! How a scrub or resilver stands.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{OndiskError, short};

/// Words of the value.
pub const SCAN_WORDS: usize = 24;

/// What a scan does: [`ScanPhys::func`].
pub mod func {
    /// There never was one.
    pub const NONE: u64 = 0;
    /// Reads and verifies everything.
    pub const SCRUB: u64 = 1;
    /// Brings a device up to date.
    pub const RESILVER: u64 = 2;
    /// An error scrub, which reads blocks again that could not be read.
    pub const ERROR_SCRUB: u64 = 3;
}

/// How a scan stands: [`ScanPhys::state`].
pub mod state {
    /// There never was one.
    pub const NONE: u64 = 0;
    /// Under way.
    pub const SCANNING: u64 = 1;
    /// Came to its end.
    pub const FINISHED: u64 = 2;
    /// Was stopped.
    pub const CANCELED: u64 = 3;
    /// An error scrub is under way.
    pub const ERROR_SCRUBBING: u64 = 4;
}

/// Bits of [`ScanPhys::flags`].
pub mod flags {
    /// The dataset under way was changed so that it must be visited again.
    pub const VISIT_DS_AGAIN: u64 = 1 << 0;
    /// Paused.
    pub const SCRUB_PAUSED: u64 = 1 << 1;
}

/// The value of `scan` in the MOS directory, all words:
///
/// ```text
///  0 func    1 state     2 queue     3 min txg   4 max txg   5 current min   6 current max
///  7 start   8 end       9 to examine   10 examined   11 skipped   12 processed   13 errors
/// 14 ddt class max   15..18 ddt bookmark   19..22 bookmark   23 flags
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ScanPhys {
    /// See [`func`].
    pub func: U64,
    /// See [`state`].
    pub state: U64,
    /// ZAP of datasets still to visit.
    pub queue_object: U64,
    /// Blocks born after this txg are visited.
    pub min_txg: U64,
    /// Blocks born up to this one.
    pub max_txg: U64,
    /// The same for the dataset under way.
    pub current_min_txg: U64,
    /// The same for the dataset under way.
    pub current_max_txg: U64,
    /// When it started: seconds since 1970.
    pub start_time: U64,
    /// When it ended.
    pub end_time: U64,
    /// Bytes to visit.
    pub to_examine: U64,
    /// Bytes visited.
    pub examined: U64,
    /// Bytes left out.
    pub skipped: U64,
    /// Bytes repaired, or resilvered.
    pub processed: U64,
    /// Errors met.
    pub errors: U64,
    /// Dedup classes up to this one are visited first.
    pub ddt_class_max: U64,
    /// Where it is in the dedup tables: class, type, checksum, cursor.
    pub ddt_bookmark: [U64; 4],
    /// Where it is in datasets: objset, object, level (signed), block.
    pub bookmark: [U64; 4],
    /// See [`flags`].
    pub flags: U64,
}
const _: () = assert!(size_of::<ScanPhys>() == 8 * SCAN_WORDS);

impl ScanPhys {
    /// Puts the state together from the ZAP value.
    ///
    /// # Errors
    /// When there are less than 24 words.
    pub fn from_words(words: &[u64]) -> Result<Self, OndiskError> {
        if words.len() < SCAN_WORDS {
            return Err(short("scan", 8 * SCAN_WORDS, words.len().saturating_mul(8)));
        }
        Ok(super::phys_of_words(words))
    }

    /// All words.
    #[must_use]
    pub fn to_words(&self) -> Vec<u64> {
        super::words_of_phys(self)
    }
}

/// The number of words in the value of an error scrub.
pub const ERROR_SCRUB_WORDS: usize = 9;

/// The value of `error_scrub` in the MOS directory, all words:
///
/// ```text
///  0 func   1 state   2 cursor   3 start   4 end   5 to examine   6 examined   7 errors   8 paused
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ErrorScrubPhys {
    /// See [`func`].
    pub func: U64,
    /// See [`state`].
    pub state: U64,
    /// Where OpenZFS is in the list of errors: a cursor of a ZAP.
    pub cursor: U64,
    /// When it started: seconds since 1970.
    pub start_time: U64,
    /// When it ended.
    pub end_time: U64,
    /// Blocks that are still to be read.
    pub to_examine: U64,
    /// Blocks that were read.
    pub examined: U64,
    /// Blocks that still cannot be read.
    pub errors: U64,
    /// 1 while it is paused.
    pub paused: U64,
}
const _: () = assert!(size_of::<ErrorScrubPhys>() == 8 * ERROR_SCRUB_WORDS);

impl ErrorScrubPhys {
    /// Puts the state together from the ZAP value.
    ///
    /// # Errors
    /// When there are less than 9 words.
    pub fn from_words(words: &[u64]) -> Result<Self, OndiskError> {
        if words.len() < ERROR_SCRUB_WORDS {
            return Err(short("error scrub", 8 * ERROR_SCRUB_WORDS, words.len().saturating_mul(8)));
        }
        Ok(super::phys_of_words(words))
    }

    /// All words.
    #[must_use]
    pub fn to_words(&self) -> Vec<u64> {
        super::words_of_phys(self)
    }
}
