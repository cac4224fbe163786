//! The uberblock: the one block from which all others are found.
//!
//! ```text
//!   0 magic         8 version    16 txg            24 guid sum   32 timestamp
//!  40 root blkptr (the MOS)     168 software version
//! 176 mmp magic   184 mmp delay 192 mmp config    200 checkpoint txg   208 raidz reflow   216 end
//! ```
//! Each sync of a txg writes one, to slot `txg % slots` of the ring in every label (not of every
//! vdev); import takes the best valid one. It lies at the start of its slot, zeroes follow, and a
//! [`crate::ZioEck`] seeded with the slot's offset on the leaf ends it.
//!
//! Invariants
//! - Newer is a total order over (txg, timestamp, heartbeat): [`UberblockPhys::rank`]
//!   (test: `of_two_uberblocks_the_later_txg_then_time_then_heartbeat_wins`).

#[cfg(test)]
mod tests;

use units::{Ashift, Txg};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::blkptr::Blkptr;
use crate::error::OndiskError;
use crate::label::{self, MMP_SLOTS, ZioEck};
use crate::{bits, error};

/// The magic number, "oo-ba-bloc".
pub const UBERBLOCK_MAGIC: u64 = 0x00ba_b10c;
/// The magic number of the multihost fields, "all-see-all".
pub const MMP_MAGIC: u64 = 0xa11c_ea11;
/// The pool version that means "feature flags decide".
pub const SPA_VERSION_FEATURES: u64 = 5000;
/// The last version before feature flags.
pub const SPA_VERSION_LAST_NUMBERED: u64 = 28;

/// An uberblock as it lies at the start of its slot.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct UberblockPhys {
    /// [`UBERBLOCK_MAGIC`]; byte-swapped when the writer was big-endian.
    pub magic: U64,
    /// Pool version: 1 to 28, or 5000.
    pub version: U64,
    /// The txg whose sync wrote it.
    pub txg: U64,
    /// Sum of the guids of all vdevs: tells that one is missing.
    pub guid_sum: U64,
    /// When it was written: seconds since 1970, UTC.
    pub timestamp: U64,
    /// Leads to the MOS's objset.
    pub rootbp: Blkptr,
    /// The highest pool version the writer knew.
    pub software_version: U64,
    /// [`MMP_MAGIC`] when the multihost fields are there.
    pub mmp_magic: U64,
    /// Nanoseconds since the last heartbeat; zero when multihost is off.
    pub mmp_delay: U64,
    /// See [`MmpConfig`].
    pub mmp_config: U64,
    /// In a checkpoint's uberblock the txg it was taken in, else zero.
    pub checkpoint_txg: U64,
    /// State (9 bits) and offset in sectors (55 bits) of a raidz expansion.
    pub raidz_reflow: U64,
}
const _: () = assert!(size_of::<UberblockPhys>() == 216);
const _: () = assert!(std::mem::offset_of!(UberblockPhys, rootbp) == 40);
const _: () = assert!(std::mem::offset_of!(UberblockPhys, software_version) == 168);
const _: () = assert!(std::mem::offset_of!(UberblockPhys, raidz_reflow) == 208);

/// The multihost word: who writes how often, so that another host can tell it is alive.
///
/// ```text
///  64             48             32                        8       0
///   | fail intervals | sequence    | write interval in ms    | valid |
/// ```
/// Valid bits: 1 interval, 2 sequence, 4 fail intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MmpConfig {
    /// Milliseconds between heartbeats.
    pub interval_ms: Option<u32>,
    /// Tells heartbeats of the same second apart.
    pub sequence: Option<u16>,
    /// Missed heartbeats after which the pool suspends.
    pub fail_intervals: Option<u16>,
}

