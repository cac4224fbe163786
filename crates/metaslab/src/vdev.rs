//! One top-level vdev as space: its metaslabs, and which of them is filled next.
//!
//! One metaslab is active at a time (one more for each further copy of a block on the same
//! vdev), so that what is written together lies together. It stays active until a request does
//! not fit, or its longest run has shrunk to a quarter of what it was; then the metaslab with the
//! longest runs takes over, the earlier on the vdev the better: on a disk that is the faster end.
//! (tests: `a_vdev_fills_one_metaslab_after_the_other`, `copies_within_one_vdev_lie_far_apart`)
//!
//! A metaslab in which a write failed is shunned: it is used only when no other metaslab has room.
//! (test: `a_metaslab_where_a_write_failed_is_the_last_choice`)

use std::collections::{BTreeMap, BTreeSet};

use ondisk::Dva;
use units::{Ashift, Asize, Psize, SECTOR_BYTES, Spread, Txg, VdevId, VdevOffset};

use crate::{
    MAX_COPIES, MetaslabId,
    allocator::Class,
    change::Change,
    error::{SpaceError, VdevConfigError},
    figures::SpaceFigures,
    metaslab::Metaslab,
    placement::Streams,
    segment::Segment,
};

/// Size of a gang block's header: one sector of the smallest kind, rounded up to the vdev's.
const GANG_HEADER_BYTES: u64 = SECTOR_BYTES;
/// Most metaslabs a vdev may have: OpenZFS makes them larger before it makes more than half of this.
const METASLABS_MAX: u64 = 1 << 18;
/// Largest base-2 logarithm of a metaslab's size that is believed.
const MS_SHIFT_MAX: u8 = 56;
/// Copies on one vdev lie at least this part of it apart, if that can be had.
const COPIES_APART_FRACTION: u64 = 8;
/// An active metaslab is left once its longest run is this many times shorter than it was.
const LEAVE_FRACTION: u64 = 4;

/// What of a top-level vdev's configuration matters for its space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VdevConfig {
    /// Its number in the vdev tree.
    pub id: VdevId,
    /// What it is for.
    pub class: Class,
    /// Smallest allocation.
    pub ashift: Ashift,
    /// Allocatable bytes; what is left behind the last whole metaslab stays unused.
    pub asize: Asize,
    /// Base-2 logarithm of a metaslab's size in bytes.
    pub ms_shift: u8,
    /// Over how many children blocks are spread, and with how much parity.
    pub spread: Spread,
}

impl VdevConfig {
    /// How many whole metaslabs fit.
    #[must_use]
    pub const fn metaslabs(&self) -> u64 {
        self.asize.get() >> self.ms_shift
    }

    /// What one copy of so much data takes on this vdev, parity and padding included.
    #[must_use]
    pub const fn allocated(&self, psize: Psize) -> Asize {
        psize.allocated_over(self.ashift, self.spread)
    }

    /// What datasets are charged for so much space here.
    #[must_use]
    pub const fn deflated(&self, space: Asize) -> Asize {
        space.deflated_over(self.ashift, self.spread)
    }

    fn check(&self) -> Result<(), VdevConfigError> {
        let ashift_fits = (Ashift::MIN..=Ashift::MAX).contains(&self.ashift);
        let shift_fits = (self.ashift.get()..=MS_SHIFT_MAX).contains(&self.ms_shift);
        if ashift_fits && shift_fits && (1..=METASLABS_MAX).contains(&self.metaslabs()) {
            return Ok(());
        }
        let (vdev, ashift) = (self.id, self.ashift.get());
        Err(VdevConfigError::Geometry { vdev, ashift, ms_shift: self.ms_shift, asize: self.asize })
    }

    /// A metaslab begins where a block can, and ends where one can.
    fn metaslab_bounds(&self, index: u64) -> Segment {
        let unit = self.spread.unit_bytes(self.ashift);
        let start = (index << self.ms_shift).next_multiple_of(unit);
        let whole = ((index + 1) << self.ms_shift).saturating_sub(start) / unit * unit;
        Segment { start, end: start + whole }
    }
}

/// The metaslabs of a top-level vdev.
#[derive(Debug)]
pub(crate) struct Vdev {
    config: VdevConfig,
    metaslabs: Vec<Metaslab>,
    /// The metaslab being filled, by number of the copy on this vdev.
    active: [Option<usize>; MAX_COPIES],
    /// Whether new blocks may be put here.
    pub(crate) allocating: bool,
    figures: SpaceFigures,
    /// Metaslabs that a txg has changed.
    changed: BTreeMap<Txg, BTreeSet<MetaslabId>>,
    /// Metaslabs where something rests.
    resting: BTreeSet<MetaslabId>,
    /// The indices of the metaslabs in which a write has failed.
    shunned: BTreeSet<usize>,
}

