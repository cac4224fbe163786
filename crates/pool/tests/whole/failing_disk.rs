//! Pools on a FUSE disk that fails on demand, through the real executor and its rings.
//!
//! Records are appended with stable writes while txgs are written. The disk answers with errors or
//! with a part of the bytes, or a sync fails and loses the writes before it. Nothing acknowledged is
//! missing afterwards, in the running pool and after an import.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use device::{Options, RealEnv};
use env::Env;
use oracle::fuse_disk::{DiskTransfer, Errno, FaultOutcome, FuseDisk, SyncKind};
use pool::{ImportSpec, Pool, PoolSpec, Tuning};
use tempfile::TempDir;
use units::ObjectId;
use vdev::{Bias, NewVdev, PoolState, VdevState};
use zpl::{Cred, NewNode, WriteFlags, Zfs};

const BYTES: usize = 96 << 20;
const RECORD_BYTES: usize = 4096;
const STABLE: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };
const PATIENCE: Duration = Duration::from_secs(120);
/// A writer is given this number of records at least, after each change of the disk.
const RECORDS_MIN: u64 = 50;
/// Behind the front labels and before those at the end.
const DATA: std::ops::Range<u64> = 4 << 20..95 << 20;

/// A pool of a FUSE disk, alone or beside a file.
struct World {
    env: Arc<RealEnv>,
    disk: FuseDisk,
    dir: TempDir,
}

impl World {
    fn new() -> Option<Self> {
        let (disk, dir) = (FuseDisk::mount(BYTES)?, TempDir::new().expect("a directory"));
        let world = Self { env: RealEnv::new(Options::default()), disk, dir };
        let file = std::fs::File::create(world.file_path()).expect("a file");
        file.set_len(BYTES as u64).expect("a sparse file");
        Some(world)
    }

    fn file_path(&self) -> PathBuf {
        self.dir.path().join("file")
    }

    fn both_paths(&self) -> Vec<PathBuf> {
        vec![self.disk.path(), self.file_path()]
    }

    fn env(&self) -> Arc<dyn Env> {
        self.env.clone()
    }

    fn create(&self, vdevs: Vec<NewVdev>) -> Arc<Pool> {
        let spec = PoolSpec {
            name: "whirl".into(),
            stored_name: None,
            vdevs,
            root_props: vec![],
            comment: None,
            force: false,
        };
        self.env.block_on(Pool::create(self.env(), spec, tuning())).expect("created")
    }

    fn create_single(&self) -> Arc<Pool> {
        self.create(vec![NewVdev { paths: vec![self.disk.path()], ..NewVdev::default() }])
    }

    fn create_mirror(&self) -> Arc<Pool> {
        self.create(vec![NewVdev { paths: self.both_paths(), ..NewVdev::default() }])
    }

    /// The data are on the file and the log is on the disk.
    fn create_log(&self) -> Arc<Pool> {
        let main = NewVdev { paths: vec![self.file_path()], ..NewVdev::default() };
        let log = NewVdev { paths: vec![self.disk.path()], bias: Bias::Log, ..NewVdev::default() };
        self.create(vec![main, log])
    }

    fn import(&self, paths: Vec<PathBuf>) -> Arc<Pool> {
        let spec = ImportSpec { paths, name: Some("whirl".into()), ..ImportSpec::default() };
        self.env.block_on(Pool::import(self.env(), &spec, tuning())).expect("imported")
    }

    fn export(&self, pool: Arc<Pool>) {
        self.env.block_on(pool.close(PoolState::Exported)).expect("exported");
    }

    fn sync(&self, pool: &Arc<Pool>) {
        self.env.block_on(pool.sync_now()).expect("synced");
    }

    fn zfs(&self, pool: &Arc<Pool>) -> Arc<Zfs> {
        Arc::clone(&self.env.block_on(pool.filesystem("whirl")).expect("opened").zfs)
    }

