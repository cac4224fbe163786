//! A draid: groups of children with parity, dealt out over more children than a group has, with room for spares.
//!
//! How space is dealt out is in [`map`], which child has which part of it in [`permutation`]. Room for spares is
//! left free, as the configuration says, but no spare is put to work there.

use units::Spread;

pub(crate) mod map;
pub(crate) mod permutation;
mod seeds;
#[cfg(test)]
mod tests;

use map::ROW_BYTES;

/// Most spares that a draid can have room for.
const SPARES_MAX: u64 = 100;
/// Most children, and most groups of a slice.
const CHILDREN_MAX: u64 = 255;
/// Space at the end of each child that is left alone.
const RESERVE_BYTES: u64 = 32 << 20;

/// How a draid deals out its space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    children: u8,
    data: u8,
    parity: u8,
    spares: u8,
    groups: u8,
}

impl Shape {
    /// From the numbers of its configuration; `None` for a draid that cannot be.
    #[must_use]
    pub fn new(children: u64, data: u64, parity: u64, spares: u64, groups: u64) -> Option<Self> {
        let is_small = children <= CHILDREN_MAX && spares <= SPARES_MAX && groups <= CHILDREN_MAX;
        let width = data.checked_add(parity)?;
        let parts = children.checked_sub(spares)?;
        let is_possible = data > 0 && (1..=u64::from(Spread::PARITY_MAX)).contains(&parity) && width <= parts;
        let comes_out_even = is_small && is_possible && groups > 0 && (width * groups).is_multiple_of(parts);
        let small = |number: u64| u8::try_from(number).ok();
        let shape = Self {
            children: small(children)?,
            data: small(data)?,
            parity: small(parity)?,
            spares: small(spares)?,
            groups: small(groups)?,
        };
        comes_out_even.then_some(shape)
    }

    /// Returns the shape of a new draid, with the fewest groups that fill the rows of a slice. `None`
    /// if no such draid is possible.
    #[must_use]
    pub fn of_new(children: u64, data: u64, parity: u64, spares: u64) -> Option<Self> {
        (1..=CHILDREN_MAX).find_map(|groups| Self::new(children, data, parity, spares, groups))
    }

    /// Children.
    #[must_use]
    pub const fn children(&self) -> usize {
        self.children as usize
    }

    /// Data columns of a stripe.
    #[must_use]
    pub const fn data(&self) -> usize {
        self.data as usize
    }

    /// Parity columns of a stripe.
    #[must_use]
    pub const fn parity(&self) -> usize {
        self.parity as usize
    }

    /// How many children's space is left free for spares.
    #[must_use]
    pub const fn spares(&self) -> usize {
        self.spares as usize
    }

    /// Groups of a slice.
    #[must_use]
    pub const fn groups(&self) -> u64 {
        self.groups as u64
    }

    /// How its blocks are spread.
    ///
    /// # Panics
    /// Never: a shape that is there is possible.
    #[must_use]
    pub fn spread(&self) -> Spread {
        Spread::draid(self.data(), self.parity).expect("a shape that is there is possible")
    }

    /// Columns of a stripe.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.data() + self.parity()
    }

    /// Children's space that is not left for spares.
    #[must_use]
    pub const fn parts(&self) -> usize {
        self.children() - self.spares()
    }

    const fn group_bytes(&self) -> u64 {
        self.width() as u64 * ROW_BYTES
    }

    /// How much data so much of a group holds.
    const fn data_in(&self, group_bytes: u64) -> u64 {
        group_bytes / self.width() as u64 * self.data() as u64
    }

    /// How much a draid can allocate whose smallest child has so much room: whole groups.
    #[must_use]
    pub const fn asize(&self, of_child: u64) -> u64 {
        let rows = of_child.saturating_sub(RESERVE_BYTES) / ROW_BYTES;
        let all = rows.saturating_mul(ROW_BYTES).saturating_mul(self.parts() as u64);
        all / self.group_bytes() * self.group_bytes()
    }

    /// How much of each child a draid needs that can allocate so much.
    #[must_use]
    pub const fn asize_of_child(&self, asize: u64) -> u64 {
        let each = asize.div_ceil(self.parts() as u64).div_ceil(ROW_BYTES);
        each.saturating_mul(ROW_BYTES).saturating_add(RESERVE_BYTES)
    }
}
