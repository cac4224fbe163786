//! A file system on simulated disks that crashes on order.
//!
//! A crash here loses what was only in memory: the objset is opened again from its last
//! synced root and the log claimed and replayed. (What disks do in a power cut is `sim`'s and
//! `pool`'s to test.)

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dmu::{Objset, ObjsetContext, ObjsetProps, TxgGate};
use env::{BoxFuture, BufSlice, Durability, Env, IoBuf};
use ondisk::zil::RecordHead;
use ondisk::{Blkptr, LogRecord, ObjsetType};
use parking_lot::Mutex;
use sim::{DiskModel, DiskSpec, SimEnv};
use units::{ObjsetId, Txg, VdevId};
use vdev::{NewVdev, VdevTree};
use zil::{Claimed, IntentLog, Live, LogHandle, LogStore, LogWalk, Placement, ReplayReport, ZilError};
use zio::{Bookmark, LogHint, Zio};

use crate::{FormatSpec, Space, SpaceReport, Timestamp, ZPL_VERSION, Zfs, ZfsOptions, ZfsParts};

const OBJSET: ObjsetId = ObjsetId::new(54);
const DIRTY_LIMIT_BYTES: u64 = 64 << 20;
/// Next to nothing, so that operations wait for the disk in many places and interleave there.
const CACHE_BYTES: u64 = 16 << 10;

pub(super) struct World {
    pub env: Arc<SimEnv>,
    zio: Arc<Zio>,
    mounted: Mutex<Option<Mounted>>,
    root: Mutex<Blkptr>,
    /// Held while a group is being synced: crashes come between groups.
    syncing: async_lock::Mutex<()>,
}

struct Mounted {
    os: Arc<Objset>,
    stopped: Arc<AtomicBool>,
}

struct Store {
    zio: Arc<Zio>,
    gate: Arc<TxgGate>,
}

impl LogStore for Store {
    fn allocate<'a>(
        &'a self,
        bytes: u32,
        placement: &'a Placement,
    ) -> BoxFuture<'a, Result<Blkptr, ZilError>> {
        Box::pin(async move {
            let tx = self.gate.join().expect("the gate is open");
            let hint = LogHint { avoid: &placement.avoid, prefer: None };
            self.zio.allocate_log(tx.txg(), bytes.into(), &hint).map_err(|_| ZilError::NoSpace { bytes })
        })
    }

    fn write(
        &self,
        bp: &Blkptr,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> BoxFuture<'static, Result<(), ZilError>> {
        let (zio, bp) = (Arc::clone(&self.zio), *bp);
        Box::pin(async move {
            zio.write_log(&bp, slices, durability).await.expect("no faults here");
            Ok(())
        })
    }

    fn flush(&self, _vdevs: &[VdevId]) -> BoxFuture<'static, Result<(), ZilError>> {
        Box::pin(async { Ok(()) })
    }

    fn read<'a>(&'a self, bp: &'a Blkptr) -> BoxFuture<'a, Result<IoBuf, ZilError>> {
        Box::pin(async move { Ok(self.zio.read_log(bp).await.expect("no faults here")) })
    }

    fn read_data_block<'a>(&'a self, bp: &'a Blkptr) -> BoxFuture<'a, Result<IoBuf, ZilError>> {
        Box::pin(async move {
            Ok((*self.zio.read(bp, &Bookmark::default()).await.expect("no faults here")).clone())
        })
    }

    fn free<'a>(&'a self, txg: Txg, bp: &'a Blkptr) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.zio.free(txg, bp).await.expect("the log frees what it allocated") })
    }

    /// The allocator outlives the crash, and with it the log's allocations.
    fn claim<'a>(&'a self, _txg: Txg, _bp: &'a Blkptr) -> BoxFuture<'a, Result<(), ZilError>> {
        Box::pin(async { Ok(()) })
    }

    fn claim_clone(&self, _txg: Txg, _bp: &Blkptr) -> Result<(), ZilError> {
        Ok(())
    }

    fn free_clone(&self, _txg: Txg, _bp: &Blkptr) {}

    fn open_txg(&self) -> Txg {
        self.gate.open_txg()
    }

    fn synced_txg(&self) -> Txg {
        self.gate.synced_txg()
    }

    /// There is one log, which every group attends to.
    fn attend(&self, _objset: ObjsetId) {}

    fn leave(&self, _objset: ObjsetId) {}

    fn wait_synced(&self, txg: Txg) -> BoxFuture<'_, Result<(), ZilError>> {
        Box::pin(async move {
            self.gate.wait_synced(txg).await.expect("the gate never fails here");
            Ok(())
        })
    }
}

