//! What shows file systems to programs, as the engine sees it.
//!
//! ```text
//!  engine ── Front::mount(file system, place) ─► Box<dyn Mounted> ── unmount, remount, write back
//!                 ▲
//!         front-fuse, on this machine; a front of the simulator's, in a test
//!  engine ◄─ Snapshots: what there is, open, make, destroy, rename ─ front
//! ```
//! The engine decides what is shown, where, and with which flags; a front knows how. Its methods may block the
//! thread that calls them, which is the thread of the request alone.

pub use control::Peer;
use env::BoxFuture;
use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use units::{ObjectId, ObjsetId};
use zpl::Zfs;

/// A way for programs to reach file systems by paths.
pub trait Front: Send + Sync + 'static {
    /// Mounts a file system at `place`, which is made if it is not there.
    ///
    /// # Errors
    /// When something is in the way, or the system refuses.
    fn mount(
        &self,
        shown: Shown,
        place: &Path,
        options: &MountOptions,
    ) -> Result<Box<dyn Mounted>, MountError>;
    /// Whether nothing is at `place` that a mount there would hide.
    fn is_free(&self, place: &Path) -> bool;
    /// Takes away a directory that mounting made, if nothing is in it.
    fn forget(&self, place: &Path);
    /// Returns the mounts of this pool's file systems whose server was killed. A front without a
    /// kernel has none.
    fn orphans(&self, _pool: &str) -> Vec<OrphanMount> {
        Vec::new()
    }
    /// True if a request of this user may have a file system mounted at `place`, which begins with
    /// `altroot`. Nothing is mounted or made. A front without a kernel knows no owners: there, no user
    /// chooses a place.
    ///
    /// # Errors
    /// When the way to the place cannot be examined, or a mount there would be refused.
    fn may_claim(
        &self,
        _user: &UserIds,
        place: &Path,
        _altroot: Option<&Path>,
        how: PlaceChoice,
    ) -> io::Result<bool> {
        Ok(how == PlaceChoice::Inherited && self.is_free(place))
    }
}

/// A mount that the kernel still has after the server of the file system was killed. Every request
/// to the mount fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrphanMount {
    /// The dataset.
    pub dataset: String,
    /// The mount point.
    pub place: PathBuf,
    /// The flags of the mount.
    pub flags: MountFlags,
}

/// A user other than the daemon's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserIds {
    /// The user id.
    pub uid: u32,
    /// The group ids, the primary group first.
    pub gids: Vec<u32>,
}

/// How a request of a user determines a mount point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceChoice {
    /// The request names the path: the user must own the directory, or be able to make it.
    Chosen,
    /// Names of datasets follow the mount point of a dataset above: the place may also be one where
    /// nothing is hidden, because it is missing or empty.
    Inherited,
}

/// A mounted file system; unmounted when dropped.
pub trait Mounted: Send + Sync {
    /// Whether it is mounted no more, whoever unmounted it: all that was written is stable, or cannot
    /// be made so.
    fn has_ended(&self) -> bool;
    /// Whether the system has hung up, and it is about to end.
    fn is_ending(&self) -> bool;
    /// Whether somebody else has unmounted it, which is over when its data are stable: that is waited
    /// for, unless files on it are still open.
    fn ends_soon(&self) -> bool;
    /// True if it was unmounted here, and bind mounts or other mount namespaces still show it.
    fn is_elsewhere(&self) -> bool;
    /// Returns what would still show the file system after an unmount here, in words: a bind mount, or another mount
    /// namespace. Waits for some seconds, because a container that starts has a copy of every mount for a moment.
    fn seen_elsewhere(&self) -> Option<String>;
    /// Unmounts it, unless files on it are open and the reach is not [`UnmountReach::ByForce`]. When it returns and
    /// [`Self::has_ended`], what was written is stable.
    ///
    /// # Errors
    /// [`MountError::Busy`], [`MountError::SeenElsewhere`]; the file system stays mounted then.
    fn unmount(&self, reach: UnmountReach) -> Result<(), MountError>;
    /// Has the system hand over what programs have changed in pages that it keeps, and waits until all is here.
    ///
    /// # Errors
    /// The system's.
    fn write_back(&self) -> BoxFuture<'_, io::Result<()>>;
    /// Holds back new requests and waits for the pending ones, so that the file system can be
    /// exchanged. Returns `None` if the file system must be unmounted for an exchange.
    ///
    /// # Errors
    /// [`MountError::Unfinished`]. Requests then continue as before.
    fn suspend(&self) -> BoxFuture<'_, Result<Option<Box<dyn Suspended>>, MountError>>;
    /// Changes what is allowed, for files that are open too.
    ///
    /// # Errors
    /// When files are open for writing on what is to be read only; users cannot at all.
    fn remount(&self, flags: MountFlags) -> Result<(), MountError>;
    /// Shows the control directory otherwise from now on.
    fn set_snapdir(&self, snapdir: Snapdir);
    /// Lets go of those of these snapshots in which no file is open, and opens none of them again before what this
    /// gives is dropped: they are about to be destroyed.
    fn let_go_of<'a>(&'a self, snapshots: &'a [ObjsetId]) -> BoxFuture<'a, LetGo>;
    /// Threads that asked for something to be stable, as far as they are known.
    fn syncing_threads(&self) -> Vec<SyncingThread>;
}

