//! Datasets that are open: how they come up, are renamed and closed.
//!
//! ```text
//!  import ─► claimed (log found, its blocks taken)   ─ bring up ─► live (replayed, log ready)
//!  create ───────────────────────────────────────────────────────► live   ─ unload ─► closed
//! ```
//! What is in a dataset is behind a trait ([`kind`]): files ([`files`]), or a volume ([`volume`]).

pub(crate) mod bookmarks;
pub(crate) mod clones;
pub(crate) mod counted;
pub(crate) mod destroy;
pub(crate) mod files;
pub(crate) mod frozen;
pub(crate) mod holds;
pub(crate) mod kind;
pub(crate) mod open;
pub(crate) mod permissions;
pub(crate) mod props;
pub(crate) mod readers;
pub(crate) mod redact;
pub(crate) mod rollback;
pub(crate) mod set_prop;
pub(crate) mod snapshots;
pub(crate) mod views;
pub(crate) mod visits;
pub(crate) mod volume;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dmu::{Objset, ObjsetContext};
use dsl::DatasetName;
use dsl::features::{BLOCK_CLONING, Feature, LARGE_BLOCKS, LARGE_DNODE, ZILSAXATTR};
use env::boxed;
use futures::stream::{self, StreamExt};
use ondisk::dsl::dataset_flags;
use ondisk::zil::ZilHeader;
use units::{ObjectId, ObjsetId, Txg};
use zil::{Claimed, IntentLog, LogEvent, LogHandle, LogStore, ReplayStopped, ZilError};

use crate::dataset::kind::{Dataset, GetReady};
use crate::dataset::open::{OpenDataset, State};
use crate::dataset::props::{Allowed, DatasetProps, OLD_RECORD_MAX_BYTES, RECORD_MAX_BYTES};
use crate::log::loss::Reach;
use crate::{Pool, PoolError};

/// Logs replayed at the same time.
const REPLAYS_AT_ONCE: usize = 8;

impl Pool {
    pub(crate) fn objset_context(&self, dataset: &DatasetName, props: &DatasetProps) -> ObjsetContext {
        ObjsetContext {
            id: dataset.objset(),
            zio: Arc::clone(&self.zio),
            gate: Arc::clone(&self.gate),
            props: props.objset(),
        }
    }

    /// From now on the dataset's changes are written with each txg.
    pub(crate) async fn adopt(
        &self,
        dataset: &DatasetName,
        objset: Arc<Objset>,
        props: DatasetProps,
        state: State,
    ) -> Result<Arc<OpenDataset>, PoolError> {
        self.space.watch(dataset.objset(), self.dsl.head_room(dataset).await?, &props);
        objset.set_space_check(self.space.clone());
        objset.set_early_check(self.early.clone());
        objset.tell_births(self.dsl.has_livelist(dataset).await?);
        let open = OpenDataset::new(dataset, objset, props, state);
        self.datasets.write().insert(dataset.objset(), Arc::clone(&open));
        Ok(open)
    }

    /// Takes the blocks of a dataset's log before anything is allocated: the first thing an
    /// import does. `without_missing`: gives up what lies on devices that do not answer, or is damaged.
    pub(crate) async fn claim_log(
        self: &Arc<Self>,
        dataset: &DatasetName,
        first: Txg,
        without_missing: bool,
    ) -> Result<(), PoolError> {
        let root = self.dsl.dataset(dataset.dataset).await?.bp;
        if root.is_hole() {
            return Ok(());
        }
        let props = self.effective_props(dataset).await?;
        let objset = match Objset::open(self.objset_context(dataset, &props), root).await {
            // A damaged root costs the dataset and its log. A root that a device does not read may
            // become readable, and the log with it, so that its blocks must not be used again.
            Err(error) if without_missing || error.is_damage() => {
                tracing::error!(dataset = dataset.name, %error, "the log of a dataset is abandoned");
                return Ok(());
            }
            opened => opened?,
        };
        let header = objset.zil_header();
        if header.log.is_hole() {
            return Ok(());
        }
        let store: Arc<dyn zil::LogStore> = self.log_store.clone();
        let found = IntentLog::found(objset.id(), header, store, Arc::clone(&self.env));
        let is_old = |checkpoint: &Txg| header.claim_txg.get() == 0 && *checkpoint < first;
        let claimed = match (self.rewound_to, self.returned_to.filter(is_old)) {
            // A rewind discards the log: its records follow a later state than the one that was
            // opened.
            (Some(state), _) => found.claim_to_discard(first, state).await?,
            (None, Some(checkpoint)) => found.claim_without_records(first, checkpoint).await?,
            (None, None) if without_missing => found.claim_what_answers(first).await?,
            (None, None) => found.claim(first).await?,
        };
        objset.set_zil_header(first, claimed.header());
        self.tell_loss(objset.id(), &header, &claimed).await;
        self.gate.add_dirty(first, 1);
        self.adopt(dataset, objset, props, State::Claimed(claimed)).await?;
        Ok(())
    }