/// What a crash leaves: files as the last txg had them, and a log.
pub(super) struct Crashed {
    pub zfs: Arc<Zfs>,
    pub log: IntentLog<Claimed>,
    pub store: Arc<dyn LogStore>,
}

impl Crashed {
    /// The records that are to be replayed.
    pub async fn records(&self) -> Vec<(RecordHead, LogRecord)> {
        let header = self.log.header();
        let mut walk = LogWalk::new(OBJSET, &header, &*self.store);
        let mut records = Vec::new();
        while let Some(block) = walk.next().await.expect("a log that reads") {
            records.extend(block.records().map(|record| record.expect("sound").decode().expect("sound")));
        }
        records.retain(|(head, _)| head.txg.get() >= header.claim_txg.get());
        records
    }
}

/// The space that every file system of these tests reports.
pub(super) const SPACE: Space = Space { used_bytes: 1 << 20, available_bytes: 1 << 40, objects: 10 };

struct FixedReport;

impl SpaceReport for FixedReport {
    fn space(&self) -> Space {
        SPACE
    }
}

impl World {
    /// Makes a file system of this version, whose first group is synced.
    pub async fn create(env: Arc<SimEnv>, options: ZfsOptions, version: u64) -> (Arc<Self>, Arc<Zfs>) {
        env.add_disk("disk", DiskSpec::new(512 << 20, DiskModel::ssd()));
        let spec = NewVdev {
            paths: vec![PathBuf::from("disk")],
            ashift: None,
            bias: vdev::Bias::None,
            create_txg: Txg::new(4).get(),
            parity: 0,
            ..NewVdev::default()
        };
        let tree = VdevTree::create(env.clone(), &[spec]).await.expect("a disk");
        let zio = Arc::new(Zio::new(Arc::new(tree), CACHE_BYTES));
        for top in zio.vdevs().tops() {
            zio.add_vdev(&top).expect("a new vdev");
        }
        let world = Arc::new(Self {
            env: env.clone(),
            zio: Arc::clone(&zio),
            mounted: Mutex::new(None),
            root: Mutex::new(Blkptr::default()),
            syncing: async_lock::Mutex::new(()),
        });
        let gate = TxgGate::new(Txg::new(4), DIRTY_LIMIT_BYTES);
        let os = Objset::create(world.context(&gate), ObjsetType::Zfs);
        os.account_from_birth(true, true);
        let tx = gate.forming();
        let spec = FormatSpec {
            uid: 0,
            gid: 0,
            permissions: 0o755,
            now: Timestamp { secs: 1_000_000, nanos: 1 },
            salt: 77,
            version,
            utf8_only: false,
        };
        Zfs::format(&os, &tx, &spec).await.expect("formats");
        let store: Arc<dyn LogStore> = Arc::new(Store { zio, gate: gate.clone() });
        let log = IntentLog::<Live>::empty(OBJSET, store, env.clone());
        let zfs = world.open(&os, options).await;
        gate.put_in_use();
        world.run(&os, log.handle());
        zfs.start_log(log);
        gate.wait_synced(gate.open_txg()).await.expect("syncs");
        (world, zfs)
    }

    fn context(&self, gate: &Arc<TxgGate>) -> ObjsetContext {
        ObjsetContext {
            id: OBJSET,
            zio: Arc::clone(&self.zio),
            gate: Arc::clone(gate),
            props: ObjsetProps::dataset_default(),
        }
    }

    async fn open(&self, os: &Arc<Objset>, options: ZfsOptions) -> Arc<Zfs> {
        let env: Arc<dyn Env> = self.env.clone();
        let parts = ZfsParts { env, os: Arc::clone(os), options, space: Arc::new(FixedReport) };
        Zfs::open(parts).await.expect("opens")
    }

    /// Starts the sync loop: a group goes out when somebody wants it, or every few seconds.
    fn run(self: &Arc<Self>, os: &Arc<Objset>, log: LogHandle) {
        let stopped = Arc::new(AtomicBool::new(false));
        let mounted = Mounted { os: Arc::clone(os), stopped: Arc::clone(&stopped) };
        *self.mounted.lock() = Some(mounted);
        let (world, os) = (Arc::clone(self), Arc::clone(os));
        self.env.spawn(
            "sync",
            Box::pin(async move {
                loop {
                    os.txgs().wanted().await;
                    let _syncing = world.syncing.lock().await;
                    if stopped.load(Ordering::Relaxed) {
                        return;
                    }
                    world.sync_once(&os, &log).await;
                }
            }),
        );
    }