impl Vdev {
    pub(crate) fn new(config: VdevConfig) -> Result<Self, VdevConfigError> {
        config.check()?;
        let mut vdev = Self {
            config,
            metaslabs: Vec::new(),
            active: [None; MAX_COPIES],
            allocating: true,
            figures: SpaceFigures::default(),
            changed: BTreeMap::new(),
            resting: BTreeSet::new(),
            shunned: BTreeSet::new(),
        };
        vdev.add_metaslabs();
        Ok(vdev)
    }

    pub(crate) fn config(&self) -> &VdevConfig {
        &self.config
    }

    pub(crate) fn figures(&self) -> SpaceFigures {
        self.figures
    }

    pub(crate) fn deflated_figures(&self) -> SpaceFigures {
        self.figures.deflated(self.config.ashift, self.config.spread)
    }

    pub(crate) fn metaslabs(&self) -> &[Metaslab] {
        &self.metaslabs
    }

    /// For changes that leave every metaslab's figures as they are.
    pub(crate) fn metaslabs_mut(&mut self) -> &mut [Metaslab] {
        &mut self.metaslabs
    }

    pub(crate) fn longest_free_run(&self) -> u64 {
        self.metaslabs.iter().map(|metaslab| metaslab.longest_free_run().get()).max().unwrap_or(0)
    }

    /// The vdev has become larger: more metaslabs, all free.
    pub(crate) fn grow(&mut self, asize: Asize) -> Result<(), VdevConfigError> {
        let grown = VdevConfig { asize: asize.max(self.config.asize), ..self.config };
        grown.check()?;
        self.config = grown;
        self.add_metaslabs();
        Ok(())
    }

    fn add_metaslabs(&mut self) {
        for index in self.metaslabs.len() as u64..self.config.metaslabs() {
            let (id, bounds) = (MetaslabId::new(index as u32), self.config.metaslab_bounds(index));
            let unit_bytes = self.config.spread.unit_bytes(self.config.ashift);
            let metaslab = Metaslab::new(self.config.id, id, self.config.ashift, bounds, unit_bytes);
            self.figures += metaslab.figures();
            self.metaslabs.push(metaslab);
        }
    }

    /// Whether it can go: nothing allocated, nothing left to write.
    pub(crate) fn check_unused(&self) -> Result<(), VdevConfigError> {
        let allocated = Asize::new(self.figures.allocated.get() + self.figures.kept.get());
        if allocated.get() == 0 && self.metaslabs.iter().all(|metaslab| !metaslab.has_pending()) {
            return Ok(());
        }
        Err(VdevConfigError::InUse { vdev: self.config.id, allocated })
    }

    /// Whether its maps say all that was done to it.
    pub(crate) fn check_written(&self) -> Result<(), VdevConfigError> {
        let is_written = self.metaslabs.iter().all(|metaslab| !metaslab.has_pending());
        let (vdev, allocated) = (self.config.id, self.figures.allocated);
        if is_written { Ok(()) } else { Err(VdevConfigError::InUse { vdev, allocated }) }
    }

    /// Applies space map entries to a metaslab that has not been used yet.
    pub(crate) fn load(
        &mut self,
        id: MetaslabId,
        entries: impl Iterator<Item = Change>,
    ) -> Result<(), SpaceError> {
        if id.index() >= self.metaslabs.len() {
            return Err(SpaceError::NoSuchMetaslab { vdev: self.config.id, metaslab: id });
        }
        self.on(id.index(), |metaslab| metaslab.load(entries))
    }

    /// Takes a metaslab whose space map is lost out of use.
    pub(crate) fn seal(&mut self, id: MetaslabId) -> Result<(), SpaceError> {
        if id.index() >= self.metaslabs.len() {
            return Err(SpaceError::NoSuchMetaslab { vdev: self.config.id, metaslab: id });
        }
        self.on(id.index(), Metaslab::seal)
    }

    /// True if a metaslab is out of use.
    pub(crate) fn has_sealed(&self) -> bool {
        self.metaslabs.iter().any(Metaslab::is_sealed)
    }

