//! A mount of ours among the kernel's mounts, found by its numbers and not by the path where it was made.
//!
//! ```text
//!  has the kernel hung up? ── yes ──► Gone, and others may get the numbers
//!  in the table? ── no ──► Gone
//!       │ its present path, without links: is ours what is mounted there?
//!       ├── no ──► Covered
//!       └── yes ─► Reached: umount2(/proc/self/fd/PARENT/NAME, UMOUNT_NOFOLLOW)
//! ```
//! A parent directory may have another name by now, a link may lead elsewhere, the mount may have been
//! moved. The name is looked up twice: to check the mount, and to unmount it. Whoever makes it lead to
//! another mount between these two owns the parent directory, and that mount is in the same directory.
//!
//! Invariants
//! - What is unmounted is the mount that was made, wherever it is.
//!   (test: `an_unmount_finds_its_mount_where_it_is_now`)
//! - No other mount is unmounted. (test: `an_unmount_leaves_other_mounts_alone`)

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, openat};

use engine::{MountFlags, MountOptions};

use super::identity::{MountIdentity, mount_id};
use super::mounter::Attachment;
use super::point::{MountPoint, PointEntry};
use super::table::KernelMounts;
use super::{helper, kernel, namespaces};

/// How often an unmount looks for a mount that is moved meanwhile.
const LOOKS: usize = 8;

/// The program that mounted a file system, which alone can unmount it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MountedBy {
    /// The daemon.
    Us,
    /// `fusermount3`, for users.
    Helper,
}

/// See the module.
#[derive(Clone)]
pub(super) struct AttachedMount {
    by: MountedBy,
    identity: MountIdentity,
    /// The device of the session. As long as the connection lives, no other file system gets its number.
    device: Weak<OwnedFd>,
}

/// Where a mount is by now.
enum Presence {
    /// It is what a path leads to.
    Reached(PointEntry),
    /// Something was mounted over it or over a directory above it.
    /// (test: `what_is_mounted_over_another_is_in_its_way`)
    Covered,
    /// It was taken away, and ends with the last file that is open there.
    Gone,
}

/// A mount is in use, and is there still.
#[derive(Debug, PartialEq, Eq)]
pub struct MountInUse;

