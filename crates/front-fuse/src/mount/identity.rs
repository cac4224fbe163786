//! The numbers by which the kernel knows a mount.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{AtFlags, Dev, StatxFlags, makedev, statx};

/// A mount, wherever it is. The kernel gives both numbers again, but the device's not before the
/// connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MountIdentity {
    /// The number of the mount; each copy has another.
    pub id: u64,
    /// The device number of the file system; of a FUSE file system, its minor is the number of the
    /// connection.
    pub device: Dev,
}

impl MountIdentity {
    /// Returns the mount in which a file was opened. No request reaches a FUSE server.
    ///
    /// # Errors
    /// The system's.
    pub fn of(opened: impl AsFd) -> io::Result<Self> {
        let id = mount_id(&opened)?;
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let found = statx(opened, "", flags, StatxFlags::empty())?;
        Ok(Self { id, device: makedev(found.stx_dev_major, found.stx_dev_minor) })
    }
}

/// Returns the number of the mount in which a file was opened. statx(2) returns the number too, but
/// only since Linux 5.8.
///
/// # Errors
/// The system's.
pub(super) fn mount_id(opened: impl AsFd) -> io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", opened.as_fd().as_raw_fd()))?;
    let number = text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    number.ok_or_else(|| io::Error::other("/proc/self/fdinfo has no number of a mount"))
}
