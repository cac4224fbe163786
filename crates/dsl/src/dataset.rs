//! A dataset, in memory: a head, which changes, or a snapshot, which does not.

pub(crate) mod block_kill;
pub(crate) mod deadlist;
pub(crate) mod livelist;
pub(crate) mod written;

use std::sync::Arc;

use dmu::{Dnode, Tx};
use ondisk::ObjectType;
use ondisk::dsl::DslDatasetPhys;
use parking_lot::Mutex;
use units::ObjectId;
use zerocopy::IntoBytes;

use crate::DslError;
use crate::dir::Dir;
use crate::space::Imbalance;

/// A dataset. Its phys is a copy of the bonus buffer, written through.
pub(crate) struct Dataset {
    object: ObjectId,
    dir: Arc<Dir>,
    dnode: Arc<Dnode>,
    state: Mutex<State>,
}

struct State {
    phys: DslDatasetPhys,
    refquota: u64,
    refreservation: u64,
}

/// Reads a dataset's numbers.
pub(crate) fn decode(dnode: &Dnode) -> Result<DslDatasetPhys, DslError> {
    let object = dnode.object();
    if dnode.bonus_type() != ObjectType::DSL_DATASET {
        return Err(DslError::damaged(object, "not a DSL dataset"));
    }
    DslDatasetPhys::decode(&dnode.bonus()).map_err(|_| DslError::damaged(object, "short DSL dataset"))
}

impl Dataset {
    pub(crate) fn load(dnode: Arc<Dnode>, dir: Arc<Dir>) -> Result<Self, DslError> {
        let phys = decode(&dnode)?;
        if phys.dir.get() != dir.object().get() {
            return Err(DslError::damaged(dnode.object(), "dataset of another dir"));
        }
        let state = Mutex::new(State { phys, refquota: 0, refreservation: 0 });
        Ok(Self { object: dnode.object(), dir, dnode, state })
    }

    pub(crate) fn object(&self) -> ObjectId {
        self.object
    }

    pub(crate) fn dir(&self) -> &Arc<Dir> {
        &self.dir
    }

    pub(crate) fn is_snapshot(&self) -> bool {
        self.phys().is_snapshot()
    }

    /// The numbers on disk, as of the newest change.
    pub(crate) fn phys(&self) -> DslDatasetPhys {
        self.state.lock().phys
    }

    /// Most bytes it may refer to, without snapshots and children; 0: no limit.
    pub(crate) fn refquota(&self) -> u64 {
        self.state.lock().refquota
    }

    /// Bytes set aside for it, without snapshots and children.
    pub(crate) fn refreservation(&self) -> u64 {
        self.state.lock().refreservation
    }

    /// Takes over what its properties say; they lie elsewhere.
    pub(crate) fn set_limits(&self, refquota: u64, refreservation: u64) {
        let mut state = self.state.lock();
        state.refquota = refquota;
        state.refreservation = refreservation;
    }

    pub(crate) fn dnode(&self) -> &Arc<Dnode> {
        &self.dnode
    }

    /// Changes the phys and writes it through.
    pub(crate) fn change(&self, tx: &Tx, edit: impl FnOnce(&mut DslDatasetPhys)) -> Result<(), DslError> {
        self.try_change(tx, |phys| {
            edit(phys);
            Ok(())
        })
    }

    /// Changes the phys and writes it through, unless `edit` finds that its sums do not add up.
    pub(crate) fn try_change<R>(
        &self,
        tx: &Tx,
        edit: impl FnOnce(&mut DslDatasetPhys) -> Result<R, Imbalance>,
    ) -> Result<R, DslError> {
        let mut state = self.state.lock();
        let mut edited = state.phys;
        let result = edit(&mut edited).map_err(|Imbalance| Imbalance.of(self.object))?;
        self.dnode.set_bonus(tx, ObjectType::DSL_DATASET, edited.as_bytes())?;
        state.phys = edited;
        Ok(result)
    }
}
