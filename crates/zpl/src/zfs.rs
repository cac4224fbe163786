//! A mounted file system: what is shared by all its operations, and how it is made.
//!
//! ```text
//!  master node (object 1) ─┬─ VERSION        1 to 5 (`version`)
//!                          ├─ ROOT           the root directory
//!                          ├─ DELETE_QUEUE   objects without a name, still to be freed
//!                          ├─ userquota@ …   quotas, once there are any
//!                          └─ SA_ATTRS       registry and layouts of attributes
//! ```

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use dmu::zap::Zap;
use dmu::{DnodeSpec, Estimate, Objset, Plan, Tx};
use env::{Env, boxed};
use journal::{Journal, SyncPolicy};
use ondisk::ObjectType;
use parking_lot::RwLock;
use units::ObjectId;
use zil::{Claimed, IntentLog, Live, ReplayReport, ReplayStopped};

use crate::access::Asker;
use crate::cache::ZnodeCache;
use crate::delete_queue::DeleteQueue;
use crate::error::{Result, ZplError};
use crate::flags;
use crate::mode::{FileKind, MODE_PERMISSIONS};
use crate::new_object::{NewAttributes, bonus_capacity, new_attributes};
use crate::options::ZfsOptions;
use crate::quota::Quotas;
use crate::sa::{SaStore, SaTables, ZplAttr};
use crate::time::Timestamp;
use crate::version::WITH_SYSTEM_ATTRIBUTES;
use crate::znode::{Attributes, Znode};

/// The object that everything else is found from, and the version of the format that is written.
use ondisk::znode::ZNODE_BYTES;
pub use ondisk::znode::{MASTER_NODE, ZPL_VERSION};

pub(crate) const VERSION: &[u8] = b"VERSION";
const ROOT: &[u8] = b"ROOT";
const DELETE_QUEUE: &[u8] = b"DELETE_QUEUE";
pub(crate) const SA_ATTRS: &[u8] = b"SA_ATTRS";
const UTF8_ONLY: &[u8] = b"utf8only";
const NORMALIZATION: &[u8] = b"normalization";
const CASE_SENSITIVITY: &[u8] = b"casesensitivity";

/// How a new file system is to be.
#[derive(Clone, Copy, Debug)]
pub struct FormatSpec {
    /// Owner of the root directory.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its permissions, 0755 as a rule.
    pub permissions: u32,
    /// Now.
    pub now: Timestamp,
    /// A random number, seed of directories' hashes.
    pub salt: u64,
    /// Names must be UTF-8 (`utf8only`).
    pub utf8_only: bool,
    /// Version of the format: 1 to [`ZPL_VERSION`].
    pub version: u64,
}

/// What was settled when a file system was made, in the format's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Version of the file layer's format.
    pub version: u64,
    /// Names must be UTF-8.
    pub utf8_only: u64,
    /// How names that look alike are made one.
    pub normalization: u64,
    /// Whether names that differ in case differ.
    pub case_sensitivity: u64,
}

/// Space of a dataset, as `statfs` tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes that the dataset's own data take.
    pub used_bytes: u64,
    /// Bytes that may still be written.
    pub available_bytes: u64,
    /// Objects there are.
    pub objects: u64,
}

/// Tells the space of a dataset.
pub trait SpaceReport: Send + Sync {
    /// Space as of now, or of the last synced group.
    fn space(&self) -> Space;
}

/// What a file system is opened with.
pub struct ZfsParts {
    /// Clock and randomness.
    pub env: Arc<dyn Env>,
    /// Its objects.
    pub os: Arc<Objset>,
    /// Its behaviour.
    pub options: ZfsOptions,
    /// Its space.
    pub space: Arc<dyn SpaceReport>,
}

/// A handle on a mounted file system, used on somebody's behalf.
pub struct Zfs {
    shared: Arc<Shared>,
    asker: Asker,
}

