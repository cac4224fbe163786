//! How full something is.

use std::ops::{Add, AddAssign};

use units::{Ashift, Asize, Spread};

/// Space of a metaslab, a vdev or a class: `free + allocated + resting + kept` is `capacity`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceFigures {
    /// All bytes that whole metaslabs cover.
    pub capacity: Asize,
    /// May be handed out now.
    pub free: Asize,
    /// In use: including what open txgs allocated, excluding what they freed.
    pub allocated: Asize,
    /// Freed, but kept back while older uberblocks may need it. `zpool list` counts it as allocated.
    pub resting: Asize,
    /// Freed, but kept for the pool's checkpoint. `zpool list` counts it as allocated.
    pub kept: Asize,
}

impl SpaceFigures {
    /// All that nobody can have now, for whatever reason.
    #[must_use]
    pub fn taken(&self) -> Asize {
        Asize::new(self.allocated.get() + self.resting.get() + self.kept.get())
    }
}

impl SpaceFigures {
    /// A sum in which the part `before` has become `after`.
    pub(crate) fn replaced(self, before: Self, after: Self) -> Self {
        let swap =
            |sum: Asize, before: Asize, after: Asize| Asize::new(sum.get() - before.get() + after.get());
        Self {
            capacity: swap(self.capacity, before.capacity, after.capacity),
            free: swap(self.free, before.free, after.free),
            allocated: swap(self.allocated, before.allocated, after.allocated),
            resting: swap(self.resting, before.resting, after.resting),
            kept: swap(self.kept, before.kept, after.kept),
        }
    }
}

impl SpaceFigures {
    /// The same as datasets count it: without parity.
    #[must_use]
    pub(crate) fn deflated(self, ashift: Ashift, spread: Spread) -> Self {
        let deflated = |space: Asize| space.deflated_over(ashift, spread);
        Self {
            capacity: deflated(self.capacity),
            free: deflated(self.free),
            allocated: deflated(self.allocated),
            resting: deflated(self.resting),
            kept: deflated(self.kept),
        }
    }
}

impl Add for SpaceFigures {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let sum = |a: Asize, b: Asize| Asize::new(a.get() + b.get());
        Self {
            capacity: sum(self.capacity, other.capacity),
            free: sum(self.free, other.free),
            allocated: sum(self.allocated, other.allocated),
            resting: sum(self.resting, other.resting),
            kept: sum(self.kept, other.kept),
        }
    }
}

impl AddAssign for SpaceFigures {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for SpaceFigures {
    fn sum<I: Iterator<Item = Self>>(figures: I) -> Self {
        figures.fold(Self::default(), Add::add)
    }
}