    /// Says so if blocks seem to lie behind the place where a log now ends whose header was `found`; an earlier
    /// import may have claimed it further.
    async fn tell_loss(&self, objset: ObjsetId, found: &ZilHeader, claimed: &IntentLog<Claimed>) {
        let Some((place, newest)) = claimed.end() else { return };
        if let Some(loss) = self.loss_behind(&place, newest, found, Reach::Near).await {
            self.report("log_replay", None, |_| {});
            self.log_store.report(LogEvent::Damaged { objset, loss });
        }
    }

    /// Replays logs that name blocks of files, before anything else can free these blocks.
    pub(crate) async fn replay_logs_of_clones(self: &Arc<Self>) -> Result<(), PoolError> {
        if self.dsl.feature_count(&BLOCK_CLONING).await?.is_none() {
            return Ok(());
        }
        for open in self.open_datasets() {
            let Some(log) = open.take_claimed() else { continue };
            let names_shared_blocks = log.names_shared_blocks().await;
            open.set_claimed(log);
            if names_shared_blocks? {
                self.replay_log(&open).await?;
            }
        }
        Ok(())
    }

    /// Datasets whose log was claimed and is still to be replayed.
    pub(crate) fn with_claimed_logs(&self) -> Vec<Arc<OpenDataset>> {
        self.open_datasets().into_iter().filter(|open| open.is_claimed()).collect()
    }

    /// Replays the log of a dataset that has one to replay.
    pub(crate) async fn replay_log(self: &Arc<Self>, open: &Arc<OpenDataset>) -> Result<(), PoolError> {
        let _one_at_a_time = open.loading.lock().await;
        if !self.has_open(open) || !open.is_claimed() {
            return Ok(());
        }
        let dataset = self.contents(open, &[]).await?;
        self.set_live(open, dataset).await
    }

    /// Brings a dataset up, if it is not; false when it has been closed meanwhile.
    pub(crate) async fn bring_up(self: &Arc<Self>, open: &Arc<OpenDataset>) -> Result<bool, PoolError> {
        self.bring_up_with_open(open, &[]).await
    }

    /// As [`Self::bring_up`], while programs have `objects` open.
    pub(crate) async fn bring_up_with_open(
        self: &Arc<Self>,
        open: &Arc<OpenDataset>,
        objects: &[ObjectId],
    ) -> Result<bool, PoolError> {
        // Replay may take long: only those wait who want this one.
        let _one_at_a_time = open.loading.lock().await;
        self.check_open()?;
        if !self.has_open(open) {
            return Ok(false);
        }
        if open.live().is_none() {
            let dataset = self.contents(open, objects).await?;
            self.set_live(open, dataset).await?;
        }
        Ok(true)
    }

    async fn set_live(&self, open: &OpenDataset, dataset: Arc<dyn Dataset>) -> Result<(), PoolError> {
        open.set_live(Arc::clone(&dataset));
        // A property may have been set while it was brought up.
        dataset.set_terms(&self.terms(&open.props(), self.allowed().await?));
        if !self.read_only {
            self.env.spawn("tidying up", dataset.tidy_up());
        }
        Ok(())
    }

    /// What is in a dataset, its log replayed if there was one.
    async fn contents(
        &self,
        open: &OpenDataset,
        objects: &[ObjectId],
    ) -> Result<Arc<dyn Dataset>, PoolError> {
        let dataset = self.open_contents(open).await?;
        if self.read_only {
            return Ok(dataset);
        }
        match open.take_claimed() {
            Some(claimed) => {
                self.use_log(open, claimed.handle());
                if let Some(watch) = &self.replay_watch {
                    claimed.watch(Arc::clone(watch));
                }
                if let Err(stopped) = dataset.replay(claimed).await {
                    return Err(self.keep_log(open, *stopped).await);
                }
            }
            None => dataset.start_log(self.empty_log(open)),
        }
        let primes = self.has_changed(open).await?;
        dataset.get_ready(GetReady { primes, open: objects }).await?;
        Ok(dataset)
    }