impl MmpConfig {
    /// Takes the word apart.
    #[must_use]
    pub fn from_word(word: u64) -> Self {
        let field =
            |valid: u32, low: u32, len: u32| bits::flag(word, valid).then(|| bits::get(word, low, len));
        Self {
            interval_ms: field(0, 8, 24).and_then(|v| u32::try_from(v).ok()),
            sequence: field(1, 32, 16).and_then(|v| u16::try_from(v).ok()),
            fail_intervals: field(2, 48, 16).and_then(|v| u16::try_from(v).ok()),
        }
    }

    /// Puts the word together.
    ///
    /// # Panics
    /// When the interval does not fit 24 bits (over four hours).
    #[must_use]
    pub fn to_word(self) -> u64 {
        let put = |word: u64, valid: u32, low: u32, len: u32, value: Option<u64>| match value {
            Some(value) => bits::set(bits::with_flag(word, valid, true), low, len, value),
            None => word,
        };
        let word = put(0, 0, 8, 24, self.interval_ms.map(u64::from));
        let word = put(word, 1, 32, 16, self.sequence.map(u64::from));
        put(word, 2, 48, 16, self.fail_intervals.map(u64::from))
    }
}

impl UberblockPhys {
    /// Reads the uberblock at the start of a ring slot. The slot's checksum is the caller's to
    /// verify, with [`ZioEck::of`] the whole slot.
    ///
    /// # Errors
    /// When the slot is too short or empty (no magic).
    pub fn decode(slot: &[u8]) -> Result<Self, OndiskError> {
        let mut uberblock: Self = crate::reader::prefix("uberblock", slot)?;
        match uberblock.magic.get() {
            UBERBLOCK_MAGIC => Ok(uberblock),
            found if found == UBERBLOCK_MAGIC.swap_bytes() => {
                // Words of 64 bits throughout, the blkptr's as well.
                crate::swap::words::<8>(uberblock.as_mut_bytes());
                Ok(uberblock)
            }
            found => Err(OndiskError::BadMagic { what: "uberblock", expected: UBERBLOCK_MAGIC, found }),
        }
    }

    /// Lays it out as a slot of `slot_bytes`, the trailer seeded with `verifier`
    /// ([`label::label_verifier`] of the slot's place): hash it, then [`ZioEck::put`] the result.
    ///
    /// # Panics
    /// When the slot is smaller than 1 KiB.
    #[must_use]
    pub fn encode_slot(&self, slot_bytes: usize, verifier: [u64; 4]) -> Vec<u8> {
        let mut slot = self.as_bytes().to_vec();
        assert!(slot_bytes >= 1 << label::UBERBLOCK_SHIFT_MIN, "a slot has at least 1 KiB");
        slot.resize(slot_bytes, 0);
        ZioEck::seeded(verifier).put(&mut slot);
        slot
    }

    /// Which slot of the ring this txg's uberblock takes; with multihost on, the last one is the
    /// heartbeat's.
    ///
    /// # Errors
    /// When the ashift is out of range.
    pub fn slot_of(txg: Txg, ashift: Ashift, multihost: bool) -> Result<u64, OndiskError> {
        let reserved = if multihost { MMP_SLOTS } else { 0 };
        let usable = label::uberblock_slots(ashift).saturating_sub(reserved);
        txg.get().checked_rem(usable).ok_or_else(|| error::bad("uberblock", "ashift", ashift.get()))
    }

    /// The txg.
    #[must_use]
    pub fn txg(&self) -> Txg {
        Txg::new(self.txg.get())
    }

    /// The multihost settings, if the writer knew of them.
    #[must_use]
    pub fn mmp(&self) -> Option<MmpConfig> {
        (self.mmp_magic.get() == MMP_MAGIC).then(|| MmpConfig::from_word(self.mmp_config.get()))
    }

    /// Of two valid uberblocks the one of higher rank is the newer: by txg, then by time, then by
    /// heartbeat sequence.
    #[must_use]
    pub fn rank(&self) -> (u64, u64, u16) {
        let heartbeat = self.mmp().and_then(|mmp| mmp.sequence).unwrap_or(0);
        (self.txg.get(), self.timestamp.get(), heartbeat)
    }
}
