//! The readers of snapshots, and of heads in their last synced state. A snapshot that is being read
//! is not destroyed, and one that is being destroyed is not opened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use dmu::Objset;
use dsl::{DatasetName, DslError};
use env::boxed;
use ondisk::dsl::dataset_flags;
use parking_lot::Mutex;
use units::{ObjectId, ObjsetId};

use crate::{Pool, PoolError};

/// Objsets that were opened for reading only and may be in use.
#[derive(Default)]
pub(crate) struct Readers(Mutex<State>);

#[derive(Default)]
struct State {
    of: BTreeMap<ObjsetId, Vec<Weak<Objset>>>,
    /// The number of pins of each pinned snapshot.
    pins: BTreeMap<ObjsetId, u64>,
    /// Those that are being destroyed.
    going: BTreeSet<ObjsetId>,
}

impl State {
    fn is_read(&self, objset: ObjsetId) -> bool {
        self.pins.contains_key(&objset)
            || self
                .of
                .get(&objset)
                .is_some_and(|readers| readers.iter().any(|reader| reader.strong_count() > 0))
    }
}

impl Readers {
    /// Somebody reads this one, until it is dropped; false: it is being destroyed.
    fn add(&self, objset: &Arc<Objset>) -> bool {
        let mut state = self.0.lock();
        if state.going.contains(&objset.id()) {
            return false;
        }
        state.of.retain(|_, readers| {
            readers.retain(|reader| reader.strong_count() > 0);
            !readers.is_empty()
        });
        state.of.entry(objset.id()).or_default().push(Arc::downgrade(objset));
        true
    }

    /// Pins a snapshot. Returns false if the snapshot is being destroyed.
    fn pin(&self, objset: ObjsetId) -> bool {
        let mut state = self.0.lock();
        let stays = !state.going.contains(&objset);
        if stays {
            *state.pins.entry(objset).or_default() += 1;
        }
        stays
    }

    fn unpin(&self, objset: ObjsetId) {
        let mut state = self.0.lock();
        if let Some(pins) = state.pins.get_mut(&objset) {
            *pins -= 1;
            if *pins == 0 {
                state.pins.remove(&objset);
            }
        }
    }

    /// From now on nobody comes to read this one, until what this gives is dropped.
    ///
    /// # Errors
    /// [`PoolError::Busy`] when somebody does.
    pub fn keep_out(&self, objset: ObjsetId) -> Result<KeptOut<'_>, PoolError> {
        let mut state = self.0.lock();
        if state.is_read(objset) {
            return Err(PoolError::Busy { objset });
        }
        state.going.insert(objset);
        Ok(KeptOut { readers: self, objset })
    }

    /// # Errors
    /// [`PoolError::Busy`] when somebody reads this one.
    pub fn check_unread(&self, objset: ObjsetId) -> Result<(), PoolError> {
        self.keep_out(objset).map(drop)
    }
}

/// A dataset that cannot be opened for reading while this value exists.
pub(crate) struct KeptOut<'a> {
    readers: &'a Readers,
    objset: ObjsetId,
}

impl Drop for KeptOut<'_> {
    fn drop(&mut self) {
        self.readers.0.lock().going.remove(&self.objset);
    }
}

/// Snapshots that cannot be destroyed while this value exists, whether or not they are being read.
/// The pins are in memory only.
pub struct PinnedSnapshots {
    pool: Arc<Pool>,
    pinned: Vec<ObjsetId>,
}

impl Drop for PinnedSnapshots {
    fn drop(&mut self) {
        self.pinned.iter().for_each(|&objset| self.pool.readers.unpin(objset));
    }
}

impl Pool {
    /// Pins snapshots, so that they are not destroyed.
    ///
    /// # Errors
    /// [`DslError::NoSuchDataset`] for the first snapshot that does not exist or is being
    /// destroyed.
    #[boxed]
    pub async fn pin_snapshots(self: &Arc<Self>, names: &[String]) -> Result<PinnedSnapshots, PoolError> {
        let mut pins = PinnedSnapshots { pool: Arc::clone(self), pinned: Vec::with_capacity(names.len()) };
        for name in names {
            let snapshot = self.dsl.resolve(name).await?;
            let gone = || DslError::NoSuchDataset { name: name.clone() };
            if !self.readers.pin(snapshot.objset()) {
                return Err(gone().into());
            }
            pins.pinned.push(snapshot.objset());
            // The snapshot may have been destroyed or renamed before the pin.
            if self.dsl.resolve(name).await? != snapshot {
                return Err(gone().into());
            }
        }
        Ok(pins)
    }

    /// Keeps readers out of a snapshot that goes once nothing keeps it, before something that keeps it is taken away.
    /// Of other snapshots nobody is kept out, and 0 is none.
    ///
    /// # Errors
    /// [`PoolError::Busy`] when somebody reads it; when it cannot be looked at.
    pub(crate) async fn keep_out_of_deferred(
        &self,
        snapshot: ObjectId,
    ) -> Result<Option<KeptOut<'_>>, PoolError> {
        if snapshot.get() == 0 {
            return Ok(None);
        }
        let flags = self.dsl.dataset(snapshot).await?.flags.get();
        let is_deferred = flags & dataset_flags::DEFER_DESTROY != 0;
        is_deferred.then(|| self.readers.keep_out(ObjsetId::new(snapshot.get()))).transpose()
    }

    /// Records a reader of the objset of a snapshot or a head.
    ///
    /// # Errors
    /// [`DslError::NoSuchDataset`] when it has been destroyed since it was found, or is about to be.
    pub(crate) async fn note_reader(
        &self,
        dataset: &DatasetName,
        objset: &Arc<Objset>,
    ) -> Result<(), PoolError> {
        let is_there = self.readers.add(objset) && self.dsl.resolve(&dataset.name).await? == *dataset;
        let gone = || DslError::NoSuchDataset { name: dataset.name.clone() }.into();
        if is_there { Ok(()) } else { Err(gone()) }
    }
}
