//! Datasets that are open: objset, log, file system.
//!
//! ```text
//!  import ─► claimed (log found, its blocks taken)   ─ load ─► live (replayed, log ready)
//!  create ───────────────────────────────────────────────────► live   ─ unload ─► closed
//! ```

pub(crate) mod destroy;
pub(crate) mod frozen;
pub(crate) mod props;
pub(crate) mod set_prop;
pub(crate) mod volume;

use std::sync::Arc;

use dmu::{BlockKinds, Objset, ObjsetContext};
use dsl::features::{
    BLOCK_CLONING, Feature, LARGE_BLOCKS, LARGE_DNODE, PROJECT_QUOTA, USEROBJ_ACCOUNTING, ZILSAXATTR,
};
use dsl::{DatasetName, PropValue};
use futures::stream::{self, StreamExt};
use ondisk::objset::ObjsetType;
use ondisk::zil::ZilHeader;
use parking_lot::{Mutex, RwLock};
use units::{ObjectId, ObjsetId, Txg, VdevId};
use zil::{Claimed, IntentLog, LogEvent, LogHandle, LogStore, ReplayProgress, ReplayStopped, ZilError};
use zpl::{FormatSpec, Space, SpaceReport, Timestamp, Zfs, ZfsOptions, ZfsParts};

use crate::create::{TxSource, birth};
use crate::dataset::frozen::check_filesystem;
use crate::dataset::props::{Allowed, DatasetProps};
use crate::dataset::volume::VolumeReplay;
use crate::log::loss::Reach;
use crate::space::SpaceGuard;
use crate::{Pool, PoolError};

/// Logs replayed at the same time.
const REPLAYS_AT_ONCE: usize = 8;

/// A dataset whose objset is in memory.
pub(crate) struct OpenDataset {
    pub objset: Arc<Objset>,
    /// Its objects in the meta-objset stay; what it is called may change.
    name: RwLock<DatasetName>,
    props: RwLock<DatasetProps>,
    state: Mutex<State>,
    /// Kinds of blocks whose features are noted.
    noted: Mutex<BlockKinds>,
    /// The log takes part in every group from the moment it is opened.
    log: Mutex<Option<LogHandle>>,
    /// Held by who brings it up: others who want the file system wait here.
    loading: async_lock::Mutex<()>,
}

enum State {
    /// The log was found with blocks in it, and they are claimed.
    Claimed(IntentLog<Claimed>),
    /// No log to replay.
    Idle,
    Live(Arc<Filesystem>),
}

/// A file system, ready for use.
pub struct Filesystem {
    /// Full name of its dataset.
    pub name: String,
    /// What is done with files.
    pub zfs: Arc<Zfs>,
    /// Its intent log's other face: counters; none in a pool opened for reading only.
    pub log: Option<LogHandle>,
}

impl Filesystem {
    /// The same files under another name.
    fn called(&self, name: &str) -> Arc<Self> {
        Arc::new(Self { name: name.to_owned(), zfs: Arc::clone(&self.zfs), log: self.log.clone() })
    }
}

impl OpenDataset {
    fn new(name: &DatasetName, objset: Arc<Objset>, props: DatasetProps, state: State) -> Arc<Self> {
        Arc::new(Self {
            objset,
            name: RwLock::new(name.clone()),
            props: RwLock::new(props),
            state: Mutex::new(state),
            noted: Mutex::default(),
            log: Mutex::default(),
            loading: async_lock::Mutex::new(()),
        })
    }

    /// Remembers kinds of blocks; whether one of them is new.
    pub fn has_new_kinds(&self, kinds: BlockKinds) -> bool {
        let mut noted = self.noted.lock();
        let all = noted.with(kinds);
        std::mem::replace(&mut *noted, all) != all
    }

    /// How far the replay of its log has got, if one is under way.
    pub fn replay_progress(&self) -> Option<ReplayProgress> {
        self.log.lock().as_ref()?.replay_progress()
    }

    /// Its object in the meta-objset.
    pub fn object(&self) -> ObjectId {
        ObjectId::new(self.objset.id().get())
    }

    pub fn name(&self) -> DatasetName {
        self.name.read().clone()
    }

