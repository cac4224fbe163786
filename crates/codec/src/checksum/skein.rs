//! Skein-512 as a MAC of 256 bits: the chaining mode over the Threefish cipher.
//!
//! ```text
//!  0 ─ key (the salt) ─► ─ configuration: 256 bits out ─► ─ message ─► ─ output ─► 4 words
//! ```
//! Each arrow takes 64 bytes at a time: state' = cipher(key: state, tweak: place and kind, block) xor
//! block. The first two arrows are the same for every block of a pool. (The crate `skein` has no keyed
//! mode; N. Ferguson et al., "The Skein Hash Function Family", version 1.3, has.)

use threefish::Threefish512;

pub(super) const WORDS: usize = 8;
const BLOCK_BYTES: usize = 8 * WORDS;
const DIGEST_BITS: u64 = 256;
/// "SHA3", version 1.
const SCHEMA: u64 = 1 << 32 | 0x3341_4853;
const CONFIG_BYTES: usize = 32;

/// What a stretch of blocks is, in the tweak's bits 120 to 125.
#[derive(Clone, Copy)]
enum Kind {
    Key = 0,
    Config = 4,
    Message = 48,
    Output = 63,
}

/// One pass over `bytes`, which may be empty, padded with zeros to whole blocks.
fn pass(mut state: [u64; WORDS], kind: Kind, bytes: &[u8]) -> [u64; WORDS] {
    const FIRST: u64 = 1 << 62;
    const LAST: u64 = 1 << 63;
    let blocks = bytes.len().div_ceil(BLOCK_BYTES).max(1);
    for at in 0..blocks {
        let rest = &bytes[at * BLOCK_BYTES..];
        let taken = &rest[..rest.len().min(BLOCK_BYTES)];
        let place = (at * BLOCK_BYTES + taken.len()) as u64;
        let first = if at == 0 { FIRST } else { 0 };
        let last = if at + 1 == blocks { LAST } else { 0 };
        state = chain(&state, [place, (kind as u64) << 56 | first | last], taken);
    }
    state
}

fn chain(state: &[u64; WORDS], tweak: [u64; 2], taken: &[u8]) -> [u64; WORDS] {
    let mut padded = [0; BLOCK_BYTES];
    padded[..taken.len()].copy_from_slice(taken);
    let (bytes, _) = padded.as_chunks::<8>();
    let plain: [u64; WORDS] = std::array::from_fn(|word| u64::from_le_bytes(bytes[word]));
    let mut mixed = plain;
    Threefish512::new_with_tweak_u64(state, &tweak).encrypt_block_u64(&mut mixed);
    std::array::from_fn(|word| mixed[word] ^ plain[word])
}

/// The state that every block starts from under this key.
pub(super) fn keyed(key: &[u8; 32]) -> [u64; WORDS] {
    let mut config = [0; CONFIG_BYTES];
    config[..8].copy_from_slice(&SCHEMA.to_le_bytes());
    config[8..16].copy_from_slice(&DIGEST_BITS.to_le_bytes());
    pass(pass([0; WORDS], Kind::Key, key), Kind::Config, &config)
}

/// The MAC of `bytes`.
pub(super) fn mac(key: &[u64; WORDS], bytes: &[u8]) -> [u64; 4] {
    let state = pass(*key, Kind::Message, bytes);
    let words = pass(state, Kind::Output, &[0; 8]);
    std::array::from_fn(|word| words[word])
}
