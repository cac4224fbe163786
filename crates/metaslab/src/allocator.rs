//! The pool's space as a whole: who asks here, and what order of calls keeps it right.
//!
//! Calls of one txg: `allocate`, `claim`, `free`, `unalloc` in any number and order while it is
//! open or syncing; then `take_changes` until it has nothing more to say; then, once the
//! txg's uberblock is stable, `sync_done`. Txgs may overlap, but are done in order.

use std::collections::BTreeMap;

use ondisk::Dva;
use units::{Asize, Psize, Txg, VdevId, VdevOffset};

use crate::{
    change::{Change, MetaslabId},
    error::{AllocError, SpaceError, VdevConfigError},
    figures::SpaceFigures,
    metaslab::Metaslab,
    rotor::Rotor,
    segment::Segment,
    vdev::{Vdev, VdevConfig},
};

/// Most copies that a block pointer can name.
pub const MAX_COPIES: usize = 3;

/// What a top-level vdev is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Data and metadata.
    Normal,
    /// Intent logs only.
    Log,
    /// Metadata and small blocks, on devices quicker than the others.
    Special,
    /// Tables of deduplicated blocks.
    Dedup,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 4] = [Self::Normal, Self::Log, Self::Special, Self::Dedup];
}

/// What a txg did to space, by metaslab, in the order of vdevs and metaslabs.
pub type Changes = BTreeMap<(VdevId, MetaslabId), Vec<Change>>;

/// Wishes about where a block goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hint<'a> {
    /// The first copy goes here if it fits and is of the right class.
    pub prefer: Option<VdevId>,
    /// No copy goes here, even if there is no other place.
    pub avoid: &'a [VdevId],
}

/// All space of a pool that could hold blocks.
#[derive(Debug, Default)]
pub struct Allocator {
    vdevs: BTreeMap<VdevId, Vdev>,
    /// By class.
    rotors: [Rotor; Class::ALL.len()],
    /// The last txg that is done.
    done: Txg,
    /// The txg of the pool's checkpoint: what was born up to it is kept by all later txgs.
    checkpoint: Option<Txg>,
}

impl Allocator {
    /// No vdevs yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a vdev, all of it free: a new one, or one whose space maps will be loaded next.
    ///
    /// # Errors
    /// If the number is taken, or the geometry is impossible.
    pub fn add_vdev(&mut self, config: VdevConfig) -> Result<(), VdevConfigError> {
        if self.vdevs.contains_key(&config.id) {
            return Err(VdevConfigError::Exists(config.id));
        }
        self.vdevs.insert(config.id, Vdev::new(config)?);
        self.rotor_mut(config.class).insert(config.id);
        Ok(())
    }

    /// Makes metaslabs of what a vdev has grown by. A smaller size changes nothing.
    ///
    /// # Errors
    /// If there is no such vdev, or it would have more metaslabs than there can be.
    pub fn grow_vdev(&mut self, id: VdevId, asize: Asize) -> Result<(), VdevConfigError> {
        self.vdevs.get_mut(&id).ok_or(VdevConfigError::NoSuchVdev(id))?.grow(asize)
    }

    /// Forgets an empty vdev.
    ///
    /// # Errors
    /// If there is none, blocks are left on it, or changes of its are not written.
    pub fn remove_vdev(&mut self, id: VdevId) -> Result<(), VdevConfigError> {
        let vdev = self.vdevs.get(&id).ok_or(VdevConfigError::NoSuchVdev(id))?;
        vdev.check_unused()?;
        let class = vdev.config().class;
        self.vdevs.remove(&id);
        self.rotor_mut(class).remove(id);
        Ok(())
    }

    /// Forgets a vdev that nothing in the pool refers to any more, whatever its maps say is allocated there: blocks of
    /// logs that were given up at an import.
    ///
    /// # Errors
    /// If there is none, or a change of it is not written.
    pub fn forget_vdev(&mut self, id: VdevId) -> Result<(), VdevConfigError> {
        let vdev = self.vdevs.get(&id).ok_or(VdevConfigError::NoSuchVdev(id))?;
        vdev.check_written()?;
        let class = vdev.config().class;
        self.vdevs.remove(&id);
        self.rotor_mut(class).remove(id);
        Ok(())
    }

