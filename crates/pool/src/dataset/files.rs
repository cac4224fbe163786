//! Datasets that hold files: the one place where the pool makes and opens file systems.

use std::any::Any;
use std::sync::Arc;

use dmu::{Objset, Tx};
use dsl::features::{PROJECT_QUOTA, USEROBJ_ACCOUNTING, ZILSAXATTR};
use dsl::{DatasetName, PropValue};
use env::{BoxFuture, boxed};
use ondisk::objset::ObjsetType;
use units::{ObjectId, ObjsetId};
use zil::{Claimed, IntentLog, Live, LogHandle, ReplayStopped};
use zpl::{FormatSpec, Space, SpaceReport, Timestamp, Zfs, ZfsOptions, ZfsParts, ZplError};

use crate::config::RootOwner;
use crate::create::birth;
use crate::dataset::frozen::check_filesystem;
use crate::dataset::kind::{Dataset, GetReady, Terms};
use crate::dataset::open::{OpenDataset, State};
use crate::dataset::props::{Allowed, OLD_RECORD_MAX_BYTES, RECORD_MAX_BYTES};
use crate::space::SpaceGuard;
use crate::space::task_room::DATASET_BYTES;
use crate::{Pool, PoolError};

/// A file system, ready for use.
pub struct Filesystem {
    /// Full name of its dataset, when it was asked for.
    pub name: String,
    /// What is done with files.
    pub zfs: Arc<Zfs>,
    /// Its intent log's other face: counters; none in a pool opened for reading only.
    pub log: Option<LogHandle>,
}

impl Filesystem {
    /// The files of an open dataset that has been brought up, if it has files.
    pub(crate) fn of(open: &OpenDataset) -> Option<Arc<Self>> {
        let live: Arc<dyn Any + Send + Sync> = open.live()?;
        let zfs = live.downcast::<Zfs>().ok()?;
        Some(Arc::new(Self { name: open.name().name, zfs, log: open.log() }))
    }
}

impl Dataset for Zfs {
    fn replay(&self, log: IntentLog<Claimed>) -> BoxFuture<'_, Result<(), Box<ReplayStopped>>> {
        Box::pin(async move { Self::replay(self, log).await.map(drop) })
    }

    fn start_log(&self, log: IntentLog<Live>) {
        Self::start_log(self, log);
    }

    fn get_ready<'a>(&'a self, how: GetReady<'a>) -> BoxFuture<'a, Result<(), PoolError>> {
        Box::pin(async move {
            self.find_leftovers(how.open).await;
            if let Some(log) = self.log().filter(|_| how.primes && !self.options().read_only) {
                // The first commit finds a chain whose header is already on its way.
                log.prime().await;
            }
            Ok(())
        })
    }

    fn tidy_up(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if let Err(error) = self.purge().await {
                tracing::warn!(%error, "objects without a name are freed at the next mount");
            }
        })
    }

    fn set_terms(&self, terms: &Terms<'_>) {
        self.set_options(options(terms));
    }

    fn close(&self) -> BoxFuture<'_, Result<(), PoolError>> {
        Box::pin(async {
            self.stop_purge().await;
            self.store_atimes().await?;
            match self.log() {
                Some(log) => Ok(log.close().await?),
                None => Ok(()),
            }
        })
    }
}

