//! Devices in memory by path, with faults on order.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use env::{
    BoxFuture, BufSlice, Device, DeviceError, Durability, Env, Faults, Faulty, IoBuf, OpenMode, RamDevice,
};
use futures::executor::block_on;
use ondisk::Dva;
use units::{Ashift, LeafOffset};
use vdev::{NewVdev, VdevTree};

use crate::Zio;

#[derive(Default)]
pub(super) struct World {
    disks: BTreeMap<PathBuf, (RamDevice, Faults)>,
    ticks: AtomicU64,
}

impl World {
    pub(super) fn new(disks: impl IntoIterator<Item = (PathBuf, RamDevice)>) -> Arc<Self> {
        let disks = disks.into_iter().map(|(path, ram)| (path, (ram, Faults::none()))).collect();
        Arc::new(Self { disks, ticks: AtomicU64::new(1) })
    }

    /// One vdev for each of `vdevs`: names of devices separated by spaces, `log:` before those of
    /// a log. Devices of 64 MiB.
    pub(super) fn pool(vdevs: &[&str]) -> (Arc<Self>, Zio) {
        Self::pool_at(vdevs, None)
    }

    pub(super) fn pool_at(vdevs: &[&str], ashift: Option<Ashift>) -> (Arc<Self>, Zio) {
        let specs: Vec<_> = vdevs
            .iter()
            .map(|spec| NewVdev {
                paths: spec.trim_start_matches("log:").split(' ').map(PathBuf::from).collect(),
                ashift,
                bias: vdev::Bias::log(spec.starts_with("log:")),
                create_txg: 4,
                parity: 0,
                ..NewVdev::default()
            })
            .collect();
        let paths = specs.iter().flat_map(|spec| spec.paths.clone());
        let world = Self::new(paths.map(|path| (path, RamDevice::new(64 << 20))));
        let tree = block_on(VdevTree::create(world.clone(), &specs)).expect("devices");
        let zio = Zio::new(Arc::new(tree), 16 << 20);
        for top in zio.vdevs().tops() {
            zio.add_vdev(&top).expect("a new vdev");
        }
        (world, zio)
    }

    pub(super) fn faults(&self, path: &str) -> &Faults {
        &self.disks[Path::new(path)].1
    }

    /// Overwrites the first sector of a block on one device.
    pub(super) fn spoil(&self, path: &str, dva: Dva) {
        let slice = BufSlice::from(IoBuf::copy_of(&[0xee; 512]));
        let at = dva.offset.on_leaf().expect("in range");
        block_on(self.disks[Path::new(path)].0.write(at, vec![slice], Durability::Cached)).expect("in range");
    }

    pub(super) fn bytes(&self, path: &str, dva: Dva, len: usize) -> IoBuf {
        let at: LeafOffset = dva.offset.on_leaf().expect("in range");
        block_on(self.disks[Path::new(path)].0.read(at, len)).expect("in range")
    }
}

impl Env for World {
    fn now(&self) -> Duration {
        Duration::from_micros(self.ticks.fetch_add(1, SeqCst))
    }

    fn wall_clock(&self) -> Duration {
        Duration::from_secs(1_700_000_000)
    }

    fn sleep(&self, _span: Duration) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    fn spawn(&self, name: &'static str, _task: BoxFuture<'static, ()>) {
        panic!("nothing here spawns tasks: {name}");
    }

    fn random_u64(&self) -> u64 {
        self.ticks.fetch_add(1, SeqCst).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn open(&self, path: &Path, _mode: OpenMode) -> BoxFuture<'static, Result<Arc<dyn Device>, DeviceError>> {
        let opened: Result<Arc<dyn Device>, _> = match self.disks.get(path) {
            Some((ram, faults)) => Ok(Arc::new(Faulty::new(Arc::new(ram.clone()), faults.clone()))),
            None => Err(DeviceError::Missing { path: path.to_owned() }),
        };
        Box::pin(async move { opened })
    }
}
