//! `mount(2)`: root's way.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::statvfs;
use rustix::mount::{mount as mount2, mount_remount};
use rustix::process::{getegid, geteuid};

use engine::{MountFlags, MountOptions};

use super::flags;
use crate::connection;

/// `fuse` is the kernel's, what follows is ours; `mount` and `df -t` know us by it.
const TYPE: &str = "fuse.sawmill";

/// Mounts at `path`; gives the device through which requests come.
///
/// # Errors
/// The kernel's; `EPERM` for users.
pub(super) fn mount(path: &Path, options: &MountOptions) -> io::Result<OwnedFd> {
    let device = connection::open()?;
    // The kernel checks rights by modes and owners, for everybody.
    let data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions,allow_other",
        device.as_raw_fd(),
        geteuid().as_raw(),
        getegid().as_raw(),
    );
    let data = CString::new(data).expect("numbers and words");
    mount2(options.source.as_str(), path, TYPE, flags::kernel(options.flags), data.as_c_str())?;
    Ok(device)
}

/// Changes what is allowed on a mount.
///
/// # Errors
/// `EBUSY` when it is to be read only and files are open for writing.
pub(super) fn remount(path: &Path, flags: MountFlags) -> io::Result<()> {
    Ok(mount_remount(path, flags::kernel(flags), "")?)
}

/// Makes the kernel drop the unused dentries of a mount, and with them the caches of their inodes.
/// The kernel does so at every remount, so this remounts the file system with its present flags.
///
/// # Errors
/// The error of the kernel.
pub(super) fn drop_dentries(path: &Path) -> io::Result<()> {
    let now = statvfs(path)?.f_flag;
    Ok(mount_remount(path, flags::as_now(now), "")?)
}
