//! Datasets that are open: objset, log, file system.
//!
//! ```text
//!  import ─► claimed (log found, its blocks taken)   ─ load ─► live (replayed, log ready)
//!  create ───────────────────────────────────────────────────► live   ─ unload ─► closed
//! ```

use std::sync::Arc;

use dmu::{Objset, ObjsetContext, Tx};
use dsl::features::ZILSAXATTR;
use dsl::DatasetName;
use ondisk::objset::ObjsetType;
use ondisk::zil::ZilHeader;
use parking_lot::{Mutex, RwLock};
use units::{ObjectId, ObjsetId, Txg};
use zil::{Claimed, IntentLog, LogHandle};
use zpl::{FormatSpec, Space, SpaceReport, Timestamp, Zfs, ZfsParts};

use crate::create::{TxSource, birth};
use crate::props::DatasetProps;
use crate::{Pool, PoolError};

/// A dataset whose objset is in memory.
pub(crate) struct OpenDataset {
    pub objset: Arc<Objset>,
    name: RwLock<String>,
    props: RwLock<DatasetProps>,
    state: Mutex<State>,
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
    /// Its intent log's counters and header; none in a pool opened for reading only.
    pub log: Option<LogHandle>,
}

impl OpenDataset {
    fn new(name: &DatasetName, objset: Arc<Objset>, props: DatasetProps, state: State) -> Arc<Self> {
        Arc::new(Self {
            objset,
            name: RwLock::new(name.name.clone()),
            props: RwLock::new(props),
            state: Mutex::new(state),
        })
    }

    /// Its object in the meta-objset.
    pub fn object(&self) -> ObjectId {
        ObjectId::new(self.objset.id().get())
    }

    pub fn name(&self) -> String {
        self.name.read().clone()
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
        self.live().and_then(|fs| fs.log.clone())
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
        }
    }
}

/// Space of a dataset for `statfs`.
struct DatasetSpace {
    pool: std::sync::Weak<Pool>,
    dataset: ObjectId,
}

impl SpaceReport for DatasetSpace {
    fn space(&self) -> Space {
        let Some(pool) = self.pool.upgrade() else { return Space::default() };
        pool.space.of(ObjsetId::new(self.dataset.get()))
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
        props: Vec<(String, dsl::PropValue)>,
    ) -> Result<(), PoolError> {
        let name = name.to_owned();
        self.in_sync(move |pool, tx| async move {
            let made = pool.dsl.create_dataset(&tx, &name, birth(&pool.env)).await?;
            for (prop, value) in &props {
                pool.store_prop(&tx, &made, prop, value).await?;
            }
            pool.format_dataset(&made, &TxSource::Syncing(&tx)).await
        })
        .await
    }

    /// Gives a new dataset its empty file system.
    pub(crate) async fn format_dataset(self: &Arc<Self>, name: &DatasetName, tx: &TxSource<'_>) -> Result<(), PoolError> {
        let props = self.effective_props(name).await?;
        let objset = Objset::create(self.objset_context(name, &props), ObjsetType::Zfs);
        let spec = FormatSpec {
            uid: 0,
            gid: 0,
            permissions: 0o755,
            now: Timestamp::from_duration(self.env.wall_clock()),
            salt: self.env.random_u64(),
            project_ids: false,
            utf8_only: false,
        };
        let dataset = OpenDataset::new(name, Arc::clone(&objset), props, State::Idle);
        self.datasets.write().insert(objset.id(), dataset);
        match tx {
            TxSource::Open => {
                let tx: Tx = self.gate.begin_unthrottled()?;
                Zfs::format(&objset, &tx, &spec).await?;
            }
            TxSource::Syncing(tx) => {
                Zfs::format(&objset, tx, &spec).await?;
            }
        }
        objset.set_space_check(self.space.clone());
        Ok(())
    }

    pub(crate) fn objset_context(&self, name: &DatasetName, props: &DatasetProps) -> ObjsetContext {
        ObjsetContext {
            id: name.objset(),
            zio: Arc::clone(&self.zio),
            gate: Arc::clone(&self.gate),
            props: props.objset(),
        }
    }