    /// It is called otherwise from now on; who holds its file system goes on with the same files.
    fn rename(&self, name: DatasetName) {
        *self.name.write() = name.clone();
        if let State::Live(fs) = &mut *self.state.lock() {
            *fs = fs.called(&name.name);
        }
    }

    /// It was brought up: here it is, under its name of now.
    fn set_live(&self, fs: Arc<Filesystem>) -> Arc<Filesystem> {
        let mut state = self.state.lock();
        let fs = fs.called(&self.name().name);
        *state = State::Live(Arc::clone(&fs));
        fs
    }

    pub fn props(&self) -> DatasetProps {
        self.props.read().clone()
    }

    pub fn live(&self) -> Option<Arc<Filesystem>> {
        match &*self.state.lock() {
            State::Live(fs) => Some(Arc::clone(fs)),
            State::Claimed(_) | State::Idle => None,
        }
    }

    fn log(&self) -> Option<LogHandle> {
        self.log.lock().clone()
    }

    /// Its log may use a vdev again that works again.
    pub fn trust_with_log(&self, vdev: VdevId) {
        if let Some(log) = self.log() {
            log.trust(vdev);
        }
    }

    /// What the log's header is to say when `txg` is stable, if that changed.
    pub async fn sync_log(&self, txg: Txg) -> Option<ZilHeader> {
        match self.log() {
            Some(log) => log.sync(txg).await,
            None => None,
        }
    }

    /// `txg` is stable.
    pub fn synced(&self, txg: Txg) {
        if let Some(log) = self.log() {
            log.clean(txg);
            log.rest();
        }
    }
}

/// Space of a dataset for `statfs`.
struct DatasetSpace {
    guard: Arc<SpaceGuard>,
    objset: Arc<Objset>,
}

impl SpaceReport for DatasetSpace {
    fn space(&self) -> Space {
        Space {
            used_bytes: self.guard.used(self.objset.id()),
            available_bytes: self.guard.available(self.objset.id()),
            objects: self.objset.root().fill(),
        }
    }
}

impl Pool {
    /// Makes a file system called `name` with these properties, and waits until it is stable.
    ///
    /// # Errors
    /// [`dsl::DslError::Exists`]; [`dsl::DslError::NoSuchDataset`] when its parent is missing.
    pub async fn create_filesystem(
        self: &Arc<Self>,
        name: &str,
        props: Vec<(String, PropValue)>,
    ) -> Result<(), PoolError> {
        let name = name.to_owned();
        self.in_sync(move |pool, tx| async move {
            for (prop, value) in &props {
                pool.dsl.check_prop(prop, value).await?;
            }
            let made = pool.dsl.create_dataset(&tx, &name, birth(&pool.env)).await?;
            for (prop, value) in &props {
                pool.dsl.set_prop(&tx, made.dir, prop, value).await?;
            }
            pool.note_event(&tx, "create", Some(&made), "").await?;
            pool.format_dataset(&made, &TxSource::Syncing(&tx)).await
        })
        .await
    }

    /// Gives a new dataset its empty file system.
    pub(crate) async fn format_dataset(
        self: &Arc<Self>,
        dataset: &DatasetName,
        tx: &TxSource<'_>,
    ) -> Result<(), PoolError> {
        let props = self.effective_props(dataset).await?;
        let objset = Objset::create(self.objset_context(dataset, &props), ObjsetType::Zfs);
        let (objects, projects) =
            (self.is_enabled(&USEROBJ_ACCOUNTING).await?, self.is_enabled(&PROJECT_QUOTA).await?);
        objset.account_from_birth(objects, projects);
        let spec = FormatSpec {
            uid: self.tuning.host.uid,
            gid: self.tuning.host.gid,
            permissions: 0o755,
            now: Timestamp::from(self.env.wall_clock()),
            salt: self.env.random_u64(),
            utf8_only: false,
        };
        let open;
        let tx = match tx {
            TxSource::Open => {
                open = self.gate.join()?;
                &open
            }
            TxSource::Syncing(tx) => *tx,
        };
        Zfs::format(&objset, tx, &spec).await?;
        // Its log may hold changes of extended attributes from the first commit on.
        let log_xattrs = self.is_enabled(&ZILSAXATTR).await?;
        let used = [(log_xattrs, &ZILSAXATTR), (objects, &USEROBJ_ACCOUNTING), (projects, &PROJECT_QUOTA)];
        for (is_used, feature) in used {
            if is_used {
                self.dsl.activate_feature(tx, dataset.dataset, feature).await?;
            }
        }
        self.adopt(dataset, objset, props, State::Idle).await?;
        Ok(())
    }

