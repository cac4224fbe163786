//! An open pool.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use dmu::{Objset, SpaceDelta, TxgGate};
use dsl::Dsl;
use env::{BoxFuture, Env, IoClass, boxed, in_class};
use event_listener::Event;
use events::EventRing;
use futures::FutureExt;
use futures::future::{Either, select};
use futures::stream::{self, StreamExt, TryStreamExt};
use metaslab::MetaslabId;
use ondisk::UberblockPhys;
use parking_lot::{Mutex, RwLock};
use units::{Guid, ObjsetId, Txg, VdevId};
use vdev::{Leaf, LeafWatch, OtherCopy, PoolState, VdevTree};
use zio::Zio;

use crate::absences::Absences;
use crate::auxiliary::Auxiliaries;
use crate::checkpoint::Checkpoint;
use crate::config::{self, Config};
use crate::dataset::open::OpenDataset;
use crate::dataset::readers::Readers;
use crate::dataset::views::DatasetViews;
use crate::deadman::GivenUp;
use crate::errlog::Errors;
use crate::evacuate::Evacuation;
use crate::events::PoolEvents;
use crate::held_work::HeldWork;
use crate::log::load::LogLoad;
use crate::log::store::PoolLogStore;
use crate::memory::MemoryParts;
use crate::multihost::{Heartbeats, Multihost};
use crate::scan::error_scrub::ErrorScrubs;
use crate::scan::scrub::Scrubs;
use crate::shared::brt::Brt;
use crate::shared::ddt::Ddt;
use crate::space::deferred::Deferred;
use crate::space::early_room::EarlyRoom;
use crate::space::maps::SpaceMaps;
use crate::space::{Room, SpaceGuard};
use crate::spares::HeldSpares;
use crate::sweeps::Sweeps;
use crate::txg::record::TxgRecords;
use crate::txg::tasks::TaskQueue;
use crate::txg::trim::Trims;
use crate::{Ending, Host, PoolError};

/// How a pool runs; the defaults are OpenZFS's.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// A txg is synced at least so often (`zfs_txg_timeout`).
    pub txg_timeout: Duration,
    /// Changes not yet on disk, at most; `None` for what suits the cache.
    pub dirty_limit_bytes: Option<u64>,
    /// Memory for blocks read and written. What is dirty counts too, but for the first 128 MiB.
    pub cache_bytes: u64,
    /// Memory for all of that together, in place of [`Self::cache_bytes`]; see [`Pool::set_memory`].
    pub memory_bytes: Option<u64>,
    /// A txg is synced early once its log blocks have taken this much of the room for them.
    pub log_share_percent: u64,
    /// Without log devices, what is written and made stable at once goes to its place in the file from
    /// this length on, and the log names it (`zfs_immediate_write_sz`).
    pub immediate_write_bytes: u64,
    /// A txg copies at most so many bytes from a vdev that is being removed: whole sectors.
    pub copy_bytes: u64,
    /// A txg frees so many blocks of destroyed datasets, about (`zfs_async_block_max_blocks`).
    pub freed_blocks: usize,
    /// A sublist of a livelist has so many blocks before another is begun (`zfs_livelist_max_entries`).
    pub livelist_entries: u64,
    /// Who runs this program.
    pub host: Host,
    /// A suspended pool tries again by itself so often.
    pub retry_after: Duration,
    /// A log device that has not answered a request for so long is given up: what waits for it goes on elsewhere.
    pub log_deadman: Duration,
    /// The same of the other devices (`zfs_deadman_ziotime_ms`): what has no other copy waits for their answer.
    pub deadman: Duration,
    /// New and upgraded pools get every feature that is implemented whole, also those that boot loaders do not know.
    pub all_features: bool,
    /// How a pool with `multihost=on` shows that it is open here, and how long one is watched that may be open elsewhere.
    pub heartbeats: Heartbeats,
    /// Ends the watch of a pool that may be open elsewhere, when the program is about to end.
    pub ending: Ending,
    /// What happens is told here.
    pub events: Arc<EventRing>,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            txg_timeout: Duration::from_secs(5),
            dirty_limit_bytes: None,
            cache_bytes: 1 << 30,
            memory_bytes: None,
            // Four txgs have log blocks at a time, and one may take longer than another.
            log_share_percent: 20,
            immediate_write_bytes: journal::IMMEDIATE_WRITE_BYTES,
            copy_bytes: 64 << 20,
            freed_blocks: 20_000,
            livelist_entries: dsl::SUBLIST_ENTRIES,
            host: Host::default(),
            retry_after: Duration::from_secs(10),
            // A healthy device may take some seconds now and then, to spin up or to tidy up; the system gives
            // one up itself after 30 s.
            log_deadman: Duration::from_secs(5),
            deadman: Duration::from_secs(60),
            all_features: false,
            heartbeats: Heartbeats::default(),
            ending: Ending::default(),
            events: Arc::default(),
        }
    }
}

