//! A pool on sparse files, and copies of these files at moments nobody chose.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use device::{Options, RealEnv};
use dsl::PropValue;
use env::Env;
use oracle::zdb::Zdb;
use pool::{ImportSpec, Pool, PoolError, PoolSpec, Tuning};
use tempfile::TempDir;
use units::Ashift;
use vdev::{Bias, NewVdev, PoolState};
use zpl::Zfs;

pub const POOL: &str = "whirl";

/// Names of devices; several make a mirror, or with parity a raidz.
pub type Devices = &'static [&'static str];

/// How a pool is laid out.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub data: &'static [Devices],
    pub logs: &'static [Devices],
    /// For metadata and small blocks.
    pub special: &'static [Devices],
    /// For tables of deduplicated blocks.
    pub dedup: &'static [Devices],
    pub ashift: u8,
    pub device_mib: u64,
    pub special_mib: u64,
    /// Of the data vdevs.
    pub parity: u8,
    /// Columns of data in the groups of a draid; 0 for anything else.
    pub columns: u8,
}

impl Layout {
    pub const fn new(data: &'static [Devices], logs: &'static [Devices], ashift: u8) -> Self {
        let (device_mib, special_mib) = (1024, 1024);
        Self { data, logs, special: &[], dedup: &[], ashift, device_mib, special_mib, parity: 0, columns: 0 }
    }
}

/// Held in memory where there is room for that: these tests are not about the speed of a disk.
const MEMORY: &str = "/dev/shm";

fn temp_dir() -> TempDir {
    TempDir::new_in(MEMORY).or_else(|_| TempDir::new()).unwrap()
}

/// The files of one pool, in a directory of their own.
pub struct World {
    env: Arc<RealEnv>,
    dir: TempDir,
    layout: Layout,
    tuning: Tuning,
}

impl World {
    pub fn new(layout: Layout) -> Self {
        oracle::told::to_the_test();
        let world = Self { env: RealEnv::new(Options::default()), dir: temp_dir(), layout, tuning: tuning() };
        for path in world.paths() {
            std::fs::File::create(path).unwrap().set_len(layout.device_mib << 20).unwrap();
        }
        for name in layout.special.iter().copied().flatten() {
            std::fs::File::create(world.path(name)).unwrap().set_len(layout.special_mib << 20).unwrap();
        }
        world
    }

    /// Livelists get another sublist after so many blocks.
    pub fn with_livelists(mut self, entries: u64) -> Self {
        self.tuning.livelist_entries = entries;
        self
    }

    /// A txg frees so many blocks of what was destroyed.
    pub fn freeing(mut self, blocks: usize) -> Self {
        self.tuning.freed_blocks = blocks;
        self
    }

    /// A copy of the files as they are: what a power cut would leave here and now.
    pub fn copy(&self) -> Self {
        let dir = temp_dir();
        let mut command = Command::new("cp");
        command.arg("--sparse=always").args(self.paths()).arg(dir.path());
        assert!(command.status().unwrap().success(), "files can be copied");
        Self { env: Arc::clone(&self.env), dir, layout: self.layout, tuning: self.tuning.clone() }
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn paths(&self) -> Vec<PathBuf> {
        let layout = &self.layout;
        let names =
            [layout.data, layout.logs, layout.special, layout.dedup].into_iter().flatten().copied().flatten();
        names.map(|name| self.path(name)).collect()
    }

    pub fn create(&self) -> Arc<Pool> {
        let vdev = |devices: Devices, bias| NewVdev {
            paths: devices.iter().map(|name| self.path(name)).collect(),
            ashift: Some(Ashift::new(self.layout.ashift)),
            bias,
            create_txg: 4,
            parity: if bias == Bias::None { self.layout.parity } else { 0 },
            data: if bias == Bias::None { self.layout.columns } else { 0 },
        };
        let data = self.layout.data.iter().map(|devices| vdev(devices, Bias::None));
        let logs = self.layout.logs.iter().map(|devices| vdev(devices, Bias::Log));
        let special = self.layout.special.iter().map(|devices| vdev(devices, Bias::Special));
        let dedup = self.layout.dedup.iter().map(|devices| vdev(devices, Bias::Dedup));
        let spec = PoolSpec {
            name: POOL.into(),
            stored_name: None,
            vdevs: data.chain(logs).chain(special).chain(dedup).collect(),
            root_props: vec![],
            comment: None,
            force: false,
        };
        self.run(Pool::create(self.env(), spec, self.tuning.clone())).unwrap()
    }

    pub fn import(&self) -> Arc<Pool> {
        self.try_import().unwrap()
    }

    pub fn try_import(&self) -> Result<Arc<Pool>, PoolError> {
        let spec = ImportSpec { paths: self.paths(), name: Some(POOL.into()), ..ImportSpec::default() };
        self.run(Pool::import(self.env(), &spec, self.tuning.clone()))
    }

    /// Imports from other files than those of the layout.
    pub fn import_from(&self, names: &[&str]) -> Arc<Pool> {
        let paths = names.iter().map(|name| self.path(name)).collect();
        let spec = ImportSpec { paths, name: Some(POOL.into()), ..ImportSpec::default() };
        self.run(Pool::import(self.env(), &spec, self.tuning.clone())).unwrap()
    }

    /// What `zdb` says of a device's labels and uberblocks.
    pub fn label(&self, name: &str) -> String {
        let output =
            Command::new("timeout").args(["60", "zdb", "-lu"]).arg(self.path(name)).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn export(&self, pool: &Arc<Pool>) {
        self.run(pool.close(PoolState::Exported)).unwrap();
    }

    pub fn zfs(&self, pool: &Arc<Pool>, name: &str) -> Arc<Zfs> {
        Arc::clone(&self.run(pool.filesystem(name)).unwrap().zfs)
    }

    pub fn create_filesystem(&self, pool: &Arc<Pool>, name: &str, props: &[(&str, u64)]) {
        let props = props.iter().map(|&(name, value)| (name.to_owned(), PropValue::Number(value))).collect();
        self.run(pool.create_filesystem(name, props)).unwrap();
    }

    fn env(&self) -> Arc<dyn Env> {
        self.env.clone()
    }

    /// Runs futures beside the world, whatever borrows that.
    pub fn runner(&self) -> Arc<RealEnv> {
        Arc::clone(&self.env)
    }

    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.env.block_on(future)
    }

    pub fn zdb(&self) -> Zdb {
        Zdb::new(self.dir(), POOL)
    }

    /// [`World::check`] of a copy that nobody needs any more, while the test goes on: `zdb` spends
    /// seconds in its sleep.
    pub fn check_aside(self, when: &str) -> Verdict {
        let when = when.to_owned();
        Verdict(std::thread::spawn(move || self.check(&when)))
    }

    /// `zdb` finds every block, no leak, and every object in order; gives what is in the logs.
    pub fn check(&self, when: &str) -> BTreeMap<String, usize> {
        self.zdb().check_closely().unwrap_or_else(|error| panic!("{when}: {error}"))
    }
}

/// What `zdb` will have said.
#[must_use]
pub struct Verdict(JoinHandle<BTreeMap<String, usize>>);

impl Verdict {
    /// What the logs hold.
    pub fn wait(self) -> BTreeMap<String, usize> {
        self.0.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Txgs sync when a test says so, and a removal takes so many of them that a test can stop it on the way.
fn tuning() -> Tuning {
    Tuning { txg_timeout: Duration::from_secs(3600), copy_bytes: 8 << 10, ..Tuning::default() }
}