/// How a file system behaves.
fn options(terms: &Terms<'_>) -> ZfsOptions {
    let Terms { props, allowed, .. } = terms;
    let record_max = if allowed.large_blocks { RECORD_MAX_BYTES } else { OLD_RECORD_MAX_BYTES };
    ZfsOptions {
        record_bytes: props.record_bytes.min(record_max),
        dnode_slots: if allowed.large_dnodes { props.dnode_slots } else { 1 },
        atime: props.atime,
        sync: props.sync,
        log_bias: props.log_bias,
        immediate_write_bytes: terms.immediate_write_bytes,
        read_only: props.read_only || terms.read_only,
        log_xattrs: allowed.log_xattrs,
        clone_blocks: allowed.clone_blocks,
        xattr: props.xattr,
        posix_acls: props.posix_acls,
        nfs4_acls: props.nfs4_acls,
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

/// Space of a dataset that does not change.
struct FrozenSpace(Space);

impl SpaceReport for FrozenSpace {
    fn space(&self) -> Space {
        self.0
    }
}

/// Versions of file systems, and the version of pools from which on a pool can have them (zfs.h).
const VERSIONS: [(u64, u64); 3] = [(5, 24), (4, 15), (3, 9)];

/// Takes the version of a new file system's format from the properties: it lies in the file system, and not with the
/// properties.
pub(crate) fn take_version(props: &mut Vec<(String, PropValue)>) -> Option<u64> {
    let is_version = |(name, _): &(String, PropValue)| name == "version";
    let version = props.iter().rfind(|prop| is_version(prop)).and_then(|(_, value)| value.number());
    props.retain(|prop| !is_version(prop));
    version
}

/// The newest version that file systems of a pool of this version can have.
fn newest_version(of_pool: u64) -> u64 {
    let newest = VERSIONS.iter().find(|(_, since)| of_pool >= *since);
    newest.map_or(2, |(version, _)| *version)
}

impl Pool {
    /// Makes a file system called `name` with these properties, and waits until it is stable.
    ///
    /// # Errors
    /// [`dsl::DslError::Exists`]; [`dsl::DslError::NoSuchDataset`] when its parent is missing;
    /// [`dsl::DslError::NoSpace`].
    #[boxed]
    pub async fn create_filesystem(
        self: &Arc<Self>,
        name: &str,
        props: Vec<(String, PropValue)>,
    ) -> Result<(), PoolError> {
        self.create_filesystem_by(name, props, RootOwner::from(&self.tuning.host)).await
    }

    /// The same on behalf of `maker`, who owns the root directory and gets what makers of file systems are granted there.
    ///
    /// # Errors
    /// As [`Self::create_filesystem`].
    #[boxed]
    pub async fn create_filesystem_by(
        self: &Arc<Self>,
        name: &str,
        mut props: Vec<(String, PropValue)>,
        maker: RootOwner,
    ) -> Result<(), PoolError> {
        let name = name.to_owned();
        let version = take_version(&mut props);
        self.in_sync(move |pool, tx| async move {
            let made = pool.make_dataset(&tx, &name, &props, maker.uid).await?;
            pool.format_dataset(&made, maker, version, &tx).await
        })
        .await
    }

    /// Makes a dataset that has nothing in it yet, with these properties, if there is room for what they reserve. `maker`
    /// gets what makers of datasets are granted there.
    pub(crate) async fn make_dataset(
        &self,
        tx: &Tx,
        name: &str,
        props: &[(String, PropValue)],
        maker: u32,
    ) -> Result<DatasetName, PoolError> {
        self.check_new_props(name, props).await?;
        self.check_task_room(name, DATASET_BYTES)?;
        let made = self.dsl.create_dataset(tx, name, birth(&self.env)).await?;
        for (prop, value) in props {
            self.dsl.set_prop(tx, made.dir, prop, value).await?;
        }
        self.dsl.grant_to_maker(tx, &made, maker).await?;
        self.note_event(tx, "create", Some(&made), "").await?;
        Ok(made)
    }

    /// Whether a dataset of this name that is to be made can have these properties.
    pub(crate) async fn check_new_props(
        &self,
        name: &str,
        props: &[(String, PropValue)],
    ) -> Result<(), PoolError> {
        for (prop, value) in props {
            self.dsl.check_prop(prop, value).await?;
        }
        Ok(self.dsl.check_new_limits(name, props, &self.space.pool_space()).await?)
    }

    /// Gives a new dataset its empty file system, whose format has this version.
    pub(crate) async fn format_dataset(
        self: &Arc<Self>,
        dataset: &DatasetName,
        owner: RootOwner,
        version: Option<u64>,
        tx: &Tx,
    ) -> Result<(), PoolError> {
        let version = self.check_version(version)?;
        let props = self.effective_props(dataset).await?;
        let objset = Objset::create(self.objset_context(dataset, &props), ObjsetType::Zfs);
        let (objects, projects) =
            (self.is_enabled(&USEROBJ_ACCOUNTING).await?, self.is_enabled(&PROJECT_QUOTA).await?);
        objset.account_from_birth(objects, projects);
        let spec = FormatSpec {
            uid: owner.uid,
            gid: owner.gid,
            permissions: 0o755,
            now: Timestamp::from(self.env.wall_clock()),
            salt: self.env.random_u64(),
            utf8_only: false,
            version,
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

    /// The version of a file system that is made, or upgraded to `wanted`: the newest one if none is asked for.
    ///
    /// # Errors
    /// [`ZplError::Unsupported`] if the pool is too old for this version.
    fn check_version(&self, wanted: Option<u64>) -> Result<u64, PoolError> {
        let newest = newest_version(self.version());
        match wanted {
            None => Ok(newest),
            Some(version) if version <= newest => Ok(version),
            Some(_) => {
                Err(ZplError::Unsupported("this version of file systems in a pool of this version").into())
            }
        }
    }

    /// Gives a file system a newer version of its format. Returns when the change is stable.
    ///
    /// # Errors
    /// [`ZplError::Unsupported`] if the pool is too old; those of [`Zfs::upgrade`].
    #[boxed]
    pub async fn upgrade_filesystem(self: &Arc<Self>, name: &str, version: u64) -> Result<(), PoolError> {
        let version = self.check_version(Some(version))?;
        let files = self.filesystem(name).await?;
        Ok(files.zfs.upgrade(version).await?)
    }

    /// The files of an open dataset.
    pub(crate) async fn open_files(&self, open: &OpenDataset) -> Result<Arc<Zfs>, PoolError> {
        let space = DatasetSpace { guard: Arc::clone(&self.space), objset: Arc::clone(&open.objset) };
        let parts = ZfsParts {
            env: Arc::clone(&self.env),
            os: Arc::clone(&open.objset),
            options: options(&self.terms(&open.props(), self.allowed().await?)),
            space: Arc::new(space),
        };
        Ok(Zfs::open(parts).await?)
    }

    /// The file system called `name`: its log replayed if there was one, ready for use.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`]; when the objset cannot be read, or its log not replayed.
    #[boxed]
    pub async fn filesystem(self: &Arc<Self>, name: &str) -> Result<Arc<Filesystem>, PoolError> {
        self.filesystem_with_open(name, &[]).await
    }

    /// As [`Self::filesystem`], while programs have the objects in `open` open: those among them
    /// without a name are not freed.
    ///
    /// # Errors
    /// As [`Self::filesystem`].
    #[boxed]
    pub async fn filesystem_with_open(
        self: &Arc<Self>,
        name: &str,
        objects: &[ObjectId],
    ) -> Result<Arc<Filesystem>, PoolError> {
        loop {
            let open = self.look_up(name).await?;
            check_filesystem(&open.objset, name)?;
            // Closed meanwhile, and whatever has the name now is another: once more.
            if self.bring_up_with_open(&open, objects).await?
                && let Some(fs) = Filesystem::of(&open)
            {
                return Ok(fs);
            }
        }
    }

    /// What the dataset of an objset that is in use is called now.
    #[must_use]
    pub fn name_of(&self, objset: ObjsetId) -> Option<DatasetName> {
        self.datasets.read().get(&objset).map(|open| open.name())
    }

    /// The file system called `name`, if it is in use.
    pub(crate) async fn live_filesystem(&self, name: &str) -> Option<Arc<Filesystem>> {
        let dataset = self.dsl.resolve(name).await.ok()?;
        let open = self.datasets.read().get(&dataset.objset()).cloned()?;
        Filesystem::of(&open)
    }

    /// The file system that a snapshot holds, `pool/fs@name`, for reading only.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`]; [`PoolError::Encrypted`]; [`PoolError::NotFilesystem`];
    /// when it cannot be read.
    #[boxed]
    pub async fn snapshot_filesystem(self: &Arc<Self>, name: &str) -> Result<Arc<Filesystem>, PoolError> {
        self.open_snapshot(&self.dsl.resolve(name).await?).await
    }

    /// The same of a snapshot that was found.
    ///
    /// # Errors
    /// As [`Self::snapshot_filesystem`]; [`dsl::DslError::NoSuchDataset`] also when it has been destroyed or renamed since.
    #[boxed]
    pub async fn open_snapshot(
        self: &Arc<Self>,
        dataset: &DatasetName,
    ) -> Result<Arc<Filesystem>, PoolError> {
        let name = dataset.name.as_str();
        let view = self.view().await;
        let objset = self.open_in(dataset, &view).await?;
        let objset = objset.ok_or_else(|| PoolError::NotFilesystem { name: name.to_owned() })?;
        check_filesystem(&objset, name)?;
        let phys = self.dsl.dataset(dataset.dataset).await?;
        let space = Space {
            used_bytes: phys.referenced_bytes.get(),
            available_bytes: 0,
            objects: objset.root().fill(),
        };
        let props = self.effective_props(dataset).await?;
        drop(view);
        let zfs = Zfs::open(ZfsParts {
            env: Arc::clone(&self.env),
            os: objset,
            options: options(&Terms { read_only: true, ..self.terms(&props, Allowed::default()) }),
            space: Arc::new(FrozenSpace(space)),
        });
        Ok(Arc::new(Filesystem { name: name.to_owned(), zfs: zfs.await?, log: None }))
    }
}
