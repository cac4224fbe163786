//! The arithmetic of an object's block tree.
//!
//! A dnode holds up to three pointers; with more than one level each points to indirect
//! blocks of `1 << (indirect_shift - 7)` pointers. Block `b` at level `l` covers the data
//! blocks `b << (l * s)` up to the next, with `s = indirect_shift - 7`.

use std::ops::Range;

/// Base-2 logarithm of the size of a block pointer.
pub(crate) const BLKPTR_SHIFT: u32 = 7;
/// The most levels a dnode may have.
pub(crate) const MAX_LEVELS: u8 = 6;

/// Height, fan-out and width of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub levels: u8,
    pub indirect_shift: u8,
    pub nblkptr: u8,
}

impl Shape {
    /// Base-2 logarithm of the pointers in an indirect block.
    pub fn fan_shift(self) -> u32 {
        u32::from(self.indirect_shift) - BLKPTR_SHIFT
    }

    pub fn fan_out(self) -> usize {
        1 << self.fan_shift()
    }

    /// The data blocks below block `index` of `level`.
    pub fn covered(self, level: u8, index: u64) -> Range<u64> {
        let shift = self.fan_shift() * u32::from(level);
        let start = saturating_shl(index, shift);
        start..saturating_shl(index.saturating_add(1), shift)
    }

    /// The index at `level` of the block above data block `block`.
    pub fn index_at(self, level: u8, block: u64) -> u64 {
        let shift = self.fan_shift() * u32::from(level);
        if shift >= 64 { 0 } else { block >> shift }
    }

    /// How many data blocks lie below a block of `level`.
    pub fn blocks_below(self, level: u8) -> u64 {
        saturating_shl(1, self.fan_shift() * u32::from(level))
    }

    /// How many data blocks the tree can hold.
    pub fn capacity(self) -> u64 {
        self.covered(self.levels - 1, u64::from(self.nblkptr) - 1).end
    }

    /// The lowest shape at least as high as this one that holds `max_block`.
    pub fn grown_for(mut self, max_block: u64) -> Self {
        while self.capacity() <= max_block && self.levels < MAX_LEVELS {
            self.levels += 1;
        }
        self
    }
}

fn saturating_shl(n: u64, shift: u32) -> u64 {
    if n == 0 {
        0
    } else if shift > n.leading_zeros() {
        u64::MAX
    } else {
        n << shift
    }
}

#[cfg(test)]
mod tests {
    use super::Shape;

    #[test]
    fn a_tree_grows_just_high_enough() {
        let flat = Shape { levels: 1, indirect_shift: 17, nblkptr: 3 };
        assert_eq!(flat.capacity(), 3);
        assert_eq!(flat.grown_for(2).levels, 1);
        assert_eq!(flat.grown_for(3).levels, 2);
        assert_eq!(flat.grown_for(3 * 1024).levels, 3);
        assert_eq!(Shape { levels: 2, ..flat }.covered(1, 2), 2048..3072);
        assert_eq!(flat.index_at(1, 2050), 2);
    }

    #[test]
    fn the_highest_tree_covers_every_block_number() {
        let high = Shape { levels: 6, indirect_shift: 17, nblkptr: 1 };
        assert!(high.capacity() >= 1 << 50);
        assert_eq!(high.covered(6, 1).end, 2 << 60);
    }
}