    /// Forgets a vdev whose maps are given up with all that was changed there and is not written.
    ///
    /// # Errors
    /// If there is none.
    pub fn retire_vdev(&mut self, id: VdevId) -> Result<(), VdevConfigError> {
        let vdev = self.vdevs.remove(&id).ok_or(VdevConfigError::NoSuchVdev(id))?;
        self.rotor_mut(vdev.config().class).remove(id);
        Ok(())
    }

    /// Whether new blocks may be put on a vdev: not on one that is failing, or to be removed.
    /// Unknown vdevs are ignored.
    pub fn set_allocating(&mut self, id: VdevId, allocating: bool) {
        if let Some(vdev) = self.vdevs.get_mut(&id) {
            vdev.allocating = allocating;
        }
    }

    /// Applies a space map's entries, oldest first, to a metaslab of a vdev just added. May be
    /// called again with later entries, until the metaslab is used. After an error the metaslab
    /// has no free space.
    ///
    /// # Errors
    /// If entries contradict each other or the metaslab's bounds: the map is damaged.
    pub fn load(
        &mut self,
        vdev: VdevId,
        metaslab: MetaslabId,
        entries: impl IntoIterator<Item = Change>,
    ) -> Result<(), SpaceError> {
        self.vdev_mut(vdev)?.load(metaslab, entries.into_iter())
    }

    /// Takes a metaslab out of use before its first use, because its space map is lost. Nothing is
    /// allocated there. Frees there are recorded, but their space is not reused.
    ///
    /// # Errors
    /// If there is no such metaslab, or it is in use.
    pub fn seal(&mut self, vdev: VdevId, metaslab: MetaslabId) -> Result<(), SpaceError> {
        self.vdev_mut(vdev)?.seal(metaslab)
    }

    /// True if some metaslab of the vdev is out of use.
    #[must_use]
    pub fn has_sealed(&self, vdev: VdevId) -> bool {
        self.vdevs.get(&vdev).is_some_and(Vdev::has_sealed)
    }

    /// Finds room for `copies` copies of `psize` bytes, in `txg`; the DVAs left over are empty.
    /// All or nothing.
    ///
    /// # Errors
    /// If the class has no vdev, or no room for all copies.
    ///
    /// # Panics
    /// If `txg` is done, `psize` is 0, or copies are not 1 to [`MAX_COPIES`].
    pub fn allocate(
        &mut self,
        class: Class,
        psize: Psize,
        copies: usize,
        txg: Txg,
        hint: Hint<'_>,
    ) -> Result<[Dva; MAX_COPIES], AllocError> {
        self.check_not_done(txg);
        assert!(psize.get() > 0, "a block of no bytes");
        assert!((1..=MAX_COPIES).contains(&copies), "{copies} copies of a block");
        if self.rotor(class).vdevs().is_empty() {
            return Err(AllocError::NoVdev(class));
        }
        let mut dvas = [Dva::EMPTY; MAX_COPIES];
        for copy in 0..copies {
            let (earlier, rest) = dvas.split_at_mut(copy);
            match self.allocate_copy(class, psize, txg, hint, earlier) {
                Some(dva) => rest[0] = dva,
                None => {
                    earlier.iter().for_each(|dva| self.unalloc(txg, dva));
                    return Err(self.no_space(class, psize, copies));
                }
            }
        }
        Ok(dvas)
    }

    /// A write to this place failed although its vdev is in use. Its metaslab is the last choice
    /// until [`Self::forget_shunned`]. Unknown places are ignored.
    pub fn shun(&mut self, dva: &Dva) {
        if let Some(vdev) = self.vdevs.get_mut(&dva.vdev) {
            // A place outside of all metaslabs cannot be chosen anyway.
            _ = vdev.shun(dva);
        }
    }

    /// Treats metaslabs in which writes failed like others again.
    pub fn forget_shunned(&mut self) {
        self.vdevs.values_mut().for_each(Vdev::forget_shunned);
    }

    /// Allocates one copy, if possible outside of metaslabs in which writes failed.
    fn allocate_copy(
        &mut self,
        class: Class,
        psize: Psize,
        txg: Txg,
        hint: Hint<'_>,
        earlier: &[Dva],
    ) -> Option<Dva> {
        self.allocate_copy_by(class, psize, txg, hint, (earlier, false)).or_else(|| {
            let has_shunned = self.vdevs.values().any(Vdev::has_shunned);
            has_shunned.then(|| self.allocate_copy_by(class, psize, txg, hint, (earlier, true)))?
        })
    }