    /// True if a dataset has changed since its latest snapshot. An unchanged dataset may be a
    /// replica, and only its incoming stream may write to a replica.
    /// (test: `a_mount_alone_writes_nothing_to_a_replica`)
    async fn has_changed(&self, open: &OpenDataset) -> Result<bool, PoolError> {
        let head = self.dsl.dataset(open.object()).await?;
        Ok(head.bp.birth().get() > head.prev_snapshot_txg.get())
    }

    /// A log for a dataset that has none.
    fn empty_log(&self, open: &OpenDataset) -> IntentLog<zil::Live> {
        let store: Arc<dyn LogStore> = self.log_store.clone();
        let log = IntentLog::empty(open.objset.id(), store, Arc::clone(&self.env));
        self.use_log(open, log.handle());
        log
    }

    /// Keeps a log whose replay has stopped. What was promised is in it still: the next try goes on where this one
    /// stopped.
    async fn keep_log(&self, open: &OpenDataset, stopped: ReplayStopped) -> PoolError {
        if let ZilError::LostBlock { objset, .. } = stopped.error
            && let Some(loss) = self.loss_of(objset, &stopped.log.header()).await
        {
            self.log_store.report(LogEvent::Damaged { objset, loss });
        }
        self.report("log_replay", None, |_| {});
        open.set_claimed(stopped.log);
        stopped.error.into()
    }

    /// The dataset called `name`, its objset in memory.
    pub(crate) async fn look_up(self: &Arc<Self>, name: &str) -> Result<Arc<OpenDataset>, PoolError> {
        let _nobody_renames_it = self.loading.read().await;
        self.check_open()?;
        let _view = self.view().await;
        let dataset = self.dsl.resolve(name).await?;
        if dataset.is_snapshot() {
            return Err(PoolError::ReadOnly);
        }
        if self.dsl.dataset(dataset.dataset).await?.flags.get() & dataset_flags::INCONSISTENT != 0 {
            return Err(PoolError::HalfReceived { name: dataset.name });
        }
        self.open_dataset(&dataset).await
    }

    /// # Errors
    /// [`PoolError::NoSuchPool`] when the pool is closed or is being closed.
    fn check_open(&self) -> Result<(), PoolError> {
        if self.closing.load(Ordering::Acquire) { Err(PoolError::NoSuchPool) } else { Ok(()) }
    }

    pub(crate) fn has_open(&self, open: &Arc<OpenDataset>) -> bool {
        let datasets = self.datasets.read();
        datasets.get(&open.objset.id()).is_some_and(|found| Arc::ptr_eq(found, open))
    }

    /// Replays the logs of all datasets that have something to replay, several at a time. The
    /// first failure is told; a log that failed stays as it is, for the next use of its dataset, or the next call.
    ///
    /// # Errors
    /// When a log cannot be replayed.
    #[boxed]
    pub async fn replay_logs(self: &Arc<Self>) -> Result<(), PoolError> {
        let waiting: Vec<_> = self.open_datasets().into_iter().filter(|open| open.needs_replay()).collect();
        let replayed = stream::iter(waiting)
            .map(|open| async move { self.replay_log(&open).await })
            .buffer_unordered(REPLAYS_AT_ONCE);
        replayed.collect::<Vec<_>>().await.into_iter().collect()
    }

    async fn open_dataset(self: &Arc<Self>, dataset: &DatasetName) -> Result<Arc<OpenDataset>, PoolError> {
        let _one_at_a_time = self.opening.lock().await;
        if let Some(open) = self.datasets.read().get(&dataset.objset()) {
            return Ok(Arc::clone(open));
        }
        self.check_readable(dataset).await?;
        let props = self.effective_props(dataset).await?;
        let root = self.dsl.dataset(dataset.dataset).await?.bp;
        let objset = Objset::open(self.objset_context(dataset, &props), root).await?;
        self.adopt(dataset, objset, props, State::Idle).await
    }

    /// Txgs attend to the log from now on, until it rests.
    pub(crate) fn use_log(&self, open: &OpenDataset, log: LogHandle) {
        open.use_log(log);
        self.log_store.attend(open.objset.id());
    }