    pub(crate) fn objset_context(&self, dataset: &DatasetName, props: &DatasetProps) -> ObjsetContext {
        ObjsetContext {
            id: dataset.objset(),
            zio: Arc::clone(&self.zio),
            gate: Arc::clone(&self.gate),
            props: props.objset(),
        }
    }

    /// Has a volume take part in txgs, as whoever writes to volumes would.
    #[cfg(test)]
    pub(crate) async fn use_volume(
        self: &Arc<Self>,
        name: &str,
    ) -> Result<(Arc<OpenDataset>, IntentLog<zil::Live>), PoolError> {
        let dataset = self.dsl.resolve(name).await?;
        let props = self.effective_props(&dataset).await?;
        let root = self.dsl.dataset(dataset.dataset).await?.bp;
        let objset = Objset::open(self.objset_context(&dataset, &props), root).await?;
        let open = self.adopt(&dataset, objset, props, State::Idle).await?;
        let store: Arc<dyn LogStore> = self.log_store.clone();
        let log = IntentLog::empty(open.objset.id(), store, Arc::clone(&self.env));
        self.use_log(&open, &log.handle());
        Ok((open, log))
    }

    /// From now on the dataset's changes are written with each group.
    async fn adopt(
        &self,
        dataset: &DatasetName,
        objset: Arc<Objset>,
        props: DatasetProps,
        state: State,
    ) -> Result<Arc<OpenDataset>, PoolError> {
        self.space.watch(dataset.objset(), self.dsl.head_room(dataset).await?, &props);
        objset.set_space_check(self.space.clone());
        objset.set_early_check(self.early.clone());
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
            // Nobody can find this log, and nobody can read its dataset.
            Err(error) if without_missing => {
                tracing::warn!(dataset = dataset.name, %error, "its log is given up");
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
        let claimed =
            if without_missing { found.claim_what_answers(first).await? } else { found.claim(first).await? };
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
            self.log_store.report(LogEvent::Damaged { objset, loss });
        }
    }

    /// Replays logs that name blocks of files, before anything else can free these blocks.
    pub(crate) async fn replay_logs_of_clones(self: &Arc<Self>) -> Result<(), PoolError> {
        if self.dsl.feature_count(&BLOCK_CLONING).await?.is_none() {
            return Ok(());
        }
        for open in self.open_datasets() {
            let state = std::mem::replace(&mut *open.state.lock(), State::Idle);
            let names_shared_blocks = match &state {
                State::Claimed(log) => log.names_shared_blocks().await?,
                State::Idle | State::Live(_) => false,
            };
            *open.state.lock() = state;
            if names_shared_blocks {
                self.replay_log(&open).await?;
            }
        }
        Ok(())
    }

    /// Datasets whose log was claimed and is still to be replayed.
    pub(crate) fn with_claimed_logs(&self) -> Vec<Arc<OpenDataset>> {
        let open = self.open_datasets().into_iter();
        open.filter(|open| matches!(*open.state.lock(), State::Claimed(_))).collect()
    }

    /// Replays the log of a dataset that has one: a file system is ready for use then, a volume for being read.
    pub(crate) async fn replay_log(self: &Arc<Self>, open: &OpenDataset) -> Result<(), PoolError> {
        let name = open.name().name;
        match open.objset.kind() {
            ObjsetType::Zvol => self.replay_volume(&name, open).await,
            _ => self.filesystem(&name).await.map(drop),
        }
    }