/// How far an unmount goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmountReach {
    /// The mount at its mount point. What else shows the file system goes on to do so.
    Here,
    /// Every mount of the file system, because the dataset is about to change.
    Everywhere,
    /// Every mount of the file system, although it is in use. Programs that use it get errors from then on.
    ByForce,
}

impl UnmountReach {
    /// Returns the reach for a dataset that is about to change.
    #[must_use]
    pub fn for_change(force: bool) -> Self {
        if force { Self::ByForce } else { Self::Everywhere }
    }
}

/// A mount whose requests wait. If this value is dropped, all waiting and later requests fail.
pub trait Suspended: Send {
    /// Returns the objects that programs have open.
    fn open_objects(&self) -> Vec<ObjectId>;
    /// Continues with these files. Open files stay open, and nothing is cached of the former
    /// contents. Returns when all programs see the new contents.
    fn resume(self: Box<Self>, zfs: Arc<Zfs>) -> BoxFuture<'static, ()>;
}

/// Snapshots that nobody opens as long as this is kept.
pub type LetGo = Box<dyn Any + Send>;

/// What is mounted.
pub struct Shown {
    /// The files.
    pub zfs: Arc<Zfs>,
    /// For the control directory.
    pub snapshots: Arc<dyn Snapshots>,
}

/// The snapshots of a file system that is mounted, as its control directory has them.
pub trait Snapshots: Send + Sync + 'static {
    /// All of them, in no order.
    ///
    /// # Errors
    /// When they cannot be read.
    fn list(&self) -> BoxFuture<'_, Result<Vec<ListedSnapshot>, SnapshotError>>;
    /// What can be said of them without a look at each.
    ///
    /// # Errors
    /// When that cannot be read.
    fn summary(&self) -> BoxFuture<'_, Result<SnapshotSummary, SnapshotError>>;
    /// The one that has this name behind the `@`.
    ///
    /// # Errors
    /// [`SnapshotError::NotFound`]; when it cannot be read.
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<SnapshotId, SnapshotError>>;
    /// The files of one, for reading only, which was last called `name`. It cannot be destroyed as long as somebody has
    /// them.
    ///
    /// # Errors
    /// [`SnapshotError::NotFound`]; when it cannot be read.
    fn open<'a>(&'a self, which: SnapshotId, name: &'a str)
    -> BoxFuture<'a, Result<Arc<Zfs>, SnapshotError>>;
    /// Makes one for an administrator, or for the user `by`, if that is delegated to the user.
    ///
    /// # Errors
    /// [`SnapshotError::Exists`], [`SnapshotError::BadName`], [`SnapshotError::NoSpace`], [`SnapshotError::Denied`].
    fn create<'a>(&'a self, name: &'a str, by: Option<Peer>) -> BoxFuture<'a, Result<(), SnapshotError>>;
    /// Destroys one, as [`Self::create`] makes one.
    ///
    /// # Errors
    /// [`SnapshotError::NotFound`]; [`SnapshotError::Busy`] when it is held, has clones, or files of it are open;
    /// [`SnapshotError::Denied`].
    fn destroy<'a>(&'a self, name: &'a str, by: Option<Peer>) -> BoxFuture<'a, Result<(), SnapshotError>>;
    /// Gives one another name, as [`Self::create`] makes one.
    ///
    /// # Errors
    /// [`SnapshotError::NotFound`], [`SnapshotError::Exists`], [`SnapshotError::BadName`], [`SnapshotError::Denied`].
    fn rename<'a>(
        &'a self,
        name: &'a str,
        new: &'a str,
        by: Option<Peer>,
    ) -> BoxFuture<'a, Result<(), SnapshotError>>;
}

/// A snapshot among those of a pool, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SnapshotId {
    /// Its objset. Another may get the number once it is destroyed.
    pub objset: ObjsetId,
    /// No other ever has this.
    pub guid: u64,
}

/// What is said of the snapshots of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// How many there are.
    pub count: u64,
    /// When one last came, went or got another name, since 1970, if that was noted.
    pub changed: Option<Duration>,
}

