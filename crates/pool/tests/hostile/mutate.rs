//! What somebody who means harm writes into a block.

use fastrand::Rng;

use crate::forge::Kind;

const DNODE_BYTES: usize = 512;
/// What comes before the bonus of a dnode with one blkptr.
const DNODE_FIELDS_BYTES: usize = 64 + 128;

/// Numbers at which something overflows, wraps, or is none.
pub const ODD: [u64; 14] = [
    0,
    1,
    7,
    0xff,
    0xffff,
    1 << 31,
    u32::MAX as u64,
    1 << 40,
    1 << 56,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX - 511,
    u64::MAX - 1,
    u64::MAX,
];

/// Changes one to four things.
pub fn mutate(dice: &mut Rng, kind: Kind, data: &mut [u8]) {
    for _ in 0..1 + dice.usize(..4) {
        let at = place(dice, kind, data);
        change(dice, data, at);
    }
}

/// Somewhere; where most is zeros, mostly where something is.
fn place(dice: &mut Rng, kind: Kind, data: &[u8]) -> usize {
    for _ in 0..20 {
        let at = dice.usize(..data.len());
        let at = if kind.is_of_dnodes() && dice.usize(..3) > 0 {
            at / DNODE_BYTES * DNODE_BYTES + dice.usize(..DNODE_FIELDS_BYTES)
        } else {
            at
        };
        let near = at & !31;
        if data[near..(near + 32).min(data.len())].iter().any(|&byte| byte != 0) {
            return at;
        }
    }
    dice.usize(..data.len())
}

pub fn change(dice: &mut Rng, data: &mut [u8], at: usize) {
    let width = [1, 1, 2, 4, 8, 8][dice.usize(..6)];
    let at = at / width * width;
    let Some(field) = data.get(at..at + width) else { return };
    let mut word = [0; 8];
    word[..width].copy_from_slice(field);
    let old = u64::from_le_bytes(word);
    let new = match dice.usize(..7) {
        0 | 1 => ODD[dice.usize(..ODD.len())],
        2 => old ^ 1 << dice.usize(..8 * width),
        3 => old.wrapping_add(1),
        4 => old.wrapping_sub(1),
        5 => dice.u64(..),
        _ => {
            let from = dice.usize(..data.len() / width) * width;
            word[..width].copy_from_slice(&data[from..from + width]);
            u64::from_le_bytes(word)
        }
    };
    data[at..at + width].copy_from_slice(&new.to_le_bytes()[..width]);
}
