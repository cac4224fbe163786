//! A mount point, held by descriptors: whatever happens to its path, it is the same directory.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, Mode, OFlags, openat};
use rustix::io::Errno;

use super::table::KernelMounts;
use super::walk::PathWalk;

/// A directory on which a file system is to be mounted.
pub(super) struct MountPoint {
    pub entry: PointEntry,
    /// The directory, or the root of what is mounted on it.
    pub directory: OwnedFd,
}

/// The name of a mount point in its parent directory. A descriptor of the mounted file system would
/// keep it busy; a descriptor of the parent does not.
pub(super) struct PointEntry {
    pub parent: OwnedFd,
    pub name: OsString,
}

impl MountPoint {
    /// Opens a mount point. Makes the directories that are missing. Below `altroot`, which the path
    /// begins with, no link and no `..` leads out of it.
    ///
    /// # Errors
    /// The system's; an error in words that names a component of the path which a user may change.
    pub fn make(path: &Path, altroot: Option<&Path>) -> io::Result<Self> {
        let mut walk = PathWalk::from_root()?.making_directories();
        let rest = walk.enter_altroot(path, altroot)?;
        walk.walk(rest)?;
        walk.into_point()
    }

    /// Opens a mount point, if it is there.
    ///
    /// # Errors
    /// As [`Self::make`].
    pub fn find(path: &Path) -> io::Result<Self> {
        let mut walk = PathWalk::from_root()?;
        walk.walk(path)?;
        walk.into_point()
    }

    /// # Errors
    /// The system's.
    pub fn is_empty(&self) -> io::Result<bool> {
        is_empty(&self.directory)
    }
}

/// # Errors
/// The system's.
pub(super) fn is_empty(directory: &OwnedFd) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    for entry in Dir::new(openat(directory, ".", flags, Mode::empty())?)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

impl PointEntry {
    /// Opens the parent of a place in the kernel's table of mounts, which has no links in its paths.
    ///
    /// # Errors
    /// The system's, and as [`MountPoint::make`]: something else may be mounted above the place.
    pub fn of_mount(at: &Path, mounts: KernelMounts) -> io::Result<Self> {
        let mut walk = PathWalk::from_root()?.refusing_links().knowing(mounts);
        match (at.parent(), at.file_name()) {
            (Some(parent), Some(name)) => {
                walk.walk(parent)?;
                Ok(Self { parent: walk.into_point()?.directory, name: name.to_owned() })
            }
            _ => Ok(walk.into_point()?.entry),
        }
    }

    /// Opens the root of what is mounted here, or the directory, as a place and not for reading.
    /// Links are not followed, and no request reaches a FUSE server that is mounted here.
    ///
    /// # Errors
    /// The system's.
    pub fn open(&self) -> Result<OwnedFd, Errno> {
        open_directory(&self.parent, &self.name)
    }

    /// Returns a path for calls that take no descriptor. The name itself may be a link by now.
    pub fn path(&self) -> PathBuf {
        path_of(self.parent.as_fd()).join(&self.name)
    }
}

/// Returns a path that leads to what a descriptor was opened on.
pub(super) fn path_of(opened: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}

/// # Errors
/// The system's; `ENOTDIR` or `ELOOP` for a link.
pub(super) fn open_directory(parent: impl AsFd, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

/// # Errors
/// The system's.
pub(super) fn open_root() -> Result<OwnedFd, Errno> {
    open_directory(CWD, "/")
}
