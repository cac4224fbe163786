//! Free bytes that nobody is given for a while, because something is done to them that is no block: a device is
//! told to forget them, or is written a pattern there.
//!
//! ```text
//!            hold_free                            given back
//!   free ───────────────► held: written, discarded ─────────► free
//! ```
//! Held bytes are free in every figure, for nobody's room becomes less by it. They are only not found by who looks
//! for room, for a moment. Neither a txg nor an import knows of them.
//!
//! Invariants
//! - What is held is free, and is not handed out until it is given back.
//!   (test: `what_is_held_is_free_and_handed_out_to_nobody`)
//! - Who goes on where the last run ended, until there is no more, has held every byte that was free all the time.
//!   (test: `who_holds_one_run_after_the_other_sees_all_that_is_free`)

use units::{Asize, VdevId, VdevOffset};

use crate::{Allocator, Segment, vdev::Vdev};

/// What comes next for somebody who goes through a vdev's free bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextFree {
    /// These bytes, which are held now.
    Held(Segment),
    /// Somebody else holds the next free bytes: these.
    Busy(Segment),
    /// Nothing is free from there to the end.
    None,
}

impl Allocator {
    /// Holds the next free bytes of a vdev from `from` on, `max` at most; none of a vdev that there is not.
    ///
    /// # Panics
    /// If `max` is 0.
    pub fn hold_free(&mut self, vdev: VdevId, from: VdevOffset, max: u64) -> NextFree {
        assert!(max > 0, "no bytes are held");
        self.vdev_mut(vdev).map_or(NextFree::None, |vdev| vdev.hold_free(from.get(), max))
    }

    /// Gives back what was held. A vdev that has gone meanwhile has nothing to take back.
    ///
    /// # Panics
    /// If it was not held.
    pub fn give_back(&mut self, vdev: VdevId, held: Segment) {
        if let Ok(vdev) = self.vdev_mut(vdev) {
            vdev.give_back(held);
        }
    }

    /// Bytes of a vdev that are free before `at`, and all that are free.
    #[must_use]
    pub fn free_before(&self, vdev: VdevId, at: VdevOffset) -> (Asize, Asize) {
        let metaslabs = self.metaslabs(vdev).iter();
        let parts = metaslabs.map(|metaslab| (metaslab.free_before(at.get()), metaslab.figures().free.get()));
        let (before, all) = parts.fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        (Asize::new(before), Asize::new(all))
    }
}

impl Vdev {
    fn hold_free(&mut self, from: u64, max: u64) -> NextFree {
        let first = usize::try_from(from >> self.config().ms_shift).unwrap_or(usize::MAX);
        let metaslabs = self.metaslabs_mut().iter_mut().skip(first);
        let found = metaslabs.map(|metaslab| metaslab.hold_free(from, max));
        found.into_iter().find(|next| *next != NextFree::None).unwrap_or(NextFree::None)
    }

    fn give_back(&mut self, held: Segment) {
        let index = (held.start >> self.config().ms_shift) as usize;
        self.metaslabs_mut()[index].give_back(held);
    }
}
