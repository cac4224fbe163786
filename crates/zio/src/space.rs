//! Space: who may be allocated from, what is given back.

use std::collections::BTreeSet;

use env::boxed;
use metaslab::{Allocator, Class, SpaceError, VdevConfig, VdevConfigError};
use ondisk::{Blkptr, Dva};
use units::{Asize, Psize, Txg, VdevId};
use vdev::{Bias, Located, Run, Top, VdevError};

use crate::embedded::GANG_HEADER_BYTES;
use crate::{Bookmark, Leak, Zio, ZioError};

fn space_config(top: &Top) -> VdevConfig {
    let config = top.config();
    VdevConfig {
        id: top.id(),
        class: class_of(config.bias),
        ashift: top.ashift(),
        asize: Asize::new(config.asize),
        ms_shift: u8::try_from(config.metaslab_shift).unwrap_or(u8::MAX),
        spread: top.spread(),
    }
}

impl Zio {
    /// Makes a vdev's space known, all of it free; space maps are loaded through
    /// [`Self::with_allocator`].
    ///
    /// # Errors
    /// When it is known already, or its geometry is impossible.
    pub fn add_vdev(&self, top: &Top) -> Result<(), VdevConfigError> {
        self.with_allocator(|allocator| allocator.add_vdev(space_config(top)))
    }

    /// The same for a vdev of which the pool's configuration on disk does not know: no block goes there before
    /// [`Self::use_vdev`].
    ///
    /// # Errors
    /// As [`Self::add_vdev`].
    pub fn announce_vdev(&self, top: &Top) -> Result<(), VdevConfigError> {
        self.with_allocator(|allocator| {
            allocator.add_vdev(space_config(top))?;
            allocator.set_allocating(top.id(), false);
            Ok(())
        })
    }

    /// From now on blocks may go to an announced vdev.
    pub fn use_vdev(&self, id: VdevId) {
        self.with_allocator(|allocator| allocator.set_allocating(id, true));
    }

    /// From now on no block goes to a vdev.
    pub fn rest_vdev(&self, id: VdevId) {
        self.with_allocator(|allocator| allocator.set_allocating(id, false));
    }

    /// What datasets are charged for all copies of a block, in bytes: without parity.
    #[must_use]
    pub fn charged_bytes(&self, bp: &Blkptr) -> u64 {
        if bp.is_hole() || bp.is_embedded() {
            return 0;
        }
        let charge = |dva: Dva| self.vdevs.top(dva.vdev).map_or(dva.asize, |top| top.deflated(dva.asize));
        bp.dvas().fold(0, |sum, dva| sum.saturating_add(charge(dva).get()))
    }

    /// Whether somebody may name a block by other places than this pointer does, because its vdev was removed. Who counts
    /// references by the place cannot count those.
    #[must_use]
    pub fn may_have_two_names(&self, bp: &Blkptr) -> bool {
        let run = |dva: Dva| Run { vdev: dva.vdev, offset: dva.offset, len: dva.asize.get() };
        bp.dvas().any(|dva| self.vdevs.may_have_two_names(run(dva)))
    }

    /// Looks at or changes the pool's space. Nothing that waits may happen in `look`.
    pub fn with_allocator<R>(&self, look: impl FnOnce(&mut Allocator) -> R) -> R {
        look(&mut self.allocator.lock())
    }

    /// Frees all copies of a block in `txg`, or keeps them for the pool's checkpoint, and forgets
    /// its contents. Holes and embedded blocks have nothing to free. Of a gang, headers are read
    /// and all members freed. A copy on a removed vdev is freed at its present place, and noted as
    /// obsolete there ([`Self::take_obsolete`]). Members of a gang whose header is lost stay
    /// allocated: a [`Leak`].
    ///
    /// # Errors
    /// When a copy is not allocated. Then nothing has changed.
    #[boxed]
    pub async fn free(&self, txg: Txg, bp: &Blkptr) -> Result<(), ZioError> {
        self.cache.forget(bp);
        let (all, lost_bytes) = match bp.is_hole() || bp.is_embedded() {
            true => (Vec::new(), 0),
            false => self.places_to_free(bp).await?,
        };
        let Taken { places, obsolete } = self.taken_by(all)?.with_copies(self)?;
        self.check_freed_once(&places)?;
        let mut allocator = self.allocator.lock();
        for &dva in &places {
            allocator.check_allocated(txg, &dva).map_err(|source| ZioError::Space { dva, source })?;
        }
        for dva in &places {
            self.unstable.forget(dva);
            allocator.free_or_keep(txg, bp.physical_birth(), dva);
        }
        if !obsolete.is_empty() {
            self.obsolete.lock().entry(txg).or_default().extend(obsolete);
        }
        if lost_bytes > 0 {
            self.note_leak(Leak { bookmark: None, birth: bp.birth(), bytes: lost_bytes });
        }
        Ok(())
    }

