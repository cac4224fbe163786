//! The three sizes of a block, and the sector size that rounds them.

use crate::newtype;

/// The unit in which the format counts: 512 bytes, whatever a device's sectors are.
pub const SECTOR_BYTES: u64 = 512;

newtype! {
    /// Logical size of a block in bytes: what a reader gets.
    Lsize(u64)
}
newtype! {
    /// Physical size in bytes: after compression, before parity, padding and ganging.
    Psize(u64)
}
newtype! {
    /// Allocated size in bytes on a top-level vdev: with parity and padding, of one copy.
    Asize(u64)
}
newtype! {
    /// Base-2 logarithm of a vdev's smallest allocation in bytes: 9 to 16.
    Ashift(u8)
}

/// The least multiple of `unit` (a power of two) that is at least `n`; saturates.
#[must_use]
pub const fn round_up(n: u64, unit: u64) -> u64 {
    n.saturating_add(unit - 1) & !(unit - 1)
}

impl Ashift {
    /// Smallest that the format allows.
    pub const MIN: Self = Self::new(9);
    /// Largest that the format allows.
    pub const MAX: Self = Self::new(16);

    /// The smallest allocation, in bytes.
    #[must_use]
    pub const fn sector_bytes(self) -> u64 {
        1 << self.get()
    }

    /// `bytes` rounded up to whole sectors.
    #[must_use]
    pub const fn round_up(self, bytes: u64) -> u64 {
        round_up(bytes, self.sector_bytes())
    }
}

impl Psize {
    /// What this much data takes on a plain leaf or mirror of this ashift.
    #[must_use]
    pub const fn allocated_at(self, ashift: Ashift) -> Asize {
        Asize::new(ashift.round_up(self.get()))
    }

    /// What this much data takes on a vdev of this ashift that spreads blocks so.
    ///
    /// Every row of data sectors brings its parity sectors. The sum is a multiple of one more than
    /// the parity: what is freed can then always be used again by the smallest block, which is one
    /// data sector with its parity.
    #[must_use]
    pub const fn allocated_over(self, ashift: Ashift, spread: Spread) -> Asize {
        let data = ashift.round_up(self.get()) >> ashift.get();
        let rows = data.div_ceil(spread.data_columns());
        let parity = spread.parity as u64;
        let sectors = data.saturating_add(rows.saturating_mul(parity));
        let unit = if spread.has_whole_rows { spread.children as u64 } else { parity + 1 };
        let whole = sectors.div_ceil(unit).saturating_mul(unit);
        Asize::new(whole.saturating_mul(ashift.sector_bytes()))
    }
}

/// Over how many children a vdev spreads a block, and how many sectors of each row are parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spread {
    children: u8,
    parity: u8,
    /// As many as there were when the vdev was made.
    first_children: u8,
    /// Blocks take whole rows.
    has_whole_rows: bool,
}

impl Spread {
    /// Not at all: a leaf, or a mirror, whose children all hold the same.
    pub const PLAIN: Self = Self { children: 1, parity: 0, first_children: 1, has_whole_rows: false };
    /// Most parity sectors of a row.
    pub const PARITY_MAX: u8 = 3;

    /// A raidz; `None` for one that cannot be.
    #[must_use]
    pub const fn raidz(children: usize, parity: u8) -> Option<Self> {
        if parity == 0 || parity > Self::PARITY_MAX || children <= parity as usize || children > 255 {
            return None;
        }
        let children = children as u8;
        Some(Self { children, parity, first_children: children, has_whole_rows: false })
    }

    /// A stripe of a draid; `None` for one that cannot be.
    #[must_use]
    pub const fn draid(data: usize, parity: u8) -> Option<Self> {
        match Self::raidz(data.saturating_add(parity as usize), parity) {
            Some(raidz) => Some(Self { has_whole_rows: true, ..raidz }),
            None => None,
        }
    }

    /// The same of a raidz that had fewer children when it was made: its space goes on being charged as it
    /// was then. `None` when it cannot have been so.
    #[must_use]
    pub const fn widened_from(self, first_children: usize) -> Option<Self> {
        if first_children > self.children as usize || first_children <= self.parity as usize {
            return None;
        }
        Some(Self { first_children: first_children as u8, ..self })
    }

    /// As it was when the vdev was made.
    #[must_use]
    pub const fn first(self) -> Self {
        Self { children: self.first_children, ..self }
    }

    /// Children that share a block.
    #[must_use]
    pub const fn children(self) -> usize {
        self.children as usize
    }

    /// Parity sectors of each row.
    #[must_use]
    pub const fn parity(self) -> usize {
        self.parity as usize
    }

    /// What all places on such a vdev are multiples of: a draid's blocks begin with a row, others with any sector.
    #[must_use]
    pub const fn unit_bytes(self, ashift: Ashift) -> u64 {
        if self.has_whole_rows { self.children as u64 * ashift.sector_bytes() } else { ashift.sector_bytes() }
    }

    /// Data sectors of a full row.
    #[must_use]
    pub const fn data_columns(self) -> u64 {
        (self.children - self.parity) as u64
    }
}

impl Asize {
    /// What datasets are charged for so much space on such a vdev: nothing for the parity that a
    /// block of 128 KiB brings. Blocks of other sizes bring more or less; the format has it so. On a raidz that was
    /// widened it is the parity that such a block brought at first.
    #[must_use]
    pub const fn deflated_over(self, ashift: Ashift, spread: Spread) -> Self {
        const USUAL_BYTES: u64 = 128 << 10;
        let usual = Psize::new(USUAL_BYTES).allocated_over(ashift, spread.first()).get();
        // Rounded down twice, as the format does: a mirror comes out even.
        let charged_of_sector = USUAL_BYTES / (usual / SECTOR_BYTES);
        Self::new((self.get() / SECTOR_BYTES).saturating_mul(charged_of_sector))
    }
}

impl Default for Spread {
    fn default() -> Self {
        Self::PLAIN
    }
}
