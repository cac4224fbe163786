//! A write that is to be stable reaches the file system below as such. That file system is one of FUSE here, and records
//! its requests.
//!
//! ```text
//!   device ─► system calls, or a ring ─► kernel ─► FUSE ─► FuseDisk: writes, each with O_DSYNC or without; fsync
//! ```
//! A read finds bytes that were never made stable, a process that is killed leaves them to the kernel, and the simulator
//! has disks of its own: nothing else sees what is missing here.

use futures::future::join_all;
use oracle::fuse_disk::DiskRequest;

use super::{OnFuse, at, env, filled, plain_env};
use env::{BufSlice, Durability};

const PIECE: usize = 8192;

impl OnFuse {
    /// Writes pieces at once: a lone one, or several side by side, of which each second is in two parts. A lone request
    /// is a system call, and several go through the ring.
    fn write_pieces(&self, count: u64, durability: Durability) {
        let piece = |number: u64| match number % 2 {
            0 => filled(1, PIECE),
            _ => [filled(2, PIECE / 2), filled(3, PIECE / 2)].concat(),
        };
        let write = |number: u64, slices: Vec<BufSlice>| {
            self.device.write(at(number * PIECE as u64), slices, durability)
        };
        let all = self.env.block_on(join_all((0..count).map(|number| write(number, piece(number)))));
        all.into_iter().for_each(|written| written.expect("written"));
    }

    /// So many pieces were written, each byte once, all of them to be stable or none. The kernel may have each that is
    /// to be stable followed by a sync.
    fn check_written(&self, count: u64, are_stable: bool) {
        let mut bytes = 0;
        for told in self.disk.take_requests() {
            match told {
                DiskRequest::Write { offset, len, is_stable } => {
                    assert_eq!(is_stable, are_stable, "at {offset}");
                    bytes += len;
                }
                DiskRequest::Sync { .. } => assert!(are_stable, "nobody asked for a sync"),
            }
        }
        assert_eq!(bytes, count as usize * PIECE);
    }
}

/// What there is to be tried: with a ring and without, a request alone and beside others.
fn try_all(what: fn(&OnFuse, u64)) {
    for env in [env(), plain_env()] {
        let Some(world) = OnFuse::new(env) else { return };
        world.disk.take_requests();
        for count in [1, 6] {
            what(&world, count);
        }
    }
}

#[test]
fn a_stable_write_is_told_to_be_stable() {
    try_all(|world, count| {
        world.write_pieces(count, Durability::Stable);
        world.check_written(count, true);
    });
}

#[test]
fn a_cached_write_is_not_told_to_be_stable_before_a_flush() {
    try_all(|world, count| {
        world.write_pieces(count, Durability::Cached);
        world.check_written(count, false);
        let flushes = (0..count).map(|_| world.device.flush());
        let flushed = world.env.block_on(join_all(flushes.collect::<Vec<_>>()));
        flushed.into_iter().for_each(|flushed| flushed.expect("flushed"));
        assert_eq!(world.disk.take_requests(), vec![DiskRequest::Sync { is_data: true }; count as usize]);
    });
}
