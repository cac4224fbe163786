//! A host with an engine on it.

use crate::front::TableFront;
use control::{
    DeviceState, Failure, ImportCandidate, ImportScan, Imported, Layout, PoolClear, PoolCreate, PoolExport,
    PoolImport, PoolInfo, PoolList, PoolOffline, PoolOnline, Service, VdevClass, VdevSpec,
};
use engine::{Engine, Ground, OnTheSpot, Options};
use pool::{Heartbeats, Host, Tuning};
use sim::{DiskModel, DiskSpec, Sim, SimEnv, SimHost};
use std::sync::Arc;
use std::time::Duration;

/// The pool of every story.
pub const POOL: &str = "tank";
/// Where it is mounted.
pub const PLACE: &str = "/tank";
/// What it is made of: two copies, and a log.
const DISKS: [&str; 3] = ["/dev/disk/a", "/dev/disk/b", "/dev/disk/log"];
const DISK_BYTES: u64 = 96 << 20;
const MEMORY_BYTES: u64 = 64 << 20;

/// A world with the disks of the pool, empty.
pub fn world(seed: u64) -> Sim {
    let sim = Sim::seed(seed);
    for disk in DISKS {
        sim.add_disk(disk, DiskSpec::new(DISK_BYTES, DiskModel::ssd()));
    }
    sim
}

/// A host and what runs on it.
pub struct Node {
    /// The host.
    pub host: SimHost,
    front: TableFront,
    engine: Engine,
    id: u64,
    heartbeats: Heartbeats,
}

impl Node {
    /// A new host of this number, whose engine has no pools.
    pub fn new(world: &Arc<SimEnv>, id: u64) -> Self {
        Self::with(world, id, Heartbeats::default())
    }

    /// The same with other settings for `multihost=on`.
    pub fn with(world: &Arc<SimEnv>, id: u64, heartbeats: Heartbeats) -> Self {
        Self::on(SimHost::new(world), id, heartbeats)
    }

    fn on(host: SimHost, id: u64, heartbeats: Heartbeats) -> Self {
        let front = TableFront::default();
        let ground = Ground {
            env: host.env(),
            machine: host.machine(),
            front: Some(Arc::new(front.clone())),
            runner: Arc::new(OnTheSpot),
        };
        let of = Host { id, name: format!("host-{id:x}"), ..Host::default() };
        let txg_timeout = Duration::from_secs(1);
        let tuning = Tuning { host: of, txg_timeout, heartbeats, ..Tuning::default() };
        let cache = Some("/run/pools.cache".into());
        let options = Options { cache, cache_files: None, memory_bytes: MEMORY_BYTES, tuning, pid: 1 };
        Self { engine: Engine::new(ground, options), host, front, id, heartbeats }
    }

    /// The host after it went down, with a new engine that has not looked at its list of pools yet.
    pub fn reboot(&self, world: &Arc<SimEnv>) -> Self {
        Self::on(self.host.reboot(world), self.id, self.heartbeats)
    }

