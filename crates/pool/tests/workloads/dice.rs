//! Random numbers from a seed, so that a failure can be run again.

pub struct Dice(fastrand::Rng);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    pub fn word(&mut self) -> u64 {
        self.0.u64(..)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.u64(..limit)
    }

    /// Below `usual`, but one time in eight below `rare`.
    pub fn mostly(&mut self, usual: u64, rare: u64) -> u64 {
        let limit = if self.below(8) == 0 { rare } else { usual };
        self.below(limit)
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.below(from.len() as u64) as usize]) }
    }

    /// Bytes to write: zeros, one byte repeated, numbers that compress, or noise.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let (shape, byte) = (self.below(8), self.word() as u8);
        match shape {
            0 => vec![0; len],
            1 | 2 => vec![byte; len],
            3..6 => (0..len).map(|at| (at / 7 * usize::from(byte)) as u8).collect(),
            _ => (0..len).map(|_| self.word() as u8).collect(),
        }
    }
}