    async fn sync_once(&self, os: &Arc<Objset>, log: &LogHandle) {
        let quiet = os.txgs().quiesce().await;
        let txg = quiet.txg();
        if let Some(header) = log.sync(txg).await {
            os.set_zil_header(txg, header);
        }
        if let Some(synced) = os.sync(txg).await.expect("syncs") {
            for bp in synced.killed.iter().chain(&synced.unused) {
                self.zio.free(txg, bp).await.expect("was allocated");
            }
            *self.root.lock() = synced.root;
        }
        self.zio.with_allocator(|allocator| {
            allocator.take_changes(txg);
            allocator.sync_done(txg);
        });
        self.zio.forget_unstable();
        os.txgs().finish(quiet);
        log.clean(txg);
    }

    /// So many bytes of blocks that were read are kept from now on.
    pub fn keep_blocks(&self, bytes: u64) {
        self.zio.set_cache_limit(bytes);
    }

    /// Everything not synced and not in the log is gone; what is in the log is replayed.
    pub async fn crash(self: &Arc<Self>, zfs: Arc<Zfs>) -> (Arc<Zfs>, ReplayReport) {
        let Crashed { zfs, log, .. } = self.cut_off(zfs).await;
        let report = zfs.replay(log).await.expect("replays");
        zfs.find_leftovers(&[]).await;
        zfs.purge().await.expect("purges");
        (zfs, report)
    }

    /// Everything not synced is gone; the log is claimed, and not replayed yet.
    pub async fn cut_off(self: &Arc<Self>, zfs: Arc<Zfs>) -> Crashed {
        let options = zfs.options();
        drop(zfs);
        let syncing = self.syncing.lock().await;
        let old = self.mounted.lock().take().expect("mounted");
        old.stopped.store(true, Ordering::Relaxed);
        self.env.kill();
        drop(syncing);
        let gate = TxgGate::new(old.os.txgs().synced_txg(), DIRTY_LIMIT_BYTES);
        let root = *self.root.lock();
        let os = Objset::open(self.context(&gate), root).await.expect("opens");
        let store: Arc<dyn LogStore> = Arc::new(Store { zio: Arc::clone(&self.zio), gate: gate.clone() });
        let found = IntentLog::found(OBJSET, os.zil_header(), Arc::clone(&store), self.env.clone());
        let log = found.claim(gate.open_txg()).await.expect("claims");
        os.set_zil_header(gate.open_txg(), log.header());
        let zfs = self.open(&os, options).await;
        self.run(&os, log.handle());
        Crashed { zfs, log, store }
    }

    /// Syncs everything, then starts over from the disk.
    pub async fn remount(self: &Arc<Self>, zfs: Arc<Zfs>) -> Arc<Zfs> {
        self.sync(&zfs).await;
        let (zfs, report) = self.crash(zfs).await;
        assert_eq!(report.applied, 0, "all was synced");
        zfs
    }

    pub async fn sync(&self, zfs: &Zfs) {
        zfs.store_atimes().await.expect("stores");
        let gate = zfs.objset().txgs();
        gate.wait_synced(gate.open_txg()).await.expect("syncs");
    }
}

/// Runs a test in a world of its own.
pub(super) fn run<F: Future<Output = ()>>(test: impl FnOnce(Arc<World>, Arc<Zfs>) -> F) {
    run_with(ZfsOptions::default(), test);
}

pub(super) fn run_with<F: Future<Output = ()>>(
    options: ZfsOptions,
    test: impl FnOnce(Arc<World>, Arc<Zfs>) -> F,
) {
    run_seeded(7, options, test);
}

/// The same with a file system of this version.
pub(super) fn run_of_version<F: Future<Output = ()>>(
    version: u64,
    options: ZfsOptions,
    test: impl FnOnce(Arc<World>, Arc<Zfs>) -> F,
) {
    run_in(SimEnv::new(7), options, version, test);
}

/// The same with another order of everything that may happen in any order.
pub(super) fn run_seeded<F: Future<Output = ()>>(
    seed: u64,
    options: ZfsOptions,
    test: impl FnOnce(Arc<World>, Arc<Zfs>) -> F,
) {
    run_in(SimEnv::new(seed), options, ZPL_VERSION, test);
}

fn run_in<F: Future<Output = ()>>(
    env: Arc<SimEnv>,
    options: ZfsOptions,
    version: u64,
    test: impl FnOnce(Arc<World>, Arc<Zfs>) -> F,
) {
    env.run_until(async {
        let (world, zfs) = World::create(env.clone(), options, version).await;
        test(world, zfs).await;
    });
}
