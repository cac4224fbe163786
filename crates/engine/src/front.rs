//! What shows file systems to programs, as the engine sees it.
//!
//! ```text
//!  engine ── Front::mount(file system, place) ─► Box<dyn Mounted> ── unmount, remount, write back
//!                 ▲
//!         front-fuse, on this machine; a front of the simulator's, in a test
//! ```
//! The engine decides what is shown, where, and with which flags; a front knows how. Its methods may block the
//! thread that calls them, which is the thread of the request alone.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use zpl::Zfs;

/// A way for programs to reach file systems by paths.
pub trait Front: Send + Sync + 'static {
    /// Mounts `zfs` at `place`, which is made if it is not there.
    ///
    /// # Errors
    /// When something is in the way, or the system refuses.
    fn mount(
        &self,
        zfs: Arc<Zfs>,
        place: &Path,
        options: &MountOptions,
    ) -> Result<Box<dyn Mounted>, MountError>;
    /// Whether nothing is at `place` that a mount there would hide.
    fn is_free(&self, place: &Path) -> bool;
    /// Takes away a directory that mounting made, if nothing is in it.
    fn forget(&self, place: &Path);
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
    /// Unmounts it, unless files on it are open and `force` is not given. When it returns, what was
    /// written is stable.
    ///
    /// # Errors
    /// [`MountError::Busy`]; the file system stays mounted then.
    fn unmount(&self, force: bool) -> Result<(), MountError>;
    /// Has the system hand over what programs have changed in pages that were mapped: nobody need have the
    /// file open any more.
    ///
    /// # Errors
    /// The system's.
    fn write_back(&self) -> io::Result<()>;
    /// Changes what is allowed, for files that are open too.
    ///
    /// # Errors
    /// When files are open for writing on what is to be read only; users cannot at all.
    fn remount(&self, flags: MountFlags) -> Result<(), MountError>;
    /// Threads that asked for something to be stable, as far as they are known.
    fn syncing_threads(&self) -> Vec<SyncingThread>;
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
