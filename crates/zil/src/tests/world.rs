//! A pool in memory: space, devices with volatile caches, txgs, crashes.
//!
//! Operations of devices stay pending until the test completes them, one at a time, or at once
//! when the world is automatic. The store asserts what the log promises it: nothing is freed
//! twice, in a txg older than itself, or with a write in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use device::{BoxFuture, BufSlice, Device, DeviceError, Durability, Env, IoBuf, OpenMode};
use futures::FutureExt;
use ondisk::zil::record::LrRemove;
use ondisk::zil::{LogRecord, ZilHeader};
use ondisk::{Blkptr, BlkptrParts, ChecksumKind, CompressionKind, Dva, ObjectType};
use parking_lot::Mutex;
use units::{Asize, Lsize, ObjectId, ObjsetId, Psize, Txg, VdevId, VdevOffset};

use super::tasks::Tasks;
use crate::{
    IntentLog, Itx, Live, LogEvent, LogHandle, LogStore, LogWalk, LoggedWrite, Placement, Record, Scope,
    WriteData, ZilError,
};

pub const OBJSET: ObjsetId = ObjsetId::new(54);
const SLOT: u64 = 4096;
type Place = (VdevId, u64);

#[derive(Clone, Debug)]
pub enum OpKind {
    Write { bp: Blkptr, bytes: Vec<u8>, stable: bool },
    Flush { vdev: VdevId },
}

struct Op {
    kind: OpKind,
    result: Option<Result<(), ZilError>>,
    waker: Option<Waker>,
}

#[derive(Clone, Debug)]
struct Owned {
    slots: u64,
    birth: Txg,
}

#[derive(Clone, Debug, Default)]
struct Snapshot {
    header: ZilHeader,
    owned: BTreeMap<Place, Owned>,
}

pub struct Inner {
    /// Slots of each vdev; the last is the main pool, the others are logs.
    vdevs: Vec<u64>,
    owned: BTreeMap<Place, Owned>,
    /// Freed with a txg that has not synced yet.
    resting: Vec<(Txg, Place, u64)>,
    disk: BTreeMap<Place, Vec<u8>>,
    cached: Vec<(VdevId, u64, Vec<u8>)>,
    ops: BTreeMap<u64, Op>,
    ops_begun: u64,
    pub fail: BTreeSet<u64>,
    pub automatic: bool,
    pub open: Txg,
    pub synced: Txg,
    wanted: Txg,
    sync_waiters: Vec<Waker>,
    engine: Option<Waker>,
    snapshot: Snapshot,
    pub lanes: usize,
    pub allocations: u64,
    pub avoided: Vec<Placement>,
    pub events: Vec<String>,
    pub clones: BTreeMap<Place, i64>,
    pub data: BTreeMap<Place, Vec<u8>>,
    pub dead: BTreeSet<VdevId>,
    /// Before this operation all devices are opened anew, without what they had in their caches.
    pub reopen_before: Option<u64>,
    pub reopened: u64,
    /// Groups attend to the log.
    pub is_attended: bool,
}

#[derive(Clone)]
pub struct MemStore(pub Arc<Mutex<Inner>>);

fn failure(op: &'static str, vdev: VdevId) -> ZilError {
    ZilError::Io { vdev, op, source: Arc::new(DeviceError::Gone) }
}

impl Inner {
    fn is_free(&self, vdev: VdevId, slot: u64, slots: u64) -> bool {
        let overlaps = |place: &Place, len: u64| {
            let at = place.1 / SLOT;
            place.0 == vdev && at < slot + slots && slot < at + len
        };
        !self.owned.iter().any(|(place, owned)| overlaps(place, owned.slots))
            && !self.resting.iter().any(|(_, place, len)| overlaps(place, *len))
    }

    fn find(&self, vdev: VdevId, slots: u64) -> Option<u64> {
        let size = self.vdevs[vdev.get() as usize];
        (0..(size + 1).saturating_sub(slots)).find(|&slot| self.is_free(vdev, slot, slots))
    }

