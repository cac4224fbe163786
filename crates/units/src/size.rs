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
}
