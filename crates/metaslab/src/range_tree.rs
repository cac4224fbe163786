//! A set of bytes, kept as the fewest disjoint runs.
//!
//! Every statement about space in this crate (free, allocated in this txg, freed, resting)
//! is one of these sets. Adjacent runs always merge, so two equal sets are equal trees and
//! the number of runs measures fragmentation.
//!
//! Invariants
//! - Runs are disjoint, not adjacent, not empty; `bytes` is their sum.
//!   (test: `a_range_tree_equals_a_plain_set_of_sectors`)
//! - Adding what is there, or removing what is not, is a caller's broken promise: a panic, in
//!   release too. (tests: `adding_bytes_twice_panics`, `removing_absent_bytes_panics`)

use std::collections::BTreeMap;

use crate::segment::Segment;

/// A set of bytes as disjoint, non-adjacent runs in order of offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeTree {
    /// Start of each run, to its end.
    runs: BTreeMap<u64, u64>,
    bytes: u64,
}

/// What adding did to the runs: up to two neighbours gave way to one longer run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merge {
    pub(crate) gone: [Option<Segment>; 2],
    pub(crate) whole: Segment,
}

/// What removing did to the runs: one gave way to what is left on its two sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Split {
    pub(crate) whole: Segment,
    pub(crate) left: [Option<Segment>; 2],
}

impl RangeTree {
    /// The empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many bytes are in the set.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many runs they form.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Whether no byte is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The runs in order of offset.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Segment> + '_ {
        self.runs.iter().map(|(&start, &end)| Segment { start, end })
    }

    /// The run that contains byte `at`, or else the first one after it, and so on.
    pub fn iter_from(&self, at: u64) -> impl Iterator<Item = Segment> + '_ {
        let first = self.run_at(at).map_or(at, |run| run.start);
        self.runs.range(first..).map(|(&start, &end)| Segment { start, end })
    }

    /// The run that contains byte `at`.
    #[must_use]
    pub fn run_at(&self, at: u64) -> Option<Segment> {
        let (&start, &end) = self.runs.range(..=at).next_back()?;
        (at < end).then_some(Segment { start, end })
    }

    /// Whether all bytes of `segment` are in the set.
    #[must_use]
    pub fn covers(&self, segment: Segment) -> bool {
        self.run_at(segment.start).is_some_and(|run| run.covers(segment))
    }

    /// Whether any byte of `segment` is in the set.
    #[must_use]
    pub fn overlaps(&self, segment: Segment) -> bool {
        self.runs.range(..segment.end).next_back().is_some_and(|(_, &end)| segment.start < end)
    }

    /// Adds bytes.
    ///
    /// # Panics
    /// If any of them is in the set already.
    pub fn add(&mut self, segment: Segment) {
        let _ = self.merge(segment);
    }

    /// Removes bytes.
    ///
    /// # Panics
    /// If any of them is not in the set.
    pub fn remove(&mut self, segment: Segment) {
        let _ = self.split(segment);
    }

    /// Adds all of `other`, which must be disjoint; leaves it empty.
    ///
    /// # Panics
    /// If the two sets share a byte.
    pub fn absorb(&mut self, other: &mut Self) {
        if self.is_empty() {
            std::mem::swap(self, other);
            return;
        }
        for run in std::mem::take(other).iter() {
            self.add(run);
        }
    }

    pub(crate) fn merge(&mut self, segment: Segment) -> Merge {
        assert!(segment.start < segment.end, "an empty segment {segment:?}");
        // At most one run starts at or before our end and can reach us from the left, and
        // at most one starts exactly at our end: look at the last two up to there.
        let mut near = self.runs.range(..=segment.end).rev();
        let mut before = near.next().map(|(&start, &end)| Segment { start, end });
        let mut after = None;
        if before.is_some_and(|run| run.start == segment.end) {
            after = before;
            before = near.next().map(|(&start, &end)| Segment { start, end });
        }
        if let Some(run) = before {
            assert!(run.end <= segment.start, "adding {segment:?}, of which {run:?} is there already");
        }
        before = before.filter(|run| run.end == segment.start);
        let whole = Segment {
            start: before.map_or(segment.start, |run| run.start),
            end: after.map_or(segment.end, |run| run.end),
        };
        if let Some(run) = after {
            self.runs.remove(&run.start);
        }
        self.runs.insert(whole.start, whole.end);
        self.bytes += segment.len();
        Merge { gone: [before, after], whole }
    }

    pub(crate) fn split(&mut self, segment: Segment) -> Split {
        assert!(segment.start < segment.end, "an empty segment {segment:?}");
        let whole = self.run_at(segment.start).filter(|run| run.covers(segment));
        let Some(whole) = whole else { panic!("removing {segment:?}, not all of which is there") };
        let head = Segment::new(whole.start, segment.start - whole.start);
        let tail = Segment::new(segment.end, whole.end - segment.end);
        match head {
            Some(head) => self.runs.insert(head.start, head.end),
            None => self.runs.remove(&whole.start),
        };
        if let Some(tail) = tail {
            self.runs.insert(tail.start, tail.end);
        }
        self.bytes -= segment.len();
        Split { whole, left: [head, tail] }
    }
}

impl FromIterator<Segment> for RangeTree {
    /// The set of all these bytes.
    ///
    /// # Panics
    /// If two of the segments share a byte.
    fn from_iter<I: IntoIterator<Item = Segment>>(segments: I) -> Self {
        let mut tree = Self::new();
        segments.into_iter().for_each(|segment| tree.add(segment));
        tree
    }
}
