//! Devices that end the process that uses them, as soon as a file beside them says so.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use device::{Options, RealEnv};
use env::{BoxFuture, BufSlice, Device, DeviceError, DeviceInfo, Durability, Env, IoBuf, OpenMode};
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
        fs::remove_file(order_beside(disk)).expect("it is there");
    }

    fn of(order: &Path) -> Option<Self> {
        let words = fs::read_to_string(order).ok()?;
        Self::ALL.into_iter().find(|order| format!("{order:?}") == words)
    }
}

struct Fragile {
    device: Arc<dyn Device>,
    order: PathBuf,
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

/// The real environment, where the devices that [`DISKS`] names are fragile.
pub fn fragile_env() -> Arc<RealEnv> {
    let env = RealEnv::new(Options::default());
    for disk in std::env::split_paths(&std::env::var_os(DISKS).expect("disks are told")) {
        // A device that another process holds is not of the pool of this one.
        let Ok(device) = env.block_on(env.open(&disk, OpenMode::ReadWrite)) else { continue };
        let order = order_beside(&disk);
        env.register(disk, Arc::new(Fragile { device, order }));
    }
    env
}