/// Datasets that a pool closes at a time when it is closed.
const CLOSED_AT_ONCE: usize = 1024;

/// A pool, its devices held and its transaction groups turning.
pub struct Pool {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) vdevs: Arc<VdevTree>,
    pub(crate) zio: Arc<Zio>,
    pub(crate) gate: Arc<TxgGate>,
    pub(crate) mos: Arc<Objset>,
    pub(crate) dsl: Arc<Dsl>,
    pub(crate) config: Mutex<Config>,
    pub(crate) space_maps: SpaceMaps,
    /// Blocks that several files share.
    pub(crate) brt: Brt,
    /// Blocks that were found to be written already.
    pub(crate) ddt: Ddt,
    /// Blocks that the next txg frees.
    pub(crate) deferred: Deferred,
    /// What the last txg did to the meta-objset's space; counted in the next.
    pub(crate) mos_delta: Mutex<SpaceDelta>,
    pub(crate) tasks: TaskQueue,
    /// Tasks that come before anything else in a txg's sync.
    pub(crate) early_tasks: TaskQueue,
    pub(crate) checkpoint: Checkpoint,
    /// The removal of a data vdev.
    pub(crate) evacuation: Evacuation,
    /// The state that was opened is the checkpoint of that txg, and nothing was written since the pool returned to it.
    pub(crate) returned_to: Option<Txg>,
    /// The txg that was opened, if it is older than the newest txg. The later txgs were abandoned.
    pub(crate) rewound_to: Option<Txg>,
    /// Of the last txg that was synced since the pool was opened.
    pub(crate) last_uberblock: Mutex<Option<UberblockPhys>>,
    pub(crate) multihost: Arc<Multihost>,
    pub(crate) space: Arc<SpaceGuard>,
    pub(crate) early: Arc<EarlyRoom>,
    pub(crate) log_store: Arc<PoolLogStore>,
    /// How much of its logs each txg made.
    pub(crate) log_load: LogLoad,
    pub(crate) txg_records: TxgRecords,
    /// The memory that it was given; 0 where only its cache was.
    pub(crate) memory_bytes: AtomicU64,
    pub(crate) datasets: RwLock<BTreeMap<ObjsetId, Arc<OpenDataset>>>,
    pub(crate) tuning: Tuning,
    pub(crate) read_only: bool,
    pub(crate) opened_at: Duration,
    pub(crate) replay_watch: Option<Arc<dyn zil::ReplayWatch>>,
    others: Vec<OtherCopy>,
    /// The txg that it was opened at, and when that was made (seconds since 1970).
    pub(crate) opened_txg: Txg,
    opened_secs: u64,
    pub(crate) scrubs: Scrubs,
    pub(crate) error_scrubs: ErrorScrubs,
    pub(crate) held_work: HeldWork,
    pub(crate) sweeps: Sweeps,
    pub(crate) errors: Errors,
    /// Held while a dataset's name is looked up, or changed. Not while one is brought up, see
    /// `OpenDataset::loading`.
    pub(crate) loading: async_lock::RwLock<()>,
    /// Held while a dataset is looked up among those in memory, and put there.
    pub(crate) opening: async_lock::Mutex<()>,
    /// Who reads snapshots.
    pub(crate) readers: Readers,
    /// The views of readers, which exclude changes of datasets.
    pub(crate) views: DatasetViews,
    /// True while the pool is being closed: then no dataset is opened.
    pub(crate) closing: AtomicBool,
    /// Freed room is discarded.
    pub(crate) autotrim: AtomicBool,
    /// What trims came to.
    pub(crate) trims: Trims,
    /// The next txg has blocks of destroyed datasets to free.
    pub(crate) has_destroyed: AtomicBool,
    attended: AtomicU64,
    /// Held while devices are opened anew, or closed for good.
    pub(crate) reopening: async_lock::Mutex<()>,
    /// Held while vdevs are added.
    pub(crate) adding: async_lock::Mutex<()>,
    /// Vdevs that the txg being synced has added.
    pub(crate) joined: Mutex<Vec<VdevId>>,
    /// Leaves that the txg being synced took out of their vdevs.
    pub(crate) detached: Mutex<Vec<Arc<Leaf>>>,
    /// Hot spares and cache devices.
    pub(crate) auxiliaries: Mutex<Auxiliaries>,
    /// A hot spare is being put to work.
    pub(crate) standing_in: AtomicBool,
    /// The devices of hot spares that wait, held so that nobody else writes to them.
    pub(crate) held_spares: HeldSpares,
    /// Devices that were given up because they did not answer.
    pub(crate) given_up: Mutex<GivenUp>,
    pub(crate) events: Arc<PoolEvents>,
    /// Records which devices lack data.
    pub(crate) absences: Absences,
    /// One of them is being tried again.
    pub(crate) taking_back: AtomicBool,
    /// True if a vdev may now have larger devices, because a device was removed or has returned.
    pub(crate) may_grow: AtomicBool,
    stopping: AtomicBool,
    /// No txg turns any more.
    has_stopped: AtomicBool,
    stopped: Event,
}