    pub(crate) async fn is_enabled(&self, feature: &Feature) -> Result<bool, PoolError> {
        Ok(self.dsl.feature_count(feature).await?.is_some())
    }

    /// What of the format files may use.
    pub(crate) async fn allowed(&self) -> Result<Allowed, PoolError> {
        Ok(Allowed {
            log_xattrs: self.is_enabled(&ZILSAXATTR).await?,
            clone_blocks: self.is_enabled(&BLOCK_CLONING).await?,
            large_blocks: self.is_enabled(&LARGE_BLOCKS).await?,
            large_dnodes: self.is_enabled(&LARGE_DNODE).await?,
        })
    }

    /// Largest block that a file or a volume can have, in bytes.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn block_max_bytes(&self) -> Result<u32, PoolError> {
        Ok(if self.allowed().await?.large_blocks { RECORD_MAX_BYTES } else { OLD_RECORD_MAX_BYTES })
    }

    pub(crate) async fn effective_props(&self, dataset: &DatasetName) -> Result<DatasetProps, PoolError> {
        Ok(DatasetProps::of(&dataset.name, &self.dsl.props(dataset).await?))
    }

    /// Closes a dataset: its log emptied and given back.
    pub(crate) async fn unload(&self, open: &OpenDataset) -> Result<(), PoolError> {
        if let Some(live) = open.live() {
            live.close().await?;
        }
        // Nobody changes it any more: what was changed is in the open txg, or in one before.
        let txg = self.gate.open_txg();
        let last = if open.objset.is_dirty(txg) { txg } else { txg.prev() };
        self.gate.wait_synced(last).await?;
        open.set_idle();
        Ok(())
    }

    /// Closes the file system called `name`, if it is open.
    ///
    /// # Errors
    /// When it does not exist or cannot be made stable. [`PoolError::Busy`] while a stream is being
    /// received into it.
    #[boxed]
    pub async fn close_filesystem(self: &Arc<Self>, name: &str) -> Result<(), PoolError> {
        let dataset = self.dsl.resolve(name).await?;
        let open = self.datasets.read().get(&dataset.objset()).cloned();
        if let Some(open) = open {
            // Who brings it up does so to the end first, and others are not kept from their datasets by that.
            let _nobody_brings_it_up = open.loading.lock().await;
            let _nobody_visits_it = open.visits.write().await;
            if !self.has_open(&open) {
                return Ok(());
            }
            if open.is_receiving() {
                return Err(PoolError::Busy { objset: dataset.objset() });
            }
            self.unload(&open).await?;
            self.datasets.write().remove(&dataset.objset());
            self.log_store.leave(dataset.objset());
            self.space.forget(dataset.objset());
        }
        Ok(())
    }

    /// Renames a dataset and all below it; open ones go on under their new names.
    ///
    /// # Errors
    /// As [`dsl::Dsl::rename_dataset`]. [`PoolError::Busy`] while a stream is being received into
    /// one of the datasets.
    #[boxed]
    pub async fn rename_dataset(self: &Arc<Self>, name: &str, new_name: &str) -> Result<(), PoolError> {
        let _nobody_opens_it = self.loading.write().await;
        let (name, new_name) = (name.to_owned(), new_name.to_owned());
        self.in_sync(move |pool, tx| async move {
            let old = pool.dsl.resolve(&name).await?;
            for below in pool.dsl.list(&name).await? {
                pool.check_not_receiving(&below).await?;
            }
            pool.dsl.rename_dataset(&tx, &name, &new_name, &pool.space.pool_space()).await?;
            pool.note_event(&tx, "rename", Some(&old), &format!("-> {new_name}")).await?;
            for dataset in pool.dsl.list(&new_name).await? {
                let open = pool.datasets.read().get(&dataset.objset()).cloned();
                if let Some(open) = open {
                    open.rename(dataset);
                }
            }
            // What is inherited comes from elsewhere now.
            pool.refresh_props().await
        })
        .await
    }

    pub(crate) async fn refresh_props(&self) -> Result<(), PoolError> {
        let allowed = self.allowed().await?;
        for open in self.open_datasets() {
            let props = self.effective_props(&open.name()).await?;
            open.objset.set_props(props.objset());
            self.space.watch(open.objset.id(), self.dsl.head_room(&open.name()).await?, &props);
            if let Some(live) = open.live() {
                live.set_terms(&self.terms(&props, allowed));
            }
            open.set_props(props);
        }
        Ok(())
    }
}
