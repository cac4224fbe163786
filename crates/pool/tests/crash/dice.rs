//! Random numbers that a seed decides (SplitMix64).

pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut dice = Self(seed ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93));
        dice.next();
        dice
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
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
