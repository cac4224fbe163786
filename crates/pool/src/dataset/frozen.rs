//! What a dataset held at one moment: snapshots, and heads as their last txg left them.
//!
//! Nothing here takes part in transaction groups: the objset is opened beside the one that
//! changes (if there is one), and no log is replayed into it.

use std::sync::Arc;

use dmu::Objset;
use dsl::features::ENCRYPTION;
use dsl::{DatasetName, DslError};
use env::boxed;
use ondisk::dsl::dataset_flags;
use ondisk::objset::ObjsetType;

use crate::{DatasetView, Pool, PoolError};

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
    #[boxed]
    pub async fn frozen_objset(self: &Arc<Self>, name: &str) -> Result<Option<Arc<Objset>>, PoolError> {
        let dataset = self.dsl.resolve(name).await?;
        self.open_frozen(&dataset).await
    }

    /// Opens the objset of any dataset, encrypted or not, for the facts that need no key. The file
    /// contents and bonus buffers of an encrypted dataset are unreadable. The objset is valid as
    /// long as the view is held. The view keeps a snapshot from being destroyed, and a destroy that
    /// follows does not fail as busy.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`]; when it cannot be read.
    #[boxed]
    pub async fn frame(
        self: &Arc<Self>,
        name: &str,
        _view: &DatasetView<'_>,
    ) -> Result<Option<Arc<Objset>>, PoolError> {
        let dataset = self.dsl.resolve(name).await?;
        self.open_root(&dataset).await
    }

    /// Why a dataset cannot be used as a file system though nothing is wrong with it.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`]; when it cannot be read.
    #[boxed]
    pub async fn sealed(&self, name: &str) -> Result<Option<Sealed>, PoolError> {
        let dataset = self.dsl.resolve(name).await?;
        let flags = self.dsl.dataset(dataset.dataset).await?.flags.get();
        match self.check_readable(&dataset).await {
            _ if flags & dataset_flags::INCONSISTENT != 0 => Ok(Some(Sealed::HalfReceived)),
            Err(PoolError::Encrypted { .. }) => Ok(Some(Sealed::Encrypted)),
            readable => readable.map(|()| None),
        }
    }

    /// As [`Self::frozen_objset`], for a dataset that was resolved before. The dataset is neither
    /// destroyed nor rolled back while the objset is in use.
    ///
    /// # Errors
    /// [`PoolError::Encrypted`]; [`dsl::DslError::NoSuchDataset`] when a snapshot has been
    /// destroyed or renamed since it was resolved; or when the dataset cannot be read.
    #[boxed]
    pub async fn open_frozen(
        self: &Arc<Self>,
        dataset: &DatasetName,
    ) -> Result<Option<Arc<Objset>>, PoolError> {
        self.open_in(dataset, &self.view().await).await
    }

    /// As [`Self::open_frozen`], for a caller that holds a view.
    pub(crate) async fn open_in(
        self: &Arc<Self>,
        dataset: &DatasetName,
        _view: &DatasetView<'_>,
    ) -> Result<Option<Arc<Objset>>, PoolError> {
        if self.dsl.resolve(&dataset.name).await? != *dataset {
            return Err(DslError::NoSuchDataset { name: dataset.name.clone() }.into());
        }
        self.check_readable(dataset).await?;
        let objset = self.open_root(dataset).await?;
        if let Some(objset) = &objset {
            self.note_reader(dataset, objset).await?;
        }
        Ok(objset)
    }

    async fn open_root(self: &Arc<Self>, dataset: &DatasetName) -> Result<Option<Arc<Objset>>, PoolError> {
        let root = self.dsl.dataset(dataset.dataset).await?.bp;
        if root.is_hole() {
            return Ok(None);
        }
        let props = self.effective_props(dataset).await?;
        Ok(Some(Objset::open(self.objset_context(dataset, &props), root).await?))
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
