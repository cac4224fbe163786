//! What a front asks of the system that only root may do.
//!
//! ```text
//!  a daemon of root:      Fuse ─► OwnMounter ─► the kernel
//!  a process of a pool:   Fuse ─► its broker ─► the daemon ─► OwnMounter ─► the kernel
//! ```
//! The requests of programs do not come here: they come by the device that [`Mounter::attach`] returns.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::{MountError, MountFlags, MountOptions, OrphanMount, PlaceChoice, UserIds};
use rustix::fs::{AtFlags, fstatvfs, statvfs, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::attached::{AttachedMount, MountInUse};
use super::point::MountPoint;
use super::table::KernelMounts;
use super::{claim, helper, kernel};
use crate::requester;

/// The longest wait for the answer of a mount that may be an orphan.
const ORPHAN_WAIT: Duration = Duration::from_secs(1);

/// Mounts file systems, and answers what only root can find out.
pub trait Mounter: Send + Sync + 'static {
    /// Mounts a file system at `path`. Makes the directory if it is missing. Returns the device through which requests
    /// come, and the mount. A mount at `path` whose server was killed is taken away.
    ///
    /// # Errors
    /// Where the place cannot be used, or the kernel refuses.
    fn attach(
        &self,
        path: &Path,
        options: &MountOptions,
    ) -> Result<(Arc<OwnedFd>, Arc<dyn Attachment>), MountError>;
    /// True if nothing is at `path` that a mount there would hide, and also where a mount will be refused.
    fn is_free(&self, path: &Path) -> bool;
    /// Removes an empty directory.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// See [`engine::Front::may_claim`].
    ///
    /// # Errors
    /// The system's; in words, why a mount at the place would be refused.
    fn may_claim(
        &self,
        user: &UserIds,
        place: &Path,
        altroot: Option<&Path>,
        how: PlaceChoice,
    ) -> io::Result<bool>;
    /// See [`engine::Front::orphans`].
    fn orphans(&self, pool: &str) -> Vec<OrphanMount>;
    /// True if the thread that makes a request may change snapshots and see attributes of the system.
    fn may_administer(&self, thread: u32) -> bool;
    /// The user who makes a request, if that is not root and is known here.
    fn user(&self, thread: u32) -> Option<UserIds>;
}

/// A mount among the kernel's mounts, at its present place.
pub trait Attachment: Send + Sync + 'static {
    /// Requests of programs are served from now on. Mounts of others that stepped aside for this mount come back, and
    /// the kernel has to ask this mount for their places.
    fn begin_service(&self) {}
    /// True if `fusermount3` was not needed, so that the mount can be changed.
    fn is_changeable(&self) -> bool;
    /// True if the mount is what its path leads to.
    fn is_reached(&self) -> bool;
    /// True if the mount was taken away.
    fn is_gone(&self) -> bool;
    /// True if something is mounted in its directories, or nobody knows.
    fn has_mounts_below(&self) -> bool;
    /// Returns what shows the file system beside this mount, in words: a bind mount, or another mount namespace.
    fn seen_elsewhere(&self) -> Option<String>;
    /// Opens the root as a place (`O_PATH`); `None` if the mount is not reached. The mount is in use until the result
    /// is closed.
    fn root(&self) -> Option<OwnedFd>;
    /// Opens the root directory for reading; `None` if the mount is not reached.
    ///
    /// # Errors
    /// The system's.
    fn directory(&self) -> io::Result<Option<File>>;
    /// Waits until a file that the kernel remembers has been handed over with all that was changed in it before.
    /// `directory` is from [`Self::directory`].
    ///
    /// # Errors
    /// As [`device::wait_for_pages`].
    fn wait_for_pages(&self, directory: &File, inode: u64, generation: u32) -> io::Result<()>;
    /// Makes the kernel drop the unused dentries of the mount. `root` is from [`Self::root`].
    ///
    /// # Errors
    /// The kernel's.
    fn drop_dentries(&self, root: &OwnedFd) -> io::Result<()>;
    /// Changes what is allowed on the mount.
    ///
    /// # Errors
    /// The kernel's; where the mount is not reached or not changeable.
    fn remount(&self, flags: MountFlags) -> io::Result<()>;
    /// Unmounts the mount, if it is not in use. What else shows the file system goes on to do so.
    ///
    /// # Errors
    /// [`MountInUse`]. Nothing is unmounted then.
    fn unmount(&self) -> Result<(), MountInUse>;
    /// Breaks the kernel's connection with the server, and takes the mount away if it can be reached.
    fn hang_up(&self);
}

