//! Sizes: what of a device can be allocated, in sectors of which size, in how large metaslabs.
//!
//! The figures are the format's habits rather than its rules: a pool made by OpenZFS on the
//! same devices has the same numbers in its configuration.

use std::path::Path;

use env::DeviceInfo;
use units::{Ashift, LABEL_BYTES, LABEL_END_BYTES, LABEL_START_BYTES};

use crate::VdevError;

/// Smallest device that may be part of a pool: 64 MiB.
pub const DEVICE_MIN_BYTES: u64 = 64 << 20;
/// Largest sector that is chosen without being asked for: 16 KiB.
const ASHIFT_AUTO_MAX: u8 = 14;

const METASLABS_WANTED: u64 = 200;
const METASLABS_MIN: u64 = 16;
const METASLABS_MAX: u64 = 1 << 17;
const METASLAB_SHIFT_USUAL: u32 = 29;
const METASLAB_SHIFT_MIN: u32 = 24;
const METASLAB_SHIFT_MAX: u32 = 34;

/// The part of a device that is used: whole multiples of a label.
#[must_use]
pub const fn leaf_psize(device_bytes: u64) -> u64 {
    device_bytes & !(LABEL_BYTES - 1)
}

/// What remains for blocks between the labels of a leaf.
#[must_use]
pub const fn leaf_asize(psize: u64) -> u64 {
    psize.saturating_sub(LABEL_START_BYTES + LABEL_END_BYTES)
}

/// Bits needed to write `n`: one more than the base-2 logarithm, 0 for 0.
const fn bit_length(n: u64) -> u32 {
    u64::BITS - n.leading_zeros()
}

/// Base-2 logarithm of the size of the metaslabs of a new vdev.
///
/// ```text
///   below 8 GiB       about 16 of them, but at least 16 MiB each (the largest block)
///   to 100 GiB        512 MiB each
///   to 3 TiB          about 200 of them
///   to 2 PiB          16 GiB each
///   above             about 131,072 of them
/// ```
#[must_use]
pub fn metaslab_shift(asize: u64) -> u32 {
    let usual = asize >> METASLAB_SHIFT_USUAL;
    let shift = if usual < METASLABS_MIN {
        bit_length(asize / METASLABS_MIN)
    } else if usual > METASLABS_WANTED {
        bit_length(asize / METASLABS_WANTED)
    } else {
        METASLAB_SHIFT_USUAL
    };
    let capped = shift.clamp(METASLAB_SHIFT_MIN, METASLAB_SHIFT_MAX);
    if asize >> capped > METASLABS_MAX { bit_length(asize / METASLABS_MAX) } else { capped }
}

/// The sector size of a new leaf: as asked for, else the device's physical sectors up to
/// 16 KiB, never below what the device can address.
///
/// # Errors
/// [`VdevError::BadAshift`] when the wish is outside 9..=16, or the device's own sectors are larger.
pub fn leaf_ashift(path: &Path, info: &DeviceInfo, wished: Option<Ashift>) -> Result<Ashift, VdevError> {
    let bad = |ashift| VdevError::BadAshift { path: path.to_owned(), ashift };
    let logical = shift_of(info.logical_sector_bytes);
    if logical > Ashift::MAX.get() {
        return Err(bad(logical));
    }
    match wished {
        Some(wish) if wish < Ashift::MIN || wish > Ashift::MAX => Err(bad(wish.get())),
        Some(wish) if wish.get() >= logical => Ok(wish),
        _ => {
            let optimal = shift_of(info.physical_sector_bytes).min(ASHIFT_AUTO_MAX);
            Ok(Ashift::new(optimal.max(logical)))
        }
    }
}

/// Base-2 logarithm of a sector size, at least 9.
fn shift_of(sector_bytes: u32) -> u8 {
    let shift = u32::BITS - sector_bytes.saturating_sub(1).leading_zeros();
    shift.max(u32::from(Ashift::MIN.get())).try_into().unwrap_or(u8::MAX)
}
