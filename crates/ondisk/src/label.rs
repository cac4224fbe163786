//! The four labels of a leaf device: who it is, and where its uberblocks lie.
//!
//! ```text
//!  leaf:   | L0 | L1 | boot area 3.5 MiB | allocatable space ... | L2 | L3 |
//!          0   256K  512K                4M               (size rounded down to 256K) - 512K
//!  label:  | blank 8K | boot environment 8K | config nvlist 112K | uberblock ring 128K | 256K
//!          0          8K                    16K                  128K
//! ```
//! Each part but the blank one ends in a [`ZioEck`]: a magic number and a SHA-256 over the part,
//! seeded with the part's offset on the leaf, so that a part read from a wrong place never
//! verifies. The uberblock ring is a row of slots, each of them such a part.
//!
//! Invariant: the even labels (L0, L2) and the odd ones are never written in the same step, so
//! that a torn write leaves a whole pair. This module only says where they lie.

#[cfg(test)]
mod tests;

use units::{Ashift, LABEL_BYTES, LABEL_START_BYTES, LeafOffset};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::blkptr::ByteOrder;
use crate::error::OndiskError;
use crate::nvlist::NvList;
use crate::swap::words;

/// Labels of a leaf.
pub const LABELS: usize = 4;
/// Where the boot environment lies in a label.
pub const BOOT_ENV_OFFSET: u64 = 8 << 10;
/// Size of the boot environment part.
pub const BOOT_ENV_BYTES: usize = 8 << 10;
/// Where the configuration lies in a label.
pub const CONFIG_OFFSET: u64 = 16 << 10;
/// Size of the configuration part, its eck included.
pub const CONFIG_BYTES: usize = 112 << 10;
/// Room for the packed configuration nvlist.
pub const CONFIG_NVLIST_BYTES: usize = CONFIG_BYTES - ECK_BYTES;
/// Where the uberblock ring lies in a label.
pub const UBERBLOCK_RING_OFFSET: u64 = 128 << 10;
/// Size of the uberblock ring.
pub const UBERBLOCK_RING_BYTES: u64 = 128 << 10;
/// Smallest slot of the ring: base-2 logarithm.
pub const UBERBLOCK_SHIFT_MIN: u8 = 10;
/// Largest slot of the ring: base-2 logarithm.
pub const UBERBLOCK_SHIFT_MAX: u8 = 13;
/// Slots at the end of the ring that multihost heartbeats use while that is on.
pub const MMP_SLOTS: u64 = 1;
/// Smallest device that can be a vdev.
pub const DEVICE_MIN_BYTES: u64 = 64 << 20;

/// The magic number of an embedded checksum.
pub const ECK_MAGIC: u64 = 0x0210_da7a_b10c_7a11;
/// Size of an embedded checksum.
pub const ECK_BYTES: usize = 40;

/// The embedded checksum at the end of label parts, gang headers and old log blocks.
///
/// ```text
///  0 magic   8 checksum (4 words)   40 end
/// ```
/// To verify: put the *verifier* (what only the reader of the right place knows) where the
/// checksum is, hash the whole part, compare with what was there.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ZioEck {
    /// [`ECK_MAGIC`]; byte-swapped when the writer was big-endian.
    pub magic: U64,
    /// The checksum, or the verifier while it is computed.
    pub checksum: [U64; 4],
}
const _: () = assert!(size_of::<ZioEck>() == ECK_BYTES);

impl ZioEck {
    /// The trailer that is hashed: magic and verifier.
    #[must_use]
    pub fn seeded(verifier: [u64; 4]) -> Self {
        Self { magic: U64::new(ECK_MAGIC), checksum: verifier.map(U64::new) }
    }

    /// The trailer of `part`: its last 40 bytes, in our byte order whatever its own is.
    ///
    /// # Errors
    /// When `part` is shorter, or the magic number is missing.
    pub fn of(part: &[u8]) -> Result<Self, OndiskError> {
        Self::read(part).map(|(_, eck)| eck)
    }

    /// The byte order of whoever wrote the trailer of `part`.
    ///
    /// # Errors
    /// As [`ZioEck::of`].
    pub fn order(part: &[u8]) -> Result<ByteOrder, OndiskError> {
        Self::read(part).map(|(order, _)| order)
    }

    fn read(part: &[u8]) -> Result<(ByteOrder, Self), OndiskError> {
        let (_, mut eck) = Self::read_from_suffix(part)
            .map_err(|_| crate::error::short("embedded checksum", ECK_BYTES, part.len()))?;
        match eck.magic.get() {
            ECK_MAGIC => Ok((ByteOrder::Little, eck)),
            found if found == ECK_MAGIC.swap_bytes() => {
                words::<8>(eck.as_mut_bytes());
                Ok((ByteOrder::Big, eck))
            }
            found => Err(OndiskError::BadMagic { what: "embedded checksum", expected: ECK_MAGIC, found }),
        }
    }

    /// The checksum words.
    #[must_use]
    pub fn words(&self) -> [u64; 4] {
        self.checksum.map(U64::get)
    }