/// Mounts with the rights of this process; for other users than root by `fusermount3`.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnMounter;

impl Mounter for OwnMounter {
    fn attach(
        &self,
        path: &Path,
        options: &MountOptions,
    ) -> Result<(Arc<OwnedFd>, Arc<dyn Attachment>), MountError> {
        let point = make_point(path, options.altroot.as_deref(), options.overlay)?;
        let refused = |source| MountError::Refused { path: path.to_owned(), source };
        let (device, attached) = AttachedMount::attach(&point, options).map_err(refused)?;
        Ok((device, Arc::new(attached)))
    }

    fn is_free(&self, path: &Path) -> bool {
        MountPoint::find(path).and_then(|point| point.is_empty()).unwrap_or(true)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        let parent = MountPoint::find(parent)?.directory;
        Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?)
    }

    fn may_claim(
        &self,
        user: &UserIds,
        place: &Path,
        altroot: Option<&Path>,
        how: PlaceChoice,
    ) -> io::Result<bool> {
        claim::may_claim(user, place, altroot, how)
    }

    fn orphans(&self, pool: &str) -> Vec<OrphanMount> {
        let mounts = match KernelMounts::read() {
            Ok(mounts) => mounts.of_pool(pool, geteuid().as_raw()),
            Err(error) => {
                tracing::warn!(%error, "the table of mounts cannot be read");
                Vec::new()
            }
        };
        mounts.into_iter().filter(|mount| is_orphan(&mount.place)).collect()
    }

    fn may_administer(&self, thread: u32) -> bool {
        requester::may_administer(thread)
    }

    fn user(&self, thread: u32) -> Option<UserIds> {
        requester::user_of(thread)
    }
}

/// Opens the mount point, and takes away a mount there whose server was killed.
pub(super) fn make_point(
    path: &Path,
    altroot: Option<&Path>,
    overlay: bool,
) -> Result<MountPoint, MountError> {
    let failed = |source| MountError::MountPoint { path: path.to_owned(), source };
    let make = || MountPoint::make(&std::path::absolute(path)?, altroot);
    let mut point = make().map_err(failed)?;
    if detach_stale(&point) {
        point = make().map_err(failed)?;
    }
    if !overlay && !point.is_empty().map_err(failed)? {
        return Err(MountError::NotEmpty { path: path.to_owned() });
    }
    Ok(point)
}

/// Returns true if a mount was taken away.
fn detach_stale(point: &MountPoint) -> bool {
    let asked = fstatvfs(&point.directory);
    asked.is_err_and(is_of_no_server)
        && (kernel::detach(&point.entry).is_ok() || helper::unmount(&point.entry, true).is_ok())
}

/// Returns true if a request fails with this error because the server of the file system was
/// killed. The first request fails with `ECONNABORTED`, later requests with `ENOTCONN`. Names and
/// attributes that are in the kernel's cache can still be read.
fn is_of_no_server(error: Errno) -> bool {
    matches!(error, Errno::NOTCONN | Errno::CONNABORTED)
}

/// Returns true if the server of the file system at a place, or of a file system above, was killed.
/// The wait for an answer is short, because a server that lives may not answer.
fn is_orphan(place: &Path) -> bool {
    let asked = place.to_owned();
    let answer = claim::on_a_thread(move || statvfs(&asked));
    let answer = answer.map(|answer| answer.recv_timeout(ORPHAN_WAIT));
    matches!(answer, Ok(Ok(Err(error))) if is_of_no_server(error))
}
