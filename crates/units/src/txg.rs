//! Transaction groups.

use crate::newtype;

/// Transaction groups that can be under way at once: open, quiescing, syncing.
pub const TXG_CONCURRENT_STATES: u64 = 3;
/// Slots of per-txg state: a power of two above [`TXG_CONCURRENT_STATES`].
pub const TXG_SLOTS: usize = 4;
/// Groups for which freed space rests before it is used again, so that the
/// uberblocks of the last few groups stay importable.
pub const TXG_DEFER: u64 = 2;
/// The first group of a new pool.
pub const TXG_INITIAL: Txg = Txg::new(4);

newtype! {
    /// Number of a transaction group: all changes that become stable together.
    Txg(u64)
}

impl Txg {
    /// "None yet", as the format writes it.
    pub const ZERO: Self = Self::new(0);

    /// The following group.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.get() + 1)
    }

    /// The preceding group; stays at zero.
    #[must_use]
    pub const fn prev(self) -> Self {
        Self::new(self.get().saturating_sub(1))
    }

    /// Which of the [`TXG_SLOTS`] slots of per-txg state is this group's.
    #[must_use]
    pub const fn slot(self) -> usize {
        (self.get() & (TXG_SLOTS as u64 - 1)) as usize
    }
}
