//! Blocks of nothing but zeros, which become holes.

/// Bytes looked at between two decisions: enough for the compiler to use the widest registers.
const STRIDE: usize = 128;

/// Whether every byte is zero. True of no bytes.
#[must_use]
pub fn is_all_zero(bytes: &[u8]) -> bool {
    let (strides, rest) = bytes.as_chunks::<STRIDE>();
    strides.iter().all(|stride| stride.iter().fold(0, |any, byte| any | byte) == 0)
        && rest.iter().all(|&byte| byte == 0)
}
