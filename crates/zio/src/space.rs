//! Space: who may be allocated from, what is given back.

use std::collections::BTreeSet;

use metaslab::{Allocator, Class, VdevConfig, VdevConfigError};
use ondisk::{Blkptr, Dva};
use units::{Asize, Txg, VdevId};
use vdev::{Bias, Top};

use crate::{Bookmark, Zio, ZioError};

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

    /// What datasets are charged for all copies of a block, in bytes: without parity.
    #[must_use]
    pub fn charged_bytes(&self, bp: &Blkptr) -> u64 {
        if bp.is_hole() || bp.is_embedded() {
            return 0;
        }
        let charge = |dva: Dva| self.vdevs.top(dva.vdev).map_or(dva.asize, |top| top.deflated(dva.asize));
        bp.dvas().fold(0, |sum, dva| sum.saturating_add(charge(dva).get()))
    }

    /// Looks at or changes the pool's space. Nothing that waits may happen in `look`.
    pub fn with_allocator<R>(&self, look: impl FnOnce(&mut Allocator) -> R) -> R {
        look(&mut self.allocator.lock())
    }

    /// Frees all copies of a block in `txg`, or keeps them for the pool's checkpoint, and forgets its contents. Holes
    /// and embedded blocks have nothing to free; of a gang, headers are read and all members freed.
    ///
    /// # Errors
    /// When a copy is not allocated, or a gang's header cannot be read; nothing has changed then.
    pub async fn free(&self, txg: Txg, bp: &Blkptr) -> Result<(), ZioError> {
        self.cache.forget(bp);
        let places = self.places_of(bp).await?;
        let mut allocator = self.allocator.lock();
        for &dva in &places {
            allocator.check_allocated(txg, &dva).map_err(|source| ZioError::Space { dva, source })?;
        }
        for dva in &places {
            self.unstable.forget(dva);
            allocator.free_or_keep(txg, bp.physical_birth(), dva);
        }
        Ok(())
    }

    async fn places_of(&self, bp: &Blkptr) -> Result<Vec<Dva>, ZioError> {
        if bp.is_hole() || bp.is_embedded() {
            Ok(Vec::new())
        } else {
            self.places(bp, &Bookmark::default()).await
        }
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
    /// When one is not free, copies before it stay claimed, for the import fails; when a gang's
    /// header cannot be read.
    pub async fn claim(&self, txg: Txg, bp: &Blkptr) -> Result<(), ZioError> {
        let places = self.places_of(bp).await?;
        let mut allocator = self.allocator.lock();
        for dva in places {
            allocator.claim(txg, &dva).map_err(|source| ZioError::Space { dva, source })?;
        }
        Ok(())
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
    pub async fn flush(&self, vdevs: &[VdevId]) -> Result<(), ZioError> {
        self.vdevs.flush(vdevs.iter().copied()).await.map_err(ZioError::Flush)
    }

    pub(crate) fn note_unflushed(&self, vdev: VdevId) {
        self.unflushed.lock().insert(vdev);
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