    /// Afterwards the volume has no log: nothing writes to it here.
    async fn replay_volume(self: &Arc<Self>, name: &str, open: &OpenDataset) -> Result<(), PoolError> {
        let _one_at_a_time = open.loading.lock().await;
        let into = VolumeReplay::of(name, &open.objset).await?;
        let Some(claimed) = self.take_claimed(open) else { return Ok(()) };
        match claimed.replay(&into).await {
            Ok((log, _)) => Ok(log.close().await?),
            Err(stopped) => Err(self.keep_log(open, *stopped).await),
        }
    }

    /// The log that waits for its replay, if there is one; groups attend to it from now on.
    fn take_claimed(&self, open: &OpenDataset) -> Option<IntentLog<Claimed>> {
        let claimed = {
            let mut state = open.state.lock();
            match std::mem::replace(&mut *state, State::Idle) {
                State::Claimed(claimed) => claimed,
                other => {
                    *state = other;
                    return None;
                }
            }
        };
        self.use_log(open, &claimed.handle());
        if let Some(watch) = &self.replay_watch {
            claimed.watch(Arc::clone(watch));
        }
        Some(claimed)
    }

    /// Keeps a log whose replay has stopped. What was promised is in it still: the next try goes on where this one
    /// stopped.
    async fn keep_log(&self, open: &OpenDataset, stopped: ReplayStopped) -> PoolError {
        if let ZilError::LostBlock { objset, .. } = stopped.error
            && let Some(loss) = self.loss_of(objset, &stopped.log.header()).await
        {
            self.log_store.report(LogEvent::Damaged { objset, loss });
        }
        *open.state.lock() = State::Claimed(stopped.log);
        stopped.error.into()
    }

    /// The file system called `name`: its log replayed if there was one, ready for use.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`]; when the objset cannot be read, or its log not replayed.
    pub async fn filesystem(self: &Arc<Self>, name: &str) -> Result<Arc<Filesystem>, PoolError> {
        loop {
            let open = self.look_up(name).await?;
            // Replay may take long: only those wait who want this one.
            let _one_at_a_time = open.loading.lock().await;
            // Closed meanwhile: whatever has the name now is another.
            if !self.has_open(&open) {
                continue;
            }
            if let Some(live) = open.live() {
                return Ok(live);
            }
            let fs = open.set_live(self.bring_up(&open).await?);
            // A property may have been set while it was brought up.
            fs.zfs.set_options(self.file_options(&open.props(), self.allowed().await?));
            return Ok(fs);
        }
    }

    /// The file system called `name`, if it is in use.
    pub(crate) async fn live_filesystem(&self, name: &str) -> Option<Arc<Filesystem>> {
        let dataset = self.dsl.resolve(name).await.ok()?;
        self.datasets.read().get(&dataset.objset())?.live()
    }

    /// The dataset called `name`, its objset in memory.
    async fn look_up(self: &Arc<Self>, name: &str) -> Result<Arc<OpenDataset>, PoolError> {
        let _nobody_renames_it = self.loading.read().await;
        let dataset = self.dsl.resolve(name).await?;
        if dataset.is_snapshot() {
            return Err(PoolError::ReadOnly);
        }
        self.open_dataset(&dataset).await
    }

    fn has_open(&self, open: &Arc<OpenDataset>) -> bool {
        let datasets = self.datasets.read();
        datasets.get(&open.objset.id()).is_some_and(|found| Arc::ptr_eq(found, open))
    }

    /// Replays the logs of all datasets that have something to replay, several at a time. The
    /// first failure is told; a log that failed stays as it is, for the next use of its dataset, or the next call.
    ///
    /// # Errors
    /// When a log cannot be replayed.
    pub async fn replay_logs(self: &Arc<Self>) -> Result<(), PoolError> {
        let waits = |open: &Arc<OpenDataset>| matches!(&*open.state.lock(), State::Claimed(log) if log.needs_replay());
        let waiting: Vec<_> = self.open_datasets().into_iter().filter(waits).collect();
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
        check_filesystem(&objset, &dataset.name)?;
        self.adopt(dataset, objset, props, State::Idle).await
    }

