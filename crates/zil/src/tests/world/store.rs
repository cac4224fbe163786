//! Space and devices with volatile caches, in memory.
//!
//! Operations of devices stay pending until somebody completes them, one at a time, or at once when the store
//! is automatic. The store asserts what the log promises it: nothing is freed twice, in a txg older than
//! itself, or with a write in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::{Poll, Waker};

use env::{BoxFuture, BufSlice, DeviceError, Durability, IoBuf};
use futures::FutureExt;
use ondisk::zil::ZilHeader;
use ondisk::{Blkptr, BlkptrParts, ChecksumKind, CompressionKind, Dva, ObjectType};
use parking_lot::Mutex;
use units::{Asize, Lsize, ObjsetId, Psize, Txg, VdevId, VdevOffset};

use crate::{LogEvent, LogStore, Placement, Recorder, ZilError};

pub const OBJSET: ObjsetId = ObjsetId::new(54);
const SLOT: u64 = 4096;
pub type Place = (VdevId, u64);

#[derive(Clone, Debug)]
pub enum OpKind {
    Write { bp: Blkptr, bytes: Vec<u8>, stable: bool },
    Flush { vdev: VdevId },
}

pub struct Op {
    kind: OpKind,
    result: Option<Result<(), ZilError>>,
    waker: Option<Waker>,
}

#[derive(Clone, Debug)]
pub struct Owned {
    slots: u64,
    birth: Txg,
}

#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    header: ZilHeader,
    owned: BTreeMap<Place, Owned>,
}

pub struct Inner {
    /// Slots of each vdev; the last is the main pool, the others are logs.
    pub(super) vdevs: Vec<u64>,
    pub(super) owned: BTreeMap<Place, Owned>,
    /// Freed with a txg that has not synced yet.
    pub(super) resting: Vec<(Txg, Place, u64)>,
    pub(super) disk: BTreeMap<Place, Vec<u8>>,
    pub(super) cached: Vec<(VdevId, u64, Vec<u8>)>,
    pub(super) ops: BTreeMap<u64, Op>,
    pub(super) ops_begun: u64,
    pub fail: BTreeSet<u64>,
    pub automatic: bool,
    pub open: Txg,
    pub synced: Txg,
    pub(super) wanted: Txg,
    pub(super) sync_waiters: Vec<Waker>,
    pub(super) engine: Option<Waker>,
    pub(super) snapshot: Snapshot,
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
    /// Txgs attend to the log.
    pub is_attended: bool,
}

#[derive(Clone)]
pub struct MemStore(pub Arc<Mutex<Inner>>, pub Arc<Recorder>);

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

    /// A vdev has so many slots from now on.
    pub fn grow(&mut self, vdev: VdevId, slots: u64) {
        self.vdevs[vdev.get() as usize] = slots;
    }

    pub fn ops_begun(&self) -> u64 {
        self.ops_begun
    }

    pub(super) fn crashed(&self, lucky: bool) -> MemStore {
        let mut disk = self.disk.clone();
        if lucky {
            for op in self.ops.values().filter(|op| op.result.is_none()) {
                if let OpKind::Write { bp, bytes, .. } = &op.kind {
                    disk.insert(place_of(bp), bytes.clone());
                }
            }
            disk.extend(self.cached.iter().map(|(vdev, at, bytes)| ((*vdev, *at), bytes.clone())));
        }
        MemStore::of(Inner {
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
        })
    }

    fn has_write_in_flight(&self, place: Place) -> bool {
        self.ops.values().any(|op| match &op.kind {
            OpKind::Write { bp, .. } => op.result.is_none() && place_of(bp) == place,
            OpKind::Flush { .. } => false,
        })
    }

    pub(super) fn wake_sync_waiters(&mut self) {
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
    /// Vdevs of these sizes, in units of 4 KiB; the last is the main pool.
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
        Self::of(inner)
    }

    fn of(inner: Inner) -> Self {
        Self(Arc::new(Mutex::new(inner)), Arc::default())
    }

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
        // Nobody can write to a vdev that is out of use before it has answered all that it was asked.
        let is_out = inner.dead.contains(&place.0);
        assert!(is_out || !inner.has_write_in_flight(place), "{bp:?} freed while it is being written");
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

    fn recorder(&self) -> Option<&Recorder> {
        Some(&self.1)
    }

    fn report(&self, event: LogEvent) {
        self.0.lock().events.push(format!("{event:?}"));
    }
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
}
