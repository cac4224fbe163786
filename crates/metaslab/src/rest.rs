//! For how many txgs freed bytes rest: before they are handed out again, and before a device may forget them.
//!
//! A build with the feature `planted`, which only tests have, can be told to wait too short. What such a pool
//! leaves on its disks is what tests of crashes are there to find.
//! (tests: `a_planted_early_reuse_is_found`, `a_planted_early_discard_is_found`)

use units::TXG_DEFER;

#[cfg(feature = "planted")]
mod planted {
    use std::cell::Cell;

    use super::TXG_DEFER;

    thread_local! {
        static RESTS: Cell<(u64, u64)> = const { Cell::new((TXG_DEFER, TXG_DEFER)) };
    }

    pub(super) fn rests() -> (u64, u64) {
        RESTS.get()
    }

    /// From now on, in this thread, freed bytes are used again and discarded after so many txgs.
    pub fn plant_rests(before_reuse: u64, before_discard: u64) {
        RESTS.set((before_reuse, before_discard));
    }
}

#[cfg(feature = "planted")]
pub use planted::plant_rests;

#[cfg(feature = "planted")]
fn rests() -> (u64, u64) {
    planted::rests()
}

#[cfg(not(feature = "planted"))]
const fn rests() -> (u64, u64) {
    (TXG_DEFER, TXG_DEFER)
}

/// So many txgs after the one that freed them are stable before bytes are handed out again.
pub(crate) fn before_reuse() -> u64 {
    rests().0
}

/// So many txgs after the one that freed them, bytes may be discarded beside the writing of the last of these.
pub(crate) fn before_discard() -> u64 {
    rests().1
}
