//! What intent logs get from the pool: blocks, I/O, transaction groups.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use dmu::{DmuError, TxgGate};
use env::{BoxFuture, BufSlice, Durability, Env, IoBuf, boxed};
use futures::future::try_join_all;
use metaslab::Class;
use ondisk::{Blkptr, Dva, ObjectType};
use parking_lot::Mutex;
use units::{ObjsetId, Txg, VdevId};
use vdev::NodeKind;
use zil::{LogEvent, LogStore, Placement, Recorder, ZilError};
use zio::{LogHint, Zio, ZioError};

use crate::log::homes::{LogHomes, UnderWay};
use crate::log::reader::LogReader;
use crate::log::share::LogShare;
use crate::space::early_room::leaves_reserve;

/// One per pool, shared by the logs of all its datasets.
pub(crate) struct PoolLogStore {
    zio: Arc<Zio>,
    gate: Arc<TxgGate>,
    /// Datasets whose logs are not at rest.
    awake: Mutex<BTreeSet<ObjsetId>>,
    /// The last events, for `status`.
    events: Mutex<Vec<LogEvent>>,
    /// What records commits and batches of these logs.
    pub recorder: Arc<Recorder>,
    /// The newest txg in which a block went past the log vdevs.
    spilled_in: AtomicU64,
    share: LogShare,
    /// Txgs that were synced early because their log blocks had taken their share of the room.
    hurried: AtomicU64,
    reader: LogReader,
    env: Arc<dyn Env>,
    homes: Arc<LogHomes>,
    /// Log vdevs there were when a block was last allocated: each commit asks, and the allocator is busy.
    logs: AtomicUsize,
    clones: Mutex<LoggedClones>,
    /// The pool has the feature that clones need.
    counts_clones: AtomicBool,
    /// The first free that failed since the last sync. Such a failure means that the space maps of the pool are wrong.
    failed_free: Mutex<Option<ZioError>>,
}

/// References to blocks that logs' records of clones name, for the sync that counts them.
#[derive(Default)]
pub(crate) struct LoggedClones {
    /// Those that logs have got since the last sync.
    pub claimed: Vec<Blkptr>,
    /// Those that logs have given back.
    pub freed: Vec<Blkptr>,
}

/// Events kept.
const EVENTS_KEPT: usize = 64;

impl PoolLogStore {
    /// `share_percent`: see [`crate::Tuning::log_share_percent`].
    pub fn new(env: Arc<dyn Env>, zio: Arc<Zio>, gate: Arc<TxgGate>, share_percent: u64) -> Arc<Self> {
        Arc::new(Self {
            reader: LogReader::new(Arc::clone(zio.vdevs()), Arc::clone(&env)),
            zio,
            gate,
            awake: Mutex::default(),
            events: Mutex::default(),
            recorder: Arc::default(),
            spilled_in: AtomicU64::default(),
            share: LogShare::new(share_percent),
            hurried: AtomicU64::default(),
            env,
            homes: Arc::default(),
            logs: AtomicUsize::new(0),
            clones: Mutex::default(),
            counts_clones: AtomicBool::new(false),
            failed_free: Mutex::default(),
        })
    }

    /// Whether references to cloned blocks can be counted, before logs are claimed.
    pub fn set_counts_clones(&self, counts: bool) {
        self.counts_clones.store(counts, Relaxed);
    }

    /// Why a block of a log could not be freed since this was last asked.
    ///
    /// # Errors
    /// The block was not allocated.
    pub fn check_frees(&self) -> Result<(), ZioError> {
        self.failed_free.lock().take().map_or(Ok(()), Err)
    }

    /// What has become of logs' references to cloned blocks since this was last asked.
    pub fn take_clones(&self) -> LoggedClones {
        std::mem::take(&mut *self.clones.lock())
    }

    /// The log vdev that a block should go to, if there are several.
    fn best_home(&self, placement: &Placement) -> Option<VdevId> {
        self.zio.with_allocator(|allocator| {
            let count = allocator.takers(Class::Log).count();
            self.logs.store(count, Relaxed);
            let usable = allocator.takers(Class::Log).filter(|vdev| !placement.avoid.contains(vdev));
            let choose = || self.homes.choose(usable, &placement.planned, self.env.now());
            (count > 1).then(choose).flatten()
        })
    }

    /// Log vdevs that blocks may go to and that are well.
    pub fn good_homes(&self) -> BTreeSet<VdevId> {
        let vdevs = self.zio.vdevs();
        let (unusable, doubtful) = (vdevs.unusable(), vdevs.doubtful());
        let is_well = |vdev: &VdevId| !unusable.contains(vdev) && !doubtful.contains(vdev);
        self.zio.with_allocator(|allocator| allocator.takers(Class::Log).filter(is_well).collect())
    }

    /// How many txgs were synced early because of their log blocks.
    pub fn hurried(&self) -> u64 {
        self.hurried.load(Relaxed)
    }

    /// Another vdev has this number from now on.
    pub fn forget_home(&self, vdev: VdevId) {
        self.homes.forget(vdev);
    }