/// What a pool is put together from.
pub(crate) struct Parts {
    pub env: Arc<dyn Env>,
    pub vdevs: Arc<VdevTree>,
    pub zio: Arc<Zio>,
    pub gate: Arc<TxgGate>,
    pub dsl: Arc<Dsl>,
    pub config: Config,
    pub space_maps: SpaceMaps,
    pub brt: Brt,
    pub ddt: Ddt,
    pub deferred: Deferred,
    pub checkpoint: Checkpoint,
    pub evacuation: Evacuation,
    pub returned_to: Option<Txg>,
    pub rewound_to: Option<Txg>,
    pub tuning: Tuning,
    pub read_only: bool,
    pub opened_at: (Txg, u64),
    /// The uberblock that it was opened at; none of a new pool.
    pub uberblock: Option<UberblockPhys>,
    /// Devices that were passed over when the pool was opened.
    pub others: Vec<OtherCopy>,
    pub replay_watch: Option<Arc<dyn zil::ReplayWatch>>,
}

impl Pool {
    pub(crate) fn assemble(parts: Parts) -> Arc<Self> {
        MemoryParts::of(&parts.tuning).apply(&parts.zio, &parts.gate);
        parts.dsl.set_sublist_entries(parts.tuning.livelist_entries);
        let pool = Arc::new_cyclic(|pool| Self {
            events: PoolEvents::new(Arc::clone(&parts.tuning.events), Weak::clone(pool)),
            opened_at: parts.env.now(),
            opened_txg: parts.opened_at.0,
            opened_secs: parts.opened_at.1,
            mos: Arc::clone(parts.dsl.mos()),
            multihost: Multihost::new(
                parts.tuning.heartbeats,
                Arc::clone(parts.vdevs.fence()),
                parts.uberblock,
            ),
            space: SpaceGuard::new(Arc::clone(&parts.zio), Arc::clone(&parts.gate)),
            early: EarlyRoom::new(
                Arc::clone(&parts.zio),
                Arc::clone(&parts.gate),
                parts.tuning.log_share_percent,
            ),
            log_store: PoolLogStore::new(
                Arc::clone(&parts.env),
                Arc::clone(&parts.zio),
                Arc::clone(&parts.gate),
                parts.tuning.log_share_percent,
            ),
            log_load: LogLoad::default(),
            txg_records: TxgRecords::default(),
            memory_bytes: AtomicU64::new(parts.tuning.memory_bytes.unwrap_or(0)),
            env: parts.env,
            vdevs: parts.vdevs,
            zio: parts.zio,
            gate: parts.gate,
            dsl: parts.dsl,
            config: Mutex::new(parts.config),
            space_maps: parts.space_maps,
            brt: parts.brt,
            ddt: parts.ddt,
            deferred: parts.deferred,
            mos_delta: Mutex::default(),
            tasks: TaskQueue::default(),
            early_tasks: TaskQueue::default(),
            checkpoint: parts.checkpoint,
            evacuation: parts.evacuation,
            returned_to: parts.returned_to,
            rewound_to: parts.rewound_to,
            last_uberblock: Mutex::default(),
            datasets: RwLock::default(),
            tuning: parts.tuning,
            read_only: parts.read_only,
            replay_watch: parts.replay_watch,
            others: parts.others,
            scrubs: Scrubs::default(),
            error_scrubs: ErrorScrubs::default(),
            held_work: HeldWork::default(),
            sweeps: Sweeps::default(),
            errors: Errors::default(),
            loading: async_lock::RwLock::new(()),
            opening: async_lock::Mutex::new(()),
            readers: Readers::default(),
            views: DatasetViews::default(),
            closing: AtomicBool::new(false),
            autotrim: AtomicBool::new(false),
            trims: Trims::default(),
            has_destroyed: AtomicBool::new(false),
            attended: AtomicU64::new(0),
            reopening: async_lock::Mutex::new(()),
            adding: async_lock::Mutex::new(()),
            joined: Mutex::default(),
            detached: Mutex::default(),
            auxiliaries: Mutex::default(),
            standing_in: AtomicBool::new(false),
            held_spares: HeldSpares::default(),
            given_up: Mutex::default(),
            absences: Absences::default(),
            taking_back: AtomicBool::new(false),
            may_grow: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            has_stopped: AtomicBool::new(true),
            stopped: Event::new(),
        });
        pool.vdevs.watch(Arc::clone(&pool.events) as Arc<dyn LeafWatch>);
        pool.watch_devices();
        pool
    }