    async fn bring_up(self: &Arc<Self>, open: &OpenDataset) -> Result<Arc<Filesystem>, PoolError> {
        let space = DatasetSpace { guard: Arc::clone(&self.space), objset: Arc::clone(&open.objset) };
        let parts = ZfsParts {
            env: Arc::clone(&self.env),
            os: Arc::clone(&open.objset),
            options: self.file_options(&open.props(), self.allowed().await?),
            space: Arc::new(space),
        };
        let zfs = Zfs::open(parts).await?;
        let name = open.name().name;
        if self.read_only {
            return Ok(Arc::new(Filesystem { name, zfs, log: None }));
        }
        let handle = match self.take_claimed(open) {
            Some(claimed) => {
                let handle = claimed.handle();
                if let Err(stopped) = zfs.replay(claimed).await {
                    return Err(self.keep_log(open, *stopped).await);
                }
                handle
            }
            None => {
                let store: Arc<dyn zil::LogStore> = self.log_store.clone();
                let log = IntentLog::empty(open.objset.id(), store, Arc::clone(&self.env));
                let handle = log.handle();
                self.use_log(open, &handle);
                zfs.start_log(log);
                handle
            }
        };
        zfs.purge().await?;
        if let Some(log) = zfs.log() {
            // The first commit finds a chain whose header is already on its way.
            log.prime().await;
        }
        Ok(Arc::new(Filesystem { name, zfs, log: Some(handle) }))
    }

    /// Groups attend to the log from now on, until it rests.
    fn use_log(&self, open: &OpenDataset, log: &LogHandle) {
        *open.log.lock() = Some(log.clone());
        self.log_store.attend(open.objset.id());
    }

    async fn is_enabled(&self, feature: &Feature) -> Result<bool, PoolError> {
        Ok(self.dsl.feature_count(feature).await?.is_some())
    }

    fn file_options(&self, props: &DatasetProps, allowed: Allowed) -> ZfsOptions {
        let immediate_write_bytes = self.tuning.immediate_write_bytes;
        ZfsOptions { immediate_write_bytes, ..props.options(self.read_only, allowed) }
    }

    /// What of the format files may use.
    async fn allowed(&self) -> Result<Allowed, PoolError> {
        Ok(Allowed {
            log_xattrs: self.is_enabled(&ZILSAXATTR).await?,
            large_blocks: self.is_enabled(&LARGE_BLOCKS).await?,
            large_dnodes: self.is_enabled(&LARGE_DNODE).await?,
        })
    }

    pub(crate) async fn effective_props(&self, dataset: &DatasetName) -> Result<DatasetProps, PoolError> {
        Ok(DatasetProps::of(&dataset.name, &self.dsl.props(dataset).await?))
    }

    /// Closes a dataset: its log emptied and given back.
    pub(crate) async fn unload(&self, open: &OpenDataset) -> Result<(), PoolError> {
        if let Some(live) = open.live() {
            live.zfs.store_atimes().await?;
            if let Some(log) = live.zfs.log() {
                log.close().await?;
            }
        }
        self.gate.wait_synced(self.gate.open_txg()).await?;
        *open.state.lock() = State::Idle;
        Ok(())
    }

    /// Closes the file system called `name`, if it is open.
    ///
    /// # Errors
    /// When it does not exist, or cannot be made stable.
    pub async fn close_filesystem(self: &Arc<Self>, name: &str) -> Result<(), PoolError> {
        let dataset = self.dsl.resolve(name).await?;
        let open = self.datasets.read().get(&dataset.objset()).cloned();
        if let Some(open) = open {
            // Who brings it up does so to the end first, and others are not kept from their datasets by that.
            let _nobody_brings_it_up = open.loading.lock().await;
            if !self.has_open(&open) {
                return Ok(());
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
    /// As [`dsl::Dsl::rename_dataset`].
    pub async fn rename_dataset(self: &Arc<Self>, name: &str, new_name: &str) -> Result<(), PoolError> {
        let _nobody_opens_it = self.loading.write().await;
        let (name, new_name) = (name.to_owned(), new_name.to_owned());
        self.in_sync(move |pool, tx| async move {
            let old = pool.dsl.resolve(&name).await?;
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
            if let Some(fs) = open.live() {
                fs.zfs.set_options(self.file_options(&props, allowed));
            }
            *open.props.write() = props;
        }
        Ok(())
    }
}
