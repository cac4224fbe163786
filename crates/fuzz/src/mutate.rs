//! Small damage, from a seed.

/// Numbers at which code goes wrong: limits of types and of the format.
const LIMITS: [u64; 14] = [
    0,
    1,
    7,
    8,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    1 << 20,
    i32::MAX as u64,
    u32::MAX as u64,
    1 << 56,
    i64::MAX as u64,
    u64::MAX,
];

/// Draws damage; one seed gives one story.
#[derive(Clone, Debug)]
pub struct Mutator {
    dice: fastrand::Rng,
}

impl Mutator {
    /// The story of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { dice: fastrand::Rng::with_seed(seed) }
    }

    /// The next word.
    pub fn draw(&mut self) -> u64 {
        self.dice.u64(..)
    }

    /// A number below `end`; 0 when that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.dice.usize(..end.max(1))
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, several: &'a [T]) -> &'a T {
        &several[self.below(several.len())]
    }

    /// `bytes` with one to eight faults; `other` lends bytes.
    #[must_use]
    pub fn mutant(&mut self, bytes: &[u8], other: &[u8]) -> Vec<u8> {
        let mut mutant = bytes.to_vec();
        for _ in 0..=self.below(8) {
            self.damage(&mut mutant, other);
        }
        mutant
    }

    fn damage(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let at = self.place(bytes.len());
        match self.below(9) {
            0 => flip(bytes, at, 1 << self.below(8)),
            1 => self.number(bytes, at, 1),
            2 => self.number(bytes, at & !1, 2),
            3 => self.number(bytes, at & !3, 4),
            4 | 5 => self.number(bytes, at & !7, 8),
            6 => self.borrow(bytes, at, other),
            7 => bytes.truncate(at),
            _ => {
                let byte = self.draw() as u8;
                let more = self.below(64);
                bytes.resize(bytes.len() + more, byte);
            }
        }
    }

    /// Half of all damage is near the start, where headers are.
    fn place(&mut self, len: usize) -> usize {
        let near = if self.below(2) == 0 { len.min(256) } else { len };
        self.below(near)
    }

    /// Overwrites a number of `width` bytes with a limit, a neighbour of one, or its own neighbour.
    fn number(&mut self, bytes: &mut [u8], at: usize, width: usize) {
        let Some(target) = bytes.get_mut(at..at + width) else { return };
        let mut word = [0; 8];
        word[..width].copy_from_slice(target);
        let old = u64::from_le_bytes(word);
        let new = match self.below(4) {
            0 => old.wrapping_add(1),
            1 => old.wrapping_sub(1),
            2 => self.pick(&LIMITS).wrapping_add(self.draw() % 3).wrapping_sub(1),
            _ => *self.pick(&LIMITS),
        };
        target.copy_from_slice(&new.to_le_bytes()[..width]);
        if self.below(4) == 0 {
            target.reverse();
        }
    }

    fn borrow(&mut self, bytes: &mut [u8], at: usize, other: &[u8]) {
        let from = self.below(other.len());
        let len = self.below(128).min(other.len() - from).min(bytes.len() - at);
        bytes[at..at + len].copy_from_slice(&other[from..from + len]);
    }
}

fn flip(bytes: &mut [u8], at: usize, bit: u8) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= bit;
    }
}
