//! What pools run on.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use device::{Env, Options, RamDevice, RealEnv};
use pool::{PoolSpec, Tuning};

use crate::{Error, Import, Pool, Vdev, this_host};

/// Threads, clocks and I/O for any number of pools. Clones are the same engine.
#[derive(Clone)]
pub struct Engine {
    env: Arc<RealEnv>,
    tuning: Tuning,
}

impl Engine {
    /// Starts the threads. With io_uring where the system has it.
    #[must_use]
    pub fn start() -> Self {
        let tuning = Tuning { host: this_host(), ..Tuning::default() };
        Self::with(RealEnv::new(Options::default()), tuning)
    }

    /// On an environment, and with a tuning, that are there already.
    #[must_use]
    pub fn with(env: Arc<RealEnv>, tuning: Tuning) -> Self {
        Self { env, tuning }
    }

    /// Polls `future` on this thread until it is ready.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.env.block_on(future)
    }

    /// A disk in memory, as durable as this engine; gives the path by which vdevs name it.
    #[must_use]
    pub fn ram_disk(&self, name: &str, size_bytes: u64) -> PathBuf {
        let path = PathBuf::from(format!("ram:{name}"));
        self.env.register(&path, Arc::new(RamDevice::new(size_bytes)));
        path
    }

    /// Makes a pool and opens it. Devices that carry the labels of another pool are refused.
    ///
    /// # Errors
    /// When a device is in use, too small or cannot be opened, or a write fails.
    pub async fn create(&self, name: &str, vdevs: &[Vdev]) -> Result<Pool, Error> {
        let spec = PoolSpec {
            name: name.to_owned(),
            vdevs: vdevs.iter().map(Vdev::spec).collect(),
            root_props: Vec::new(),
            comment: None,
            force: false,
        };
        Ok(Pool::new(pool::Pool::create(self.env(), spec, self.tuning.clone()).await?))
    }

    /// Opens a pool that lies on these devices, to be changed.
    ///
    /// # Errors
    /// As [`Engine::import_as`].
    pub async fn import(&self, name: &str, devices: &[impl AsRef<Path>]) -> Result<Pool, Error> {
        self.import_as(&Import::named(name, devices)).await
    }

    /// Opens a pool. Intent logs are replayed when their datasets are first used.
    ///
    /// # Errors
    /// When it is not found, in use, damaged, or needs what is not supported.
    pub async fn import_as(&self, how: &Import) -> Result<Pool, Error> {
        Ok(Pool::new(pool::Pool::import(self.env(), how.spec(), self.tuning.clone()).await?))
    }

    /// The environment below.
    #[must_use]
    pub fn env(&self) -> Arc<dyn Env> {
        Arc::clone(&self.env) as Arc<dyn Env>
    }
}