impl Deref for Zfs {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

/// Gets the last attributes of an object that is being freed.
pub type FreedListener = Box<dyn Fn(&Attributes) + Send + Sync>;

/// What all handles on a file system have in common.
pub struct Shared {
    pub(crate) os: Arc<Objset>,
    pub(crate) journal: Journal,
    pub(crate) sa: SaStore,
    pub(crate) cache: ZnodeCache,
    pub(crate) queue: DeleteQueue,
    pub(crate) quotas: Quotas,
    /// Held by renames from one directory to another: the tree does not move meanwhile.
    pub(crate) moving: async_lock::Mutex<()>,
    env: Arc<dyn Env>,
    space: Arc<dyn SpaceReport>,
    options: RwLock<ZfsOptions>,
    freed_listener: RwLock<Option<FreedListener>>,
    root: ObjectId,
    utf8_only: bool,
    /// Names that look alike are one name: such a file system is only read.
    folds: bool,
    pub(crate) version: AtomicU64,
    /// Held by who changes the version.
    pub(crate) upgrading: async_lock::Mutex<()>,
}

impl Zfs {
    /// Makes an empty file system in an empty objset; returns its root directory.
    ///
    /// # Errors
    /// Those of writing; [`dmu::DmuError::ObjectExists`] when the objset is not empty.
    #[boxed]
    pub async fn format(os: &Arc<Objset>, tx: &Tx, spec: &FormatSpec) -> Result<ObjectId> {
        let dnode = os.allocate_at(tx, MASTER_NODE, &DnodeSpec::new(ObjectType::MASTER_NODE, 0)).await?;
        let master = Zap::format(dnode, tx, spec.salt, 0, 0).await?;
        master.add_u64(tx, UTF8_ONLY, u64::from(spec.utf8_only)).await?;
        master.add_u64(tx, NORMALIZATION, 0).await?;
        master.add_u64(tx, CASE_SENSITIVITY, 0).await?;
        master.add_u64(tx, VERSION, spec.version).await?;
        let sa = if spec.version < WITH_SYSTEM_ATTRIBUTES {
            SaStore::old(os, spec.version, spec.salt)
        } else {
            let tables = SaStore::format(os, tx, spec.salt).await?;
            master.add_u64(tx, SA_ATTRS, tables.get()).await?;
            SaStore::open(os, tables, spec.salt).await?
        };
        let queue = crate::sa::new_zap(os, tx, ObjectType::UNLINKED_SET, spec.salt).await?;
        master.add_u64(tx, DELETE_QUEUE, queue.blocks().object().get()).await?;
        let root = Self::format_root(os, tx, &sa, spec).await?;
        master.add_u64(tx, ROOT, root.get()).await?;
        Ok(root)
    }

    async fn format_root(os: &Arc<Objset>, tx: &Tx, sa: &SaStore, spec: &FormatSpec) -> Result<ObjectId> {
        let (bonus_type, bonus_bytes) = match sa.is_system() {
            true => (ObjectType::SA, bonus_capacity(1)),
            false => (ObjectType::ZNODE, ZNODE_BYTES),
        };
        let dnode_spec =
            DnodeSpec::new(ObjectType::DIRECTORY_CONTENTS, 0).with_bonus(bonus_type, bonus_bytes as u16);
        let dnode = os.allocate(tx, &dnode_spec).await?;
        let root = dnode.object();
        let zap = Zap::format(Arc::clone(&dnode), tx, spec.salt ^ root.get() << 1, 0, 0).await?;
        let attrs = NewAttributes {
            kind: FileKind::Directory,
            permissions: spec.permissions & MODE_PERMISSIONS,
            uid: spec.uid,
            gid: spec.gid,
            generation: 0,
            parent: root,
            born: spec.now,
            device: None,
            target: None,
            project: (os.accounts_projects() && sa.is_system()).then_some(0),
            flags: 0,
            acl: None,
        };
        let attrs = sa.with(|tables| new_attributes(tables, &attrs));
        let image = sa.build_in(tx, &attrs, bonus_capacity(1)).await?;
        Znode::new(dnode, image, Some(zap))?.store_first(tx, Some(tx.txg().get()))?;
        Ok(root)
    }