    fn allocate(&mut self, bytes: u32, placement: &Placement) -> Result<Blkptr, ZilError> {
        self.allocations += 1;
        self.avoided.push(placement.clone());
        let slots = u64::from(bytes) / SLOT;
        let main = self.vdevs.len() - 1;
        for index in 0..self.vdevs.len() {
            let vdev = VdevId::new(index as u32);
            if index != main && placement.avoid.contains(&vdev) {
                continue;
            }
            if let Some(slot) = self.find(vdev, slots) {
                self.owned.insert((vdev, slot * SLOT), Owned { slots, birth: self.open });
                return Ok(log_bp(vdev, slot * SLOT, u64::from(bytes), self.open));
            }
        }
        Err(ZilError::NoSpace { bytes })
    }

    fn submit(&mut self, kind: OpKind) -> u64 {
        self.ops_begun += 1;
        let id = self.ops_begun;
        if self.reopen_before == Some(id) {
            self.cached.clear();
            self.reopened += 1;
        }
        self.ops.insert(id, Op { kind, result: None, waker: None });
        if self.automatic {
            self.complete(id);
        }
        id
    }

    /// Lets an operation end: well, unless it was picked to fail.
    pub fn complete(&mut self, id: u64) {
        let fails = self.fail.contains(&id);
        let op = self.ops.get_mut(&id).expect("a pending operation");
        let kind = op.kind.clone();
        let result = match kind {
            OpKind::Write { bp, .. } if fails || self.dead.contains(&bp.dva(0).vdev) => {
                Err(failure("write", bp.dva(0).vdev))
            }
            OpKind::Flush { vdev } if fails || self.dead.contains(&vdev) => {
                self.cached.retain(|(of, ..)| *of != vdev);
                Err(failure("flush", vdev))
            }
            OpKind::Write { bp, bytes, stable } => {
                let Dva { vdev, offset, .. } = bp.dva(0);
                // A device never lets older bytes of its cache win over newer ones.
                let range = offset.get()..offset.get() + bytes.len() as u64;
                let is_older = |of: VdevId, at: u64, len: usize| {
                    of == vdev && at < range.end && range.start < at + len as u64
                };
                self.cached.retain(|(of, at, old)| !is_older(*of, *at, old.len()));
                if stable {
                    self.disk.insert((vdev, offset.get()), bytes);
                } else {
                    self.cached.push((vdev, offset.get(), bytes));
                }
                Ok(())
            }
            OpKind::Flush { vdev } => {
                let (flushed, kept) = std::mem::take(&mut self.cached).into_iter().partition(|w| w.0 == vdev);
                self.cached = kept;
                let flushed: Vec<(VdevId, u64, Vec<u8>)> = flushed;
                self.disk.extend(flushed.into_iter().map(|(vdev, at, bytes)| ((vdev, at), bytes)));
                Ok(())
            }
        };
        let op = self.ops.get_mut(&id).expect("a pending operation");
        op.result = Some(result);
        if let Some(waker) = op.waker.take() {
            waker.wake();
        }
    }

    pub fn pending(&self) -> Vec<u64> {
        self.ops.iter().filter(|(_, op)| op.result.is_none()).map(|(&id, _)| id).collect()
    }

    pub fn pending_kind(&self, id: u64) -> OpKind {
        self.ops[&id].kind.clone()
    }

    pub fn ops_begun(&self) -> u64 {
        self.ops_begun
    }

    fn crashed(&self, lucky: bool) -> MemStore {
        let mut disk = self.disk.clone();
        if lucky {
            for op in self.ops.values().filter(|op| op.result.is_none()) {
                if let OpKind::Write { bp, bytes, .. } = &op.kind {
                    disk.insert(place_of(bp), bytes.clone());
                }
            }
            disk.extend(self.cached.iter().map(|(vdev, at, bytes)| ((*vdev, *at), bytes.clone())));
        }
        MemStore(Arc::new(Mutex::new(Inner {
            vdevs: self.vdevs.clone(),
            owned: self.snapshot.owned.clone(),
            resting: Vec::new(),
            disk,
            cached: Vec::new(),
            ops: BTreeMap::new(),
            ops_begun: 0,
            fail: BTreeSet::new(),
            automatic: true,
            open: self.synced.next(),
            synced: self.synced,
            wanted: Txg::ZERO,
            sync_waiters: Vec::new(),
            engine: None,
            snapshot: self.snapshot.clone(),
            lanes: 1,
            allocations: 0,
            avoided: Vec::new(),
            events: Vec::new(),
            clones: BTreeMap::new(),
            data: self.data.clone(),
            dead: BTreeSet::new(),
            reopen_before: None,
            reopened: 0,
            is_attended: true,
        })))
    }

