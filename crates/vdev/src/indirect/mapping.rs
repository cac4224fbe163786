//! Where a removed vdev's space was copied to.

use ondisk::Dva;
use ondisk::indirect::{ENTRY_BYTES, Entry};
use units::VdevOffset;

use super::Run;

/// The mapping of a removed vdev: runs of its space in order, none of which overlaps another.
#[derive(Clone, Debug, Default)]
pub struct Mapping {
    entries: Vec<Entry>,
}

/// The end of a run on the removed vdev.
fn end(entry: &Entry) -> Option<u64> {
    entry.source.get().checked_add(entry.target.asize.get())
}

impl Mapping {
    /// From the entries of a vdev of that size. `None` when they are out of order, overlap, or lie beyond its end.
    #[must_use]
    pub fn new(entries: Vec<Entry>, asize: u64) -> Option<Self> {
        let mut mapped_to = 0;
        for entry in &entries {
            let end = end(entry).filter(|end| *end <= asize)?;
            if entry.source.get() < mapped_to || entry.target.asize.get() == 0 {
                return None;
            }
            mapped_to = end;
        }
        Some(Self { entries })
    }

    /// Appends runs.
    ///
    /// # Panics
    /// When they do not follow those that it has, in order.
    pub fn extend(&mut self, entries: impl IntoIterator<Item = Entry>) {
        for entry in entries {
            assert!(entry.source.get() >= self.end(), "a mapping grows in the order of what was copied");
            self.entries.push(entry);
        }
    }

    /// Where its last run ends on the removed vdev: nothing behind is mapped.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.entries.last().and_then(end).unwrap_or(0)
    }

    /// How much memory it takes, as OpenZFS counts that.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.entries.len() as u64 * ENTRY_BYTES as u64
    }

    /// Its runs, in the order of where they were.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Its runs as they are where they were copied to, in order.
    pub(super) fn targets(&self) -> Vec<Run> {
        let target = |entry: &Entry| {
            let Dva { vdev, offset, asize, .. } = entry.target;
            Run { vdev, offset, len: asize.get() }
        };
        let mut targets: Vec<Run> = self.entries.iter().map(target).collect();
        targets.sort_unstable();
        targets
    }

    /// Where `len` bytes were copied to, in order. `None` unless all of them were.
    #[must_use]
    pub fn pieces(&self, offset: VdevOffset, len: u64) -> Option<Vec<Run>> {
        let (mut from, to) = (offset.get(), offset.get().checked_add(len)?);
        let mut pieces = Vec::new();
        let first = self.entries.partition_point(|entry| end(entry).is_some_and(|end| end <= from));
        for entry in &self.entries[first..] {
            if from == to {
                break;
            }
            let within = from.checked_sub(entry.source.get())?;
            let here = (to - from).min(entry.target.asize.get() - within);
            let target = entry.target.offset.get().checked_add(within)?;
            pieces.push(Run { vdev: entry.target.vdev, offset: VdevOffset::new(target), len: here });
            from += here;
        }
        (from == to).then_some(pieces)
    }
}