    /// Opens a file system, for the engine itself. Next comes [`Zfs::replay`], or [`Zfs::start_log`]; without a log,
    /// durability means waiting for the group to sync. Then [`Zfs::purge`].
    ///
    /// # Errors
    /// When the master node makes no sense, or the version is newer than ours.
    #[boxed]
    pub async fn open(parts: ZfsParts) -> Result<Arc<Self>> {
        let ZfsParts { env, os, options, space } = parts;
        let master = Zap::open(os.hold(MASTER_NODE).await?).await?;
        let version = Self::entry(&os, &master, VERSION).await?;
        if version > ZPL_VERSION {
            return Err(ZplError::Unsupported("a newer version of the file layer"));
        }
        let root = ObjectId::new(Self::entry(&os, &master, ROOT).await?);
        let queue = ObjectId::new(Self::entry(&os, &master, DELETE_QUEUE).await?);
        let salt = env.random_u64();
        let sa = match master.lookup_u64(SA_ATTRS).await? {
            Some(object) => SaStore::open(&os, ObjectId::new(object), salt).await?,
            None => SaStore::old(&os, version, salt),
        };
        let folds = master.lookup_u64(NORMALIZATION).await?.unwrap_or(0) != 0
            || master.lookup_u64(CASE_SENSITIVITY).await?.unwrap_or(0) != 0;
        let shared = Shared {
            journal: Journal::new(Arc::clone(&os)),
            sa,
            cache: ZnodeCache::new(Arc::clone(&os)),
            queue: DeleteQueue::open(&os, queue).await?,
            quotas: Quotas::open(&os, &master).await?,
            moving: async_lock::Mutex::new(()),
            env,
            space,
            options: RwLock::new(options),
            freed_listener: RwLock::default(),
            root,
            utf8_only: master.lookup_u64(UTF8_ONLY).await?.unwrap_or(0) != 0,
            folds,
            version: AtomicU64::new(version),
            upgrading: async_lock::Mutex::new(()),
            os,
        };
        Ok(Arc::new(Self { shared: Arc::new(shared), asker: Asker::Engine }))
    }

    /// The same file system, used on behalf of `asker`.
    #[must_use]
    pub fn asked_by(&self, asker: Asker) -> Self {
        Self { shared: Arc::clone(&self.shared), asker }
    }

    /// True if both handles belong to the same opening of the same file system.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// On whose behalf it is used.
    #[must_use]
    pub fn asker(&self) -> &Asker {
        &self.asker
    }

    /// Replays the log, before anybody else uses the file system, and uses it from then on.
    ///
    /// # Errors
    /// When a record cannot be applied or the log is damaged: the log is handed back, to be
    /// tried again or discarded.
    #[boxed]
    pub async fn replay(&self, log: IntentLog<Claimed>) -> Result<ReplayReport, Box<ReplayStopped>> {
        let (log, report) = log.replay(self).await?;
        self.journal.start(log);
        Ok(report)
    }

    /// Uses a log that holds nothing to replay.
    ///
    /// # Panics
    /// When there is a log already.
    pub fn start_log(&self, log: IntentLog<Live>) {
        self.journal.start(log);
    }

    /// The log in use.
    #[must_use]
    pub fn log(&self) -> Option<&IntentLog<Live>> {
        self.journal.log()
    }

    /// What was settled when a file system was made; what it does not say is as by default. Needs no
    /// more than its master node.
    ///
    /// # Errors
    /// When the master node cannot be read.
    #[boxed]
    pub async fn settled(os: &Arc<Objset>) -> Result<Settled> {
        let master = Zap::open(os.hold(MASTER_NODE).await?).await?;
        Ok(Settled {
            version: master.lookup_u64(VERSION).await?.unwrap_or(ZPL_VERSION),
            utf8_only: master.lookup_u64(UTF8_ONLY).await?.unwrap_or(0),
            normalization: master.lookup_u64(NORMALIZATION).await?.unwrap_or(0),
            case_sensitivity: master.lookup_u64(CASE_SENSITIVITY).await?.unwrap_or(0),
        })
    }

    async fn entry(os: &Objset, master: &Zap, name: &[u8]) -> Result<u64> {
        master.lookup_u64(name).await?.ok_or_else(|| ZplError::Damaged {
            objset: os.id(),
            object: MASTER_NODE,
            what: format!("no {}", String::from_utf8_lossy(name)),
        })
    }

    /// The root directory.
    #[must_use]
    pub fn root(&self) -> ObjectId {
        self.root
    }