    fn has_write_in_flight(&self, place: Place) -> bool {
        self.ops.values().any(|op| match &op.kind {
            OpKind::Write { bp, .. } => op.result.is_none() && place_of(bp) == place,
            OpKind::Flush { .. } => false,
        })
    }

    fn wake_sync_waiters(&mut self) {
        self.sync_waiters.drain(..).for_each(Waker::wake);
    }
}

/// The output of a future that this store never keeps waiting.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("memory answers at once")
}

pub fn place_of(bp: &Blkptr) -> Place {
    (bp.dva(0).vdev, bp.dva(0).offset.get())
}

pub fn log_bp(vdev: VdevId, offset: u64, bytes: u64, birth: Txg) -> Blkptr {
    let dva = Dva { vdev, offset: VdevOffset::new(offset), asize: Asize::new(bytes), gang: false };
    let parts = BlkptrParts {
        dvas: [dva, Dva::EMPTY, Dva::EMPTY],
        lsize: Lsize::new(bytes),
        psize: Psize::new(bytes),
        compression: CompressionKind::Off,
        checksum_kind: ChecksumKind::Zilog2,
        object_type: ObjectType::INTENT_LOG,
        birth,
        physical_birth: birth,
        ..BlkptrParts::default()
    };
    parts.to_blkptr()
}

impl MemStore {
    pub fn is_attended(&self) -> bool {
        self.0.lock().is_attended
    }

    pub fn op(&self, kind: OpKind) -> BoxFuture<'static, Result<(), ZilError>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            let id = inner.lock().submit(kind);
            std::future::poll_fn(|cx| {
                let mut inner = inner.lock();
                let op = inner.ops.get_mut(&id).expect("an operation begun");
                match &op.result {
                    Some(result) => Poll::Ready(result.clone()),
                    None => {
                        op.waker = Some(cx.waker().clone());
                        Poll::Pending
                    }
                }
            })
            .await
        })
    }
}

