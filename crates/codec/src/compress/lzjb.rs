//! LZJB: the compression of old pools.
//!
//! ```text
//! a map byte, then eight items; bit i of the map (lowest first) says of item i:
//!   0: one byte as it is
//!   1: two bytes  llllllOO oooooooo: copy l + 3 bytes from o (10 bits) bytes back
//! ```
//! The copy may overlap what it writes, which is how runs are made.

use super::Reason;

const LENGTH_MIN: usize = 3;
const LENGTH_MAX: usize = LENGTH_MIN + 63;
const DISTANCE_MAX: usize = (1 << 10) - 1;
const ITEMS: usize = 8;
/// Slots that remember where three bytes were seen last.
const SEEN_BITS: u32 = 10;

pub(super) fn compress(block: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut seen = [0u32; 1 << SEEN_BITS];
    let (mut at, mut len) = (0, 0);
    while at < block.len() {
        let map_at = len;
        *out.get_mut(map_at)? = 0;
        len += 1;
        for item in 0..ITEMS {
            if at == block.len() {
                break;
            }
            if let Some((distance, length)) = match_at(block, at, &mut seen) {
                let coded = (length - LENGTH_MIN) << 10 | distance;
                out.get_mut(len..len + 2)?.copy_from_slice(&(coded as u16).to_be_bytes());
                out[map_at] |= 1 << item;
                at += length;
                len += 2;
            } else {
                *out.get_mut(len)? = block[at];
                at += 1;
                len += 1;
            }
        }
    }
    Some(len)
}

/// The last place within reach where the next three bytes were, and for how long it goes on alike.
fn match_at(block: &[u8], at: usize, seen: &mut [u32; 1 << SEEN_BITS]) -> Option<(usize, usize)> {
    let rest = &block[at..];
    let next = rest.first_chunk::<LENGTH_MIN>()?;
    let hash = u32::from_le_bytes([next[0], next[1], next[2], 0]).wrapping_mul(0x9e37_79b1);
    let slot = &mut seen[(hash >> (32 - SEEN_BITS)) as usize];
    // One more than the place: 0 is none.
    let before = std::mem::replace(slot, u32::try_from(at + 1).ok()?);
    let before = (before as usize).checked_sub(1)?;
    let distance = at - before;
    if distance > DISTANCE_MAX {
        return None;
    }
    let alike = rest.iter().zip(&block[before..]).take(LENGTH_MAX).take_while(|(a, b)| a == b).count();
    (alike >= LENGTH_MIN).then_some((distance, alike))
}

pub(super) fn decompress(stored: &[u8], block: &mut [u8]) -> Result<(), Reason> {
    let mut stored = stored.iter().copied();
    let mut next = || stored.next().ok_or("the data ends early");
    let mut at = 0;
    while at < block.len() {
        let map = next()?;
        for item in 0..ITEMS {
            if at == block.len() {
                break;
            }
            if map >> item & 1 == 0 {
                block[at] = next()?;
                at += 1;
                continue;
            }
            let coded = usize::from(u16::from_be_bytes([next()?, next()?]));
            let (length, distance) = ((coded >> 10) + LENGTH_MIN, coded & DISTANCE_MAX);
            if distance == 0 || distance > at {
                return Err("a copy from outside the block");
            }
            // The last copy may be longer than what is left of the block.
            for _ in 0..length.min(block.len() - at) {
                block[at] = block[at - distance];
                at += 1;
            }
        }
    }
    Ok(())
}