    /// What gives the bytes of attributes their meaning, as it is now.
    #[must_use]
    pub fn attribute_tables(&self) -> SaTables {
        self.sa.with(SaTables::clone)
    }

    /// The objset below.
    #[must_use]
    pub fn objset(&self) -> &Arc<Objset> {
        &self.os
    }

    /// The options in force.
    #[must_use]
    pub fn options(&self) -> ZfsOptions {
        *self.options.read()
    }

    /// Changes the options.
    pub fn set_options(&self, options: ZfsOptions) {
        *self.options.write() = options;
    }

    /// Has `listener` called with the last attributes, without links, of each object that is freed from now on. The
    /// object cannot be used any more then. A later listener takes the place of an earlier one.
    pub fn on_freed(&self, listener: FreedListener) {
        *self.freed_listener.write() = Some(listener);
    }

    pub(crate) fn report_freed(&self, znode: &Znode) {
        if let Some(listener) = &*self.freed_listener.read() {
            listener(&Attributes { links: 0, ctime: self.now(), ..znode.attributes() });
        }
    }

    /// Space, for `statfs`.
    #[must_use]
    pub fn space(&self) -> Space {
        self.space.space()
    }

    /// How many objects without a name are still to be freed, or open.
    ///
    /// # Errors
    /// When the queue of them cannot be read.
    #[boxed]
    pub async fn count_unnamed(&self) -> Result<usize> {
        Ok(self.queue.all().await?.len())
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.env.wall_clock().into()
    }

    pub(crate) fn random_u64(&self) -> u64 {
        self.env.random_u64()
    }

    /// Whether changes go to the log.
    pub(crate) fn is_logged(&self) -> bool {
        self.options().sync.is_logged()
    }

    /// # Errors
    /// [`ZplError::ReadOnly`].
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.folds || self.options().read_only { Err(ZplError::ReadOnly) } else { Ok(()) }
    }

    /// Whether an entry can be made under this name.
    ///
    /// # Errors
    /// [`ZplError::Invalid`], [`ZplError::NameTooLong`] and [`ZplError::NameNotText`].
    pub(crate) fn check_name(&self, name: &[u8]) -> Result<()> {
        self.check_old_name(name)?;
        if name.len() > crate::dirent::NAME_MAX { Err(ZplError::NameTooLong) } else { Ok(()) }
    }

    /// Whether an entry of this name can be taken away: other systems may have made longer ones.
    ///
    /// # Errors
    /// [`ZplError::Invalid`] and [`ZplError::NameNotText`].
    pub(crate) fn check_old_name(&self, name: &[u8]) -> Result<()> {
        match name {
            b"" => Err(ZplError::NotFound),
            b"." | b".." => Err(ZplError::Invalid("dot names cannot be changed")),
            _ if name.contains(&b'/') || name.contains(&0) => {
                Err(ZplError::Invalid("slash or NUL in a name"))
            }
            _ if self.utf8_only && std::str::from_utf8(name).is_err() => Err(ZplError::NameNotText),
            _ => Ok(()),
        }
    }

    /// [`Zfs::check_name`]; in a hidden directory everything is a name but what has no bytes.
    pub(crate) fn check_entry_name(&self, dir: &Znode, name: &[u8]) -> Result<()> {
        if !dir.is_hidden() {
            return self.check_name(name);
        }
        let fits = (1..=crate::dirent::NAME_MAX).contains(&name.len()) && !name.contains(&0);
        if fits { Ok(()) } else { Err(ZplError::Invalid("name of an extended attribute")) }
    }

    /// The object in memory, read if need be.
    ///
    /// # Errors
    /// [`ZplError::Stale`] when there is no such object or it is none of the file layer's.
    pub(crate) async fn znode(&self, object: ObjectId) -> Result<Arc<Znode>> {
        self.cache.get(object, || self.load(object)).await
    }

    async fn load(&self, object: ObjectId) -> Result<Arc<Znode>> {
        let dnode = self.os.hold(object).await?;
        let kind = dnode.object_type();
        if kind != ObjectType::PLAIN_FILE_CONTENTS && kind != ObjectType::DIRECTORY_CONTENTS {
            return Err(ZplError::Stale { object });
        }
        let image = self.sa.parse(dnode.bonus_type(), dnode.bonus(), dnode.spill().await?)?;
        image.check_complete()?;
        let zap = match kind {
            ObjectType::DIRECTORY_CONTENTS => Some(Zap::open(Arc::clone(&dnode)).await?),
            _ => None,
        };
        Znode::new(dnode, image, zap)
    }