    /// The pool's name.
    #[must_use]
    pub fn name(&self) -> String {
        self.config.lock().name().to_owned()
    }

    /// True if the pool has its name as long as it is open, and labels keep another name.
    #[must_use]
    pub fn has_temporary_name(&self) -> bool {
        self.config.lock().has_temporary_name()
    }

    /// The pool's guid.
    #[must_use]
    pub fn guid(&self) -> Guid {
        config::pool_guid(&self.vdevs)
    }

    /// What it was opened with.
    #[must_use]
    pub fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// Its vdevs: states, errors, counters.
    #[must_use]
    pub fn vdevs(&self) -> &Arc<VdevTree> {
        &self.vdevs
    }

    /// Its I/O: space by vdev and class, cache figures.
    #[must_use]
    pub fn zio(&self) -> &Arc<Zio> {
        &self.zio
    }

    /// Its datasets' names, space and properties.
    #[must_use]
    pub fn dsl(&self) -> &Arc<Dsl> {
        &self.dsl
    }

    /// Its configuration as the meta-objset has it.
    ///
    /// # Errors
    /// When it cannot be read.
    #[boxed]
    pub async fn stored_config(&self) -> Result<ondisk::NvList, PoolError> {
        config::load(&self.dsl).await
    }

    /// Its transaction groups.
    #[must_use]
    pub fn txgs(&self) -> &Arc<TxgGate> {
        &self.gate
    }

    /// Time, tasks, randomness.
    #[must_use]
    pub fn env(&self) -> &Arc<dyn Env> {
        &self.env
    }

    /// The administrator's remark.
    #[must_use]
    pub fn comment(&self) -> Option<String> {
        self.config.lock().comment().map(str::to_owned)
    }

    /// Sets or takes away the administrator's remark.
    ///
    /// # Errors
    /// When it cannot be made stable.
    #[boxed]
    pub async fn set_comment(self: &Arc<Self>, comment: Option<String>) -> Result<(), PoolError> {
        self.in_sync(move |pool, tx| async move {
            let mut config = pool.config.lock().clone();
            config.set_comment(comment.clone());
            config::store(&pool.dsl, &tx, &config, &pool.vdevs).await?;
            pool.config.lock().set_comment(comment);
            pool.vdevs.mark_all_changed();
            Ok(())
        })
        .await
    }

    /// Time since the pool was opened.
    #[must_use]
    pub fn open_for(&self) -> Duration {
        self.env.now().saturating_sub(self.opened_at)
    }

    /// When the state was made that it was opened at, in seconds since 1970.
    #[must_use]
    pub fn opened_state_secs(&self) -> u64 {
        self.opened_secs
    }

    /// The txg of the state that it was opened at.
    #[must_use]
    pub fn opened_txg(&self) -> Txg {
        self.opened_txg
    }

