//! One metaslab: which of its bytes are free, in use, resting, or kept for a checkpoint.
//!
//! Each txg that is not yet done keeps three sets of its own:
//! - `allocs`: allocated by it and not yet taken for the space map;
//! - `frees`: freed by it and not yet taken;
//! - `freed`: freed by it, and the space map knows (or never heard of the allocation).
//!
//! A block allocated and freed in one txg before anything was taken is in no record: it goes from
//! `allocs` to `freed`. It rests like every other all the same, since a log block that lived
//! so short may be part of a chain that an older uberblock leads to.
//! (test: `space_freed_in_the_txg_that_allocated_it_leaves_no_record_but_rests`)

use std::collections::VecDeque;

use units::{Ashift, Asize, Txg, VdevId, VdevOffset};

use crate::{
    change::{Change, ChangeKind, MetaslabId},
    error::SpaceError,
    figures::SpaceFigures,
    free_space::FreeSpace,
    held::NextFree,
    histogram::{HISTOGRAM_BUCKETS, Histogram},
    kept::Kept,
    placement::{Placement, Streams},
    range_tree::RangeTree,
    rest,
    segment::Segment,
};

/// A txg's dealings with a metaslab.
#[derive(Debug)]
struct Pending {
    txg: Txg,
    allocs: RangeTree,
    frees: RangeTree,
    freed: RangeTree,
}

/// A slice of a vdev, with all that is known of its bytes.
#[derive(Debug)]
pub struct Metaslab {
    vdev: VdevId,
    id: MetaslabId,
    ashift: Ashift,
    bounds: Segment,
    free: FreeSpace,
    /// Free, but held back while somebody writes there what is no block.
    held: RangeTree,
    /// In order of txg; a handful at most.
    pending: Vec<Pending>,
    /// Freed by txgs that are done, oldest first.
    resting: VecDeque<(Txg, RangeTree)>,
    kept: Kept,
    allocated_bytes: u64,
    resting_bytes: u64,
    /// What the space map says is allocated, after all changes taken.
    recorded_bytes: u64,
    /// Whether there is a space map, or will be once the changes taken are written.
    recorded: bool,
    /// Whether anything was allocated or freed since the pool was opened.
    touched: bool,
    /// True if the contents of the space map are unknown, see [`Self::seal`].
    sealed: bool,
    /// Once the longest run is shorter than this, another metaslab may be better.
    pub(crate) leave_below_bytes: u64,
    placement: Placement,
}

impl Metaslab {
    /// All free, and no space map yet. Every place in it is a multiple of `unit_bytes`.
    pub(crate) fn new(
        vdev: VdevId,
        id: MetaslabId,
        ashift: Ashift,
        bounds: Segment,
        unit_bytes: u64,
    ) -> Self {
        Self {
            vdev,
            id,
            ashift,
            bounds,
            free: RangeTree::from_iter([bounds]).into(),
            held: RangeTree::new(),
            pending: Vec::new(),
            resting: VecDeque::new(),
            kept: Kept::default(),
            allocated_bytes: 0,
            resting_bytes: 0,
            recorded_bytes: 0,
            recorded: false,
            touched: false,
            sealed: false,
            leave_below_bytes: 0,
            placement: Placement::new(unit_bytes),
        }
    }

    /// The bytes of the vdev that are this metaslab's.
    #[must_use]
    pub fn bounds(&self) -> Segment {
        self.bounds
    }

    /// How full it is.
    #[must_use]
    pub fn figures(&self) -> SpaceFigures {
        SpaceFigures {
            capacity: Asize::new(self.bounds.len()),
            free: Asize::new(self.free_bytes()),
            allocated: Asize::new(self.allocated_bytes),
            resting: Asize::new(self.resting_bytes),
            kept: Asize::new(self.kept.bytes()),
        }
    }