/// A snapshot in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSnapshot {
    /// What stands behind the `@`.
    pub name: String,
    /// Its objset.
    pub objset: ObjsetId,
}

/// Why something was not done with a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// There is none of that name, or not any more.
    #[error("there is no such snapshot")]
    NotFound,
    /// One has the name.
    #[error("there is such a snapshot already")]
    Exists,
    /// No snapshot can be called that.
    #[error("no snapshot can be called that")]
    BadName,
    /// The full name would be too long.
    #[error("its name is too long")]
    NameTooLong,
    /// Something keeps it.
    #[error("it is busy")]
    Busy,
    /// The user may not do this.
    #[error("permission denied")]
    Denied,
    /// The pool is full.
    #[error("out of space")]
    NoSpace,
    /// The pool is only read.
    #[error("the pool is only read")]
    ReadOnly,
    /// Anything else, in words.
    #[error("{0}")]
    Failed(String),
}

/// A thread of a program that asked for something to be stable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncingThread {
    /// Its number.
    pub thread: u32,
    /// The process that it is of; its own number where that is not known.
    pub process: u32,
    /// What that is called; none where that is not known.
    pub command: Option<String>,
    /// How often it asked.
    pub syncs: u64,
    /// How long it waited for that in all.
    pub waited: Duration,
}

impl SyncingThread {
    /// One that has not asked yet, of a process that is not known.
    #[must_use]
    pub fn new(thread: u32) -> Self {
        Self { thread, process: thread, command: None, syncs: 0, waited: Duration::ZERO }
    }
}

/// How a file system is mounted.
#[derive(Clone, Debug, Default)]
pub struct MountOptions {
    /// What `mount` shows as the source: the dataset's name.
    pub source: String,
    /// What is to be allowed.
    pub flags: MountFlags,
    /// Also over a directory that is not empty.
    pub overlay: bool,
    /// The system may keep what programs write, until it is asked to make it stable or has kept it for a while.
    pub writeback: bool,
    /// How the control directory is shown.
    pub snapdir: Snapdir,
    /// The directory that no symbolic link on the way to the mount point leads out of. The path of the
    /// mount point begins with this directory.
    pub altroot: Option<PathBuf>,
}

/// How the control directory `.zfs` is shown in the root of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Snapdir {
    /// Not at all.
    Disabled,
    /// Who asks for it by name finds it.
    #[default]
    Hidden,
    /// It is listed.
    Visible,
}

/// What is allowed on a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountFlags {
    /// No changes.
    pub read_only: bool,
    /// Programs run.
    pub exec: bool,
    /// Set-user-id and set-group-id bits count.
    pub setuid: bool,
    /// Device nodes are devices.
    pub devices: bool,
    /// Access times.
    pub access: AccessTimes,
}

impl Default for MountFlags {
    /// Everything is allowed.
    fn default() -> Self {
        Self { read_only: false, exec: true, setuid: true, devices: true, access: AccessTimes::default() }
    }
}

/// When reading a file changes its access time, as far as a mount shows it: who changes it is the
/// file layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessTimes {
    /// `noatime`.
    Never,
    /// `relatime`.
    #[default]
    Relative,
    /// `strictatime`.
    Always,
}

/// Why something was not mounted or unmounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The mount point cannot be made.
    #[error("cannot make mount point {}: {source}", path.display())]
    MountPoint {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something is in the directory already.
    #[error("directory is not empty")]
    NotEmpty {
        /// Which.
        path: PathBuf,
    },
    /// A file system of another process is mounted below, and cannot be unmounted for a moment.
    #[error("it would hide what is mounted below '{}', which is in use", path.display())]
    Hides {
        /// Where.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot mount at {}: {source}", path.display())]
    Refused {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// One mount more could end the process.
    #[error(transparent)]
    Short(#[from] Short),
    /// Files on it are open.
    #[error("pool or dataset is busy")]
    Busy {
        /// Where.
        path: PathBuf,
    },
    /// A bind mount or another mount namespace shows it.
    #[error("pool or dataset is busy: {by} shows the file system")]
    SeenElsewhere {
        /// Where it was mounted.
        path: PathBuf,
        /// What shows it, in words.
        by: String,
    },
    /// Pending requests do not end.
    #[error("requests that are under way at {} do not end", path.display())]
    Unfinished {
        /// The mount point.
        path: PathBuf,
    },
}

/// What there is not enough of for one mount more.
#[derive(Debug, thiserror::Error)]
#[error("not enough {what} left: {used} of {limit} are used; {remedy}")]
pub struct Short {
    /// Of what.
    pub what: &'static str,
    /// How much is used.
    pub used: u64,
    /// How much there is.
    pub limit: u64,
    /// How to have more.
    pub remedy: &'static str,
}