    fn writer<'w>(&'w self, pool: &Arc<Pool>) -> Writer<'w> {
        let zfs = self.zfs(pool);
        let [file, other] = [b"records".as_slice(), b"other"].map(|name| {
            let made = zfs.create(zfs.root(), name, NewNode::File, 0o644, Cred::default());
            self.env.block_on(made).expect("created").object
        });
        Writer { world: self, zfs, file, other, records: 0 }
    }

    /// The first `records` records are there.
    fn check(&self, pool: &Arc<Pool>, records: u64) {
        let zfs = self.zfs(pool);
        let file = self.env.block_on(zfs.lookup(zfs.root(), b"records")).expect("the file").object;
        let mut found = vec![0; RECORD_BYTES];
        for number in 0..records {
            let read = self.env.block_on(zfs.read(file, number * RECORD_BYTES as u64, &mut found));
            assert_eq!(read.expect("readable"), RECORD_BYTES);
            assert!(found == record(number), "record {number} of {records}");
        }
    }

    /// Exports the pool, imports it from these paths, and finds everything there, undamaged.
    fn check_again(&self, pool: Arc<Pool>, paths: Vec<PathBuf>, records: u64) {
        self.export(pool);
        let pool = self.import(paths);
        self.check(&pool, records);
        let damaged = self.env.block_on(pool.damaged_objects());
        assert!(damaged.is_empty(), "{damaged:?}");
        self.export(pool);
    }
}

/// Appends records, each of which is stable when the next begins.
struct Writer<'w> {
    world: &'w World,
    zfs: Arc<Zfs>,
    file: ObjectId,
    /// A commit of the records does not log the writes of this file.
    other: ObjectId,
    records: u64,
}

impl Writer<'_> {
    fn append(&mut self) {
        self.append_until(|| true);
    }

    /// Appends records until there are enough and the condition holds.
    fn append_until(&mut self, is_enough: impl Fn() -> bool) {
        let (start, first) = (Instant::now(), self.records);
        while self.records < first + RECORDS_MIN || !is_enough() {
            assert!(start.elapsed() < PATIENCE, "{} records, and the event did not occur", self.records);
            self.append_one();
        }
    }

    fn append_one(&mut self) {
        let (number, env) = (self.records, &self.world.env);
        let bytes = record(number);
        let write = self.zfs.write(self.file, number * RECORD_BYTES as u64, &bytes, STABLE);
        env.block_on(write).expect("a write waits until it is possible");
        // Txgs write these bytes beside the records. The bytes replace earlier ones, so the pool is
        // never full.
        let place = number % 64 * 65_536;
        let noise = record(number + 1_000_000).repeat(16);
        env.block_on(self.zfs.write(self.other, place, &noise, WriteFlags::default())).expect("written");
        self.records += 1;
    }
}

fn tuning() -> Tuning {
    let (txg_timeout, retry_after) = (Duration::from_millis(100), Duration::from_millis(500));
    Tuning { txg_timeout, retry_after, cache_bytes: 4 << 20, ..Tuning::default() }
}