impl AttachedMount {
    /// Mounts a file system. Returns the device through which requests come.
    ///
    /// # Errors
    /// The kernel's, or what the helper says.
    pub fn attach(point: &MountPoint, options: &MountOptions) -> io::Result<(Arc<OwnedFd>, Self)> {
        let (by, mounted) = match kernel::mount(point, options) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                (MountedBy::Helper, helper::mount(point, options))
            }
            mounted => (MountedBy::Us, mounted),
        };
        let (device, identity) = mounted?;
        let device = Arc::new(device);
        let attached = Self { by, identity, device: Arc::downgrade(&device) };
        Ok((device, attached))
    }

    /// Looks for the mount. Without the kernel's table it cannot be reached.
    fn presence(&self) -> Presence {
        KernelMounts::read().map_or(Presence::Covered, |mounts| self.presence_among(mounts))
    }

    fn presence_among(&self, mounts: KernelMounts) -> Presence {
        let Some(at) = mounts.find(self.identity).map(|line| line.at.clone()) else { return Presence::Gone };
        let entry = PointEntry::of_mount(&at, mounts);
        let reached = entry.ok().filter(|entry| self.opened(entry).is_some());
        // Checked last: what has been found by its numbers until now is ours.
        match reached {
            _ if !self.is_connected() => Presence::Gone,
            Some(entry) => Presence::Reached(entry),
            None => Presence::Covered,
        }
    }

    /// True as long as the kernel has not hung up.
    fn is_connected(&self) -> bool {
        let Some(device) = self.device.upgrade() else { return false };
        let mut polled = [PollFd::new(&device, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // It fails when a signal comes, which says nothing.
        poll(&mut polled, Some(&now)).is_err() || !polled[0].revents().contains(PollFlags::ERR)
    }

    /// Opens the root as a place, if the mount is what the entry leads to.
    fn opened(&self, entry: &PointEntry) -> Option<OwnedFd> {
        let root = entry.open().ok()?;
        mount_id(&root).is_ok_and(|id| id == self.identity.id).then_some(root)
    }

    fn reached(&self) -> Option<PointEntry> {
        match self.presence() {
            Presence::Reached(entry) => Some(entry),
            Presence::Covered | Presence::Gone => None,
        }
    }

    /// Checks that a descriptor is of this mount.
    fn check(&self, opened: impl AsFd) -> io::Result<()> {
        match mount_id(opened)? == self.identity.id && self.is_connected() {
            true => Ok(()),
            false => Err(io::Error::other("it was opened in another mount")),
        }
    }

    fn leave(&self, entry: &PointEntry) -> io::Result<()> {
        match self.by {
            MountedBy::Us => kernel::leave(entry),
            MountedBy::Helper => helper::unmount(entry, false),
        }
    }
}

impl Attachment for AttachedMount {
    fn is_changeable(&self) -> bool {
        self.by == MountedBy::Us
    }

    fn is_reached(&self) -> bool {
        self.reached().is_some()
    }

    fn is_gone(&self) -> bool {
        !self.is_connected() || KernelMounts::read().is_ok_and(|mounts| mounts.find(self.identity).is_none())
    }

    fn has_mounts_below(&self) -> bool {
        KernelMounts::read().map_or(true, |mounts| mounts.has_below(self.identity.device))
    }

    fn seen_elsewhere(&self) -> Option<String> {
        // The connection is checked before and after: the kernel gives the numbers of an ended connection to other mounts.
        let seen = if self.is_connected() { namespaces::seen_elsewhere(self.identity) } else { None };
        seen.filter(|_| self.is_connected())
    }

    fn root(&self) -> Option<OwnedFd> {
        self.opened(&self.reached()?)
    }

    fn directory(&self) -> io::Result<Option<File>> {
        let Some(root) = self.root() else { return Ok(None) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Some(openat(root, ".", flags, Mode::empty())?.into()))
    }

    fn wait_for_pages(&self, directory: &File, inode: u64, generation: u32) -> io::Result<()> {
        self.check(directory)?;
        device::wait_for_pages(directory, inode, generation)
    }

    fn drop_dentries(&self, root: &OwnedFd) -> io::Result<()> {
        self.check(root)?;
        kernel::drop_dentries(root)
    }

    fn remount(&self, flags: MountFlags) -> io::Result<()> {
        if self.by == MountedBy::Helper {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "fusermount3 cannot remount"));
        }
        let covered = || io::Error::other("another file system is mounted over it");
        kernel::remount(&self.root().ok_or_else(covered)?, flags)
    }

    fn unmount(&self) -> Result<(), MountInUse> {
        for _ in 0..LOOKS {
            if !self.is_connected() {
                return Ok(());
            }
            let mounts = KernelMounts::read().map_err(|_unknown| MountInUse)?;
            let left = match self.presence_among(mounts) {
                Presence::Gone => return Ok(()),
                Presence::Covered => return Err(MountInUse),
                Presence::Reached(entry) => self.leave(&entry),
            };
            if left.is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy) {
                return Err(MountInUse);
            }
        }
        Err(MountInUse)
    }

    fn hang_up(&self) {
        let entry = self.reached();
        // Root's way; with files open it still says "busy", but has hung up.
        if entry.as_ref().is_some_and(|entry| kernel::break_off(entry).is_ok()) {
            return;
        }
        if self.is_connected() {
            let _forbidden = kernel::abort(self.identity.device);
        }
        let Some(entry) = entry.filter(|entry| self.opened(entry).is_some()) else { return };
        if kernel::detach(&entry).is_err() {
            let _still_there = helper::unmount(&entry, true);
        }
    }
}