    /// Allocates one copy, if possible on a vdev that has no other copy of the block.
    fn allocate_copy_by(
        &mut self,
        class: Class,
        psize: Psize,
        txg: Txg,
        hint: Hint<'_>,
        (earlier, last_choice): (&[Dva], bool),
    ) -> Option<Dva> {
        let turns = self.rotor(class).vdevs().len();
        let preferred = hint.prefer.filter(|_| earlier.is_empty());
        for share_vdev in [false, true] {
            let may_use = |id: VdevId| {
                earlier.iter().any(|dva| dva.vdev == id) == share_vdev && !hint.avoid.contains(&id)
            };
            if let Some(id) = preferred.filter(|&id| may_use(id))
                && let Some(dva) = self.allocate_on(id, class, psize, txg, (earlier, last_choice))
            {
                return Some(dva);
            }
            for ahead in 0..turns {
                let id = self.rotor(class).turn(earlier.len() + ahead);
                if may_use(id)
                    && let Some(dva) = self.allocate_on(id, class, psize, txg, (earlier, last_choice))
                {
                    if earlier.is_empty() {
                        self.charge(class, id, dva.asize);
                    }
                    return Some(dva);
                }
            }
        }
        None
    }

    fn allocate_on(
        &mut self,
        id: VdevId,
        class: Class,
        psize: Psize,
        txg: Txg,
        (earlier, last_choice): (&[Dva], bool),
    ) -> Option<Dva> {
        let vdev = self.vdevs.get_mut(&id).filter(|vdev| vdev.allocating && vdev.config().class == class)?;
        let asize = vdev.config().allocated(psize);
        let mut others = [Segment { start: 0, end: 0 }; MAX_COPIES];
        let mut shared = 0;
        for dva in earlier.iter().filter(|dva| dva.vdev == id) {
            others[shared] = Segment::new(dva.offset.get(), dva.asize.get())?;
            shared += 1;
        }
        let segment = vdev.allocate(txg, asize, &others[..shared], last_choice)?;
        Some(Dva { vdev: id, offset: VdevOffset::new(segment.start), asize, gang: false })
    }

    fn charge(&mut self, class: Class, id: VdevId, asize: Asize) {
        if self.rotor_mut(class).charge(id, asize.get()) {
            let next = self.rotor(class).turn(0);
            let (own, all) = (self.vdev_space(next).unwrap_or_default(), self.space(class));
            self.rotor_mut(class).start_portion(own, all);
        }
    }

    fn no_space(&self, class: Class, psize: Psize, copies: usize) -> AllocError {
        let longest = self.allocating(class).map(Vdev::longest_free_run).max().unwrap_or(0);
        AllocError::NoSpace {
            class,
            psize,
            copies,
            free: self.open_space(class).free,
            longest: Asize::new(longest),
        }
    }

    /// Marks as allocated what a log block occupies, found while importing. To be done for all of
    /// them before anything is allocated.
    ///
    /// # Errors
    /// If it is not free, or cannot be: the log block is not what it seems.
    pub fn claim(&mut self, txg: Txg, dva: &Dva) -> Result<(), SpaceError> {
        self.check_not_done(txg);
        self.vdev_mut(dva.vdev)?.claim(txg, dva)
    }

    /// `txg` no longer needs what `dva` names; of a gang, its header.
    ///
    /// # Panics
    /// If it was not allocated, or `txg` is done. For DVAs from a disk there is [`Self::try_free`].
    pub fn free(&mut self, txg: Txg, dva: &Dva) {
        if let Err(error) = self.try_free(txg, dva) {
            panic!("txg {txg} frees {dva:?}: {error}");
        }
    }

    /// The same for a DVA that was read from a disk and is not known to be sound.
    ///
    /// # Errors
    /// If it was not allocated. Nothing has changed then.
    pub fn try_free(&mut self, txg: Txg, dva: &Dva) -> Result<(), SpaceError> {
        self.check_not_done(txg);
        self.vdev_mut(dva.vdev)?.free(txg, dva)
    }

    /// The txg of the pool's checkpoint, if it has one.
    #[must_use]
    pub fn checkpoint(&self) -> Option<Txg> {
        self.checkpoint
    }

    /// The pool has a checkpoint as of that txg from now on, or none.
    pub fn set_checkpoint(&mut self, checkpoint: Option<Txg>) {
        self.checkpoint = checkpoint;
    }

