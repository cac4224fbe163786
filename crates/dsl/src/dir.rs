//! A directory of datasets, in memory.

use std::sync::Arc;

use dmu::{Dnode, Tx};
use ondisk::ObjectType;
use ondisk::dsl::DslDirPhys;
use parking_lot::Mutex;
use units::ObjectId;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

use crate::DslError;
use crate::space::Imbalance;

/// A place in the tree of names. Its phys is a copy of the bonus buffer, written through.
pub(crate) struct Dir {
    object: ObjectId,
    /// Changes when it is renamed.
    parent: Mutex<Option<Arc<Dir>>>,
    dnode: Arc<Dnode>,
    phys: Mutex<DslDirPhys>,
}

/// Reads a dir's numbers.
pub(crate) fn decode(dnode: &Dnode) -> Result<DslDirPhys, DslError> {
    let object = dnode.object();
    if dnode.bonus_type() != ObjectType::DSL_DIR {
        return Err(DslError::damaged(object, "not a DSL dir"));
    }
    DslDirPhys::decode(&dnode.bonus()).map_err(|_| DslError::damaged(object, "short DSL dir"))
}

impl Dir {
    pub(crate) fn load(dnode: Arc<Dnode>, parent: Option<Arc<Self>>) -> Result<Self, DslError> {
        let phys = Mutex::new(decode(&dnode)?);
        Ok(Self { object: dnode.object(), parent: Mutex::new(parent), dnode, phys })
    }

    pub(crate) fn object(&self) -> ObjectId {
        self.object
    }

    /// The dir it lies in; `None`: it is the pool's root.
    pub(crate) fn parent(&self) -> Option<Arc<Self>> {
        self.parent.lock().clone()
    }

    /// Has it lie in another dir from now on. Names and space are the caller's business.
    pub(crate) fn move_to(&self, tx: &Tx, parent: Arc<Self>) -> Result<(), DslError> {
        self.change(tx, |phys| phys.parent = U64::new(parent.object().get()))?;
        *self.parent.lock() = Some(parent);
        Ok(())
    }

    /// Itself and its ancestors, root last.
    pub(crate) fn ancestry(self: &Arc<Self>) -> impl Iterator<Item = Arc<Self>> + use<> {
        std::iter::successors(Some(Arc::clone(self)), |dir| dir.parent())
    }

    /// The numbers on disk, as of the newest change.
    pub(crate) fn phys(&self) -> DslDirPhys {
        *self.phys.lock()
    }

    pub(crate) fn dnode(&self) -> &Arc<Dnode> {
        &self.dnode
    }

    /// Changes the phys and writes it through.
    pub(crate) fn change(&self, tx: &Tx, edit: impl FnOnce(&mut DslDirPhys)) -> Result<(), DslError> {
        self.try_change(tx, |phys| {
            edit(phys);
            Ok(())
        })
    }

    /// Changes the phys and writes it through, unless `edit` finds that its sums do not add up.
    pub(crate) fn try_change<R>(
        &self,
        tx: &Tx,
        edit: impl FnOnce(&mut DslDirPhys) -> Result<R, Imbalance>,
    ) -> Result<R, DslError> {
        let mut phys = self.phys.lock();
        let mut edited = *phys;
        let result = edit(&mut edited).map_err(|Imbalance| Imbalance.of(self.object))?;
        self.dnode.set_bonus(tx, ObjectType::DSL_DIR, edited.as_bytes())?;
        *phys = edited;
        Ok(result)
    }
}
