//! Random numbers of the benches.

/// xorshift64: quick, and the same in every run.
pub(crate) struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Bytes that do not compress.
    pub fn noise(&mut self, len: usize) -> Vec<u8> {
        std::iter::repeat_with(|| self.roll().to_le_bytes()).flatten().take(len).collect()
    }

    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
