//! A removed top-level vdev: its blocks were copied to others, and their DVAs stay as they were.
//!
//! ```text
//!   DVA <1:3000:1800>         mapping of vdev 1                  vdev 0, in use
//!                             2000, 2000 long ─► 0:91000  ─►     92000, 1000 long
//!                             4000, 2800 long ─► 2:6000          mapping of vdev 2, removed later
//!                                                         ─►     6000, 2000 long ─► 0:f3000
//! ```
//! Data were copied run by run, whatever blocks they are of: a block may be in pieces now, and a piece may have been
//! copied again when the vdev that took it was removed, too. Nothing tells whether a piece is right but the checksum of
//! the whole block.
//!
//! Invariants
//! - The pieces of a block are all of it, in order, and none of them is on a removed vdev.
//!   (test: `the_pieces_of_a_run_are_all_of_it_in_order`)
//! - However mappings lead on, into circles or nowhere, looking for the pieces ends.
//!   (tests: `mappings_in_a_circle_are_an_error`, `what_is_not_mapped_is_an_error`)

mod io;
mod mapping;
mod removed;
#[cfg(test)]
mod tests;

use ondisk::Dva;
use units::{Asize, Txg, VdevId, VdevOffset};

pub use mapping::Mapping;
pub use removed::{Removed, RemovedConfig};

use crate::{Address, VdevError};

/// A run of bytes on a top-level vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// Which vdev.
    pub vdev: VdevId,
    /// Where on it.
    pub offset: VdevOffset,
    /// How many bytes.
    pub len: u64,
}

impl Run {
    /// The error of something that is mapped to nowhere, or in a circle.
    pub(crate) fn unmapped(self) -> VdevError {
        VdevError::Unmapped { vdev: self.vdev, offset: self.offset, len: self.len }
    }

    pub(crate) const fn address(self, born: Txg) -> Address {
        Address { vdev: self.vdev, offset: self.offset, born }
    }

    /// How long it is, in memory.
    pub(crate) fn bytes(self) -> usize {
        usize::try_from(self.len).expect("a piece of a block that is in memory")
    }

    /// The same as an allocation.
    #[must_use]
    pub fn dva(self) -> Dva {
        Dva { vdev: self.vdev, offset: self.offset, asize: Asize::new(self.len), gang: false }
    }
}

/// Where a run is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Located {
    /// On vdevs that are in use: the run's bytes, in order.
    pub pieces: Vec<Run>,
    /// On removed vdevs: the run itself if it is on one, and what its pieces were there on their way.
    pub passed: Vec<Run>,
}

impl Located {
    /// Follows mappings until every piece is on a vdev that is in use; `mapping_of` says which vdevs are removed, of
    /// which there are no more than `removed`, and has their mappings if they were read.
    ///
    /// # Errors
    /// [`VdevError::Unmapped`] where a mapping has nothing of a piece, or mappings go in a circle.
    pub(crate) fn find<'a>(
        run: Run,
        removed: usize,
        mapping_of: impl Fn(VdevId) -> Option<Option<&'a Mapping>>,
    ) -> Result<Self, VdevError> {
        let mut found = Self::default();
        // The next piece is the last. A chain of mappings that visits no vdev twice is no longer than there are
        // removed vdevs.
        let mut ahead = vec![(run, 0)];
        while let Some((run, steps)) = ahead.pop() {
            let Some(mapping) = mapping_of(run.vdev) else {
                found.pieces.push(run);
                continue;
            };
            if steps >= removed {
                return Err(run.unmapped());
            }
            let pieces = mapping.and_then(|mapping| mapping.pieces(run.offset, run.len));
            let mut pieces = pieces.ok_or_else(|| run.unmapped())?;
            pieces.reverse();
            ahead.extend(pieces.into_iter().map(|piece| (piece, steps + 1)));
            found.passed.push(run);
        }
        Ok(found)
    }
}