    /// Log vdevs to [`Self::ask`] now.
    pub fn to_ask(&self) -> Vec<VdevId> {
        if self.logs.load(Relaxed) < 2 {
            return Vec::new();
        }
        let good = self.good_homes();
        self.homes.to_ask(good.into_iter(), self.env.now())
    }

    /// Has a log vdev that blocks stay away from write something, to know how long it takes.
    #[boxed]
    pub async fn ask(&self, vdev: VdevId) {
        let Ok(top) = self.zio.vdevs().top(vdev) else { return };
        let asked = self.homes.begin(vdev, self.env.now());
        match top.time_write().await {
            Ok(Some(took)) => asked.took(took, self.env.now()),
            Ok(None) => {}
            Err(error) => tracing::warn!(%vdev, %error, "log vdev that was slow"),
        }
    }

    /// Notes that a vdev has something to do from now on, where that matters.
    fn begin(&self, vdev: VdevId) -> Option<UnderWay> {
        let has_choice = self.logs.load(Relaxed) > 1;
        has_choice.then(|| self.homes.begin(vdev, self.env.now()))
    }

    /// Datasets whose logs every txg has to attend to.
    pub fn awake(&self) -> BTreeSet<ObjsetId> {
        self.awake.lock().clone()
    }

    /// Waits until no log is being read ahead.
    #[boxed]
    pub async fn wait_for_reads(&self) {
        self.reader.wait_for_reads().await;
    }

    pub fn events(&self) -> Vec<LogEvent> {
        self.events.lock().clone()
    }

    fn is_in_main(&self, bp: &Blkptr) -> bool {
        self.zio.vdevs().top(bp.dva(0).vdev).is_ok_and(|top| !top.is_log())
    }

    /// Whether a log block has taken room in the main pool that txgs may need.
    fn eats_reserve(&self, bp: &Blkptr) -> bool {
        if !self.is_in_main(bp) {
            return false;
        }
        let figures = self.zio.with_allocator(|allocator| allocator.open_space(Class::Normal));
        !leaves_reserve(figures.free.get(), figures.capacity.get(), &self.gate)
    }

    /// Has the txg synced soon once log blocks have taken its share of the room.
    fn note_share(&self, bp: &Blkptr) {
        let room = || {
            let class = if self.is_in_main(bp) { Class::Normal } else { Class::Log };
            let figures = self.zio.with_allocator(|allocator| allocator.open_space(class));
            figures.free.get() + figures.resting.get()
        };
        if self.share.take(bp.birth(), bp.psize().get(), room) {
            self.hurried.fetch_add(1, Relaxed);
            self.gate.hurry(bp.birth());
        }
    }

    /// Says, once a txg, that log vdevs could not take a block.
    fn note_place(&self, bp: &Blkptr) {
        let has_logs = self.logs.load(Relaxed) > 0;
        let txg = bp.birth().get();
        if has_logs && self.is_in_main(bp) && self.spilled_in.fetch_max(txg, Relaxed) < txg {
            self.report(LogEvent::Spilled { vdev: bp.dva(0).vdev });
        }
    }
}

