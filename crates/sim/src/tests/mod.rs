//! Tests of the simulated world.

mod crash;
mod discards;
mod disks;
mod histories;
mod hosts;
mod losses;
mod pages;
mod promises;
mod running;
mod timing;

use std::sync::Arc;

use env::{BufSlice, Device, DeviceError, Durability, Env, IoBuf, OpenMode};
use units::LeafOffset;

use crate::{DiskSpec, Sim};

const SECTOR: usize = 512;

/// A world with instant disks of 1 MiB at these paths.
fn world(seed: u64, paths: &[&str]) -> Sim {
    let sim = Sim::seed(seed);
    for path in paths {
        sim.add_disk(path, DiskSpec::instant(1 << 20));
    }
    sim
}

async fn open(env: &Arc<dyn Env>, path: &str) -> Arc<dyn Device> {
    env.open(path.as_ref(), OpenMode::ReadWrite).await.expect("there is such a disk")
}

/// Fills `sectors` sectors from sector `at` with `byte`.
async fn put(
    disk: &dyn Device,
    at: u64,
    sectors: usize,
    byte: u8,
    durability: Durability,
) -> Result<(), DeviceError> {
    let mut buf = IoBuf::zeroed(sectors * SECTOR);
    buf.fill(byte);
    disk.write(LeafOffset::new(at * SECTOR as u64), vec![BufSlice::from(buf)], durability).await
}

/// The first byte of each sector, asserting that the whole sector is like it.
fn sectors(bytes: &[u8]) -> Vec<u8> {
    let one = |sector: &[u8]| {
        assert!(sector.iter().all(|&byte| byte == sector[0]), "a sector is never torn");
        sector[0]
    };
    bytes.chunks(SECTOR).map(one).collect()
}
