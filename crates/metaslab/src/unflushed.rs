//! What has happened to a metaslab since its own space map was last written.
//!
//! A pool that logs space maps writes one log for all metaslabs in a txg, and each metaslab's own
//! map only now and then. Between the two stands the difference: what a reader of the own
//! map has to take away from the free space, and what to give back. A byte that was allocated and
//! freed since, or the other way round, is in neither.
//! (test: `unflushed_changes_say_what_all_logged_changes_said`)

use crate::{
    change::{Change, ChangeKind},
    range_tree::RangeTree,
    segment::Segment,
};

/// The net changes of one metaslab that its own space map does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unflushed {
    allocs: RangeTree,
    frees: RangeTree,
}

impl Unflushed {
    /// Nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the own map says it all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.allocs.is_empty() && self.frees.is_empty()
    }

    /// How many runs are remembered.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.allocs.runs() + self.frees.runs()
    }

    /// One more change. Says no, with nothing changed that counts, to one that allocates what was
    /// allocated since, or frees what was freed since: a damaged log.
    #[must_use]
    pub fn apply(&mut self, change: &Change) -> bool {
        let Some(segment) = Segment::new(change.offset.get(), change.len.get()) else { return false };
        match change.kind {
            ChangeKind::Alloc => cancel_or_add(segment, &mut self.frees, &mut self.allocs),
            ChangeKind::Free => cancel_or_add(segment, &mut self.allocs, &mut self.frees),
        }
    }

    /// The changes, in order of offset, allocations first. No two overlap.
    pub fn changes(&self) -> impl Iterator<Item = Change> + '_ {
        let allocs = self.allocs.iter().map(|run| Change::new(ChangeKind::Alloc, run));
        allocs.chain(self.frees.iter().map(|run| Change::new(ChangeKind::Free, run)))
    }

    /// Bytes that the own map counts too few as allocated; negative: too many.
    #[must_use]
    pub fn allocated_bytes(&self) -> i64 {
        self.allocs.bytes() as i64 - self.frees.bytes() as i64
    }
}

/// Bytes of `segment` that are in `opposite` go from there, the others come to `own`.
fn cancel_or_add(segment: Segment, opposite: &mut RangeTree, own: &mut RangeTree) -> bool {
    if own.overlaps(segment) {
        return false;
    }
    let cancelled: Vec<Segment> = opposite
        .iter_from(segment.start)
        .take_while(|run| run.start < segment.end)
        .map(|run| Segment { start: run.start.max(segment.start), end: run.end.min(segment.end) })
        .collect();
    let mut at = segment.start;
    for run in cancelled {
        opposite.remove(run);
        if let Some(before) = Segment::new(at, run.start - at) {
            own.add(before);
        }
        at = run.end;
    }
    if let Some(rest) = Segment::new(at, segment.end - at) {
        own.add(rest);
    }
    true
}
