//! Root's way: the calls of the kernel that mount and unmount.

use std::ffi::CString;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{Dev, Mode, OFlags, fstatvfs, minor, openat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount as mount2, mount_remount, move_mount,
    unmount,
};
use rustix::process::{getegid, geteuid};

use engine::{MountFlags, MountOptions};

use super::flags;
use super::identity::MountIdentity;
use super::point::{MountPoint, PointEntry, path_of};
use crate::connection;

/// `fuse` is the kernel's, `sawmill` is ours; `mount` and `df -t` know us by it.
const KIND: &str = "fuse";
const SUBTYPE: &str = "sawmill";

/// Mounts a file system. Returns the device through which requests come.
///
/// # Errors
/// The kernel's; `EPERM` for users.
pub(super) fn mount(point: &MountPoint, options: &MountOptions) -> io::Result<(OwnedFd, MountIdentity)> {
    attach(point, options).or_else(|error| {
        // Before Linux 5.4, and in some containers.
        tracing::debug!(%error, "the file system is mounted by mount(2)");
        mount_at(point, options)
    })
}

/// Attaches a new mount to the directory of the mount point, by no path.
fn attach(point: &MountPoint, options: &MountOptions) -> io::Result<(OwnedFd, MountIdentity)> {
    let device = connection::open()?;
    let context = fsopen(KIND, FsOpenFlags::FSOPEN_CLOEXEC)?;
    let (descriptor, user, group) = numbers(&device);
    for (key, value) in [
        ("source", options.source.as_str()),
        ("subtype", SUBTYPE),
        ("fd", &descriptor),
        ("rootmode", "40000"),
        ("user_id", &user),
        ("group_id", &group),
    ] {
        fsconfig_set_string(&context, key, value)?;
    }
    // The kernel checks rights by modes and owners, for everybody.
    let read_only = options.flags.read_only.then_some("ro");
    for flag in ["default_permissions", "allow_other"].into_iter().chain(read_only) {
        fsconfig_set_flag(&context, flag)?;
    }
    fsconfig_create(&context)?;
    let attributes: MountAttrFlags = flags::attributes(options.flags);
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    let identity = MountIdentity::of(&mount)?;
    let by_descriptors = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(&mount, "", &point.directory, "", by_descriptors)?;
    Ok((device, identity))
}

/// The same by the call of older kernels. Its path leads to the descriptor.
fn mount_at(point: &MountPoint, options: &MountOptions) -> io::Result<(OwnedFd, MountIdentity)> {
    let device = connection::open()?;
    let (descriptor, user, group) = numbers(&device);
    let data = format!(
        "fd={descriptor},rootmode=40000,user_id={user},group_id={group},default_permissions,allow_other"
    );
    let data = CString::new(data).expect("numbers and words");
    let kind = format!("{KIND}.{SUBTYPE}");
    let path = path_of(point.directory.as_fd());
    mount2(options.source.as_str(), path, kind, flags::kernel(options.flags), data.as_c_str())?;
    match point.entry.open().map_err(io::Error::from).and_then(MountIdentity::of) {
        Ok(identity) => Ok((device, identity)),
        Err(error) => {
            let _not_there = detach(&point.entry);
            Err(error)
        }
    }
}

/// The device, the user and the group, as the kernel expects them.
fn numbers(device: &OwnedFd) -> (String, String, String) {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    (device.as_raw_fd().to_string(), user.to_string(), group.to_string())
}

/// Unmounts what is mounted, if it is not in use.
///
/// # Errors
/// The kernel's: `EBUSY`, `EPERM` for users.
pub(super) fn leave(entry: &PointEntry) -> io::Result<()> {
    Ok(unmount(entry.path(), UnmountFlags::NOFOLLOW)?)
}

/// Breaks the connection with the server, then unmounts what is mounted, if it is not in use.
///
/// # Errors
/// As [`leave`].
pub(super) fn break_off(entry: &PointEntry) -> io::Result<()> {
    Ok(unmount(entry.path(), UnmountFlags::NOFOLLOW | UnmountFlags::FORCE)?)
}

