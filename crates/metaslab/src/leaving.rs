//! What is left on a vdev that is being emptied: blocks are freed there, and none comes.
//!
//! ```text
//!  allocated   ▓▓▓▓▓░░▓▓▓░░░░▓▓▓▓▓▓▓░░▓▓
//!                  └─ from here: ▓  ▓▓▓    ▓▓▓▓▓▓▓  …  as many runs as hold so many bytes
//! ```
//! What a txg has freed is not left, whether or not the txg is stable: the uberblocks of older ones lead to the vdev
//! itself.

use units::VdevId;

use crate::{Allocator, Metaslab, Segment};

impl Allocator {
    /// The runs of a vdev that are allocated and not freed, from `from` on and in order: the first `bytes` bytes, which
    /// are whole sectors. No run leaves its metaslab. None if there is no such vdev.
    #[must_use]
    pub fn left_on(&self, vdev: VdevId, from: u64, bytes: u64) -> Vec<Segment> {
        let (mut runs, mut wanted) = (Vec::new(), bytes);
        for metaslab in self.metaslabs(vdev).iter().filter(|metaslab| metaslab.bounds().end > from) {
            for run in metaslab.left_from(from) {
                let Some(part) = Segment::new(run.start, run.len().min(wanted)) else { return runs };
                wanted -= part.len();
                runs.push(part);
            }
        }
        runs
    }

    /// How many bytes that are.
    #[must_use]
    pub fn bytes_left_on(&self, vdev: VdevId, from: u64) -> u64 {
        let left = |metaslab: &Metaslab| match metaslab.bounds() {
            bounds if bounds.start >= from => metaslab.figures().allocated.get(),
            bounds if bounds.end <= from => 0,
            _ => metaslab.left_from(from).map(Segment::len).sum(),
        };
        self.metaslabs(vdev).iter().map(left).sum()
    }
}

impl Metaslab {
    fn left_from(&self, from: u64) -> impl Iterator<Item = Segment> {
        let runs = self.allocated_runs().into_iter().filter(move |run| run.end > from);
        runs.map(move |run| Segment { start: run.start.max(from), ..run })
    }
}