    /// Runs of free bytes, in order of place; but for held ones.
    pub fn free_runs(&self) -> impl Iterator<Item = Segment> + '_ {
        self.free.tree().iter()
    }

    /// Free bytes, held ones too.
    fn free_bytes(&self) -> u64 {
        self.free.bytes() + self.held.bytes()
    }

    /// Free bytes before `at`, held ones too.
    #[must_use]
    pub fn free_before(&self, at: u64) -> u64 {
        if self.bounds.end <= at {
            return self.free_bytes();
        }
        let before = |tree: &RangeTree| -> u64 {
            tree.iter().take_while(|run| run.start < at).map(|run| run.end.min(at) - run.start).sum()
        };
        before(self.free.tree()) + before(&self.held)
    }

    /// Bytes that its space map says are allocated, after the changes taken so far: what
    /// `smp_alloc` has to say.
    #[must_use]
    pub fn recorded_allocated(&self) -> Asize {
        Asize::new(self.recorded_bytes)
    }

    /// Whether it has a space map on disk, or changes were taken that want one.
    #[must_use]
    pub fn has_space_map(&self) -> bool {
        self.recorded
    }

    /// Longest run that could be handed out now.
    #[must_use]
    pub fn longest_free_run(&self) -> Asize {
        Asize::new(self.free.longest_bytes())
    }

    /// Runs of bytes that its space map says are free, by size: resting ones included, but
    /// without those that a txg yet to sync has allocated.
    #[must_use]
    pub fn histogram(&self) -> Histogram {
        let mut histogram = self.free.histogram().clone();
        let kept_back = self.pending.iter().map(|pending| &pending.freed).chain([&self.held]);
        for tree in kept_back.chain(self.resting.iter().map(|(_, tree)| tree)) {
            tree.iter().for_each(|run| histogram.add(run));
        }
        histogram
    }

    /// The same as `smp_histogram` holds it.
    #[must_use]
    pub fn space_map_histogram(&self) -> [u64; HISTOGRAM_BUCKETS] {
        self.histogram().on_disk(self.ashift)
    }

    /// How scattered its free space is, in percent. A metaslab never used counts as whole.
    #[must_use]
    pub fn fragmentation_percent(&self) -> u8 {
        if self.recorded { self.histogram().fragmentation_percent() } else { 0 }
    }

    /// About how many entries [`Self::condensed`] has: what a rewritten space map would need.
    #[must_use]
    pub fn condensed_estimate(&self) -> usize {
        self.unrecorded_trees().map(RangeTree::runs).sum::<usize>() + 1
    }

    /// The shortest space map that says the same as all changes taken so far: only allocations,
    /// in order of offset. Stands for an empty map and all entries since.
    #[must_use]
    pub fn condensed(&self) -> Vec<Change> {
        let free_on_disk: RangeTree = self.unrecorded_trees().flat_map(RangeTree::iter).collect();
        let mut at = self.bounds.start;
        let mut changes = Vec::with_capacity(free_on_disk.runs() + 1);
        for run in free_on_disk.iter() {
            changes.extend(Segment::new(at, run.start - at));
            at = run.end;
        }
        changes.extend(Segment::new(at, self.bounds.end - at));
        let changes: Vec<_> =
            changes.into_iter().map(|segment| Change::new(ChangeKind::Alloc, segment)).collect();
        let sum: u64 = changes.iter().map(|change| change.len.get()).sum();
        assert_eq!(sum, self.recorded_bytes, "a condensed space map must say what the long one said");
        changes
    }

    /// What is allocated and nobody has freed, in order of offset.
    pub(crate) fn allocated_runs(&self) -> Vec<Segment> {
        let pending = self.pending.iter().flat_map(|pending| [&pending.frees, &pending.freed]);
        let resting = self.resting.iter().map(|(_, tree)| tree);
        let others = [self.free.tree(), &self.held].into_iter().chain(pending).chain(resting);
        let others: RangeTree = others.flat_map(RangeTree::iter).chain(self.kept.runs()).collect();
        let mut at = self.bounds.start;
        let mut allocated = Vec::with_capacity(others.runs() + 1);
        for run in others.iter() {
            allocated.extend(Segment::new(at, run.start - at));
            at = run.end;
        }
        allocated.extend(Segment::new(at, self.bounds.end - at));
        let sum: u64 = allocated.iter().map(|run| run.len()).sum();
        assert_eq!(
            sum, self.allocated_bytes,
            "what is allocated in {:?} is what nothing else is",
            self.bounds
        );
        allocated
    }

    /// All that the space map does not count as allocated.
    fn unrecorded_trees(&self) -> impl Iterator<Item = &RangeTree> {
        let pending = self.pending.iter().flat_map(|pending| [&pending.allocs, &pending.freed]);
        let resting = self.resting.iter().map(|(_, tree)| tree);
        [self.free.tree(), &self.held].into_iter().chain(pending).chain(resting)
    }

    /// These bytes as a segment, if they can be an allocation in this metaslab: some, whole
    /// sectors, and all within it.
    pub(crate) fn segment(&self, offset: VdevOffset, len: Asize) -> Result<Segment, SpaceError> {
        let whole_sectors = (offset.get() | len.get()) & (self.ashift.sector_bytes() - 1) == 0;
        Segment::new(offset.get(), len.get())
            .filter(|&segment| whole_sectors && self.bounds.covers(segment))
            .ok_or(SpaceError::Misplaced { vdev: self.vdev, offset, len })
    }

    /// Applies space map entries, oldest first, to a metaslab nobody has used yet. May be called
    /// again for the next part of the entries. After a refusal the metaslab offers no space.
    pub(crate) fn load(&mut self, entries: impl Iterator<Item = Change>) -> Result<(), SpaceError> {
        if self.touched || self.kept.bytes() > 0 {
            return Err(SpaceError::InUse { vdev: self.vdev, metaslab: self.id });
        }
        let mut free = self.free.tree().clone();
        let result = self.apply(&mut free, entries);
        if result.is_err() {
            free = RangeTree::new();
        }
        self.recorded_bytes = self.bounds.len() - free.bytes();
        self.allocated_bytes = self.recorded_bytes;
        self.recorded = true;
        self.free = free.into();
        result
    }

    /// Takes a metaslab whose space map is lost out of use, before its first use. All its space
    /// counts as allocated, and nothing is allocated here. Frees are recorded as in other
    /// metaslabs, but their space is not reused.
    pub(crate) fn seal(&mut self) -> Result<(), SpaceError> {
        self.load([].into_iter())?;
        self.free = RangeTree::new().into();
        self.recorded_bytes = self.bounds.len();
        self.allocated_bytes = self.recorded_bytes;
        self.sealed = true;
        Ok(())
    }

    /// True if the metaslab is out of use because its space map is lost.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.sealed
    }

    fn apply(&self, free: &mut RangeTree, entries: impl Iterator<Item = Change>) -> Result<(), SpaceError> {
        for entry in entries {
            let segment = self.segment(entry.offset, entry.len)?;
            match entry.kind {
                ChangeKind::Alloc if free.covers(segment) => free.remove(segment),
                ChangeKind::Alloc => return Err(self.not_free(segment)),
                ChangeKind::Free if !free.overlaps(segment) => free.add(segment),
                ChangeKind::Free => return Err(self.not_allocated(segment)),
            }
        }
        Ok(())
    }

    fn not_free(&self, segment: Segment) -> SpaceError {
        let (offset, len) = (VdevOffset::new(segment.start), Asize::new(segment.len()));
        SpaceError::NotFree { vdev: self.vdev, offset, len }
    }

    fn not_allocated(&self, segment: Segment) -> SpaceError {
        let (offset, len) = (VdevOffset::new(segment.start), Asize::new(segment.len()));
        SpaceError::NotAllocated { vdev: self.vdev, offset, len }
    }

    /// Allocates `len` bytes where they suit best.
    pub(crate) fn allocate(&mut self, txg: Txg, len: u64, streams: Streams) -> Option<Segment> {
        let segment = self.placement.find(&self.free, self.bounds.len(), len, streams)?;
        self.take_from_free(txg, segment);
        Some(segment)
    }

    /// Allocates these very bytes.
    pub(crate) fn claim(&mut self, txg: Txg, segment: Segment) -> Result<(), SpaceError> {
        if self.sealed {
            // The claimed block is free on disk although all space here counts as allocated, so its
            // allocation is recorded.
            self.check_allocated(txg, segment).map_err(|_| self.not_free(segment))?;
            self.pending_mut(txg).allocs.add(segment);
            self.touched = true;
            return Ok(());
        }
        if !self.free.tree().covers(segment) {
            return Err(self.not_free(segment));
        }
        self.take_from_free(txg, segment);
        Ok(())
    }

    fn take_from_free(&mut self, txg: Txg, segment: Segment) {
        self.free.remove(segment);
        self.pending_mut(txg).allocs.add(segment);
        self.allocated_bytes += segment.len();
        self.touched = true;
    }

    /// Holds the next free bytes from `from` on, `max` of them at most: nobody is given them until they are given
    /// back.
    pub(crate) fn hold_free(&mut self, from: u64, max: u64) -> NextFree {
        if self.sealed {
            return NextFree::None;
        }
        let next = |tree: &RangeTree| {
            let run = tree.iter_from(from).next()?;
            Some(Segment { start: run.start.max(from), end: run.end })
        };
        match (next(self.free.tree()), next(&self.held)) {
            (None, None) => NextFree::None,
            (None, Some(held)) => NextFree::Busy(held),
            (Some(free), Some(held)) if held.start < free.start => NextFree::Busy(held),
            (Some(free), _) => {
                let segment =
                    Segment { start: free.start, end: free.end.min(free.start.saturating_add(max)) };
                self.free.remove(segment);
                self.held.add(segment);
                NextFree::Held(segment)
            }
        }
    }

    /// Gives back bytes that were held: they are free like any others.
    pub(crate) fn give_back(&mut self, segment: Segment) {
        self.held.remove(segment);
        self.free.add(segment);
    }

    /// Whether these bytes are all allocated, as seen in `txg`.
    pub(crate) fn check_allocated(&self, txg: Txg, segment: Segment) -> Result<(), SpaceError> {
        let free = self.free.tree().overlaps(segment)
            || self.held.overlaps(segment)
            || self.kept.overlaps(segment)
            || self.resting.iter().any(|(_, tree)| tree.overlaps(segment))
            || self.pending.iter().any(|pending| {
                pending.frees.overlaps(segment)
                    || pending.freed.overlaps(segment)
                    || (pending.allocs.overlaps(segment)
                        && (pending.txg > txg || !pending.allocs.covers(segment)))
            });
        if free { Err(self.not_allocated(segment)) } else { Ok(()) }
    }

    /// Frees bytes that `txg` no longer needs; they rest before they are used again.
    pub(crate) fn free(&mut self, txg: Txg, segment: Segment) -> Result<(), SpaceError> {
        self.check_allocated(txg, segment)?;
        let pending = self.pending_mut(txg);
        if pending.allocs.covers(segment) {
            pending.allocs.remove(segment);
            pending.freed.add(segment);
        } else {
            pending.frees.add(segment);
        }
        self.allocated_bytes -= segment.len();
        self.resting_bytes += segment.len();
        self.touched = true;
        Ok(())
    }

    /// Keeps bytes for the checkpoint that `txg`, which is being synced, no longer needs.
    pub(crate) fn keep(&mut self, txg: Txg, segment: Segment) -> Result<(), SpaceError> {
        self.check_allocated(txg, segment)?;
        self.kept.keep(segment);
        self.allocated_bytes -= segment.len();
        self.touched = true;
        Ok(())
    }

    /// Takes up bytes that the vdev's map of kept space tells of; all space map entries are loaded.
    pub(crate) fn load_kept(&mut self, segment: Segment) -> Result<(), SpaceError> {
        self.check_allocated(Txg::ZERO, segment)?;
        self.kept.load(segment);
        self.allocated_bytes -= segment.len();
        Ok(())
    }

    /// Whether the map of kept space has all these bytes.
    pub(crate) fn check_kept(&self, segment: Segment) -> Result<(), SpaceError> {
        let (offset, len) = (VdevOffset::new(segment.start), Asize::new(segment.len()));
        let missing = SpaceError::NotKept { vdev: self.vdev, offset, len };
        if self.kept.has_noted(segment) { Ok(()) } else { Err(missing) }
    }

    /// Frees kept bytes in `txg`, which gives up the checkpoint; they rest before they are used again.
    pub(crate) fn release(&mut self, txg: Txg, segment: Segment) -> Result<(), SpaceError> {
        self.check_kept(segment)?;
        self.kept.release(segment);
        self.pending_mut(txg).frees.add(segment);
        self.resting_bytes += segment.len();
        self.touched = true;
        Ok(())
    }

    /// What the map of kept space is to be told: nothing in it overlaps.
    pub(crate) fn take_kept(&mut self) -> Vec<Change> {
        self.kept.take()
    }

    /// Gives back bytes that `txg` allocated and nothing was ever written to: they are free at
    /// once, unless the allocation was taken already, when this is a free like any other.
    pub(crate) fn unalloc(&mut self, txg: Txg, segment: Segment) -> Result<(), SpaceError> {
        let mut pending = self.pending.iter_mut();
        let Some(own) = pending.find(|own| own.txg == txg && own.allocs.covers(segment)) else {
            return self.free(txg, segment);
        };
        own.allocs.remove(segment);
        if !self.sealed {
            self.free.add(segment);
            self.allocated_bytes -= segment.len();
        }
        Ok(())
    }

    /// What `txg` changed since this was last asked: nothing in it overlaps.
    pub(crate) fn take_changes(&mut self, txg: Txg) -> Vec<Change> {
        let pending = self.pending_mut(txg);
        let allocs = std::mem::take(&mut pending.allocs);
        let mut frees = std::mem::take(&mut pending.frees);
        let allocated = allocs.iter().map(|segment| Change::new(ChangeKind::Alloc, segment));
        let freed = frees.iter().map(|segment| Change::new(ChangeKind::Free, segment));
        let changes: Vec<_> = allocated.chain(freed).collect();
        if !self.sealed {
            self.recorded_bytes = (self.recorded_bytes + allocs.bytes())
                .checked_sub(frees.bytes())
                .expect("a space map records no more frees than allocations");
        }
        self.pending_mut(txg).freed.absorb(&mut frees);
        self.recorded |= !changes.is_empty();
        changes
    }

    /// `txg` is stable: what it freed begins to rest, what has rested is free again.
    ///
    /// # Panics
    /// If changes of `txg` were never taken: the space map on disk would be wrong.
    pub(crate) fn sync_done(&mut self, txg: Txg) {
        if let Some(at) = self.pending.iter().position(|pending| pending.txg == txg) {
            let done = self.pending.remove(at);
            assert!(
                done.allocs.is_empty() && done.frees.is_empty(),
                "txg {txg} is done, but changes at {:?} were not taken",
                self.bounds
            );
            if !done.freed.is_empty() {
                self.resting.push_back((txg, done.freed));
            }
        }
        assert!(
            self.kept.is_all_noted(),
            "txg {txg} is done, but what it kept at {:?} was not taken",
            self.bounds
        );
        while self.resting.front().is_some_and(|(freed, _)| freed.get() + rest::before_reuse() <= txg.get()) {
            let (_, rested) = self.resting.pop_front().expect("looked at it just now");
            self.resting_bytes -= rested.bytes();
            let mut into = |run| if self.sealed { self.held.add(run) } else { self.free.add(run) };
            rested.iter().for_each(&mut into);
        }
        self.check_sums();
    }

    /// What is free again once `txg` is done.
    pub(crate) fn rested_by(&self, txg: Txg) -> impl Iterator<Item = Segment> + '_ {
        let has_rested = move |freed: Txg| freed.get() + rest::before_discard() <= txg.get();
        self.resting.iter().take_while(move |(freed, _)| has_rested(*freed)).flat_map(|(_, tree)| tree.iter())
    }

    /// Whether anything freed by a txg that is done waits to be free again.
    pub(crate) fn has_resting(&self) -> bool {
        !self.resting.is_empty()
    }

    /// Whether a txg that is not done has dealings here.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Every byte is in exactly one place, and the space map agrees.
    fn check_sums(&self) {
        let pending = |sum: fn(&Pending) -> u64| self.pending.iter().map(sum).sum::<u64>();
        let resting: u64 = self.resting.iter().map(|(_, tree)| tree.bytes()).sum();
        let kept_back = resting + pending(|p| p.frees.bytes() + p.freed.bytes());
        assert_eq!(kept_back, self.resting_bytes, "resting bytes of {:?}", self.bounds);
        let all = self.free_bytes() + self.allocated_bytes + self.resting_bytes + self.kept.bytes();
        assert_eq!(all, self.bounds.len(), "free, allocated, resting and kept bytes of {:?}", self.bounds);
        if self.sealed {
            return;
        }
        assert_eq!(
            self.recorded_bytes + pending(|p| p.allocs.bytes()),
            self.allocated_bytes + self.kept.bytes() + pending(|p| p.frees.bytes()),
            "recorded bytes of {:?}",
            self.bounds
        );
    }

    fn pending_mut(&mut self, txg: Txg) -> &mut Pending {
        let at = match self.pending.binary_search_by_key(&txg, |pending| pending.txg) {
            Ok(at) => at,
            Err(at) => {
                let (allocs, frees, freed) = (RangeTree::new(), RangeTree::new(), RangeTree::new());
                self.pending.insert(at, Pending { txg, allocs, frees, freed });
                at
            }
        };
        &mut self.pending[at]
    }
}