    /// A directory.
    ///
    /// # Errors
    /// [`ZplError::NotDirectory`], and as [`Zfs::znode`].
    pub(crate) async fn directory(&self, object: ObjectId) -> Result<Arc<Znode>> {
        let znode = self.znode(object).await?;
        if znode.kind() != FileKind::Directory || znode.word(ZplAttr::Flags) & flags::XATTR != 0 {
            return Err(ZplError::NotDirectory);
        }
        Ok(znode)
    }

    /// Begins a change of names or attributes.
    pub(crate) async fn plan(&self) -> Result<Plan> {
        Ok(self.os.plan(Estimate::default()).await?)
    }

    /// Begins a change that writes so many bytes of data.
    pub(crate) async fn plan_writing(&self, write_bytes: u64) -> Result<Plan> {
        Ok(self.os.plan(Estimate { write_bytes, ..Estimate::default() }).await?)
    }

    /// Begins a change that frees more than it takes.
    pub(crate) async fn plan_freeing(&self, freed_blocks: u64) -> Result<Plan> {
        Ok(self.os.plan(Estimate { write_bytes: 0, frees: true, freed_blocks }).await?)
    }

    /// Done with an operation: makes it stable where `sync=always` wants that.
    pub(crate) async fn commit_if_always(&self, object: ObjectId) -> Result<()> {
        match self.options().sync {
            SyncPolicy::Always => Ok(self.journal.commit(Some(object)).await?),
            SyncPolicy::Standard | SyncPolicy::Disabled => Ok(()),
        }
    }

    /// Makes an object's changes stable, or everything, unless durability comes with txgs alone
    /// (`sync=disabled`).
    pub(crate) async fn commit_if_logged(&self, object: Option<ObjectId>) -> Result<()> {
        if self.is_logged() {
            self.journal.commit(object).await?;
        }
        Ok(())
    }

    /// Makes everything done so far stable (`syncfs`).
    ///
    /// # Errors
    /// When that is not possible.
    #[boxed]
    pub async fn sync(&self) -> Result<()> {
        self.store_atimes().await?;
        self.commit_if_logged(None).await
    }

    /// Makes everything done so far stable, whatever the property `sync` says: nobody who has unmounted
    /// a file system expects to lose what was on it.
    ///
    /// # Errors
    /// When that is not possible.
    #[boxed]
    pub async fn sync_for_unmount(&self) -> Result<()> {
        self.sync().await?;
        let txgs = self.os.txgs();
        if self.is_logged() || self.check_writable().is_err() {
            return Ok(());
        }
        Ok(txgs.wait_synced(txgs.open_txg()).await?)
    }

    /// Stores access times that are only in memory so far.
    ///
    /// # Errors
    /// Those of writing.
    #[boxed]
    pub async fn store_atimes(&self) -> Result<()> {
        if self.check_writable().is_err() {
            return Ok(());
        }
        for znode in self.cache.with_dirty_atime() {
            self.store_atime(&znode).await?;
        }
        Ok(())
    }

    /// Stores some access times if they alone keep too many znodes in memory. Called at the end of
    /// an operation on `object`, without any lock.
    pub(crate) async fn make_room(&self, object: ObjectId) {
        if self.check_writable().is_err() {
            return;
        }
        for znode in self.cache.crowding(object) {
            if let Err(error) = self.store_atime(&znode).await {
                tracing::debug!(object = znode.object().get(), %error, "an access time is not stored");
            }
        }
    }

    pub(crate) async fn store_atime(&self, znode: &Arc<Znode>) -> Result<()> {
        let _whole = znode.lock.whole().await;
        if !znode.atime_dirty() || znode.check_alive().is_err() {
            return Ok(());
        }
        match self.plan().await {
            Ok(plan) => {
                znode.store(&plan, znode.image())?;
                plan.apply()?;
                Ok(())
            }
            // Not worth failing for: a full pool can be exported.
            Err(ZplError::NoSpace | ZplError::QuotaExceeded) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
