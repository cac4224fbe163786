//! Which runs are copied as one: each such span is one entry of the mapping, and in one piece where it goes.
//!
//! ```text
//!   left     ▓▓▓▓░▓▓░░▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░░░░░▓▓▓
//!   spans    └─ 1 ──┘ └──── 2 ────┘└─ 3 ─┘          └4┘
//! ```
//! Small gaps are copied along, so that the mapping is short. A run is cut only where it alone is longer than a span may
//! be. No span leaves its metaslab: that is so in every mapping that OpenZFS makes, and its `zdb` counts on it. What a gap takes where the span goes is given back after the copying, and counts as obsolete from the beginning.

use std::collections::VecDeque;
use std::ops::Range;

use metaslab::Segment;
use ondisk::indirect::ENTRY_BYTES;

/// A span is no longer: a run of free space as long has to be found for it (`zfs_remove_max_segment`).
pub const SPAN_MAX_BYTES: u64 = 16 << 20;
/// Longer gaps are not copied along (`vdev_removal_max_span`).
const GAP_MAX_BYTES: u64 = 32 << 10;

/// Runs that are copied as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// In order; the span begins with the first and ends with the last.
    runs: Vec<Segment>,
}

impl Span {
    /// From where to where it is.
    #[must_use]
    pub fn whole(&self) -> Segment {
        let (first, last) = (self.runs.first(), self.runs.last());
        let (first, last) = first.zip(last).expect("a span has runs");
        Segment { start: first.start, end: last.end }
    }

    /// The runs within some bytes of it, counted from where these begin.
    #[must_use]
    pub fn live_in(&self, part: Segment) -> Vec<Range<usize>> {
        let within = |run: &Segment| (run.start.max(part.start), run.end.min(part.end));
        let runs = self.runs.iter().map(within).filter(|(start, end)| start < end);
        let at = |offset: u64| usize::try_from(offset - part.start).expect("a span is short");
        runs.map(|(start, end)| at(start)..at(end)).collect()
    }

    /// What lies between its runs.
    pub fn gaps(&self) -> impl Iterator<Item = Segment> + '_ {
        self.runs.windows(2).filter_map(|two| Segment::new(two[0].end, two[1].start - two[0].end))
    }
}

/// What is left to be copied, in order.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    runs: VecDeque<Segment>,
    /// Base-2 logarithm of a metaslab's size.
    ms_shift: u8,
}

impl Plan {
    /// For these runs, in order, none of which leaves its metaslab.
    #[must_use]
    pub fn new(runs: Vec<Segment>, ms_shift: u8) -> Self {
        Self { runs: runs.into(), ms_shift }
    }

    /// The next span, of at most `max` bytes.
    pub fn next(&mut self, max: u64) -> Option<Span> {
        let first = self.runs.pop_front()?;
        if first.len() > max {
            let cut = first.start + max;
            self.runs.push_front(Segment { start: cut, ..first });
            return Some(Span { runs: vec![Segment { end: cut, ..first }] });
        }
        let (start, mut end, mut runs) = (first.start, first.end, vec![first]);
        while let Some(run) = self.runs.front() {
            let (is_near, fits) = (run.start - end <= GAP_MAX_BYTES, run.end - start <= max);
            let is_beside = run.start >> self.ms_shift == start >> self.ms_shift;
            if !is_near || !fits || !is_beside {
                break;
            }
            end = run.end;
            match runs.last_mut().filter(|last| last.end == run.start) {
                Some(last) => last.end = run.end,
                None => runs.push(*run),
            }
            self.runs.pop_front();
        }
        Some(Span { runs })
    }

    /// Takes back the span that was given last.
    pub fn put_back(&mut self, span: Span) {
        span.runs.into_iter().rev().for_each(|run| self.runs.push_front(run));
    }
}

