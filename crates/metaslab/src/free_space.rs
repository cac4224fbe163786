//! Free bytes of one metaslab, found by place or by size.
//!
//! A [`RangeTree`] answers "what is free here"; beside it the same runs are ordered by length,
//! which answers "what fits best" and "what is the longest". The two say the same at all times.
//! (test: `free_space_finds_the_best_fit_and_the_longest_run`)

use std::collections::BTreeSet;

use crate::{histogram::Histogram, range_tree::RangeTree, segment::Segment};

/// The free runs of a metaslab, by offset and by length.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeSpace {
    by_offset: RangeTree,
    /// (length, start) of each run.
    by_length: BTreeSet<(u64, u64)>,
    histogram: Histogram,
}

impl FreeSpace {
    pub(crate) fn bytes(&self) -> u64 {
        self.by_offset.bytes()
    }

    pub(crate) fn histogram(&self) -> &Histogram {
        &self.histogram
    }

    pub(crate) fn tree(&self) -> &RangeTree {
        &self.by_offset
    }

    /// Length of the longest run; 0 if nothing is free.
    pub(crate) fn longest_bytes(&self) -> u64 {
        self.by_length.last().map_or(0, |&(len, _)| len)
    }

    /// The longest run, the last of them by offset.
    pub(crate) fn longest(&self) -> Option<Segment> {
        self.by_length.last().and_then(|&(len, start)| Segment::new(start, len))
    }

    /// The shortest run that holds `len` bytes, the first of them by offset.
    pub(crate) fn best_fit(&self, len: u64) -> Option<Segment> {
        self.by_length.range((len, 0)..).next().and_then(|&(len, start)| Segment::new(start, len))
    }

    pub(crate) fn add(&mut self, segment: Segment) {
        let merge = self.by_offset.merge(segment);
        merge.gone.into_iter().flatten().for_each(|run| self.unlist(run));
        self.list(merge.whole);
    }

    pub(crate) fn remove(&mut self, segment: Segment) {
        let split = self.by_offset.split(segment);
        self.unlist(split.whole);
        split.left.into_iter().flatten().for_each(|run| self.list(run));
    }

    fn list(&mut self, run: Segment) {
        self.by_length.insert((run.len(), run.start));
        self.histogram.add(run);
    }

    fn unlist(&mut self, run: Segment) {
        let listed = self.by_length.remove(&(run.len(), run.start));
        assert!(listed, "{run:?} is free, but not listed by length");
        self.histogram.remove(run);
    }
}

impl From<RangeTree> for FreeSpace {
    fn from(by_offset: RangeTree) -> Self {
        let mut histogram = Histogram::default();
        by_offset.iter().for_each(|run| histogram.add(run));
        let by_length = by_offset.iter().map(|run| (run.len(), run.start)).collect();
        Self { by_offset, by_length, histogram }
    }
}