impl LogStore for PoolLogStore {
    fn allocate<'a>(
        &'a self,
        bytes: u32,
        placement: &'a Placement,
    ) -> BoxFuture<'a, Result<Blkptr, ZilError>> {
        Box::pin(async move {
            let tx = self.gate.join().map_err(|e| stopped(self.gate.open_txg(), e))?;
            let hint = LogHint { avoid: &placement.avoid, prefer: self.best_home(placement) };
            let bp = self
                .zio
                .allocate_log(tx.txg(), bytes.into(), &hint)
                .map_err(|_| ZilError::NoSpace { bytes })?;
            if self.eats_reserve(&bp) {
                self.zio.unalloc(tx.txg(), &bp);
                return Err(ZilError::NoSpace { bytes });
            }
            // The allocation has to reach the space maps though no object changed.
            self.gate.add_dirty(tx.txg(), 1);
            self.note_place(&bp);
            self.note_share(&bp);
            Ok(bp)
        })
    }

    fn write(
        &self,
        bp: &Blkptr,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> BoxFuture<'static, Result<(), ZilError>> {
        let (zio, env, bp) = (Arc::clone(&self.zio), Arc::clone(&self.env), *bp);
        let under_way = self.begin(bp.dva(0).vdev);
        Box::pin(async move {
            zio.write_log(&bp, slices, durability).await.map_err(|e| io_error(&bp, "write", e))?;
            ended(&*env, under_way);
            Ok(())
        })
    }

    fn flush(&self, vdevs: &[VdevId]) -> BoxFuture<'static, Result<(), ZilError>> {
        let (zio, env) = (Arc::clone(&self.zio), Arc::clone(&self.env));
        let begun: Vec<_> = vdevs.iter().map(|&vdev| (vdev, self.begin(vdev))).collect();
        Box::pin(async move {
            let each = begun.into_iter().map(|(vdev, under_way)| {
                let (zio, env) = (&zio, &env);
                async move {
                    let failed = |e| ZilError::Io { vdev, op: "flush", source: Arc::new(e) };
                    zio.flush(&[vdev]).await.map_err(failed)?;
                    ended(&**env, under_way);
                    Ok(())
                }
            });
            try_join_all(each).await?;
            Ok(())
        })
    }

    fn read<'a>(&'a self, bp: &'a Blkptr) -> BoxFuture<'a, Result<IoBuf, ZilError>> {
        Box::pin(async move { self.zio.read_log(bp).await.map_err(|e| io_error(bp, "read", e)) })
    }

    fn read_ahead<'a>(&'a self, bp: &'a Blkptr) -> BoxFuture<'a, Option<IoBuf>> {
        Box::pin(self.reader.read(bp))
    }

    fn walk_begins(&self) {
        self.reader.walk_begins();
    }

    fn walk_ends(&self) {
        self.reader.walk_ends();
    }

    fn read_data_block<'a>(&'a self, bp: &'a Blkptr) -> BoxFuture<'a, Result<IoBuf, ZilError>> {
        Box::pin(async move {
            let data =
                self.zio.read(bp, &zio::Bookmark::default()).await.map_err(|e| io_error(bp, "read", e))?;
            Ok((*data).clone())
        })
    }

    fn free<'a>(&'a self, txg: Txg, bp: &'a Blkptr) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Err(error) = self.zio.free(txg, bp).await {
                self.failed_free.lock().get_or_insert(error);
            }
        })
    }

    fn claim<'a>(&'a self, txg: Txg, bp: &'a Blkptr) -> BoxFuture<'a, Result<(), ZilError>> {
        Box::pin(async move {
            let claimed = self.zio.claim(txg, bp).await;
            claimed.map_err(|e| ZilError::Claim { vdev: bp.dva(0).vdev, source: Arc::new(e) })
        })
    }

    fn mend<'a>(&'a self, bp: &'a Blkptr) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let has_one_copy = |dva: Dva| {
                let top = self.zio.vdevs().top(dva.vdev);
                top.is_ok_and(|top| top.kind() == NodeKind::Leaf)
            };
            if bp.dvas().all(has_one_copy) {
                return;
            }
            let mended = match bp.object_type() {
                ObjectType::INTENT_LOG => self.zio.mend_log(bp).await,
                _ => self.zio.scrub(bp, &zio::Bookmark::default()).await.map(drop),
            };
            if let Err(error) = mended {
                tracing::warn!(%error, "a block of a log has lost its last copy");
            }
        })
    }

    fn claim_clone(&self, _txg: Txg, bp: &Blkptr) -> Result<(), ZilError> {
        let is_data = bp.level().get() == 0 && !bp.object_type().is_metadata();
        if !is_data || !self.counts_clones.load(Relaxed) {
            return Err(ZilError::Clone { vdev: bp.dva(0).vdev });
        }
        self.clones.lock().claimed.push(*bp);
        Ok(())
    }

    fn free_clone(&self, _txg: Txg, bp: &Blkptr) {
        self.clones.lock().freed.push(*bp);
    }

    fn open_txg(&self) -> Txg {
        self.gate.open_txg()
    }

    fn synced_txg(&self) -> Txg {
        self.gate.synced_txg()
    }

    fn wait_synced(&self, txg: Txg) -> BoxFuture<'_, Result<(), ZilError>> {
        Box::pin(async move { self.gate.wait_synced(txg).await.map_err(|e| stopped(txg, e)) })
    }

    fn attend(&self, objset: ObjsetId) {
        self.awake.lock().insert(objset);
    }

    fn leave(&self, objset: ObjsetId) {
        self.awake.lock().remove(&objset);
    }

    fn lanes(&self) -> usize {
        self.logs.load(Relaxed).max(1)
    }

    fn needs_flush(&self, vdev: VdevId) -> bool {
        self.zio.vdevs().top(vdev).is_ok_and(|top| top.leaves().iter().any(|leaf| leaf.has_volatile_cache()))
    }

    fn has_log_devices(&self) -> bool {
        !self.good_homes().is_empty()
    }

    fn reopened(&self) -> u64 {
        self.zio.vdevs().reopened()
    }

    fn recorder(&self) -> Option<&Recorder> {
        Some(&self.recorder)
    }

    fn report(&self, event: LogEvent) {
        match &event {
            LogEvent::Damaged { objset, loss } => tracing::warn!(%objset, %loss, "intent log"),
            LogEvent::Started { .. } => tracing::debug!(?event, "intent log"),
            event => tracing::warn!(?event, "intent log"),
        }
        let mut events = self.events.lock();
        if events.len() == EVENTS_KEPT {
            events.remove(0);
        }
        events.push(event);
    }
}

fn ended(env: &dyn Env, under_way: Option<UnderWay>) {
    if let Some(under_way) = under_way {
        under_way.succeeded(env.now());
    }
}

fn stopped(txg: Txg, error: DmuError) -> ZilError {
    ZilError::TxgStopped { txg, source: Arc::new(error) }
}

fn io_error(bp: &Blkptr, op: &'static str, error: ZioError) -> ZilError {
    ZilError::Io { vdev: bp.dva(0).vdev, op, source: Arc::new(error) }
}