    /// Does something with the engine, on the host; none if that dies before it is done.
    async fn does<T, F>(&self, work: impl FnOnce(Engine) -> F) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.host.run(work(self.engine.clone())).await
    }

    /// Makes the pool.
    pub async fn create(&self) -> Result<(), Failure> {
        self.create_with(Vec::new()).await
    }

    /// Makes the pool with `multihost=on`.
    pub async fn create_shared(&self) -> Result<(), Failure> {
        self.create_with(vec![("multihost".into(), "on".into())]).await
    }

    /// Creates the pool without a log device.
    pub async fn create_without_log(&self) -> Result<(), Failure> {
        self.create_of(1, Vec::new()).await
    }

    async fn create_with(&self, props: Vec<(String, String)>) -> Result<(), Failure> {
        self.create_of(2, props).await
    }

    async fn create_of(&self, count: usize, props: Vec<(String, String)>) -> Result<(), Failure> {
        let vdev = |class, layout, devices: &[&str]| VdevSpec {
            class,
            layout,
            devices: devices.iter().map(|&device| device.to_owned()).collect(),
        };
        let mut vdevs = vec![
            vdev(VdevClass::Normal, Layout::Mirror, &DISKS[..2]),
            vdev(VdevClass::Log, Layout::Single, &DISKS[2..]),
        ];
        vdevs.truncate(count);
        let call = PoolCreate { name: POOL.into(), vdevs, props, ..PoolCreate::default() };
        self.does(|engine| async move { engine.pool_create(call).await }).await.expect("it lives")
    }

    /// Imports it, by force or not.
    pub async fn import(&self, force: bool) -> Result<Imported, Failure> {
        self.import_from(&["/dev/disk"], force).await
    }

    /// As [`Self::import`], but from these devices.
    pub async fn import_from(&self, devices: &[&str], force: bool) -> Result<Imported, Failure> {
        let search = devices.iter().map(|&device| device.to_owned()).collect();
        let call = PoolImport { pool: POOL.into(), search, force, ..PoolImport::default() };
        self.does(|engine| async move { engine.pool_import(call).await }).await.expect("it lives")
    }

    /// Lists pools to import.
    pub async fn scan(&self) -> Vec<ImportCandidate> {
        let call = ImportScan { search: search(), destroyed: false };
        let found = self.does(|engine| async move { engine.import_scan(call).await }).await;
        found.expect("it lives").expect("a search is never refused")
    }

    /// Exports it.
    pub async fn export(&self) -> Result<(), Failure> {
        let call = PoolExport { pool: POOL.into(), ..PoolExport::default() };
        self.does(|engine| async move { engine.pool_export(call).await }).await.expect("it lives")
    }

    /// Takes a device offline, or declares it faulted.
    pub async fn offline(&self, device: &str, fault: bool) -> Result<(), Failure> {
        let (pool, vdev) = (POOL.to_owned(), self.guid_of(device).await);
        let call = PoolOffline { pool, device: device.into(), vdev, fault, temporary: false };
        self.does(|engine| async move { engine.pool_offline(call).await }).await.expect("it lives")
    }

    /// Brings a device back into use.
    pub async fn online(&self, device: &str) -> Result<DeviceState, Failure> {
        let (pool, vdev) = (POOL.to_owned(), self.guid_of(device).await);
        let call = PoolOnline { pool, device: device.into(), vdev, expand: false };
        self.does(|engine| async move { engine.pool_online(call).await }).await.expect("it lives")
    }

    /// Returns the guid of a device of the pool.
    async fn guid_of(&self, device: &str) -> Option<u64> {
        let listed = self.does(|engine| async move { engine.pool_list(PoolList::default()).await });
        let pools = listed.await.expect("it lives").expect("a list is never refused");
        let leaves = pools.iter().flat_map(|pool| pool.root.leaves());
        let mut found = leaves.filter(|leaf| leaf.path.as_deref() == Some(device));
        found.next().map(|leaf| leaf.guid)
    }

    /// Has it go on after it was suspended.
    pub async fn clear(&self) -> Result<(), Failure> {
        let call = PoolClear { pool: POOL.into(), ..PoolClear::default() };
        self.does(|engine| async move { engine.pool_clear(call).await }).await.expect("it lives")
    }

    /// Gives it up.
    pub async fn give_up(&self) -> Result<(), Failure> {
        let call = PoolExport { pool: POOL.into(), force: true, ..PoolExport::default() };
        self.does(|engine| async move { engine.pool_export(call).await }).await.expect("it lives")
    }

    /// Brings back what the list of pools has; the pools that are open then.
    pub async fn restore(&self) -> Vec<PoolInfo> {
        let restored = self.does(|engine| async move {
            engine.restore().await;
            engine.pool_list(PoolList::default()).await
        });
        restored.await.expect("it lives").expect("a list is never refused")
    }

    /// The files of the pool's root, if it is mounted.
    pub fn files(&self) -> Option<Arc<zpl::Zfs>> {
        self.front.at(PLACE)
    }
}

fn search() -> Vec<String> {
    vec!["/dev/disk".into()]
}
