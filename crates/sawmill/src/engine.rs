//! What pools run on.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use control::{PoolCreate, Service};
use device::{Options, RealEnv, RealMachine};
use engine::{Ground, OnTheSpot, memory};
use env::{Env, RamDevice, boxed};
use pool::Tuning;

use crate::{Error, Import, Pool, Vdev, this_host};

/// Threads, clocks and I/O for any number of pools, and the rules by which they are made and opened: those of
/// the daemon, whose engine this is, without its socket and its mounts. Clones are the same engine.
#[derive(Clone)]
pub struct Engine {
    env: Arc<RealEnv>,
    inner: engine::Engine,
}

impl Engine {
    /// Starts the threads. With io_uring where the system has it.
    #[must_use]
    pub fn start() -> Self {
        let tuning = Tuning { host: this_host(), ..Tuning::default() };
        Self::with(RealEnv::new(Options::default()), tuning)
    }

    /// On an environment, and with a tuning, that are there already. Pools share the memory that the tuning
    /// says, or what suits the machine.
    #[must_use]
    pub fn with(env: Arc<RealEnv>, tuning: Tuning) -> Self {
        let machine = RealMachine::default();
        let of_machine = || memory::part(machine.memory_bytes(), machine.limit_bytes());
        let memory_bytes = tuning.memory_bytes.unwrap_or_else(of_machine);
        let pid = std::process::id();
        let options = engine::Options { cache: None, cache_files: None, memory_bytes, tuning, pid };
        let ground = Ground {
            env: Arc::clone(&env) as Arc<dyn Env>,
            machine: Arc::new(machine),
            front: None,
            runner: Arc::new(OnTheSpot),
        };
        Self { inner: engine::Engine::new(ground, options), env }
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

    /// Makes a pool and opens it. Devices that carry the labels of another pool, or a file system, are refused.
    ///
    /// # Errors
    /// [`Error::Refused`] when a device is in use, too small or cannot be opened, or a write fails.
    #[boxed]
    pub async fn create(&self, name: &str, vdevs: &[Vdev]) -> Result<Pool, Error> {
        let vdevs = vdevs.iter().map(Vdev::spec).collect::<Result<_, _>>()?;
        let call = PoolCreate { name: name.to_owned(), vdevs, ..PoolCreate::default() };
        self.inner.pool_create(call).await?;
        Ok(self.opened(name))
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
    /// [`Error::Refused`] when it is not found, in use, damaged, or needs what is not supported.
    #[boxed]
    pub async fn import_as(&self, how: &Import) -> Result<Pool, Error> {
        let imported = self.inner.pool_import(how.call()?).await?;
        Ok(self.opened(&imported.name))
    }

    /// The environment below.
    #[must_use]
    pub fn env(&self) -> Arc<dyn Env> {
        Arc::clone(&self.env) as Arc<dyn Env>
    }

    fn opened(&self, name: &str) -> Pool {
        let pool = self.inner.pool(name).expect("it was opened just now");
        Pool::held(self.inner.clone(), pool)
    }
}