    /// Refuses places that overlap, as those of a forged gang can: none can be freed twice.
    fn check_freed_once(&self, places: &[Dva]) -> Result<(), ZioError> {
        if places.len() < 2 {
            return Ok(());
        }
        let len = |dva: &Dva| self.vdevs.top(dva.vdev).map_or(0, |top| on_its_vdev(&top, *dva));
        let mut sorted: Vec<&Dva> = places.iter().collect();
        sorted.sort_unstable_by_key(|dva| (dva.vdev, dva.offset));
        let overlap = sorted.windows(2).find(|two| {
            let end = two[0].offset.get().saturating_add(len(two[0]));
            two[0].vdev == two[1].vdev && end > two[1].offset.get()
        });
        let Some(&[_, &dva]) = overlap else { return Ok(()) };
        let Dva { vdev, offset, asize, .. } = dva;
        Err(ZioError::Space { dva, source: SpaceError::NotAllocated { vdev, offset, len: asize } })
    }

    /// Returns the size that datasets are charged for a gang header at `dva`.
    pub(crate) fn header_charge(&self, dva: Dva) -> u64 {
        let header = Psize::new(GANG_HEADER_BYTES as u64);
        let charge = |top: &Top| top.deflated(header.allocated_over(top.ashift(), top.spread())).get();
        self.vdevs.top(dva.vdev).map_or(0, |top| charge(&top))
    }

    /// Notes that nothing refers to a block any more by the places that it had on removed vdevs; where it is now, others
    /// may have it.
    ///
    /// # Errors
    /// When such a place is not mapped.
    pub fn note_obsolete(&self, txg: Txg, bp: &Blkptr) -> Result<(), ZioError> {
        let mut taken = Taken::default();
        for dva in bp.dvas() {
            if let Ok(top) = self.vdevs.top(dva.vdev)
                && top.is_removed()
            {
                taken.add_removed(self, &top, dva)?;
            }
        }
        self.obsolete.lock().entry(txg).or_default().extend(taken.obsolete);
        Ok(())
    }

    /// Forgets what was obsolete of a vdev in `txg`: it is not removed after all.
    pub fn drop_obsolete(&self, txg: Txg, vdev: VdevId) {
        if let Some(runs) = self.obsolete.lock().get_mut(&txg) {
            runs.retain(|run| run.vdev != vdev);
        }
    }

    /// Runs of removed vdevs' space that nothing refers to any more, of all that was freed in `txg` since this was
    /// last asked.
    pub fn take_obsolete(&self, txg: Txg) -> Vec<Run> {
        self.obsolete.lock().remove(&txg).unwrap_or_default()
    }

    /// What a block takes.
    async fn taken(&self, bp: &Blkptr) -> Result<Taken, ZioError> {
        if bp.is_hole() || bp.is_embedded() {
            return Ok(Taken::default());
        }
        self.taken_by(self.places(bp, &Bookmark::default()).await?)
    }

    fn taken_by(&self, places: Vec<Dva>) -> Result<Taken, ZioError> {
        let mut taken = Taken::default();
        for dva in places {
            match self.vdevs.top(dva.vdev) {
                Ok(top) if top.is_removed() => taken.add_removed(self, &top, dva)?,
                // The allocator knows all the others, and says so of those that it does not know.
                _ => taken.places.push(dva),
            }
        }
        taken.check_apart()?;
        Ok(taken)
    }

    /// Gives back a block of this very txg that nothing refers to, as a log block that was
    /// reserved and never written. Not for gangs.
    pub fn unalloc(&self, txg: Txg, bp: &Blkptr) {
        self.cache.forget(bp);
        let mut allocator = self.allocator.lock();
        bp.dvas().for_each(|dva| allocator.unalloc(txg, &dva));
    }

    /// Marks all copies of a block as allocated in `txg`, while importing.
    ///
    /// # Errors
    /// When one is not free, or lies on a vdev that is being removed, copies before it stay claimed, for the import fails;
    /// when a gang's header cannot be read.
    #[boxed]
    pub async fn claim(&self, txg: Txg, bp: &Blkptr) -> Result<(), ZioError> {
        let Taken { places, .. } = self.taken(bp).await?;
        // What is free on a vdev that is being removed was not copied, and never will be if it lies before the end.
        if let Some(&dva) = places.iter().find(|dva| self.is_leaving(dva.vdev)) {
            let (vdev, offset, len) = (dva.vdev, dva.offset, dva.asize.get());
            return Err(ZioError::Removed { dva, source: VdevError::Unmapped { vdev, offset, len } });
        }
        let mut allocator = self.allocator.lock();
        for dva in places {
            allocator.claim(txg, &dva).map_err(|source| ZioError::Space { dva, source })?;
        }
        Ok(())
    }

    fn is_leaving(&self, vdev: VdevId) -> bool {
        self.vdevs.top(vdev).is_ok_and(|top| top.config().leaving.is_some())
    }

