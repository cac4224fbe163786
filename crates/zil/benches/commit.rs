//! What a lone commit costs in software: devices here answer at once.
//!
//! `cargo bench -p sawmill-zil` prints nanoseconds for each (assign, commit).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use env::{BoxFuture, BufSlice, Device, DeviceError, Durability, Env, IoBuf, OpenMode};
use futures::FutureExt;
use ondisk::{Blkptr, BlkptrParts, ChecksumKind, Dva, ObjectType};
use units::{Asize, Lsize, ObjectId, ObjsetId, Psize, Txg, VdevId, VdevOffset};
use zil::{IntentLog, Itx, LogStore, LoggedWrite, Placement, Record, Scope, WriteData, ZilError};

/// Space without end, devices without delay.
struct Instantly {
    open: AtomicU64,
    offset: AtomicU64,
}

impl Instantly {
    fn place(&self, bytes: u64) -> Blkptr {
        let offset = VdevOffset::new(self.offset.fetch_add(bytes, Ordering::Relaxed));
        let dva = Dva { vdev: VdevId::new(0), offset, asize: Asize::new(bytes), gang: false };
        let parts = BlkptrParts {
            dvas: [dva, Dva::EMPTY, Dva::EMPTY],
            lsize: Lsize::new(bytes),
            psize: Psize::new(bytes),
            checksum_kind: ChecksumKind::Zilog2,
            object_type: ObjectType::INTENT_LOG,
            birth: self.open_txg(),
            physical_birth: self.open_txg(),
            ..BlkptrParts::default()
        };
        parts.to_blkptr()
    }
}

impl LogStore for Instantly {
    fn allocate<'a>(&'a self, bytes: u32, _: &'a Placement) -> BoxFuture<'a, Result<Blkptr, ZilError>> {
        Box::pin(std::future::ready(Ok(self.place(bytes.into()))))
    }
    fn write(
        &self,
        _: &Blkptr,
        slices: Vec<BufSlice>,
        _: Durability,
    ) -> BoxFuture<'static, Result<(), ZilError>> {
        std::hint::black_box(slices);
        Box::pin(std::future::ready(Ok(())))
    }
    fn flush(&self, _: &[VdevId]) -> BoxFuture<'static, Result<(), ZilError>> {
        Box::pin(std::future::ready(Ok(())))
    }
    fn read<'a>(&'a self, bp: &'a Blkptr) -> BoxFuture<'a, Result<IoBuf, ZilError>> {
        let bytes = usize::try_from(bp.psize().get()).unwrap_or(0);
        Box::pin(std::future::ready(Ok(IoBuf::zeroed(bytes))))
    }
    fn read_data_block<'a>(&'a self, bp: &'a Blkptr) -> BoxFuture<'a, Result<IoBuf, ZilError>> {
        self.read(bp)
    }
    fn free<'a>(&'a self, _: Txg, _: &'a Blkptr) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
    fn claim<'a>(&'a self, _: Txg, _: &'a Blkptr) -> BoxFuture<'a, Result<(), ZilError>> {
        Box::pin(async { Ok(()) })
    }
    fn claim_clone(&self, _: Txg, _: &Blkptr) -> Result<(), ZilError> {
        Ok(())
    }
    fn free_clone(&self, _: Txg, _: &Blkptr) {}
    fn open_txg(&self) -> Txg {
        Txg::new(self.open.load(Ordering::Relaxed))
    }
    fn synced_txg(&self) -> Txg {
        self.open_txg().prev()
    }
    fn attend(&self, _: ObjsetId) {}
    fn leave(&self, _: ObjsetId) {}
    fn wait_synced(&self, _: Txg) -> BoxFuture<'_, Result<(), ZilError>> {
        Box::pin(std::future::pending())
    }
}

struct Clock(Instant);

impl Env for Clock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
    fn wall_clock(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
    fn spawn(&self, _: &'static str, _: BoxFuture<'static, ()>) {}
    fn random_u64(&self) -> u64 {
        4
    }
    fn open(
        &self,
        path: &std::path::Path,
        _: OpenMode,
    ) -> BoxFuture<'static, Result<Arc<dyn Device>, DeviceError>> {
        Box::pin(std::future::ready(Err(DeviceError::Missing { path: path.to_path_buf() })))
    }
}

const ROUNDS: u32 = 200_000;
/// Commits between two txgs, so that the chain stays of a natural length.
const PER_TXG: u32 = 10_000;
/// Commits over which a figure is taken.
const BATCH: u32 = 500;

fn main() {
    for bytes in [0_usize, 4096, 8192, 65536] {
        let store = Arc::new(Instantly { open: AtomicU64::new(10), offset: AtomicU64::new(0) });
        let dynamic: Arc<dyn LogStore> = Arc::<Instantly>::clone(&store);
        let log = IntentLog::empty(ObjsetId::new(54), dynamic, Arc::new(Clock(Instant::now())));
        log.prime().now_or_never().expect("at once");
        let data: Arc<[u8]> = vec![7; bytes.max(8)].into();
        let (mut batches, mut spent) = (Vec::new(), Duration::ZERO);
        for round in 0..ROUNDS {
            if round % PER_TXG == 0 {
                let txg = store.open_txg();
                store.open.fetch_add(1, Ordering::Relaxed);
                log.handle().sync(txg).now_or_never().expect("at once");
                log.handle().clean(txg);
            }
            if round % BATCH == BATCH - 1 {
                batches.push(std::mem::take(&mut spent) / BATCH);
            }
            let begun = Instant::now();
            let (object, length) = (ObjectId::new(7), data.len() as u64);
            let write = LoggedWrite { object, offset: 0, length, data: WriteData::Bytes(Arc::clone(&data)) };
            log.assign(store.open_txg(), Itx { scope: Scope::Object(object), record: Record::Write(write) });
            log.commit(Some(object)).now_or_never().expect("at once").expect("no failure");
            spent += begun.elapsed();
        }
        batches.sort_unstable();
        let (least, median) = (batches[0].as_nanos(), batches[batches.len() / 2].as_nanos());
        println!("{:6} B: {median:6} ns per commit, {least:6} at best", data.len());
        assert_eq!(log.stats().batches, u64::from(ROUNDS));
    }
}
