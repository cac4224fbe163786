//! Bit fields of 64-bit words: every place where the format packs numbers into one word
//! goes through these two functions.
#![expect(clippy::arithmetic_side_effects, reason = "field positions are constants below 64")]

/// The mask of a field of `len` bits (1 to 64) at bit 0.
const fn mask(len: u32) -> u64 {
    u64::MAX >> (64 - len)
}

/// The field of `len` bits (1 to 64) whose lowest bit is bit `low`.
#[must_use]
pub const fn get(word: u64, low: u32, len: u32) -> u64 {
    (word >> low) & mask(len)
}

/// `word` with the field of `len` bits at bit `low` set to `value`.
///
/// # Panics
/// When `value` does not fit: values we compute ourselves are asserted.
#[must_use]
pub const fn set(word: u64, low: u32, len: u32, value: u64) -> u64 {
    assert!(value <= mask(len), "value does not fit its bit field");
    (word & !(mask(len) << low)) | (value << low)
}

/// A one-bit field.
#[must_use]
pub const fn flag(word: u64, bit: u32) -> bool {
    get(word, bit, 1) == 1
}

/// `word` with one bit set or cleared.
#[must_use]
pub const fn with_flag(word: u64, bit: u32, on: bool) -> u64 {
    set(word, bit, 1, on as u64)
}