    /// Vdevs that took cached writes since this was last asked: what a sync has to flush before
    /// its uberblock. If that flush fails, those writes are lost, whatever a later one says.
    pub fn take_unflushed(&self) -> BTreeSet<VdevId> {
        std::mem::take(&mut self.unflushed.lock())
    }

    /// Makes all completed writes to these vdevs stable.
    ///
    /// # Errors
    /// When one of them could not.
    #[boxed]
    pub async fn flush(&self, vdevs: &[VdevId]) -> Result<(), ZioError> {
        self.vdevs.flush(vdevs.iter().copied()).await.map_err(ZioError::Flush)
    }

    /// Notes that a vdev took a cached write.
    pub fn note_unflushed(&self, vdev: VdevId) {
        self.unflushed.lock().extend(self.vdevs.behind(vdev));
    }
}

/// The space of a block.
#[derive(Default)]
struct Taken {
    /// On vdevs in use.
    places: Vec<Dva>,
    /// On vdevs that were removed.
    obsolete: Vec<Run>,
}

impl Taken {
    /// Adds a copy on a removed vdev.
    fn add_removed(&mut self, zio: &Zio, top: &Top, dva: Dva) -> Result<(), ZioError> {
        let len = on_its_vdev(top, dva);
        let located = zio.vdevs.locate(Run { vdev: dva.vdev, offset: dva.offset, len });
        let Located { pieces, passed } = located.map_err(|source| ZioError::Removed { dva, source })?;
        self.places.extend(pieces.into_iter().map(Run::dva));
        self.obsolete.extend(passed);
        Ok(())
    }

    /// The same with what was copied of it from a vdev that is being removed: it is free in both places, and what it
    /// was on the old one is obsolete. What was not copied yet is free there, and is never copied.
    fn with_copies(mut self, zio: &Zio) -> Result<Self, ZioError> {
        for at in 0..self.places.len() {
            let dva = self.places[at];
            let Ok(top) = zio.vdevs.top(dva.vdev) else { continue };
            let len = on_its_vdev(&top, dva);
            let located = zio.vdevs.copied(Run { vdev: dva.vdev, offset: dva.offset, len });
            let Located { pieces, passed } = located.map_err(|source| ZioError::Removed { dva, source })?;
            self.places.extend(pieces.into_iter().map(Run::dva));
            self.obsolete.extend(passed);
        }
        self.check_apart()?;
        Ok(self)
    }

    /// No mapping may lead two pieces of a block to one place: it cannot be freed twice.
    fn check_apart(&self) -> Result<(), ZioError> {
        if self.obsolete.is_empty() {
            return Ok(());
        }
        let mut places: Vec<&Dva> = self.places.iter().filter(|dva| !dva.gang).collect();
        places.sort_unstable();
        let end = |dva: &Dva| dva.offset.get().saturating_add(dva.asize.get());
        let overlap =
            places.windows(2).find(|two| two[0].vdev == two[1].vdev && end(two[0]) > two[1].offset.get());
        match overlap {
            Some(two) => {
                let (vdev, offset, len) = (two[1].vdev, two[1].offset, two[1].asize.get());
                let source = VdevError::Unmapped { vdev, offset, len };
                Err(ZioError::Removed { dva: *two[1], source })
            }
            None => Ok(()),
        }
    }
}

/// How many bytes a copy takes. Of a gang that is only the header: its members are copies of their own.
fn on_its_vdev(top: &Top, dva: Dva) -> u64 {
    match dva.gang {
        true => top.ashift().round_up(GANG_HEADER_BYTES as u64),
        false => dva.asize.get(),
    }
}

/// The class that a vdev serves.
const fn class_of(bias: Bias) -> Class {
    match bias {
        Bias::None => Class::Normal,
        Bias::Log => Class::Log,
        Bias::Special => Class::Special,
        Bias::Dedup => Class::Dedup,
    }
}

#[cfg(test)]
mod tests {
    use units::VdevOffset;

    use super::*;

    fn run(vdev: u32, offset: u64, len: u64) -> Run {
        Run { vdev: VdevId::new(vdev), offset: VdevOffset::new(offset), len }
    }

    #[test]
    fn pieces_of_a_block_that_a_mapping_leads_to_one_place_are_not_freed_twice() {
        let taken = |pieces: &[Run]| Taken {
            places: pieces.iter().map(|piece| piece.dva()).collect(),
            obsolete: vec![run(1, 0, 0x400)],
        };
        assert!(taken(&[run(0, 0x200, 0x200), run(0, 0, 0x200), run(2, 0, 0x400)]).check_apart().is_ok());
        for twice in [run(0, 0, 0x200), run(0, 0x1e00, 0x400), run(0, 0x2000, 0x200)] {
            let overlapping = taken(&[run(0, 0, 0x200), run(0, 0x2000, 0x200), twice]).check_apart();
            assert!(matches!(overlapping, Err(ZioError::Removed { .. })), "{twice:?}: {overlapping:?}");
        }
    }
}
