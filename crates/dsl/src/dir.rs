//! A directory of datasets, in memory.

use std::sync::Arc;

use dmu::{Dnode, Tx};
use ondisk::ObjectType;
use ondisk::dsl::DslDirPhys;
use parking_lot::Mutex;
use units::ObjectId;
use zerocopy::IntoBytes;

use crate::DslError;
use crate::space::Imbalance;

/// A place in the tree of names. Its phys is a copy of the bonus buffer, written through.
pub struct Dir {
    object: ObjectId,
    component: String,
    parent: Option<Arc<Dir>>,
    dnode: Arc<Dnode>,
    phys: Mutex<DslDirPhys>,
}

impl Dir {
    pub(crate) fn load(
        dnode: Arc<Dnode>,
        component: String,
        parent: Option<Arc<Self>>,
    ) -> Result<Self, DslError> {
        let object = dnode.object();
        let phys =
            DslDirPhys::decode(&dnode.bonus()).map_err(|_| DslError::damaged(object, "short DSL dir"))?;
        if dnode.bonus_type() != ObjectType::DSL_DIR {
            return Err(DslError::damaged(object, "not a DSL dir"));
        }
        Ok(Self { object, component, parent, dnode, phys: Mutex::new(phys) })
    }

    /// Its MOS object.
    #[must_use]
    pub fn object(&self) -> ObjectId {
        self.object
    }

    /// Full name, from the pool on.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.parent {
            Some(parent) => format!("{}/{}", parent.name(), self.component),
            None => self.component.clone(),
        }
    }

    /// The last component of its name.
    #[must_use]
    pub fn component(&self) -> &str {
        &self.component
    }

    /// The dir it lies in; `None`: it is the pool's root.
    #[must_use]
    pub fn parent(&self) -> Option<&Arc<Self>> {
        self.parent.as_ref()
    }

    /// Itself and its ancestors, root last.
    pub fn ancestry(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Self>> {
        std::iter::successors(Some(self), |dir| dir.parent.as_ref())
    }

    /// The numbers on disk, as of the newest change.
    #[must_use]
    pub fn phys(&self) -> DslDirPhys {
        *self.phys.lock()
    }

    /// Bytes used by the dir's dataset, its snapshots and all below.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.phys.lock().used_bytes.get()
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

impl std::fmt::Debug for Dir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dir({} {:?})", self.object, self.name())
    }
}