    /// `txg`, which is being synced, no longer needs what `dva` names, of a block born in `birth`: it is free like any
    /// other, or kept if the checkpoint needs it.
    ///
    /// # Panics
    /// As [`Self::free`].
    pub fn free_or_keep(&mut self, txg: Txg, birth: Txg, dva: &Dva) {
        if !self.checkpoint.is_some_and(|checkpoint| birth <= checkpoint && checkpoint < txg) {
            return self.free(txg, dva);
        }
        self.check_not_done(txg);
        if let Err(error) = self.vdev_mut(dva.vdev).and_then(|vdev| vdev.keep(txg, dva)) {
            panic!("txg {txg} keeps {dva:?} for the checkpoint: {error}");
        }
    }

    /// What `txg`, which is being synced, kept for the checkpoint since this was last asked for it, by vdev: frees for
    /// the maps of kept space. No run leaves its metaslab.
    pub fn take_kept(&mut self, txg: Txg) -> BTreeMap<VdevId, Vec<Change>> {
        let kept = self.vdevs.iter_mut().map(|(&id, vdev)| (id, vdev.take_kept(txg)));
        kept.filter(|(_, runs)| !runs.is_empty()).collect()
    }

    /// Takes up what a vdev's map of kept space tells, after all its space maps.
    ///
    /// # Errors
    /// If some of it is not allocated, or is kept already: the map is damaged.
    pub fn load_kept(&mut self, vdev: VdevId, runs: &[Change]) -> Result<(), SpaceError> {
        let vdev = self.vdev_mut(vdev)?;
        runs.iter().try_for_each(|run| vdev.load_kept(run))
    }

    /// Frees in `txg` what was kept for a checkpoint that is given up.
    ///
    /// # Errors
    /// If some of it is not kept. Nothing has changed then.
    pub fn release(&mut self, txg: Txg, vdev: VdevId, runs: &[Change]) -> Result<(), SpaceError> {
        self.check_not_done(txg);
        let vdev = self.vdev_mut(vdev)?;
        runs.iter().try_for_each(|run| vdev.check_kept(run))?;
        runs.iter().try_for_each(|run| vdev.release(txg, run))
    }

    /// Whether `dva` is allocated, as seen in `txg`: [`Self::try_free`] would succeed.
    ///
    /// # Errors
    /// If it would not.
    pub fn check_allocated(&self, txg: Txg, dva: &Dva) -> Result<(), SpaceError> {
        let vdev = self.vdevs.get(&dva.vdev).ok_or(SpaceError::NoSuchVdev(dva.vdev))?;
        vdev.check_allocated(txg, dva)
    }

    /// Gives back what this very txg allocated and nothing refers to: free at once, or if a sync
    /// pass has recorded it already, freed like any other.
    ///
    /// # Panics
    /// If it was not allocated, or `txg` is done.
    pub fn unalloc(&mut self, txg: Txg, dva: &Dva) {
        self.check_not_done(txg);
        let given_back = self.vdev_mut(dva.vdev).and_then(|vdev| vdev.unalloc(txg, dva));
        if let Err(error) = given_back {
            panic!("txg {txg} gives back {dva:?}: {error}");
        }
    }

    /// Whether `txg` has changed anything, or may have.
    #[must_use]
    pub fn has_changes(&self, txg: Txg) -> bool {
        self.vdevs.values().any(|vdev| vdev.has_changed(txg))
    }

    /// What `txg` changed since this was last asked for it. Within one answer nothing overlaps;
    /// over several, their order is the order in which the space map needs them.
    pub fn take_changes(&mut self, txg: Txg) -> Changes {
        self.check_not_done(txg);
        let vdevs = self.vdevs.iter_mut();
        vdevs
            .flat_map(|(&id, vdev)| {
                let changes = vdev.take_changes(txg).into_iter();
                changes.map(move |(metaslab, changes)| ((id, metaslab), changes))
            })
            .collect()
    }

    /// What is free again once `txg` is done; nobody can allocate it before.
    #[must_use]
    pub fn rested_by(&self, txg: Txg) -> Vec<(VdevId, Segment)> {
        let runs = self.vdevs.iter().map(|(&id, vdev)| vdev.rested_by(txg).map(move |run| (id, run)));
        runs.flatten().collect()
    }

    /// `txg` is stable on all disks: what it freed starts to rest, what was freed two txgs
    /// earlier is free again.
    ///
    /// # Panics
    /// If a later txg was done before, or changes of this one were not taken.
    pub fn sync_done(&mut self, txg: Txg) {
        self.check_not_done(txg);
        self.vdevs.values_mut().for_each(|vdev| vdev.sync_done(txg));
        self.done = txg;
    }