/// Takes what is mounted out of the tree, also if it is in use.
///
/// # Errors
/// The kernel's; `EPERM` for users.
pub(super) fn detach(entry: &PointEntry) -> io::Result<()> {
    Ok(unmount(entry.path(), UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)?)
}

/// Changes what is allowed on a mount, which is given by its root.
///
/// # Errors
/// `EBUSY` when it is to be read only and files are open for writing.
pub(super) fn remount(root: &OwnedFd, flags: MountFlags) -> io::Result<()> {
    Ok(mount_remount(path_of(root.as_fd()), flags::kernel(flags), "")?)
}

/// Makes the kernel drop the unused dentries of a mount, and with them the caches of their inodes.
/// The kernel does so at every remount, so this remounts the file system with its present flags.
///
/// # Errors
/// The error of the kernel.
pub(super) fn drop_dentries(root: &OwnedFd) -> io::Result<()> {
    let now = fstatvfs(root)?.f_flag;
    Ok(mount_remount(path_of(root.as_fd()), flags::as_now(now), "")?)
}

/// Breaks a connection, wherever its file system is mounted.
///
/// # Errors
/// The kernel's.
pub(super) fn abort(device: Dev) -> io::Result<()> {
    let file = format!("{}/abort", minor(device));
    std::fs::write(format!("/sys/fs/fuse/connections/{file}"), "1").or_else(|_| {
        // The directory of connections is mounted nowhere, so it is mounted here, where nobody sees it.
        let context = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let connections = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
        let abort = openat(connections, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        std::fs::File::from(abort).write_all(b"1")
    })
}

#[cfg(test)]
mod tests {
    use engine::AccessTimes;

    use super::super::table::KernelMounts;
    use super::super::tests::{alone, line_of};
    use super::*;

    #[test]
    fn a_mount_looks_the_same_whichever_call_made_it() {
        alone("mount::kernel::tests::a_mount_looks_the_same_whichever_call_made_it", |dir| {
            let point = || MountPoint::make(&dir.join("data"), None).expect("a directory");
            for access in [AccessTimes::Never, AccessTimes::Relative, AccessTimes::Always] {
                for is_set in [false, true] {
                    let flags = MountFlags {
                        read_only: is_set,
                        exec: is_set,
                        setuid: is_set,
                        devices: !is_set,
                        access,
                    };
                    let options =
                        MountOptions { source: "tank/a,b c".to_owned(), flags, ..MountOptions::default() };
                    let lines = [attach, mount_at].map(|mount| {
                        let (_device, identity) = mount(&point(), &options).expect("mounted");
                        let line = line_of(identity);
                        let entry = point().entry;
                        leave(&entry).expect("unmounted");
                        line
                    });
                    assert_eq!(lines[0], lines[1]);
                    assert!(lines[0].contains(" - fuse.sawmill tank/a,b\\040c "), "{}", lines[0]);
                }
            }
        });
    }

    #[test]
    fn a_connection_is_broken_wherever_its_file_system_is_mounted() {
        alone("mount::kernel::tests::a_connection_is_broken_wherever_its_file_system_is_mounted", |dir| {
            let point = MountPoint::make(&dir.join("data"), None).expect("a directory");
            let options = MountOptions { source: "tank".to_owned(), ..MountOptions::default() };
            let (device, identity) = attach(&point, &options).expect("mounted");
            rustix::fs::fcntl_setfl(&device, OFlags::NONBLOCK).expect("set");
            let mut request = vec![0; 1 << 20];
            let first = connection::try_receive(&device, &mut request).expect("the kernel speaks");
            assert!(first.is_some(), "the handshake begins");
            let _open = point.entry.open().expect("the root");
            detach(&point.entry).expect("hidden");
            assert!(KernelMounts::read().expect("a table").find(identity).is_none());
            abort(identity.device).expect("told");
            connection::try_receive(&device, &mut request).expect_err("the kernel has hung up");
        });
    }
}
