//! The pool's history: every command that changed it, in a ring.
//!
//! ```text
//!  object data: | length u64 | nvlist | length u64 | nvlist | ...
//!               0                     create_len            phys_max_off
//! ```
//! Records are nvlists in native encoding, each after its length. The first (how the pool was made)
//! is kept for ever; the rest is a ring from `create_len` to `phys_max_off`, addressed by offsets
//! that only grow. A record may wrap around the end.
//!
//! Invariant: [`HistoryPhys::to_phys`] keeps to the ring (test: `offsets_stay_in_the_ring`).

#[cfg(test)]
mod tests;

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{OndiskError, bad};
use crate::nvlist::NvList;

/// Smallest ring.
pub const HISTORY_MIN_BYTES: u64 = 128 << 10;
/// Largest ring.
pub const HISTORY_MAX_BYTES: u64 = 1 << 30;
/// Longest record that we read.
const RECORD_MAX_BYTES: u64 = 64 << 20;

/// Names in a record.
pub mod names {
    /// Seconds since 1970.
    pub const TIME: &str = "history time";
    /// The command line.
    pub const COMMAND: &str = "history command";
    /// Who gave it: a uid.
    pub const WHO: &str = "history who";
    /// In which zone.
    pub const ZONE: &str = "history zone";
    /// On which host.
    pub const HOST: &str = "history hostname";
    /// The txg of an internal event.
    pub const TXG: &str = "history txg";
    /// What an internal event did.
    pub const INTERNAL_STR: &str = "history internal str";
    /// The name of an internal event.
    pub const INTERNAL_NAME: &str = "internal_name";
    /// The dataset concerned.
    pub const DATASET_NAME: &str = "dsname";
    /// Its object.
    pub const DATASET_ID: &str = "dsid";
    /// The ioctl.
    pub const IOCTL: &str = "ioctl";
    /// What went in.
    pub const INPUT: &str = "in_nvl";
    /// What came out.
    pub const OUTPUT: &str = "out_nvl";
    /// The ioctl's error number.
    pub const ERRNO: &str = "errno";
}

/// The bonus of the history object.
///
/// ```text
///  0 create len   8 phys max off   16 bof   24 eof   32 records lost   40 end
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct HistoryPhys {
    /// Where the first record ends and the ring starts.
    pub create_len: U64,
    /// Where the ring ends.
    pub phys_max_off: U64,
    /// The oldest record in the ring, as an offset that only grows.
    pub bof: U64,
    /// The end of the newest one, likewise.
    pub eof: U64,
    /// Records overwritten.
    pub records_lost: U64,
}
const _: () = assert!(size_of::<HistoryPhys>() == 40);

impl HistoryPhys {
    /// Reads a bonus.
    ///
    /// # Errors
    /// When it is too short, or its ring is empty or inside out.
    pub fn decode(bonus: &[u8]) -> Result<Self, OndiskError> {
        let phys: Self = crate::reader::prefix("history", bonus)?;
        if phys.ring_bytes() == 0 {
            return Err(bad("history", "phys max off", phys.phys_max_off.get()));
        }
        let (bof, eof) = (phys.bof.get(), phys.eof.get());
        if bof > eof || eof.saturating_sub(bof) > phys.phys_max_off.get() {
            return Err(bad("history", "bof", bof));
        }
        Ok(phys)
    }

    /// Bytes of the ring.
    #[must_use]
    pub fn ring_bytes(&self) -> u64 {
        self.phys_max_off.get().saturating_sub(self.create_len.get())
    }

    /// Where the byte at a growing offset lies in the object; `None` before the ring, or when the
    /// ring is empty.
    #[must_use]
    pub fn to_phys(&self, offset: u64) -> Option<u64> {
        let start = self.create_len.get();
        let in_ring = offset.checked_sub(start)?.checked_rem(self.ring_bytes())?;
        in_ring.checked_add(start)
    }
}

/// Encodes a record: its length, then the nvlist.
#[must_use]
pub fn encode_record(record: &NvList) -> Vec<u8> {
    let packed = record.encode_native();
    let mut out = U64::new(packed.len() as u64).as_bytes().to_vec();
    out.extend_from_slice(&packed);
    out
}

/// Decodes the record at the start of `bytes` (already unwrapped); gives its length too.
///
/// # Errors
/// When it is longer than what there is, or no nvlist.
pub fn decode_record(bytes: &[u8]) -> Result<(NvList, usize), OndiskError> {
    let mut from = crate::reader::Reader::new("history record", bytes);
    let len = from.read::<U64>()?.get();
    let fits = usize::try_from(len).ok().filter(|_| len <= RECORD_MAX_BYTES);
    let packed = from.take(fits.ok_or_else(|| bad("history record", "length", len))?)?;
    Ok((NvList::decode(packed)?, packed.len().saturating_add(8)))
}