    pub(crate) async fn effective_props(&self, name: &DatasetName) -> Result<DatasetProps, PoolError> {
        DatasetProps::of(&name.name, &self.dsl.props(name).await?)
    }

    /// Takes the blocks of a dataset's log before anything is allocated: the first thing an
    /// import does.
    pub(crate) async fn claim_log(self: &Arc<Self>, name: &DatasetName, first: Txg) -> Result<(), PoolError> {
        let root = self.dsl.dataset(name.dataset).await?.bp;
        if root.is_hole() {
            return Ok(());
        }
        let props = self.effective_props(name).await?;
        let objset = Objset::open(self.objset_context(name, &props), root).await?;
        if objset.kind() != ObjsetType::Zfs && objset.kind() != ObjsetType::Zvol {
            return Ok(());
        }
        let header = objset.zil_header();
        if header.log.is_hole() {
            return Ok(());
        }
        let store: Arc<dyn zil::LogStore> = self.log_store.clone();
        let found = IntentLog::found(objset.id(), header, store, Arc::clone(&self.env));
        let claimed = found.claim(first).await?;
        objset.set_zil_header(first, claimed.header());
        self.gate.add_dirty(first, 1);
        objset.set_space_check(self.space.clone());
        let dataset = OpenDataset::new(name, Arc::clone(&objset), props, State::Claimed(claimed));
        self.datasets.write().insert(objset.id(), dataset);
        Ok(())
    }

    /// The file system called `name`: its log replayed if there was one, ready for use.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`]; when the objset cannot be read, or its log not replayed.
    pub async fn filesystem(self: &Arc<Self>, name: &str) -> Result<Arc<Filesystem>, PoolError> {
        let _one_at_a_time = self.loading.lock().await;
        let name = self.dsl.resolve(name).await?;
        let dataset = self.open_dataset(&name).await?;
        if let Some(live) = dataset.live() {
            return Ok(live);
        }
        let state = std::mem::replace(&mut *dataset.state.lock(), State::Idle);
        let fs = Arc::new(self.bring_up(&name, &dataset, state).await?);
        *dataset.state.lock() = State::Live(Arc::clone(&fs));
        Ok(fs)
    }

    async fn open_dataset(self: &Arc<Self>, name: &DatasetName) -> Result<Arc<OpenDataset>, PoolError> {
        if let Some(open) = self.datasets.read().get(&name.objset()) {
            return Ok(Arc::clone(open));
        }
        let props = self.effective_props(name).await?;
        let root = self.dsl.dataset(name.dataset).await?.bp;
        let objset = Objset::open(self.objset_context(name, &props), root).await?;
        objset.set_space_check(self.space.clone());
        let dataset = OpenDataset::new(name, Arc::clone(&objset), props, State::Idle);
        self.datasets.write().insert(objset.id(), Arc::clone(&dataset));
        Ok(dataset)
    }

    async fn bring_up(
        self: &Arc<Self>,
        name: &DatasetName,
        dataset: &OpenDataset,
        state: State,
    ) -> Result<Filesystem, PoolError> {
        let log_xattrs = self.dsl.feature_count(&ZILSAXATTR).await?.is_some();
        let options = dataset.props().options(self.read_only, log_xattrs);
        let space: Arc<dyn SpaceReport> =
            Arc::new(DatasetSpace { pool: Arc::downgrade(self), dataset: dataset.object() });
        let parts = |log| ZfsParts {
            env: Arc::clone(&self.env),
            os: Arc::clone(&dataset.objset),
            log,
            options,
            space: Arc::clone(&space),
        };
        if self.read_only {
            return Ok(Filesystem { name: name.name.clone(), zfs: Zfs::open(parts(None)).await?, log: None });
        }
        if let State::Claimed(claimed) = state {
            let zfs = Zfs::open(parts(None)).await?;
            claimed.replay(&*zfs).await?;
        }
        let store: Arc<dyn zil::LogStore> = self.log_store.clone();
        let log = IntentLog::live(dataset.objset.id(), dataset.objset.zil_header(), store, Arc::clone(&self.env));
        let handle = log.handle();
        let zfs = Zfs::open(parts(Some(log))).await?;
        zfs.purge().await?;
        Ok(Filesystem { name: name.name.clone(), zfs, log: Some(handle) })
    }