impl LogStore for MemStore {
    fn allocate<'a>(
        &'a self,
        bytes: u32,
        placement: &'a Placement,
    ) -> BoxFuture<'a, Result<Blkptr, ZilError>> {
        Box::pin(async move { self.0.lock().allocate(bytes, placement) })
    }

    fn write(
        &self,
        bp: &Blkptr,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> BoxFuture<'static, Result<(), ZilError>> {
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.bytes()).copied().collect();
        assert!(bytes.len() as u64 <= bp.psize().get() && bytes.len().is_multiple_of(4096));
        self.op(OpKind::Write { bp: *bp, bytes, stable: durability == Durability::Stable })
    }

    fn flush(&self, vdevs: &[VdevId]) -> BoxFuture<'static, Result<(), ZilError>> {
        let flushes: Vec<_> = vdevs.iter().map(|&vdev| self.op(OpKind::Flush { vdev })).collect();
        Box::pin(async move { futures::future::try_join_all(flushes).await.map(drop) })
    }

    fn read<'a>(&'a self, bp: &'a Blkptr) -> BoxFuture<'a, Result<IoBuf, ZilError>> {
        Box::pin(async move {
            let inner = self.0.lock();
            if inner.dead.contains(&bp.dva(0).vdev) {
                return Err(failure("read", bp.dva(0).vdev));
            }
            let mut buf = IoBuf::zeroed(bp.psize().get() as usize);
            if let Some(bytes) = inner.disk.get(&place_of(bp)) {
                let len = bytes.len().min(buf.len());
                buf[..len].copy_from_slice(&bytes[..len]);
            }
            Ok(buf)
        })
    }

    fn read_data_block<'a>(&'a self, bp: &'a Blkptr) -> BoxFuture<'a, Result<IoBuf, ZilError>> {
        Box::pin(async move {
            let inner = self.0.lock();
            let data = inner.data.get(&place_of(bp)).ok_or_else(|| failure("read", bp.dva(0).vdev));
            data.map(|data| IoBuf::copy_of(data))
        })
    }

    fn free<'a>(&'a self, txg: Txg, bp: &'a Blkptr) -> BoxFuture<'a, ()> {
        let mut inner = self.0.lock();
        let place = place_of(bp);
        let owned = inner.owned.remove(&place).unwrap_or_else(|| panic!("{bp:?} is not allocated"));
        assert!(owned.birth <= txg, "{bp:?} freed in txg {txg}");
        assert!(!inner.has_write_in_flight(place), "{bp:?} freed while it is being written");
        inner.resting.push((txg, place, owned.slots));
        Box::pin(async {})
    }

    fn claim<'a>(&'a self, txg: Txg, bp: &'a Blkptr) -> BoxFuture<'a, Result<(), ZilError>> {
        let mut inner = self.0.lock();
        let (place, slots) = (place_of(bp), bp.psize().get() / SLOT);
        if !inner.is_free(place.0, place.1 / SLOT, slots) {
            let refused = ZilError::Claim { vdev: place.0, source: Arc::new(DeviceError::Gone) };
            return Box::pin(async { Err(refused) });
        }
        assert!(bp.birth() >= txg, "an old block is claimed");
        inner.owned.insert(place, Owned { slots, birth: txg });
        Box::pin(async { Ok(()) })
    }

    fn claim_clone(&self, _txg: Txg, bp: &Blkptr) -> Result<(), ZilError> {
        *self.0.lock().clones.entry(place_of(bp)).or_default() += 1;
        Ok(())
    }

    fn free_clone(&self, _txg: Txg, bp: &Blkptr) {
        *self.0.lock().clones.entry(place_of(bp)).or_default() -= 1;
    }

    fn open_txg(&self) -> Txg {
        self.0.lock().open
    }

    fn synced_txg(&self) -> Txg {
        self.0.lock().synced
    }

    fn reopened(&self) -> u64 {
        self.0.lock().reopened
    }

    fn wait_synced(&self, txg: Txg) -> BoxFuture<'_, Result<(), ZilError>> {
        Box::pin(std::future::poll_fn(move |cx| {
            let mut inner = self.0.lock();
            if inner.synced >= txg {
                return Poll::Ready(Ok(()));
            }
            if inner.wanted < txg {
                inner.wanted = txg;
                if let Some(engine) = inner.engine.take() {
                    engine.wake();
                }
            }
            inner.sync_waiters.push(cx.waker().clone());
            Poll::Pending
        }))
    }

    fn attend(&self, objset: ObjsetId) {
        assert_eq!(objset, OBJSET);
        self.0.lock().is_attended = true;
    }

    fn leave(&self, objset: ObjsetId) {
        assert_eq!(objset, OBJSET);
        self.0.lock().is_attended = false;
    }

    fn lanes(&self) -> usize {
        self.0.lock().lanes
    }

    fn report(&self, event: LogEvent) {
        self.0.lock().events.push(format!("{event:?}"));
    }
}

/// Time that a test moves on.
#[derive(Clone, Default)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    pub fn pass(&self, span: Duration) {
        let micros = u64::try_from(span.as_micros()).expect("a short span");
        self.0.fetch_add(micros, Ordering::SeqCst);
    }

    fn now(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::SeqCst))
    }
}

struct TestEnv {
    seed: Mutex<u64>,
    clock: Clock,
}

