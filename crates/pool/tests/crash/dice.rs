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

    pub fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { from.get(self.below(from.len() as u64) as usize) }
    }

    /// Bytes that nothing else has; half of the time such that compression finds something.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let tag = self.next().to_le_bytes();
        let plain = self.one_in(2);
        (0..len)
            .map(|i| {
                if plain {
                    tag[i % 8]
                } else {
                    tag[i % 8] ^ (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[6]
                }
            })
            .collect()
    }
}
