//! What we tell the kernel without being asked.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use rustix::io::writev;
use zerocopy::{Immutable, IntoBytes};

use crate::abi::{
    NOTIFY_INVAL_ENTRY, NOTIFY_INVAL_INODE, NotifyInvalEntryOut, NotifyInvalInodeOut, OutHeader,
};

/// Speaks to the kernel through a session's device, as long as the session lives: the device goes with it, whoever still
/// has one of these.
#[derive(Clone)]
pub(crate) struct Notifier(Weak<OwnedFd>);

impl Notifier {
    pub fn new(device: &Arc<OwnedFd>) -> Self {
        Self(Arc::downgrade(device))
    }

    /// The kernel is to ask for the attributes of `inode` again before it uses them.
    pub fn forget_attributes(&self, inode: u64) {
        // A negative offset leaves the pages alone.
        let out = NotifyInvalInodeOut { ino: inode, off: -1, len: 0 };
        // It refuses what it does not remember.
        let _unknown = self.send(NOTIFY_INVAL_INODE, &out);
    }

    /// The kernel is to read `inode` again, and to ask for its attributes.
    pub fn forget_pages(&self, inode: u64) {
        // No length is all of it.
        let out = NotifyInvalInodeOut { ino: inode, off: 0, len: 0 };
        // It refuses what it does not remember.
        let _unknown = self.send(NOTIFY_INVAL_INODE, &out);
    }

    /// Makes the kernel drop the pages with these bytes. Returns when the kernel has written the
    /// changed ones. Must not run on a loop, because loops serve the WRITE requests that it causes.
    pub fn forget_range(&self, inode: u64, range: Range<u64>) {
        let off = i64::try_from(range.start).unwrap_or(i64::MAX);
        // A length of 0 means everything up to the end.
        let len = i64::try_from(range.end).map_or(0, |end| end.saturating_sub(off));
        let out = NotifyInvalInodeOut { ino: inode, off, len };
        // The kernel refuses inodes that it does not remember.
        let _unknown = self.send(NOTIFY_INVAL_INODE, &out);
    }

    /// Makes the kernel look `name` up again. Waits for any operation on the directory that is
    /// under way.
    pub fn forget_name(&self, dir: u64, name: &[u8]) {
        let out = NotifyInvalEntryOut { parent: dir, namelen: name.len() as u32, flags: 0 };
        // The kernel refuses names that it does not remember.
        let _unknown = self.send_with(NOTIFY_INVAL_ENTRY, &out, &[name, b"\0"].concat());
    }

    fn send<T: IntoBytes + Immutable>(&self, code: i32, body: &T) -> io::Result<()> {
        self.send_with(code, body, &[])
    }

    fn send_with<T: IntoBytes + Immutable>(&self, code: i32, body: &T, rest: &[u8]) -> io::Result<()> {
        let len = (size_of::<OutHeader>() + size_of::<T>() + rest.len()) as u32;
        // What answers no request has no number.
        let header = OutHeader { len, error: code, unique: 0 };
        let parts = [header.as_bytes(), body.as_bytes(), rest].map(IoSlice::new);
        let device = self.0.upgrade().ok_or(io::ErrorKind::NotConnected)?;
        writev(&device, &parts)?;
        Ok(())
    }
}
