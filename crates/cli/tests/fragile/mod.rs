//! Devices that end the process that uses them, as soon as a file beside them says so. The process opens these files
//! when it starts, because later it may open no file.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use device::{FileOpener, Options, RealEnv};
use env::{BoxFuture, BufSlice, Device, DeviceError, DeviceInfo, Durability, IoBuf};
use rustix::process::{Signal, getpid, kill_process};
use units::LeafOffset;

/// The devices to be, parted by colons.
pub const DISKS: &str = "SAWMILL_TEST_DISKS";

/// When and how a device ends its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceOrder {
    /// A write panics.
    PanicInWrite,
    /// A read panics.
    PanicInRead,
    /// A write ends as an access to memory that is not there.
    FaultInWrite,
}

impl DeviceOrder {
    const ALL: [Self; 3] = [Self::PanicInWrite, Self::PanicInRead, Self::FaultInWrite];

    /// From now on the device obeys.
    pub fn give(self, disk: &Path) {
        fs::write(order_beside(disk), format!("{self:?}")).expect("an order");
    }

    /// The device is a plain one again.
    pub fn take_back(disk: &Path) {
        fs::write(order_beside(disk), "").expect("no order");
    }

    fn of(order: &File) -> Option<Self> {
        let mut words = [0; 32];
        let len = order.read_at(&mut words, 0).ok()?;
        Self::ALL.into_iter().find(|order| format!("{order:?}").as_bytes() == &words[..len])
    }
}

struct Fragile {
    device: Arc<dyn Device>,
    order: Arc<File>,
}

/// The devices that [`DISKS`] names, and the files for their orders.
#[derive(Clone, Default)]
pub struct FragileDisks(Arc<BTreeMap<PathBuf, Arc<File>>>);

impl FragileDisks {
    /// Opens the files for orders.
    pub fn of_environment() -> Self {
        let disks = std::env::var_os(DISKS).expect("disks are told");
        let order = |disk: &Path| {
            File::options().read(true).append(true).create(true).open(order_beside(disk)).expect("a file")
        };
        let disks = std::env::split_paths(&disks).map(|disk| (disk.clone(), Arc::new(order(&disk))));
        Self(Arc::new(disks.collect()))
    }

    fn wrap(&self, path: &Path, device: Arc<dyn Device>) -> Arc<dyn Device> {
        match self.0.get(path) {
            Some(order) => Arc::new(Fragile { device, order: Arc::clone(order) }),
            None => device,
        }
    }

    /// The real environment, where these devices are fragile.
    pub fn env(self, opener: Arc<dyn FileOpener>) -> Arc<RealEnv> {
        let wrap = move |path: &Path, device| self.wrap(path, device);
        RealEnv::wrapping(Options::default(), opener, Box::new(wrap))
    }
}

fn order_beside(disk: &Path) -> PathBuf {
    disk.with_extension("panics")
}

impl Device for Fragile {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }
    fn read(&self, offset: LeafOffset, len: usize) -> BoxFuture<'static, Result<IoBuf, DeviceError>> {
        assert!(
            DeviceOrder::of(&self.order) != Some(DeviceOrder::PanicInRead),
            "this panic\nbelongs to a test"
        );
        self.device.read(offset, len)
    }
    fn write(
        &self,
        offset: LeafOffset,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> BoxFuture<'static, Result<(), DeviceError>> {
        match DeviceOrder::of(&self.order) {
            Some(DeviceOrder::PanicInWrite) => panic!("this panic\nbelongs to a test"),
            Some(DeviceOrder::FaultInWrite) => kill_process(getpid(), Signal::SEGV).expect("it lives"),
            _ => {}
        }
        self.device.write(offset, slices, durability)
    }
    fn flush(&self) -> BoxFuture<'static, Result<(), DeviceError>> {
        self.device.flush()
    }
    fn discard(&self, offset: LeafOffset, len: u64) -> BoxFuture<'static, Result<(), DeviceError>> {
        self.device.discard(offset, len)
    }
}