impl Env for TestEnv {
    fn now(&self) -> Duration {
        self.clock.now()
    }
    fn wall_clock(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep(&self, _span: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
    fn spawn(&self, name: &'static str, _task: BoxFuture<'static, ()>) {
        panic!("the log spawned {name}");
    }
    fn random_u64(&self) -> u64 {
        let mut seed = self.seed.lock();
        *seed += 1;
        seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
    fn open(&self, path: &Path, _mode: OpenMode) -> BoxFuture<'static, Result<Arc<dyn Device>, DeviceError>> {
        let path = path.to_path_buf();
        Box::pin(async move { Err(DeviceError::Missing { path }) })
    }
}

/// An environment; each draws other numbers.
pub fn env() -> Arc<dyn Env> {
    env_at(Clock::default())
}

fn env_at(clock: Clock) -> Arc<dyn Env> {
    static RUNS: AtomicU64 = AtomicU64::new(1);
    Arc::new(TestEnv { seed: Mutex::new(RUNS.fetch_add(1, Ordering::SeqCst) << 32), clock })
}

/// What a test handed in, and where it should be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag(pub u64);

/// A log over a pool in memory.
pub struct World {
    pub store: MemStore,
    pub log: Arc<IntentLog<Live>>,
    pub tasks: Tasks,
    /// Stands still, unless a test moves it on.
    pub clock: Clock,
    /// Records that some commit has vouched for, with their txgs.
    pub promised: Arc<Mutex<Vec<(Tag, Txg)>>>,
    assigned: Vec<(Tag, Txg, Scope)>,
}

impl World {
    /// A pool with these vdevs (sizes in units of 4 KiB; the last is the main pool).
    pub fn new(vdevs: &[u64]) -> Self {
        let inner = Inner {
            vdevs: vdevs.to_vec(),
            owned: BTreeMap::new(),
            resting: Vec::new(),
            disk: BTreeMap::new(),
            cached: Vec::new(),
            ops: BTreeMap::new(),
            ops_begun: 0,
            fail: BTreeSet::new(),
            automatic: false,
            open: Txg::new(10),
            synced: Txg::new(9),
            wanted: Txg::ZERO,
            sync_waiters: Vec::new(),
            engine: None,
            snapshot: Snapshot::default(),
            lanes: 1,
            allocations: 0,
            avoided: Vec::new(),
            events: Vec::new(),
            clones: BTreeMap::new(),
            data: BTreeMap::new(),
            dead: BTreeSet::new(),
            reopen_before: None,
            reopened: 0,
            is_attended: true,
        };
        let store = MemStore(Arc::new(Mutex::new(inner)));
        let clock = Clock::default();
        let log = IntentLog::empty(OBJSET, Arc::new(store.clone()), env_at(clock.clone()));
        Self { clock, ..Self::over(store, log) }
    }

    /// The world of a log that was imported.
    pub fn over(store: MemStore, log: IntentLog<Live>) -> Self {
        let log = Arc::new(log);
        let mut world = Self {
            store,
            log,
            tasks: Tasks::default(),
            clock: Clock::default(),
            promised: Arc::default(),
            assigned: Vec::new(),
        };
        world.tasks.spawn(sync_loop(world.store.clone(), world.log.handle()));
        world
    }

    /// A world whose log has a chain that a stable header names.
    pub fn primed(vdevs: &[u64]) -> Self {
        let mut world = Self::new(vdevs);
        let log = Arc::clone(&world.log);
        world.tasks.spawn(async move { log.prime().await });
        world.tasks.run();
        world.sync();
        assert!(world.log.handle().is_fast());
        world
    }

    pub fn inner(&self) -> parking_lot::MutexGuard<'_, Inner> {
        self.store.0.lock()
    }

    pub fn open(&self) -> Txg {
        self.inner().open
    }

    /// A namespace record in the open txg.
    pub fn name(&mut self, tag: u64) {
        let record =
            LogRecord::Remove(LrRemove { dir: ObjectId::new(34), name: tag.to_string().into_bytes() });
        self.assign(tag, Scope::Namespace, Record::Plain(record));
    }

    /// A write of `length` bytes to `object` in the open txg.
    pub fn write(&mut self, tag: u64, object: u64, length: u64) {
        let object = ObjectId::new(object);
        let bytes: Arc<[u8]> = (0..length).map(|i| pattern(tag, i)).collect();
        let write = LoggedWrite { object, offset: tag << 32, length, data: WriteData::Bytes(bytes) };
        self.assign(tag, Scope::Object(object), Record::Write(write));
    }

    pub fn assign(&mut self, tag: u64, scope: Scope, record: Record) {
        let txg = self.open();
        self.assigned.push((Tag(tag), txg, scope));
        self.log.assign(txg, Itx { scope, record });
    }

    /// Starts a commit; its task. When it returns, all it vouches for is promised.
    pub fn commit(&mut self, object: Option<u64>) -> usize {
        let object = object.map(ObjectId::new);
        let takes = |scope: Scope| match (scope, object) {
            (Scope::Namespace | Scope::NamespaceWith(_), _) | (_, None) => true,
            (Scope::Object(of), Some(object)) => of == object,
        };
        let vouched: Vec<_> = self
            .assigned
            .iter()
            .filter(|(_, _, scope)| takes(*scope))
            .map(|&(tag, txg, _)| (tag, txg))
            .collect();
        let (log, promised) = (Arc::clone(&self.log), Arc::clone(&self.promised));
        self.tasks.spawn(async move {
            log.commit(object).await.expect("txgs go on");
            promised.lock().extend(vouched);
        })
    }

    /// Syncs the open txg, completing nothing else; false when the log holds it up.
    pub fn try_sync(&mut self) -> bool {
        let txg = {
            let mut inner = self.inner();
            let open = inner.open;
            inner.wanted = inner.wanted.max(open);
            if let Some(engine) = inner.engine.take() {
                engine.wake();
            }
            open
        };
        self.tasks.run();
        self.inner().synced >= txg
    }

    pub fn sync(&mut self) {
        assert!(self.try_sync(), "the log holds up a txg");
    }

    /// Completes everything until nothing is pending.
    pub fn settle(&mut self) {
        self.tasks.run();
        loop {
            let Some(id) = self.inner().pending().first().copied() else { return };
            self.complete(id);
        }
    }

    pub fn complete(&mut self, id: u64) {
        self.inner().complete(id);
        self.tasks.run();
    }

    pub fn is_promised(&self, tag: u64) -> bool {
        self.promised.lock().iter().any(|(of, _)| *of == Tag(tag))
    }

    /// The pool as a power cut now would leave it. Writes that are not stable are lost, or, with
    /// `lucky`, all there.
    pub fn crash(&self, lucky: bool) -> MemStore {
        self.inner().crashed(lucky)
    }

    /// Asserts that a power cut now would lose nothing promised, whatever the devices' caches do.
    pub fn check_promises(&self) {
        for lucky in [false, true] {
            let crashed = self.crash(lucky);
            let synced = crashed.synced_txg();
            let found = crashed.recover();
            for (tag, txg) in self.promised.lock().iter() {
                let is_kept = *txg <= synced || found.contains(&(*tag, *txg));
                assert!(is_kept, "{tag:?} of txg {txg} is lost (synced {synced}, lucky {lucky}): {found:?}");
            }
        }
    }

    /// Asserts that after a power cut now, claim would find exactly the space that is allocated.
    pub fn check_space(&self) {
        for lucky in [false, true] {
            let crashed = self.crash(lucky);
            let mut expected: BTreeSet<Place> = crashed.0.lock().owned.keys().copied().collect();
            for bp in crashed.walk_blocks() {
                let is_known = expected.remove(&place_of(&bp));
                assert!(is_known || bp.birth() > crashed.synced_txg(), "{bp:?} is not allocated");
            }
            assert!(expected.is_empty(), "leaked (lucky {lucky}): {expected:?}");
        }
    }
}

/// The byte at `i` of the write `tag`.
pub fn pattern(tag: u64, i: u64) -> u8 {
    (tag.wrapping_mul(31).wrapping_add(i)) as u8
}

impl MemStore {
    pub fn header(&self) -> ZilHeader {
        self.0.lock().snapshot.header
    }