    /// Writes the trailer over the last 40 bytes of `part`.
    ///
    /// # Panics
    /// When `part` is shorter.
    pub fn put(&self, part: &mut [u8]) {
        self.write_to_suffix(part).expect("the part has room for its checksum");
    }

    /// The same as a machine of that byte order writes it.
    ///
    /// # Panics
    /// When `part` is shorter.
    pub fn put_in(mut self, order: ByteOrder, part: &mut [u8]) {
        if order == ByteOrder::Big {
            words::<8>(self.as_mut_bytes());
        }
        self.put(part);
    }
}

/// The verifier of a label part: its offset on the leaf.
#[must_use]
pub const fn label_verifier(at: LeafOffset) -> [u64; 4] {
    [at.get(), 0, 0, 0]
}

/// Where label `index` (0 to 3) starts on a leaf of `leaf_bytes`; L2 and L3 lie at the end, the
/// size rounded down to whole labels. `None` for another index or a leaf too small to hold them.
#[must_use]
pub const fn label_offset(leaf_bytes: u64, index: usize) -> Option<LeafOffset> {
    let aligned = match leaf_bytes.checked_rem(LABEL_BYTES) {
        Some(rest) => leaf_bytes.saturating_sub(rest),
        None => return None,
    };
    if aligned < LABEL_START_BYTES + 2 * LABEL_BYTES {
        return None;
    }
    let start = match index {
        0 => 0,
        1 => LABEL_BYTES,
        2 => aligned.saturating_sub(2 * LABEL_BYTES),
        3 => aligned.saturating_sub(LABEL_BYTES),
        _ => return None,
    };
    Some(LeafOffset::new(start))
}

/// Size of a slot of the uberblock ring: one sector of the top-level vdev, within 1 and 8 KiB.
#[must_use]
pub const fn uberblock_slot_bytes(ashift: Ashift) -> u64 {
    let shift = ashift.get();
    if shift < UBERBLOCK_SHIFT_MIN {
        1 << UBERBLOCK_SHIFT_MIN
    } else if shift > UBERBLOCK_SHIFT_MAX {
        1 << UBERBLOCK_SHIFT_MAX
    } else {
        1_u64 << shift
    }
}

/// Slots in the uberblock ring: 128 down to 16.
#[must_use]
pub const fn uberblock_slots(ashift: Ashift) -> u64 {
    match UBERBLOCK_RING_BYTES.checked_div(uberblock_slot_bytes(ashift)) {
        Some(slots) => slots,
        None => 0,
    }
}

/// Where slot `slot` starts within a label.
#[must_use]
pub const fn uberblock_slot_offset(ashift: Ashift, slot: u64) -> u64 {
    UBERBLOCK_RING_OFFSET.saturating_add(slot.saturating_mul(uberblock_slot_bytes(ashift)))
}

/// The configuration part of a label.
#[derive(Clone, Copy, Debug)]
pub struct VdevPhys;

impl VdevPhys {
    /// Decodes the configuration from the 112 KiB part (whose checksum was verified).
    ///
    /// # Errors
    /// When the part is too short, has no eck magic, or holds no proper nvlist.
    pub fn decode(part: &[u8]) -> Result<NvList, OndiskError> {
        ZioEck::of(part)?;
        NvList::decode(part)
    }

    /// Lays the configuration out as a 112 KiB part, its trailer seeded with `verifier`: hash it,
    /// then [`ZioEck::put`] the result.
    ///
    /// # Errors
    /// When the packed nvlist does not fit.
    pub fn encode(config: &NvList, verifier: [u64; 4]) -> Result<Vec<u8>, OndiskError> {
        let mut part = config.encode();
        if part.len() > CONFIG_NVLIST_BYTES {
            return Err(crate::error::short("label configuration", part.len(), CONFIG_NVLIST_BYTES));
        }
        part.resize(CONFIG_BYTES, 0);
        ZioEck::seeded(verifier).put(&mut part);
        Ok(part)
    }
}

/// How the boot environment part is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootEnvVersion {
    /// Plain text: GRUB's environment block.
    Raw,
    /// A packed nvlist.
    NvList,
}

/// The boot environment part: `0 version (big-endian)   8 data   8152 eck   8192 end`.
///
/// An empty environment is what a new pool gets: version 0, all zeroes, and a valid checksum.
#[must_use]
pub fn empty_boot_env(verifier: [u64; 4]) -> Vec<u8> {
    let mut part = vec![0; BOOT_ENV_BYTES];
    ZioEck::seeded(verifier).put(&mut part);
    part
}

/// Which way a boot environment part is written.
///
/// # Errors
/// When it is too short or of a version that the format does not have.
pub fn boot_env_version(part: &[u8]) -> Result<BootEnvVersion, OndiskError> {
    let version: zerocopy::big_endian::U64 = crate::reader::prefix("boot environment", part)?;
    match version.get() {
        0 => Ok(BootEnvVersion::Raw),
        1 => Ok(BootEnvVersion::NvList),
        other => Err(crate::error::bad("boot environment", "version", other)),
    }
}
