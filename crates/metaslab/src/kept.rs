//! What a pool's checkpoint still needs of a metaslab, though the pool itself has freed it.
//!
//! ```text
//!   allocated ──keep──► unnoted ──take──► noted ──release(txg)──► freed by txg, rests
//!                  (txg being synced)  (vdev's map of kept space)
//! ```
//! Kept bytes stay allocated in the metaslab's own space map, so that nobody who knows nothing of the checkpoint hands
//! them out. What the pool has freed is told by one map for each vdev, and only by that.

use crate::{
    change::{Change, ChangeKind},
    range_tree::RangeTree,
    segment::Segment,
};

/// The kept bytes of one metaslab.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The vdev's map of kept space has them.
    noted: RangeTree,
    /// Kept by the txg being synced, and not yet taken for that map.
    unnoted: RangeTree,
}

impl Kept {
    pub(crate) fn bytes(&self) -> u64 {
        self.noted.bytes() + self.unnoted.bytes()
    }

    pub(crate) fn overlaps(&self, segment: Segment) -> bool {
        self.noted.overlaps(segment) || self.unnoted.overlaps(segment)
    }

    /// Whether the map of kept space has all these bytes.
    pub(crate) fn has_noted(&self, segment: Segment) -> bool {
        self.noted.covers(segment)
    }

    pub(crate) fn is_all_noted(&self) -> bool {
        self.unnoted.is_empty()
    }

    pub(crate) fn keep(&mut self, segment: Segment) {
        assert!(!self.noted.overlaps(segment), "keeping {segment:?}, of which some is kept already");
        self.unnoted.add(segment);
    }

    /// What the map of kept space has said since a former run of the program.
    pub(crate) fn load(&mut self, segment: Segment) {
        self.noted.add(segment);
    }

    /// All of them.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Segment> + '_ {
        self.noted.iter().chain(self.unnoted.iter())
    }

    /// What the map of kept space is to be told.
    pub(crate) fn take(&mut self) -> Vec<Change> {
        let runs: Vec<_> = self.unnoted.iter().map(|run| Change::new(ChangeKind::Free, run)).collect();
        self.noted.absorb(&mut self.unnoted);
        runs
    }

    pub(crate) fn release(&mut self, segment: Segment) {
        self.noted.remove(segment);
    }
}