    pub fn owned(&self) -> BTreeSet<Place> {
        self.0.lock().owned.keys().copied().collect()
    }

    /// Stores a header as `txg`'s sync would, with the space as it is now.
    pub fn sync_done(&self, txg: Txg, header: Option<ZilHeader>) {
        let mut inner = self.0.lock();
        if let Some(header) = header {
            inner.snapshot.header = header;
        }
        let owned = inner.owned.iter().filter(|(_, owned)| owned.birth <= txg);
        inner.snapshot.owned = owned.map(|(place, owned)| (*place, owned.clone())).collect();
        // What a younger txg will free is still allocated as of this one.
        let later: Vec<_> = inner.resting.iter().filter(|(of, ..)| *of > txg).cloned().collect();
        for (_, place, slots) in later {
            inner.snapshot.owned.insert(place, Owned { slots, birth: txg });
        }
        inner.resting.retain(|(of, ..)| *of > txg);
        inner.synced = txg;
    }

    /// What a device would hold after somebody else wrote to it.
    pub fn write_raw(&self, bp: &Blkptr, bytes: &[u8]) {
        self.0.lock().disk.insert(place_of(bp), bytes.to_vec());
    }

    /// The pool as it would be found now.
    pub fn copy(&self) -> Self {
        self.0.lock().crashed(false)
    }

