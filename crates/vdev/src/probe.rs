//! How long a vdev takes to write, asked without writing anything new.
//!
//! ```text
//!   0       512K                                     4M
//!   │ labels │ kept free for a boot loader  ..[last] │ blocks ...
//!                                             └── read, and written once more as it is
//! ```
//! Between its first two labels and its blocks the format keeps 3.5 MiB of each leaf free (`VDEV_BOOT_SIZE`), which no pool uses.
//! The last sectors of that are written with what is there already: whoever has put something there finds it, torn or not.
//!
//! Invariants
//! - Nothing on a device is changed by it. (test: `who_asks_how_long_a_write_takes_changes_nothing`)

use std::time::Duration;

use env::{BufSlice, Durability, boxed};
use parking_lot::Mutex;
use units::{LABEL_START_BYTES, LeafOffset};

use crate::{Leaf, Top, VdevError};

/// What is written, at least.
const PROBE_BYTES: u64 = 4096;

impl Top {
    /// How long a small stable write takes on the slowest of its usable leaves; `None` when none could be read first.
    ///
    /// # Errors
    /// As [`Self::write`], and with the same consequences.
    #[boxed]
    pub async fn time_write(&self) -> Result<Option<Duration>, VdevError> {
        let longest = Mutex::new(None);
        self.on_all(|leaf| self.rewrite(leaf, &longest)).await?;
        Ok(longest.into_inner())
    }

    /// Writes the last sectors before the blocks as they are; takes note if that took the longest.
    async fn rewrite(&self, leaf: &Leaf, longest: &Mutex<Option<Duration>>) -> Result<(), VdevError> {
        let len = self.ashift().round_up(PROBE_BYTES);
        let place = LeafOffset::new(LABEL_START_BYTES.saturating_sub(len));
        // Who cannot be read may still be written to, but with what?
        let Ok(bytes) = leaf.read(place, len as usize).await else { return Ok(()) };
        let begun = self.env.now();
        leaf.write(place, vec![BufSlice::from(bytes)], Durability::Stable).await?;
        let took = self.env.now().saturating_sub(begun);
        let mut longest = longest.lock();
        *longest = (*longest).max(Some(took));
        Ok(())
    }
}