    /// Closes a dataset: its log emptied and given back.
    pub(crate) async fn unload(&self, dataset: &OpenDataset) -> Result<(), PoolError> {
        let live = dataset.live();
        if let Some(log) = live.as_ref().and_then(|fs| fs.log.as_ref()) {
            log.close().await?;
        }
        self.gate.wait_synced(self.gate.open_txg()).await?;
        *dataset.state.lock() = State::Idle;
        Ok(())
    }

    /// Closes the file system called `name`, if it is open.
    ///
    /// # Errors
    /// When it does not exist, or cannot be made stable.
    pub async fn close_filesystem(self: &Arc<Self>, name: &str) -> Result<(), PoolError> {
        let _one_at_a_time = self.loading.lock().await;
        let name = self.dsl.resolve(name).await?;
        let open = self.datasets.read().get(&name.objset()).cloned();
        if let Some(dataset) = open {
            self.unload(&dataset).await?;
            self.datasets.write().remove(&name.objset());
        }
        Ok(())
    }

    /// Destroys a file system, which must not be in use.
    ///
    /// # Errors
    /// [`dsl::DslError::HasChildren`], [`dsl::DslError::HasSnapshots`].
    pub async fn destroy_filesystem(self: &Arc<Self>, name: &str) -> Result<(), PoolError> {
        let found = self.dsl.resolve(name).await?;
        self.dsl.check_removable(&found).await?;
        // A log that waits for its replay has blocks that only it can give back.
        self.filesystem(name).await?;
        self.close_filesystem(name).await?;
        self.in_sync(move |pool, tx| async move {
            let name = pool.dsl.resolve(&found.name).await?;
            pool.dsl.check_removable(&name).await?;
            let props = pool.effective_props(&name).await?;
            let root = pool.dsl.dataset(name.dataset).await?.bp;
            if !root.is_hole() {
                let objset = Objset::open(pool.objset_context(&name, &props), root).await?;
                for bp in objset.all_blocks().await? {
                    pool.zio.free(tx.txg(), &bp)?;
                }
            }
            pool.datasets.write().remove(&name.objset());
            pool.space.forget(name.objset());
            Ok(pool.dsl.remove_dataset(&tx, &name).await?)
        })
        .await
    }

    /// Sets a property of a dataset, and has every open dataset below it heed it.
    ///
    /// # Errors
    /// When the dataset does not exist, or the value makes no sense.
    pub async fn set_prop(
        self: &Arc<Self>,
        name: &str,
        prop: &str,
        value: Option<dsl::PropValue>,
    ) -> Result<(), PoolError> {
        let (name, prop) = (name.to_owned(), prop.to_owned());
        self.in_sync(move |pool, tx| async move {
            let name = pool.dsl.resolve(&name).await?;
            match value {
                Some(value) => pool.store_prop(&tx, &name, &prop, &value).await?,
                None => pool.dsl.clear_prop(&tx, name.dir, &prop).await?,
            }
            pool.refresh_props().await
        })
        .await
    }

    /// Quotas and reservations live in the directory, everything else among its properties.
    async fn store_prop(
        &self,
        tx: &Tx,
        name: &DatasetName,
        prop: &str,
        value: &dsl::PropValue,
    ) -> Result<(), PoolError> {
        match (prop, value.number()) {
            ("quota", Some(bytes)) => Ok(self.dsl.set_quota(tx, name.dir, bytes).await?),
            ("reservation", Some(bytes)) => Ok(self.dsl.set_reservation(tx, name.dir, bytes).await?),
            _ => Ok(self.dsl.set_prop(tx, name.dir, prop, value).await?),
        }
    }

    async fn refresh_props(&self) -> Result<(), PoolError> {
        let log_xattrs = self.dsl.feature_count(&ZILSAXATTR).await?.is_some();
        for dataset in self.open_datasets() {
            let name = self.dsl.resolve(&dataset.name()).await?;
            let props = self.effective_props(&name).await?;
            dataset.objset.set_props(props.objset());
            if let Some(fs) = dataset.live() {
                fs.zfs.set_options(props.options(self.read_only, log_xattrs));
            }
            *dataset.props.write() = props;
        }
        Ok(())
    }
}