    /// How full a class is.
    #[must_use]
    pub fn space(&self, class: Class) -> SpaceFigures {
        self.in_class(class).map(Vdev::figures).sum()
    }

    /// The same as datasets count it: without parity.
    #[must_use]
    pub fn deflated_space(&self, class: Class) -> SpaceFigures {
        self.in_class(class).map(Vdev::deflated_figures).sum()
    }

    /// The space of those vdevs of a class that new blocks may be put on.
    #[must_use]
    pub fn open_space(&self, class: Class) -> SpaceFigures {
        self.allocating(class).map(Vdev::figures).sum()
    }

    /// The same as datasets count it: without parity.
    #[must_use]
    pub fn deflated_open_space(&self, class: Class) -> SpaceFigures {
        self.allocating(class).map(Vdev::deflated_figures).sum()
    }

    /// How full a vdev is; `None` if there is none of that number.
    #[must_use]
    pub fn vdev_space(&self, id: VdevId) -> Option<SpaceFigures> {
        self.vdevs.get(&id).map(Vdev::figures)
    }

    /// A vdev's geometry.
    #[must_use]
    pub fn vdev_config(&self, id: VdevId) -> Option<VdevConfig> {
        self.vdevs.get(&id).map(|vdev| *vdev.config())
    }

    /// The vdevs of a class, in order.
    #[must_use]
    pub fn vdevs(&self, class: Class) -> &[VdevId] {
        self.rotor(class).vdevs()
    }

    /// The vdevs of a class that new blocks may be put on, in order.
    pub fn takers(&self, class: Class) -> impl Iterator<Item = VdevId> {
        self.allocating(class).map(|vdev| vdev.config().id)
    }

    /// A vdev's metaslabs, in order; none if there is no such vdev.
    #[must_use]
    pub fn metaslabs(&self, id: VdevId) -> &[Metaslab] {
        self.vdevs.get(&id).map_or(&[], Vdev::metaslabs)
    }

    /// One metaslab.
    #[must_use]
    pub fn metaslab(&self, vdev: VdevId, metaslab: MetaslabId) -> Option<&Metaslab> {
        self.metaslabs(vdev).get(metaslab.index())
    }

    /// How scattered a vdev's free space is, in percent; `None` if nothing is free.
    #[must_use]
    pub fn vdev_fragmentation_percent(&self, id: VdevId) -> Option<u8> {
        let (mut free, mut weighted) = (0u128, 0u128);
        for metaslab in self.metaslabs(id) {
            let figures = metaslab.figures();
            let bytes = u128::from(figures.capacity.get() - figures.allocated.get());
            free += bytes;
            weighted += bytes * u128::from(metaslab.fragmentation_percent());
        }
        weighted.checked_div(free).map(|percent| percent as u8)
    }

    /// The same for a class, each vdev counting by its size; `None` if one of them says nothing.
    #[must_use]
    pub fn fragmentation_percent(&self, class: Class) -> Option<u8> {
        let (mut all, mut weighted) = (0u128, 0u128);
        for vdev in self.in_class(class) {
            let bytes = u128::from(vdev.figures().capacity.get());
            all += bytes;
            weighted += bytes * u128::from(self.vdev_fragmentation_percent(vdev.config().id)?);
        }
        weighted.checked_div(all).map(|percent| percent as u8)
    }

    fn in_class(&self, class: Class) -> impl Iterator<Item = &Vdev> {
        self.rotor(class).vdevs().iter().filter_map(|id| self.vdevs.get(id))
    }

    fn allocating(&self, class: Class) -> impl Iterator<Item = &Vdev> {
        self.in_class(class).filter(|vdev| vdev.allocating)
    }

    fn check_not_done(&self, txg: Txg) {
        assert!(txg > self.done, "txg {txg} after txg {} is done", self.done);
    }

    pub(crate) fn vdev_mut(&mut self, id: VdevId) -> Result<&mut Vdev, SpaceError> {
        self.vdevs.get_mut(&id).ok_or(SpaceError::NoSuchVdev(id))
    }

    fn rotor(&self, class: Class) -> &Rotor {
        &self.rotors[class as usize]
    }

    fn rotor_mut(&mut self, class: Class) -> &mut Rotor {
        &mut self.rotors[class as usize]
    }
}
