//! A copy of a golden pool.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use device::{Options, RealEnv};
use env::Env;
use oracle::zdb::Zdb;
use pool::{ImportSpec, Pool, PoolError, Tuning};
use tempfile::TempDir;
use vdev::PoolState;
use zpl::Zfs;

use crate::contents::{File, contents};

const POOL: &str = "whirl";

pub struct World {
    env: Arc<RealEnv>,
    _dir: TempDir,
    images: PathBuf,
}

impl World {
    /// Images of its own.
    pub fn copy_of(name: &str) -> Self {
        let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
        let images = oracle::golden::copy(name, dir.path());
        Self { env: RealEnv::new(Options::default()), _dir: dir, images }
    }

    pub fn env(&self) -> &RealEnv {
        &self.env
    }

    /// The directory of the images.
    pub fn images(&self) -> &Path {
        &self.images
    }

    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.env.block_on(future)
    }

    fn opened(&self, read_only: bool, to_checkpoint: bool) -> Arc<Pool> {
        let opened = self.import_as(ImportSpec { read_only, to_checkpoint, ..ImportSpec::default() });
        opened.unwrap_or_else(|error| panic!("import: {error}"))
    }

    /// All there is on the devices.
    pub fn bytes(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let paths = std::fs::read_dir(&self.images).unwrap().map(|entry| entry.unwrap().path());
        paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
    }

    pub fn try_import(&self, read_only: bool) -> Result<Arc<Pool>, PoolError> {
        self.import_as(ImportSpec { read_only, ..ImportSpec::default() })
    }

    pub fn import_as(&self, spec: ImportSpec) -> Result<Arc<Pool>, PoolError> {
        let paths = std::fs::read_dir(&self.images).unwrap().map(|entry| entry.unwrap().path()).collect();
        let spec = ImportSpec { paths, name: Some(POOL.into()), force: true, ..spec };
        // Txgs sync when the test says so.
        let tuning = Tuning { txg_timeout: Duration::from_secs(3600), ..Tuning::default() };
        let env: Arc<dyn Env> = self.env.clone();
        self.run(Pool::import(env, &spec, tuning))
    }

    pub fn import(&self) -> Arc<Pool> {
        self.opened(false, false)
    }

    /// As the pool was when its checkpoint was made, and to stay so.
    pub fn return_to_checkpoint(&self) -> Arc<Pool> {
        self.opened(false, true)
    }

    /// Looks at the pool without changing it.
    pub fn read_only<R>(&self, look: impl FnOnce(&Arc<Pool>) -> R) -> R {
        self.look(false, look)
    }

    /// Looks at the pool as it was when its checkpoint was made.
    pub fn checkpointed<R>(&self, look: impl FnOnce(&Arc<Pool>) -> R) -> R {
        self.look(true, look)
    }

    fn look<R>(&self, to_checkpoint: bool, look: impl FnOnce(&Arc<Pool>) -> R) -> R {
        let pool = self.opened(true, to_checkpoint);
        let seen = look(&pool);
        self.run(pool.close(PoolState::Exported)).unwrap();
        seen
    }

    pub fn export(&self, pool: &Arc<Pool>) {
        self.run(pool.close(PoolState::Exported)).unwrap();
    }

    pub fn zfs(&self, pool: &Arc<Pool>, name: &str) -> Arc<Zfs> {
        let opened = self.run(pool.filesystem(name));
        Arc::clone(&opened.unwrap_or_else(|error| panic!("{name}: {error}")).zfs)
    }

    pub fn contents(&self, pool: &Arc<Pool>, name: &str) -> BTreeMap<String, File> {
        let opened = match name.contains('@') {
            true => self.run(pool.snapshot_filesystem(name)),
            false => self.run(pool.filesystem(name)),
        };
        let fs = opened.unwrap_or_else(|error| panic!("{name}: {error}"));
        self.run(contents(&fs.zfs))
    }

    /// What `zdb` says when it is asked so.
    pub fn zdb(&self, flag: &str) -> String {
        Zdb::new(&self.images, POOL).run(&[flag], &[]).unwrap_or_else(|error| panic!("{error}"))
    }

    /// `zdb` finds that there is a checkpoint, that all its blocks are kept, and that each of them reads.
    pub fn check_checkpoint(&self, when: &str) {
        let zdb = Zdb::new(&self.images, POOL);
        let found = zdb.check_blocks().unwrap_or_else(|error| panic!("{when}: {error}"));
        assert!(found.contains("Checkpointed uberblock found"), "{when}: {found}");
        zdb.run(&["-k", "-bcc"], &[]).unwrap_or_else(|error| panic!("{when}: {error}"));
    }

    /// `zdb` finds every block and no leak. It hangs when it shows the objects of a pool with names as long as
    /// g27-quotas has, as OpenZFS left that.
    pub fn check_blocks(&self, when: &str) {
        Zdb::new(&self.images, POOL).check_blocks().unwrap_or_else(|error| panic!("{when}: {error}"));
    }

    /// `zdb` finds every block, no leak, and every object in order.
    pub fn check(&self, when: &str) {
        Zdb::new(&self.images, POOL).check().unwrap_or_else(|error| panic!("{when}: {error}"));
    }
}