    /// A write to this place failed. From now on, its metaslab is the last choice.
    pub(crate) fn shun(&mut self, dva: &Dva) -> Result<(), SpaceError> {
        let (index, _) = self.locate(dva)?;
        self.shunned.insert(index);
        Ok(())
    }

    pub(crate) fn forget_shunned(&mut self) {
        self.shunned.clear();
    }

    pub(crate) fn has_shunned(&self) -> bool {
        !self.shunned.is_empty()
    }

    /// Allocates one copy of `len` bytes, apart from `others`, the copies on this vdev. Shunned
    /// metaslabs are used only with `last_choice`.
    pub(crate) fn allocate(
        &mut self,
        txg: Txg,
        len: Asize,
        others: &[Segment],
        last_choice: bool,
    ) -> Option<Segment> {
        let index = self.choose(len.get(), others, last_choice)?;
        let streams = match self.config.class {
            Class::Normal | Class::Special | Class::Dedup => Streams::BySize,
            Class::Log => Streams::One,
        };
        let segment = self.on(index, |metaslab| metaslab.allocate(txg, len.get(), streams));
        assert!(segment.is_some(), "metaslab {index} has a run of {len} bytes and does not find it");
        self.mark_changed(txg, index);
        segment
    }

    /// Allocates what a block found at import occupies.
    pub(crate) fn claim(&mut self, txg: Txg, dva: &Dva) -> Result<(), SpaceError> {
        let (index, segment) = self.locate(dva)?;
        self.on(index, |metaslab| metaslab.claim(txg, segment))?;
        self.mark_changed(txg, index);
        Ok(())
    }

    pub(crate) fn check_allocated(&self, txg: Txg, dva: &Dva) -> Result<(), SpaceError> {
        let (index, segment) = self.locate(dva)?;
        self.metaslabs[index].check_allocated(txg, segment)
    }

    pub(crate) fn free(&mut self, txg: Txg, dva: &Dva) -> Result<(), SpaceError> {
        let (index, segment) = self.locate(dva)?;
        self.on(index, |metaslab| metaslab.free(txg, segment))?;
        self.mark_changed(txg, index);
        Ok(())
    }

    pub(crate) fn keep(&mut self, txg: Txg, dva: &Dva) -> Result<(), SpaceError> {
        let (index, segment) = self.locate(dva)?;
        self.on(index, |metaslab| metaslab.keep(txg, segment))?;
        self.mark_changed(txg, index);
        Ok(())
    }

    /// Takes up what the map of kept space tells.
    pub(crate) fn load_kept(&mut self, run: &Change) -> Result<(), SpaceError> {
        let (index, segment) = self.locate_run(run.offset, run.len)?;
        self.on(index, |metaslab| metaslab.load_kept(segment))
    }

    pub(crate) fn check_kept(&self, run: &Change) -> Result<(), SpaceError> {
        let (index, segment) = self.locate_run(run.offset, run.len)?;
        self.metaslabs[index].check_kept(segment)
    }

    pub(crate) fn release(&mut self, txg: Txg, run: &Change) -> Result<(), SpaceError> {
        let (index, segment) = self.locate_run(run.offset, run.len)?;
        self.on(index, |metaslab| metaslab.release(txg, segment))?;
        self.mark_changed(txg, index);
        Ok(())
    }

    /// What `txg`, which is being synced, kept since last asked.
    pub(crate) fn take_kept(&mut self, txg: Txg) -> Vec<Change> {
        let changed = self.changed.get(&txg).into_iter().flatten();
        changed.flat_map(|&id| self.metaslabs[id.index()].take_kept()).collect()
    }

    pub(crate) fn unalloc(&mut self, txg: Txg, dva: &Dva) -> Result<(), SpaceError> {
        let (index, segment) = self.locate(dva)?;
        self.on(index, |metaslab| metaslab.unalloc(txg, segment))?;
        self.mark_changed(txg, index);
        Ok(())
    }

    pub(crate) fn has_changed(&self, txg: Txg) -> bool {
        self.changed.contains_key(&txg)
    }

    /// What `txg` changed since last asked, by metaslab; only where there is something.
    pub(crate) fn take_changes(&mut self, txg: Txg) -> Vec<(MetaslabId, Vec<Change>)> {
        let changed = self.changed.get(&txg).into_iter().flatten();
        changed
            .map(|&id| (id, self.metaslabs[id.index()].take_changes(txg)))
            .filter(|(_, changes)| !changes.is_empty())
            .collect()
    }

