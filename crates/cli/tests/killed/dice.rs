//! Random numbers that a seed decides.

pub struct Dice(fastrand::Rng);

impl Dice {
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93)))
    }

    pub fn next(&mut self) -> u64 {
        self.0.u64(..)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.u64(..limit)
    }
}

/// Eight bytes that follow from what they stand for.
pub fn word(a: u64, b: u64, c: u64) -> [u8; 8] {
    let stream = a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b.rotate_left(32) ^ c;
    Dice::new(stream, 1).next().to_le_bytes()
}
