//! A dataset, in memory: a head, which changes, or a snapshot, which does not.

use std::sync::Arc;

use dmu::{Dnode, Tx};
use ondisk::dsl::DslDatasetPhys;
use ondisk::{Blkptr, ObjectType};
use parking_lot::Mutex;
use units::{ObjectId, ObjsetId};
use zerocopy::IntoBytes;

use crate::space::Imbalance;
use crate::{Dir, DslError};

/// What becomes of a block that a dataset no longer refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeWhen {
    /// No snapshot knows it: free it in this group.
    Now,
    /// The latest snapshot refers to it: it goes to the dataset's deadlist.
    Deadlist,
}

/// A dataset. Its phys is a copy of the bonus buffer, written through.
pub struct Dataset {
    object: ObjectId,
    dir: Arc<Dir>,
    /// What stands after the `@`; `None`: the head.
    snapshot: Option<String>,
    dnode: Arc<Dnode>,
    state: Mutex<State>,
}

struct State {
    phys: DslDatasetPhys,
    refquota: u64,
    refreservation: u64,
}

impl Dataset {
    pub(crate) fn load(
        dnode: Arc<Dnode>,
        dir: Arc<Dir>,
        snapshot: Option<String>,
    ) -> Result<Self, DslError> {
        let object = dnode.object();
        let phys =
            DslDatasetPhys::decode(&dnode.bonus()).map_err(|_| DslError::damaged(object, "short DSL dataset"))?;
        if dnode.bonus_type() != ObjectType::DSL_DATASET {
            return Err(DslError::damaged(object, "not a DSL dataset"));
        }
        if phys.dir.get() != dir.object().get() {
            return Err(DslError::damaged(object, "dataset of another dir"));
        }
        let state = Mutex::new(State { phys, refquota: 0, refreservation: 0 });
        Ok(Self { object, dir, snapshot, dnode, state })
    }

    /// Its MOS object.
    #[must_use]
    pub fn object(&self) -> ObjectId {
        self.object
    }

    /// The number of its objset: that of its MOS object.
    #[must_use]
    pub fn objset(&self) -> ObjsetId {
        ObjsetId::new(self.object.get())
    }

    /// The dir it belongs to.
    #[must_use]
    pub fn dir(&self) -> &Arc<Dir> {
        &self.dir
    }

    /// Full name: `pool/dir`, or `pool/dir@snapshot`.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.snapshot {
            Some(snapshot) => format!("{}@{snapshot}", self.dir.name()),
            None => self.dir.name(),
        }
    }

    /// Whether it is a snapshot.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.phys().is_snapshot()
    }

    /// The numbers on disk, as of the newest change.
    #[must_use]
    pub fn phys(&self) -> DslDatasetPhys {
        self.state.lock().phys
    }

    /// The root of its objset, as of the last sync; a hole while it has none.
    #[must_use]
    pub fn root(&self) -> Blkptr {
        self.state.lock().phys.bp
    }

    /// Most bytes it may refer to, without snapshots and children; 0: no limit.
    #[must_use]
    pub fn refquota(&self) -> u64 {
        self.state.lock().refquota
    }

    /// Bytes set aside for it, without snapshots and children.
    #[must_use]
    pub fn refreservation(&self) -> u64 {
        self.state.lock().refreservation
    }

    /// What to do with a block that the dataset no longer refers to.
    #[must_use]
    pub fn when_to_free(&self, bp: &Blkptr) -> FreeWhen {
        if bp.birth().get() > self.phys().prev_snapshot_txg.get() { FreeWhen::Now } else { FreeWhen::Deadlist }
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

impl std::fmt::Debug for Dataset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dataset({} {:?})", self.object, self.name())
    }
}
