//! Tests of the production world: executor, files, wrappers.

#[allow(dead_code, reason = "tests of pools have the file, too, and use other parts of it")]
mod below;
mod doors;
mod exec;
mod files;
mod loops;
mod parker;
mod queue;
mod stable;
mod told;
mod wrappers;

use std::sync::Arc;

use units::LeafOffset;

use crate::{Options, RealEnv};
use env::{BufSlice, Device, IoBuf};

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
