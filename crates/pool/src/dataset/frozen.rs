//! What a dataset held at one moment: snapshots, and heads as their last txg left them.
//!
//! Nothing here takes part in transaction groups: the objset is opened beside the one that
//! changes (if there is one), and no log is replayed into it.

use std::sync::Arc;

use dmu::Objset;
use dsl::DatasetName;
use dsl::features::ENCRYPTION;
use ondisk::dsl::dataset_flags;
use ondisk::objset::ObjsetType;

use crate::{Pool, PoolError};

/// Why a dataset cannot be used as a file system though nothing is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealed {
    /// Its contents need a key.
    Encrypted,
    /// A stream that it is received from has not come to its end.
    HalfReceived,
}

impl Pool {
    /// The objset of a dataset or snapshot as its last synced txg left it, for looking only.
    /// `None` when it never had anything in it.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`]; [`PoolError::Encrypted`]; when it cannot be read.
    pub async fn frozen_objset(self: &Arc<Self>, name: &str) -> Result<Option<Arc<Objset>>, PoolError> {
        let dataset = self.dsl.resolve(name).await?;
        self.open_frozen(&dataset).await
    }

    /// The same of any dataset, for what it says of itself without a key: of one that is encrypted neither what is
    /// in files nor what is in the bonuses of its objects can be made sense of.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`]; when it cannot be read.
    pub async fn frame(self: &Arc<Self>, name: &str) -> Result<Option<Arc<Objset>>, PoolError> {
        let dataset = self.dsl.resolve(name).await?;
        self.open_any_frozen(&dataset).await
    }

    /// Why a dataset cannot be used as a file system though nothing is wrong with it.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`]; when it cannot be read.
    pub async fn sealed(&self, name: &str) -> Result<Option<Sealed>, PoolError> {
        let dataset = self.dsl.resolve(name).await?;
        let flags = self.dsl.dataset(dataset.dataset).await?.flags.get();
        match self.check_readable(&dataset).await {
            _ if flags & dataset_flags::INCONSISTENT != 0 => Ok(Some(Sealed::HalfReceived)),
            Err(PoolError::Encrypted { .. }) => Ok(Some(Sealed::Encrypted)),
            readable => readable.map(|()| None),
        }
    }

    pub(crate) async fn open_frozen(
        self: &Arc<Self>,
        dataset: &DatasetName,
    ) -> Result<Option<Arc<Objset>>, PoolError> {
        self.check_readable(dataset).await?;
        self.open_any_frozen(dataset).await
    }

    async fn open_any_frozen(
        self: &Arc<Self>,
        dataset: &DatasetName,
    ) -> Result<Option<Arc<Objset>>, PoolError> {
        let root = self.dsl.dataset(dataset.dataset).await?.bp;
        if root.is_hole() {
            return Ok(None);
        }
        let props = self.effective_props(dataset).await?;
        let objset = Objset::open(self.objset_context(dataset, &props), root).await?;
        if dataset.is_snapshot() {
            self.note_reader(dataset, &objset).await?;
        }
        Ok(Some(objset))
    }

    /// # Errors
    /// [`PoolError::Encrypted`].
    pub(crate) async fn check_readable(&self, dataset: &DatasetName) -> Result<(), PoolError> {
        if self.dsl.dataset_uses(dataset, &ENCRYPTION).await? {
            return Err(PoolError::Encrypted { name: dataset.name.clone() });
        }
        Ok(())
    }
}

/// # Errors
/// [`PoolError::NotFilesystem`].
pub(crate) fn check_filesystem(objset: &Objset, name: &str) -> Result<(), PoolError> {
    match objset.kind() {
        ObjsetType::Zfs => Ok(()),
        _ => Err(PoolError::NotFilesystem { name: name.to_owned() }),
    }
}