/// How much memory the mapping of a vdev takes on which so much is left, in metaslabs of that size.
#[must_use]
pub fn mapping_bytes(left: Vec<Segment>, ms_shift: u8) -> u64 {
    let mut plan = Plan::new(left, ms_shift);
    let spans = std::iter::from_fn(|| plan.next(SPAN_MAX_BYTES)).count();
    spans as u64 * ENTRY_BYTES as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const SECTOR: u64 = 512;
    /// Metaslabs of 256 KiB.
    const SHIFT: u8 = 18;

    fn run(start: u64, sectors: u64) -> Segment {
        Segment { start: start * SECTOR, end: (start + sectors) * SECTOR }
    }

    fn sectors(runs: &[Segment]) -> BTreeSet<u64> {
        runs.iter().flat_map(|run| (run.start..run.end).step_by(SECTOR as usize)).collect()
    }

    proptest! {
        #[test]
        fn spans_hold_every_byte_once_and_no_more_than_they_may(
            steps in prop::collection::vec((0_u64..200, 1_u64..300), 0..60),
            max in 1_u64..400,
            put_back in any::<u64>(),
        ) {
            let mut at = 0;
            let runs: Vec<Segment> = steps.iter().flat_map(|&(gap, len)| {
                let made = run(at + gap, len);
                at += gap + len;
                // As metaslabs tell of what is left on them.
                let border = (made.end - 1) >> SHIFT << SHIFT;
                let parts = [(made.start, border.max(made.start)), (border.max(made.start), made.end)];
                parts.into_iter().filter_map(|(start, end)| Segment::new(start, end - start))
            }).collect();
            let (mut plan, mut copied, mut end, mut turn) = (Plan::new(runs.clone(), SHIFT), Vec::new(), 0, 0);
            while let Some(span) = plan.next(max * SECTOR) {
                turn += 1;
                if put_back >> (turn % 64) & 1 == 1 && max > 1 {
                    plan.put_back(span.clone());
                    let shorter = plan.next(SECTOR).expect("it is back");
                    prop_assert_eq!(shorter.whole().start, span.whole().start);
                    plan.put_back(shorter);
                    let again = plan.next(max * SECTOR).expect("it is back");
                    prop_assert_eq!(again.whole().start, span.whole().start);
                    plan.put_back(again);
                    plan.next(max * SECTOR);
                }
                let whole = span.whole();
                prop_assert!(whole.len() <= max * SECTOR && whole.start >= end);
                prop_assert_eq!(whole.start >> SHIFT, (whole.end - 1) >> SHIFT, "in one metaslab");
                prop_assert!(span.gaps().all(|gap| gap.len() <= GAP_MAX_BYTES));
                let gaps: u64 = span.gaps().map(Segment::len).sum();
                let live: usize = span.live_in(whole).iter().map(ExactSizeIterator::len).sum();
                prop_assert_eq!(live as u64 + gaps, whole.len());
                end = whole.end;
                copied.extend(span.runs);
            }
            prop_assert_eq!(sectors(&copied), sectors(&runs));
            let sum: u64 = copied.iter().map(|run| run.len()).sum();
            prop_assert_eq!(sum, runs.iter().map(|run| run.len()).sum::<u64>());
        }
    }

    #[test]
    fn small_gaps_are_copied_along_and_runs_are_cut_only_if_they_must() {
        let mut plan = Plan::new(vec![run(0, 4), run(6, 2), run(8, 40), run(48 + 65, 3)], 30);
        let mut next = |max: u64| plan.next(max * SECTOR).map(|span| span.runs);
        assert_eq!(next(30), Some(vec![run(0, 4), run(6, 2)]), "the next does not fit, and is not cut");
        assert_eq!(next(30), Some(vec![run(8, 30)]), "this one has to be");
        assert_eq!(next(30), Some(vec![run(38, 10)]), "the gap is too long");
        assert_eq!(next(30), Some(vec![run(113, 3)]));
        assert_eq!(next(30), None);
    }

    #[test]
    fn parts_of_a_span_know_what_of_them_counts() {
        let span = Span { runs: vec![run(10, 4), run(16, 4), run(30, 1)] };
        assert_eq!(span.live_in(run(10, 21)), [0..2048, 3072..5120, 10240..10752]);
        assert_eq!(span.live_in(run(12, 5)), [0..1024, 2048..2560]);
        assert_eq!(span.live_in(run(20, 10)), []);
        assert_eq!(mapping_bytes(vec![run(10, 4), run(16, 4), run(100, 1)], 30), 48);
    }
}