    pub fn walk_blocks(&self) -> Vec<Blkptr> {
        let header = self.header();
        let mut walk = LogWalk::new(OBJSET, &header, self);
        let mut blocks = Vec::new();
        while let Some(block) = now(walk.next()).expect("a log that reads") {
            blocks.push(block.bp);
        }
        blocks
    }

    /// What the log holds: tags and txgs; a write counts when all its data are there.
    pub fn recover(&self) -> Vec<(Tag, Txg)> {
        let header = self.header();
        let mut walk = LogWalk::new(OBJSET, &header, self);
        let mut found = Vec::new();
        let mut written: BTreeMap<(u64, Txg), u64> = BTreeMap::new();
        let mut last = 0;
        while let Some(block) = now(walk.next()).expect("a log that reads") {
            for record in block.records() {
                let (head, record) = record.expect("a sound record").decode().expect("a sound record");
                assert!(head.seq.get() > last, "record numbers ascend");
                last = head.seq.get();
                match record {
                    LogRecord::Remove(remove) => {
                        let name = String::from_utf8(remove.name).expect("a tag");
                        found.push((Tag(name.parse().expect("a tag")), head.txg));
                    }
                    LogRecord::Write(write) => {
                        let (tag, from) = (write.offset >> 32, write.offset & 0xffff_ffff);
                        let Some(data) = write.data.or_else(|| self.named_data(&write.blkptr)) else {
                            return found;
                        };
                        assert!((from..).zip(&data).all(|(i, &byte)| byte == pattern(tag, i)));
                        let so_far = written.entry((tag, head.txg)).or_default();
                        // The head of a write that has synced may be freed before its end.
                        let is_needed = head.txg > self.synced_txg();
                        assert!(!is_needed || *so_far == from, "pieces of a write follow each other");
                        *so_far += data.len() as u64;
                        found.push((Tag(tag), head.txg));
                    }
                    other => panic!("nobody logged {other:?}"),
                }
            }
        }
        found
    }

    /// The data in a block that a record names, if they have reached the disk.
    fn named_data(&self, bp: &Blkptr) -> Option<Vec<u8>> {
        self.0.lock().disk.get(&place_of(bp)).cloned()
    }

    pub fn written_lengths(&self) -> BTreeMap<u64, u64> {
        let header = self.header();
        let mut walk = LogWalk::new(OBJSET, &header, self);
        let mut lengths = BTreeMap::new();
        while let Some(block) = now(walk.next()).expect("a log that reads") {
            for record in block.records().map_while(Result::ok) {
                if let Ok((_, LogRecord::Write(write))) = record.decode() {
                    *lengths.entry(write.offset >> 32).or_default() += write.length;
                }
            }
        }
        lengths
    }
}

/// The txg engine: syncs the open txg whenever somebody waits for it.
pub async fn sync_loop(store: MemStore, log: LogHandle) {
    loop {
        let txg = std::future::poll_fn(|cx| {
            let mut inner = store.0.lock();
            if inner.wanted <= inner.synced {
                inner.engine = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let txg = inner.open;
            inner.open = txg.next();
            Poll::Ready(txg)
        })
        .await;
        let header = if store.is_attended() { log.sync(txg).await } else { None };
        store.sync_done(txg, header);
        if store.is_attended() {
            log.clean(txg);
            log.rest();
        }
        store.0.lock().wake_sync_waiters();
    }
}
