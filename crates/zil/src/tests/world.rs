//! A pool in memory: its store, a log over it, txgs, crashes.

mod clock;
mod found;
mod store;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Poll;

use ondisk::zil::LogRecord;
use ondisk::zil::record::LrRemove;
use parking_lot::Mutex;
use units::{ObjectId, Txg};

use super::tasks::Tasks;
use crate::{IntentLog, Itx, Live, LogHandle, LogStore, LoggedWrite, Record, Scope, WriteData};

use clock::env_with;
pub use clock::{Clock, Others, env};
use store::{Inner, Place};
pub use store::{MemStore, OBJSET, OpKind, log_bp, now, place_of};

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
    /// None are, unless a test says so.
    pub others: Others,
    /// Records that some commit has vouched for, with their txgs.
    pub promised: Arc<Mutex<Vec<(Tag, Txg)>>>,
    assigned: Vec<(Tag, Txg, Scope)>,
}

impl World {
    /// A pool with these vdevs (sizes in units of 4 KiB; the last is the main pool).
    pub fn new(vdevs: &[u64]) -> Self {
        let store = MemStore::new(vdevs);
        let (clock, others) = (Clock::default(), Others::default());
        let env = env_with(clock.clone(), others.clone());
        let log = IntentLog::empty(OBJSET, Arc::new(store.clone()), env);
        Self { clock, others, ..Self::over(store, log) }
    }

    /// The world of a log that was imported.
    pub fn over(store: MemStore, log: IntentLog<Live>) -> Self {
        let log = Arc::new(log);
        let mut world = Self {
            store,
            log,
            tasks: Tasks::default(),
            clock: Clock::default(),
            others: Others::default(),
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
