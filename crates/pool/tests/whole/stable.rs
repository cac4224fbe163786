//! A pool on a file system that fails on demand, through the real executor and its rings.
//!
//! Records are appended with stable writes while txgs are written. One sync fails and undoes all that no sync has made
//! stable yet. Nothing that was acknowledged may be missing afterwards.

use std::sync::Arc;
use std::time::{Duration, Instant};

use device::{Options, RealEnv};
use fuser::Errno;
use pool::{ImportSpec, Pool, PoolSpec, Tuning};
use units::ObjectId;
use vdev::{NewVdev, PoolState, VdevState};
use zpl::{Cred, NewNode, WriteFlags, Zfs};

#[path = "../../../device/src/tests/below.rs"]
#[allow(dead_code, reason = "shared with the tests of `device`, which use other parts of it")]
mod below;

use below::{Below, Syncs, Touch};

const BYTES: usize = 96 << 20;
const RECORD_BYTES: usize = 4096;
const STABLE: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };
const PATIENCE: Duration = Duration::from_secs(120);

struct World {
    env: Arc<RealEnv>,
    below: Below,
}

impl World {
    fn new() -> Option<Self> {
        Some(Self { below: Below::mount_sized(BYTES)?, env: RealEnv::new(Options::default()) })
    }

    fn create(&self) -> Arc<Pool> {
        let vdevs = vec![NewVdev { paths: vec![self.below.path()], ..NewVdev::default() }];
        let spec = PoolSpec { name: "whirl".into(), vdevs, root_props: vec![], comment: None, force: false };
        self.env.block_on(Pool::create(self.env.clone(), spec, tuning())).expect("a device that works")
    }

    fn import(&self) -> Arc<Pool> {
        let paths = vec![self.below.path()];
        let spec = ImportSpec { paths, name: Some("whirl".into()), ..ImportSpec::default() };
        self.env.block_on(Pool::import(self.env.clone(), &spec, tuning())).expect("it imports")
    }

    fn zfs(&self, pool: &Arc<Pool>) -> Arc<Zfs> {
        Arc::clone(&self.env.block_on(pool.filesystem("whirl")).expect("it opens").zfs)
    }

    fn file(&self, zfs: &Zfs) -> ObjectId {
        let made = zfs.create(zfs.root(), b"records", NewNode::File, 0o644, Cred::default());
        self.env.block_on(made).expect("create").object
    }

    /// Appends records, each acknowledged as stable, until there are some more than `from` and the world is as wanted.
    fn append(&self, (zfs, file): (&Zfs, ObjectId), from: u64, is_enough: impl Fn() -> bool) -> u64 {
        let (start, mut number) = (Instant::now(), from);
        while number < from + 50 || !is_enough() {
            assert!(start.elapsed() < PATIENCE, "{number} records, and it has not come to that");
            let write = zfs.write(file, number * RECORD_BYTES as u64, &record(number), STABLE);
            self.env.block_on(write).expect("a write waits until it can be done");
            // What txgs have to write beside the records.
            let beside = zfs.write(file, (1 << 30) + number * 65_536, &[7; 65_536], WriteFlags::default());
            self.env.block_on(beside).expect("write");
            number += 1;
        }
        number
    }

    fn check(&self, pool: &Arc<Pool>, records: u64) {
        let zfs = self.zfs(pool);
        let file = self.env.block_on(zfs.lookup(zfs.root(), b"records")).expect("it is there").object;
        let mut found = vec![0; RECORD_BYTES];
        for number in 0..records {
            let read = self.env.block_on(zfs.read(file, number * RECORD_BYTES as u64, &mut found));
            assert_eq!(read.expect("it was acknowledged"), RECORD_BYTES);
            assert!(found == record(number), "record {number} of {records}");
        }
    }
}

fn tuning() -> Tuning {
    let (txg_timeout, retry_after) = (Duration::from_millis(100), Duration::from_millis(500));
    Tuning { txg_timeout, retry_after, cache_bytes: 4 << 20, ..Tuning::default() }
}

fn record(number: u64) -> Vec<u8> {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().repeat(RECORD_BYTES / 8)
}

/// One sync of that kind fails amid the writes of a txg.
fn lose_amid_a_txg(which: Syncs) {
    let Some(world) = World::new() else { return };
    let pool = world.create();
    let zfs = world.zfs(&pool);
    let file = world.file(&zfs);
    let records = world.append((&zfs, file), 0, || true);
    world.below.fail_sync(which, 4);
    let records = world.append((&zfs, file), records, || world.below.undone() > 0);
    let records = world.append((&zfs, file), records, || true);
    world.env.block_on(pool.clear(&|_| true)).expect("the device works");
    world.env.block_on(pool.sync_now()).expect("sync");
    assert_eq!((pool.suspended(), pool.vdevs().state().0), (None, VdevState::Online));
    world.check(&pool, records);
    drop(zfs);
    world.env.block_on(pool.close(PoolState::Exported)).expect("a pool closes");
    drop(pool);
    let pool = world.import();
    world.check(&pool, records);
    let damaged = world.env.block_on(pool.damaged_objects()).expect("told");
    assert!(damaged.is_empty(), "{damaged:?}");
    world.env.block_on(pool.close(PoolState::Exported)).expect("a pool closes");
}

#[test]
fn a_stable_write_that_fails_and_takes_a_txgs_writes_with_it_costs_nothing_acknowledged() {
    lose_amid_a_txg(Syncs::OfStableWrites);
}

#[test]
fn a_flush_that_fails_and_takes_a_txgs_writes_with_it_costs_nothing_acknowledged() {
    lose_amid_a_txg(Syncs::Alone);
}

#[test]
fn a_label_and_a_stretch_that_take_no_writes_stop_nobody() {
    let Some(world) = World::new() else { return };
    let pool = world.create();
    world.below.fail_within(Touch::Write, 0..256 << 10, Errno::EIO);
    world.below.fail_within(Touch::Write, 24 << 20..36 << 20, Errno::ENOSPC);
    let zfs = world.zfs(&pool);
    let file = world.file(&zfs);
    let records = world.append((&zfs, file), 0, || true);
    world.env.block_on(pool.sync_now()).expect("sync");
    world.check(&pool, records);
    drop(zfs);
    world.env.block_on(pool.close(PoolState::Exported)).expect("a pool closes");
    drop(pool);
    let pool = world.import();
    world.check(&pool, records);
    world.env.block_on(pool.close(PoolState::Exported)).expect("a pool closes");
}
