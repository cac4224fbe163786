//! Errors and short transfers of the file system below, with a ring and without: the caller receives
//! each error, and a short transfer goes on.

use futures::future::join_all;
use oracle::fuse_disk::{DiskTransfer, Errno, FaultOutcome, SyncKind};

use super::{BELOW_BYTES, OnFuse, at, env, filled, holds, plain_env};
use env::{DeviceError, Durability};

const PIECE: usize = 16 << 10;
/// The number of requests that are under way at the same time.
const SIDE_BY_SIDE: u64 = 6;
const LASTING: [Errno; 5] = [Errno::EIO, Errno::ENOSPC, Errno::EROFS, Errno::EAGAIN, Errno::ENOMEM];
/// The kernel lacks memory for a moment only.
const PASSING: [Errno; 2] = [Errno::EAGAIN, Errno::ENOMEM];

impl OnFuse {
    fn write(&self, piece: u64, byte: u8, durability: Durability) -> Result<(), DeviceError> {
        let write = self.device.write(at(piece * PIECE as u64), filled(byte, PIECE), durability);
        self.env.block_on(write)
    }

    fn holds(&self, piece: u64, byte: u8) -> bool {
        self.env.block_on(holds(&*self.device, piece * PIECE as u64, PIECE, byte))
    }

    /// Writes pieces side by side, as a ring carries them.
    fn write_all(&self, byte: u8, durability: Durability) -> Vec<Result<(), DeviceError>> {
        let write = |piece: u64| self.device.write(at(piece * PIECE as u64), filled(byte, PIECE), durability);
        self.env.block_on(join_all((0..SIDE_BY_SIDE).map(write)))
    }

    fn all_hold(&self, byte: u8) -> bool {
        (0..SIDE_BY_SIDE).all(|piece| self.holds(piece, byte))
    }
}

fn in_both_worlds(check: impl Fn(&OnFuse)) {
    for env in [env(), plain_env()] {
        let Some(world) = OnFuse::new(env) else { return };
        check(&world);
    }
}

fn is_errno(result: &Result<(), DeviceError>, wanted: Errno) -> bool {
    matches!(result, Err(DeviceError::Io { errno, .. }) if *errno == wanted.code())
}

#[test]
fn an_error_of_a_write_reaches_its_caller_and_no_other() {
    in_both_worlds(|world| {
        for durability in [Durability::Cached, Durability::Stable] {
            for errno in LASTING {
                let second = PIECE as u64..2 * PIECE as u64;
                world.disk.fail_within(DiskTransfer::Write, second, FaultOutcome::Fails(errno));
                let written = world.write_all(7, durability);
                for (piece, result) in written.iter().enumerate() {
                    match piece {
                        1 => assert!(is_errno(result, errno), "{errno:?}: {result:?}"),
                        _ => assert!(result.is_ok(), "{errno:?}: {result:?}"),
                    }
                }
                assert!(world.holds(0, 7) && world.holds(1, 0), "{errno:?}");
                world.disk.heal();
                world.write_all(0, durability).into_iter().for_each(|written| written.expect("healed"));
            }
        }
    });
}

#[test]
fn an_error_of_a_read_reaches_its_caller() {
    in_both_worlds(|world| {
        for errno in LASTING {
            world.disk.fail_within(DiskTransfer::Read, 0..1, FaultOutcome::Fails(errno));
            let read = world.env.block_on(world.device.read(at(0), PIECE)).map(drop);
            assert!(is_errno(&read, errno), "{errno:?}: {read:?}");
            assert!(world.holds(1, 0));
            world.disk.heal();
            assert!(world.holds(0, 0));
        }
    });
}

#[test]
fn a_passing_shortage_below_is_waited_out() {
    in_both_worlds(|world| {
        for (round, errno) in (1..).zip(PASSING) {
            world.disk.fail_times(DiskTransfer::Write, 0..PIECE as u64, FaultOutcome::Fails(errno), 2);
            world.write(0, round, Durability::Cached).expect("the shortage passes");
            world.disk.fail_times(DiskTransfer::Read, 0..PIECE as u64, FaultOutcome::Fails(errno), 2);
            assert!(world.holds(0, round), "{errno:?}");
        }
        assert_eq!(world.disk.faults_met(), 8);
    });
}

#[test]
fn short_reads_go_on_where_they_ended() {
    in_both_worlds(|world| {
        world.write_all(1, Durability::Stable).into_iter().for_each(|written| written.expect("written"));
        world.disk.fail_within(DiskTransfer::Read, 0..BELOW_BYTES as u64, FaultOutcome::Short);
        assert!(world.all_hold(1));
        assert!(world.disk.faults_met() > SIDE_BY_SIDE);
    });
}

/// Short writes through a ring are not tested: Linux 6.18 itself continues them there, and does so at
/// the wrong place if the file belongs to FUSE.
#[test]
fn short_writes_go_on_where_they_ended() {
    let Some(world) = OnFuse::new(plain_env()) else { return };
    for (byte, durability) in [(1, Durability::Cached), (2, Durability::Stable)] {
        world.disk.fail_within(DiskTransfer::Write, 0..BELOW_BYTES as u64, FaultOutcome::Short);
        world.write_all(byte, durability).into_iter().for_each(|written| written.expect("written"));
        world.disk.heal();
        assert!(world.all_hold(byte), "{durability:?}");
    }
    assert!(world.disk.faults_met() > 2 * SIDE_BY_SIDE);
}

#[test]
fn a_sync_that_fails_fails_the_request_that_asked_for_it() {
    in_both_worlds(|world| {
        world.write(0, 3, Durability::Stable).expect("stable");
        world.write(0, 4, Durability::Cached).expect("cached");
        world.disk.fail_sync(SyncKind::Alone, 1);
        world.env.block_on(world.device.flush()).expect_err("the flush lost the write");
        assert!(world.holds(0, 3));
        world.disk.fail_sync(SyncKind::OfStableWrites, 1);
        world.write(0, 5, Durability::Stable).expect_err("the stable write was lost");
        assert!(world.holds(0, 3));
        assert_eq!(world.disk.lost_writes(), 2);
        world.write(0, 6, Durability::Stable).expect("the disk works again");
        assert!(world.holds(0, 6));
    });
}