fn record(number: u64) -> Vec<u8> {
    (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().repeat(RECORD_BYTES / 8)
}

/// One sync of this kind fails among the writes of a txg and loses them.
fn lose_amid_a_txg(kind: SyncKind) {
    let Some(world) = World::new() else { return };
    let pool = world.create_single();
    let mut writer = world.writer(&pool);
    writer.append();
    // A stable write counts as one of the writes that its sync loses.
    world.disk.fail_sync(kind, 2);
    writer.append_until(|| world.disk.lost_writes() > 0);
    writer.append();
    let records = writer.records;
    drop(writer);
    world.env.block_on(pool.clear(&|_| true)).expect("the disk works");
    world.sync(&pool);
    assert_eq!((pool.suspended(), pool.vdevs().state().0), (None, VdevState::Online));
    world.check(&pool, records);
    world.check_again(pool, vec![world.disk.path()], records);
}

#[test]
fn a_stable_write_that_fails_and_loses_a_txgs_writes_costs_nothing_acknowledged() {
    lose_amid_a_txg(SyncKind::OfStableWrites);
}

#[test]
fn a_flush_that_fails_and_loses_a_txgs_writes_costs_nothing_acknowledged() {
    lose_amid_a_txg(SyncKind::Alone);
}

#[test]
fn labels_and_a_range_that_refuse_writes_stop_nobody() {
    let Some(world) = World::new() else { return };
    let pool = world.create_single();
    world.disk.fail_within(DiskTransfer::Write, 0..256 << 10, FaultOutcome::Fails(Errno::EIO));
    world.disk.fail_within(DiskTransfer::Write, 24 << 20..36 << 20, FaultOutcome::Fails(Errno::ENOSPC));
    let mut writer = world.writer(&pool);
    writer.append();
    let records = writer.records;
    drop(writer);
    world.sync(&pool);
    assert_eq!(pool.suspended(), None);
    world.check(&pool, records);
    world.check_again(pool, vec![world.disk.path()], records);
    assert!(world.disk.faults_met() > 0);
}

#[test]
fn short_reads_and_passing_shortages_are_not_noticed() {
    let Some(world) = World::new() else { return };
    let pool = world.create_single();
    let mut writer = world.writer(&pool);
    for of in [DiskTransfer::Write, DiskTransfer::Read] {
        for errno in [Errno::EAGAIN, Errno::ENOMEM] {
            world.disk.fail_times(of, DATA, FaultOutcome::Fails(errno), 2);
            writer.append();
        }
    }
    world.disk.fail_within(DiskTransfer::Read, DATA, FaultOutcome::Short);
    writer.append();
    let records = writer.records;
    drop(writer);
    world.sync(&pool);
    world.check(&pool, records);
    world.check_again(pool, vec![world.disk.path()], records);
    assert!(world.disk.faults_met() > RECORDS_MIN);
}

#[test]
fn a_mirror_goes_on_while_the_file_system_below_one_side_is_read_only_or_full() {
    for errno in [Errno::EROFS, Errno::ENOSPC, Errno::EIO] {
        let Some(world) = World::new() else { return };
        let pool = world.create_mirror();
        let mut writer = world.writer(&pool);
        writer.append();
        world.disk.fail_within(DiskTransfer::Write, 0..BYTES as u64, FaultOutcome::Fails(errno));
        writer.append();
        world.sync(&pool);
        assert_eq!((pool.suspended(), pool.vdevs().state().0), (None, VdevState::Degraded), "{errno:?}");
        world.check(&pool, writer.records);
        world.disk.heal();
        world.env.block_on(pool.clear(&|_| true)).expect("the disk works");
        writer.append_until(|| pool.vdevs().state().0 == VdevState::Online && is_resilvered(&pool));
        let records = writer.records;
        drop(writer);
        world.sync(&pool);
        // The disk that was away has everything.
        std::fs::remove_file(world.file_path()).expect("removed");
        world.check(&pool, records);
        world.check_again(pool, vec![world.disk.path()], records);
    }
}

fn is_resilvered(pool: &Arc<Pool>) -> bool {
    pool.vdevs().leaves().iter().all(|leaf| leaf.dtl().is_empty())
}

#[test]
fn a_mirror_reads_the_other_side_of_a_range_that_cannot_be_read() {
    let Some(world) = World::new() else { return };
    let pool = world.create_mirror();
    let mut writer = world.writer(&pool);
    writer.append();
    let records = writer.records;
    drop(writer);
    world.export(pool);
    world.disk.fail_within(DiskTransfer::Read, DATA, FaultOutcome::Fails(Errno::EIO));
    let pool = world.import(world.both_paths());
    world.check(&pool, records);
    world.disk.heal();
    world.check_again(pool, world.both_paths(), records);
    assert!(world.disk.faults_met() > 0);
}

#[test]
fn commits_go_to_the_pool_while_the_log_refuses_writes() {
    for errno in [Errno::EROFS, Errno::ENOSPC, Errno::EIO] {
        let Some(world) = World::new() else { return };
        let pool = world.create_log();
        let mut writer = world.writer(&pool);
        writer.append();
        world.disk.fail_within(DiskTransfer::Write, DATA, FaultOutcome::Fails(errno));
        writer.append();
        let records = writer.records;
        drop(writer);
        world.sync(&pool);
        assert_eq!(pool.suspended(), None, "{errno:?}");
        assert!(world.disk.faults_met() > 0);
        world.check(&pool, records);
        world.disk.heal();
        world.check_again(pool, world.both_paths(), records);
    }
}
