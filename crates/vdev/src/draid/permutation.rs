//! Which child takes which part of a draid's slice.
//!
//! ```text
//!   seed ─► random numbers ─► shuffles, each of the one before: 256 or 512 base permutations
//!   slice n:  base permutation n / children, each child moved on by n % children
//! ```
//! Slices go through all of that in turn and begin again. The format has a seed for each number of children, and a
//! checksum of what comes of it: a mistake here would find every block in the wrong place.
//!
//! Invariants
//! - In each slice every child has one part. (test: `every_slice_gives_every_child_one_part`)
//! - The permutations are the format's. (test: `all_permutations_come_to_the_format_s_checksums`)

use codec::checksum;
use ondisk::ChecksumKind;

use super::seeds::{CHILDREN_MIN, SEEDS, Seed};

/// The other half of the generator's first state.
const FIRST_STATE: u64 = 0xd_7a1d_5eed;
/// Draids with fewer children have half as many base permutations.
const FEW_CHILDREN: usize = 32;

/// The permutations of a draid.
#[derive(Clone, Debug)]
pub(crate) struct Permutations {
    children: usize,
    /// Base permutations one after another.
    bases: Vec<u8>,
}

impl Permutations {
    /// Those of so many children; `None` if a draid cannot have so many.
    ///
    /// # Panics
    /// When they do not come to the format's checksum: then this program is wrong.
    pub(crate) fn of(children: usize) -> Option<Self> {
        let Seed { seed, checksum: expected } = *SEEDS.get(children.checked_sub(CHILDREN_MIN)?)?;
        let bases = bases(children, seed);
        let found = checksum(ChecksumKind::Fletcher4, &bases, None).ok()?;
        assert_eq!(found[0], expected, "the permutations of {children} children");
        Some(Self { children, bases })
    }

    /// Who takes a part of a slice.
    pub(crate) fn child(&self, slice: u64, part: usize) -> usize {
        let turn = usize::try_from(slice % self.bases.len() as u64).expect("less than a length in memory");
        let (base, moved) = (turn / self.children, turn % self.children);
        let child = self.bases[base * self.children + part];
        (usize::from(child) + moved) % self.children
    }
}

fn bases(children: usize, seed: u64) -> Vec<u8> {
    let count = if children < FEW_CHILDREN { 256 } else { 512 };
    let mut random = Xoroshiro { state: [FIRST_STATE, seed] };
    let mut order: Vec<u8> = (0..=u8::MAX).take(children).collect();
    let mut bases = Vec::with_capacity(count * children);
    for _ in 0..count {
        for last in (1..children).rev() {
            let other = random.next() % (last as u64 + 1);
            order.swap(last, usize::try_from(other).expect("a child's number"));
        }
        bases.extend_from_slice(&order);
    }
    bases
}

/// Blackman's and Vigna's generator xoroshiro128++, which is in the public domain.
struct Xoroshiro {
    state: [u64; 2],
}

impl Xoroshiro {
    fn next(&mut self) -> u64 {
        let [first, second] = self.state;
        let mixed = first ^ second;
        self.state = [first.rotate_left(49) ^ mixed ^ (mixed << 21), mixed.rotate_left(28)];
        first.wrapping_add(second).rotate_left(17).wrapping_add(first)
    }
}
