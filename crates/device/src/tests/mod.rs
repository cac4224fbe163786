//! Tests of the production world: executor, files, wrappers.

mod doors;
mod exec;
mod failing;
mod files;
mod loops;
mod parker;
mod queue;
mod stable;
mod told;
mod wrappers;

use std::sync::Arc;

use oracle::fuse_disk::FuseDisk;
use units::LeafOffset;

use crate::{Options, RealEnv};
use env::{BufSlice, Device, Env, IoBuf, OpenMode};

/// The size of a disk of FUSE below a device, in bytes.
const BELOW_BYTES: usize = 1 << 20;

/// A device on a disk of FUSE.
struct OnFuse {
    env: Arc<RealEnv>,
    device: Arc<dyn Device>,
    disk: FuseDisk,
}

impl OnFuse {
    /// `None` where nothing can be mounted and the run allows that.
    fn new(env: Arc<RealEnv>) -> Option<Self> {
        let disk = FuseDisk::mount(BELOW_BYTES)?;
        let device = env.block_on(env.open(&disk.path(), OpenMode::ReadWrite)).expect("opened");
        Some(Self { env, device, disk })
    }
}

/// An environment with two workers.
fn env() -> Arc<RealEnv> {
    RealEnv::new(Options { workers: 2, ..Options::default() })
}

/// An environment that does without io_uring.
fn plain_env() -> Arc<RealEnv> {
    RealEnv::new(Options { workers: 1, uring: false, ..Options::default() })
}

fn at(offset: u64) -> LeafOffset {
    LeafOffset::new(offset)
}

/// A buffer of one byte value, as a write wants it.
fn filled(byte: u8, len: usize) -> Vec<BufSlice> {
    let mut buf = IoBuf::zeroed(len);
    buf.fill(byte);
    vec![BufSlice::from(buf)]
}

/// Whether `len` bytes at `offset` all are `byte`.
async fn holds(device: &dyn Device, offset: u64, len: usize, byte: u8) -> bool {
    device.read(at(offset), len).await.expect("a readable device").iter().all(|&b| b == byte)
}
