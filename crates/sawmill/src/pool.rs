//! An open pool.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use control::{Failure, FailureKind, PoolExport, PoolImport, Service};
use engine::Engine;
use env::boxed;
use pool::{Volume, VolumeSpec};
use vdev::PoolState;

use crate::{Error, Files};

/// Which pool to open, and how.
#[derive(Clone, Debug, Default)]
pub struct Import {
    name: String,
    devices: Vec<PathBuf>,
    read_only: bool,
    force: bool,
}

impl Import {
    /// The pool of this name on these devices.
    #[must_use]
    pub fn named(name: &str, devices: &[impl AsRef<Path>]) -> Self {
        let devices = devices.iter().map(|path| path.as_ref().to_owned()).collect();
        Self { name: name.to_owned(), devices, ..Self::default() }
    }

    /// For reading: nothing is changed, no log replayed.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Though its labels say that another system has it open.
    #[must_use]
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// As it is asked for. An engine looks for all pools where it is told nothing: nobody is meant by that here.
    pub(crate) fn call(&self) -> Result<PoolImport, Error> {
        let search = self.devices.iter().map(|path| text(path)).collect::<Result<Vec<_>, _>>()?;
        if search.is_empty() {
            return Err(Failure::no_such_pool(&self.name).into());
        }
        let props = if self.read_only { vec![("readonly".into(), "on".into())] } else { Vec::new() };
        let (pool, force) = (self.name.clone(), self.force);
        Ok(PoolImport { pool, search, props, force, ..PoolImport::default() })
    }
}

/// A path as requests have it.
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    let refuse = || {
        Failure::new(FailureKind::Invalid, format!("cannot use '{}': the path is not text", path.display()))
    };
    path.to_str().map(str::to_owned).ok_or_else(refuse)
}

/// A pool, its devices held. Dropped without [`Pool::export`] it is left as a crash would leave
/// it: nothing that was made stable is lost.
#[derive(Clone)]
pub struct Pool {
    inner: Arc<pool::Pool>,
    /// Where an engine has it open.
    holder: Option<Arc<Holder>>,
}

/// The engine that has a pool open; lets go of it when the last clone is dropped.
struct Holder {
    engine: Engine,
    pool: Arc<pool::Pool>,
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.engine.drop_pool(&self.pool);
    }
}

impl Pool {
    /// From the layer below: a pool that no engine has open.
    #[must_use]
    pub fn new(inner: Arc<pool::Pool>) -> Self {
        Self { inner, holder: None }
    }

    pub(crate) fn held(engine: Engine, inner: Arc<pool::Pool>) -> Self {
        let holder = Arc::new(Holder { engine, pool: Arc::clone(&inner) });
        Self { inner, holder: Some(holder) }
    }

    /// The layer below: datasets, space, vdevs.
    #[must_use]
    pub fn inner(&self) -> &Arc<pool::Pool> {
        &self.inner
    }

    /// The files of a file system `pool/name`, or of its snapshot `pool/name@snapshot`.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    #[boxed]
    pub async fn filesystem(&self, name: &str) -> Result<Files, Error> {
        let opened = match name.contains('@') {
            true => self.inner.snapshot_filesystem(name).await,
            false => self.inner.filesystem(name).await,
        };
        Ok(Files::new(Arc::clone(&opened?.zfs)))
    }

    /// Makes an empty file system.
    ///
    /// # Errors
    /// When there is one of that name, or its parent is missing.
    #[boxed]
    pub async fn create_filesystem(&self, name: &str) -> Result<(), Error> {
        Ok(self.inner.create_filesystem(name, Vec::new()).await?)
    }

    /// A volume, or a snapshot of one, for looking only: as the last txg left it.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    #[boxed]
    pub async fn volume(&self, name: &str) -> Result<Volume, Error> {
        Ok(self.inner.volume(name).await?)
    }

    /// Makes a volume; nothing is set aside for it.
    ///
    /// # Errors
    /// When there is a dataset of that name, its parent is missing, or there is no volume of such a size.
    #[boxed]
    pub async fn create_volume(&self, name: &str, spec: VolumeSpec) -> Result<(), Error> {
        Ok(self.inner.create_volume(name, spec, Vec::new()).await?)
    }

    /// A volume, for reading and writing.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    #[boxed]
    pub async fn open_volume(&self, name: &str) -> Result<Arc<Volume>, Error> {
        Ok(self.inner.open_volume(name).await?)
    }

    /// Names of all file systems, volumes and snapshots.
    ///
    /// # Errors
    /// When they cannot be read.
    #[boxed]
    pub async fn datasets(&self) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        let dsl = self.inner.dsl();
        for head in dsl.list(&self.inner.name()).await.map_err(pool::PoolError::from)? {
            let snapshots = dsl.snapshots(&head).await.map_err(pool::PoolError::from)?;
            names.push(head.name);
            names.extend(snapshots.into_iter().map(|snapshot| snapshot.name));
        }
        Ok(names)
    }

    /// Makes everything done so far stable.
    ///
    /// # Errors
    /// When that cannot be done.
    #[boxed]
    pub async fn sync(&self) -> Result<(), Error> {
        Ok(self.inner.sync_now().await?)
    }

    /// Makes everything stable and lets the devices go, for any system to import them.
    ///
    /// # Errors
    /// When it cannot be made stable; the pool stays open then.
    #[boxed]
    pub async fn export(&self) -> Result<(), Error> {
        match &self.holder {
            Some(holder) => {
                let call = PoolExport { pool: self.inner.name(), ..PoolExport::default() };
                Ok(holder.engine.pool_export(call).await?)
            }
            None => Ok(self.inner.close(PoolState::Exported).await?),
        }
    }
}