    /// What is free again once `txg` is done.
    pub(crate) fn rested_by(&self, txg: Txg) -> impl Iterator<Item = Segment> + '_ {
        self.resting.iter().flat_map(move |id| self.metaslabs[id.index()].rested_by(txg))
    }

    /// `txg` is stable.
    pub(crate) fn sync_done(&mut self, txg: Txg) {
        let mut touched = std::mem::take(&mut self.resting);
        touched.extend(self.changed.remove(&txg).into_iter().flatten());
        for id in touched {
            self.on(id.index(), |metaslab| metaslab.sync_done(txg));
            if self.metaslabs[id.index()].has_resting() {
                self.resting.insert(id);
            }
        }
        debug_assert_eq!(self.figures, self.metaslabs.iter().map(Metaslab::figures).sum());
    }

    /// Which bytes a DVA occupies. Of a gang it is only the header: the DVA's size counts the
    /// members too, which have DVAs of their own.
    fn locate(&self, dva: &Dva) -> Result<(usize, Segment), SpaceError> {
        let header = self.config.allocated(Psize::new(GANG_HEADER_BYTES));
        let len = if dva.gang { header } else { dva.asize };
        self.locate_run(dva.offset, len)
    }

    fn locate_run(&self, offset: VdevOffset, len: Asize) -> Result<(usize, Segment), SpaceError> {
        let misplaced = SpaceError::Misplaced { vdev: self.config.id, offset, len };
        let index = usize::try_from(offset.get() >> self.config.ms_shift).map_err(|_| misplaced)?;
        let metaslab = self.metaslabs.get(index).ok_or(misplaced)?;
        Ok((index, metaslab.segment(offset, len)?))
    }

    /// The metaslab for the next copy of `len` bytes: as far from the others as can be had.
    fn choose(&mut self, len: u64, others: &[Segment], last_choice: bool) -> Option<usize> {
        let far = self.config.asize.get() / COPIES_APART_FRACTION;
        let apart = |apart| self.choose_apart(len, others, apart, last_choice);
        [far, 0].into_iter().find_map(apart).or_else(|| {
            // The same metaslab as another copy, if need be.
            if others.is_empty() { None } else { self.choose_apart(len, &[], 0, last_choice) }
        })
    }

    /// The active metaslab if it will do, or else the best one, which becomes active.
    fn choose_apart(&mut self, len: u64, others: &[Segment], apart: u64, last_choice: bool) -> Option<usize> {
        let turn = others.len();
        let will_do = |index: usize, metaslab: &Metaslab| {
            let bounds = metaslab.bounds();
            let is_shunned = !last_choice && self.shunned.contains(&index);
            !is_shunned
                && metaslab.longest_free_run().get() >= len
                && others
                    .iter()
                    .all(|other| bounds.end + apart <= other.start || other.end + apart <= bounds.start)
        };
        if let Some(index) = self.active[turn] {
            let metaslab = &self.metaslabs[index];
            if will_do(index, metaslab) && metaslab.longest_free_run().get() >= metaslab.leave_below_bytes {
                return Some(index);
            }
        }
        let best = |spared: &dyn Fn(usize) -> bool| {
            let candidates = self.metaslabs.iter().enumerate();
            candidates
                .filter(|&(index, metaslab)| will_do(index, metaslab) && !spared(index))
                .max_by_key(|&(index, metaslab)| {
                    (metaslab.longest_free_run().get().ilog2(), std::cmp::Reverse(index))
                })
                .map(|(index, _)| index)
        };
        let others_active = |index| {
            let active = self.active.iter().enumerate();
            active.into_iter().any(|(other, &active)| other != turn && active == Some(index))
        };
        let index = best(&others_active).or_else(|| best(&|_| false))?;
        self.active[turn] = Some(index);
        let metaslab = &mut self.metaslabs[index];
        metaslab.leave_below_bytes = metaslab.longest_free_run().get() / LEAVE_FRACTION;
        Some(index)
    }

    /// Changes a metaslab and keeps the vdev's sums in step.
    fn on<R>(&mut self, index: usize, change: impl FnOnce(&mut Metaslab) -> R) -> R {
        let metaslab = &mut self.metaslabs[index];
        let before = metaslab.figures();
        let result = change(metaslab);
        self.figures = self.figures.replaced(before, metaslab.figures());
        result
    }

    fn mark_changed(&mut self, txg: Txg, index: usize) {
        self.changed.entry(txg).or_default().insert(MetaslabId::new(index as u32));
    }
}