    /// Returns the devices that were passed over when the pool was opened, because other devices
    /// are newer copies of the same leaves.
    #[must_use]
    pub fn other_copies(&self) -> &[OtherCopy] {
        &self.others
    }

    /// Its version: 5000, or a number of before there were features.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.config.lock().version()
    }

    /// Its room.
    #[must_use]
    pub fn room(&self) -> Room {
        self.space.room()
    }

    /// Returns the metaslabs that are out of use because their space maps are lost. Nothing is
    /// allocated there.
    #[must_use]
    pub fn lost_metaslabs(&self) -> Vec<(VdevId, MetaslabId)> {
        self.space_maps.sealed()
    }

    /// What befell its intent logs lately.
    #[must_use]
    pub fn log_events(&self) -> Vec<zil::LogEvent> {
        self.log_store.events()
    }

    /// Whether it was opened for reading only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    pub(crate) fn check_writable(&self) -> Result<(), PoolError> {
        if self.read_only { Err(PoolError::ReadOnly) } else { Ok(()) }
    }

    pub(crate) fn open_datasets(&self) -> Vec<Arc<OpenDataset>> {
        self.datasets.read().values().cloned().collect()
    }

    /// Those of `objsets` that are open datasets, for a txg to attend to.
    pub(crate) fn open_ones(&self, objsets: &BTreeSet<ObjsetId>) -> Vec<Arc<OpenDataset>> {
        let open = self.datasets.read();
        let found: Vec<_> = objsets.iter().filter_map(|objset| open.get(objset).cloned()).collect();
        self.attended.fetch_add(found.len() as u64, Ordering::Relaxed);
        found
    }

    /// How often a txg has had anything to do with an open dataset: what its sync costs beside what
    /// it writes, and so not to grow with the datasets that are open and not in use.
    #[must_use]
    pub fn datasets_attended(&self) -> u64 {
        self.attended.load(Ordering::Relaxed)
    }

    /// Makes everything done so far stable.
    ///
    /// # Errors
    /// [`PoolError::Suspended`], as [`dmu::DmuError`], when that cannot be done.
    #[boxed]
    pub async fn sync_now(&self) -> Result<(), PoolError> {
        Ok(self.gate.wait_synced(self.gate.open_txg()).await?)
    }

    /// Starts the turning of transaction groups.
    pub(crate) fn start(self: &Arc<Self>) {
        self.has_stopped.store(false, Ordering::Release);
        self.gate.put_in_use();
        let (pool, turning) = (Arc::clone(self), Arc::clone(self).turn());
        let task = async move {
            if AssertUnwindSafe(turning).catch_unwind().await.is_err() {
                // Something that we computed ourselves was wrong: nothing more may be written, and
                // nobody may wait for a txg that never comes.
                tracing::error!("pool stopped: a transaction group ended in a panic");
                pool.gate.fail(pool.gate.synced_txg().next());
            }
            pool.has_stopped.store(true, Ordering::Release);
            pool.stopped.notify(usize::MAX);
        };
        self.env.spawn("txg_sync", Box::pin(task));
    }

    async fn turn(self: Arc<Self>) {
        self.watch_first_txg();
        while !self.stopping.load(Ordering::Acquire) {
            self.wait_for_work().await;
            if self.gate.failed().is_some() {
                break;
            }
            let watch = self.watch_quiescing();
            let quiet = self.gate.quiesce().await;
            let watch = self.watch_syncing(watch);
            let txg = quiet.txg();
            if let Some(txg) = self.gate.failed() {
                tracing::error!(%txg, "pool suspended: a panic left a transaction half done");
                break;
            }
            if let Err(error) = in_class(IoClass::Async, self.sync(quiet)).await {
                // With all that it comes from, down to the device.
                let error: &(dyn std::error::Error + 'static) = &error;
                tracing::error!(%txg, error, "pool stopped");
                self.gate.fail(txg);
                break;
            }
            self.watch_committed(&watch);
            self.look_for_absences();
            self.grow_if_wanted();
            self.replace_failed();
            self.hold_spares();
            self.resilver_after_checkpoint();
        }
    }

    /// Until somebody waits, much is dirty, or the time is up and there is something to do.
    async fn wait_for_work(&self) {
        loop {
            if self.has_destroyed.swap(false, Ordering::AcqRel) || self.checkpoint.has_work() {
                return;
            }
            let timer = self.env.sleep(self.tuning.txg_timeout);
            let wanted: BoxFuture<'_, ()> = Box::pin(self.gate.wanted());
            if let Either::Left(_) = select(wanted, timer).await {
                return;
            }
            let has_found = self.zio.has_damaged() || self.zio.has_lost() || self.errors.has_unsaved();
            let has_tasks = !self.tasks.is_empty() || !self.early_tasks.is_empty();
            if self.gate.open_is_dirty() || has_tasks || has_found {
                return;
            }
        }
    }

    /// Closes every dataset, makes all stable, and leaves the devices with labels that say so:
    /// exported, or destroyed. Nothing can be done with the pool afterwards.
    ///
    /// # Errors
    /// When the pool cannot be made stable. The pool then stays open. [`PoolError::Busy`] while a
    /// stream is being received.
    #[boxed]
    pub async fn close(self: &Arc<Self>, state: PoolState) -> Result<(), PoolError> {
        if self.read_only {
            self.close_devices().await;
            self.tell_closed(state);
            return Ok(());
        }
        if let Some(open) = self.open_datasets().iter().find(|open| open.is_receiving()) {
            return Err(PoolError::Busy { objset: open.objset.id() });
        }
        // No dataset may be opened from now on, because a dataset that was opened after the others
        // were closed would write after the last txg.
        let _nobody_opens_one = self.loading.write().await;
        self.closing.store(true, Ordering::Release);
        self.halt_evacuation().await;
        let closed = match self.leave_scrub().await {
            Ok(()) => {
                self.leave_sweeps().await;
                self.or_go_on(self.store_closed(state).await)
            }
            Err(error) => Err(error),
        };
        if closed.is_err() {
            self.closing.store(false, Ordering::Release);
            self.walk_on_all();
            self.resume_evacuation();
        }
        closed?;
        self.stop().await;
        self.multihost.end().await;
        self.held_spares.let_go();
        self.close_devices().await;
        self.tell_closed(state);
        Ok(())
    }

    /// Closes the datasets, and makes labels and configuration say in which state the pool is left.
    async fn store_closed(self: &Arc<Self>, state: PoolState) -> Result<(), PoolError> {
        // Side by side: closing a log takes some txgs, and they are the same for all.
        let unloaded = stream::iter(self.open_datasets())
            .map(|dataset| async move {
                // If another task is bringing the dataset up, the close waits for the end of that.
                let _nobody_brings_it_up = dataset.loading.lock().await;
                self.unload(&dataset).await
            })
            .buffer_unordered(CLOSED_AT_ONCE);
        unloaded.try_collect::<()>().await?;
        self.space_maps.flush_all_next();
        self.in_sync(move |pool, tx| async move {
            let mut config = pool.config.lock().clone();
            config.set_state(state);
            config::store(&pool.dsl, &tx, &config, &pool.vdevs).await?;
            pool.config.lock().set_state(state);
            pool.vdevs.mark_all_changed();
            Ok(())
        })
        .await
    }

    /// Makes everything stable and lets go of the devices, without a word in the labels: what a
    /// service does that will open the pool again.
    ///
    /// # Errors
    /// When it cannot be made stable.
    #[boxed]
    pub async fn leave(self: &Arc<Self>) -> Result<(), PoolError> {
        if !self.read_only {
            self.halt_evacuation().await;
            self.leave_scrub().await?;
            self.leave_sweeps().await;
            self.sync_now().await?;
            self.closing.store(true, Ordering::Release);
            self.stop().await;
            self.multihost.end().await;
        }
        self.close_devices().await;
        Ok(())
    }

    /// Closes the devices: somebody else may open them from now on.
    pub(crate) async fn close_devices(&self) {
        // Whatever still waits for a device waits in vain.
        self.suspension().give_up();
        let _nobody_reopens_them = self.reopening.lock().await;
        self.log_store.wait_for_reads().await;
        self.close_caches().await;
        self.vdevs.close();
    }

    /// Waits until no txg turns any more.
    pub(crate) async fn stop(&self) {
        let stopped = self.stopped.listen();
        self.stopping.store(true, Ordering::Release);
        if !self.has_stopped.load(Ordering::Acquire) {
            // One more turn, which finds nothing to do, sees the flag; unless the last one did.
            self.gate.hurry(self.gate.open_txg());
            stopped.await;
        }
    }
}
