//! What a mounted file system has beside its files: its world, and the kernel's numbers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use device::RealEnv;
use fuser::{FopenFlags, Generation, OpenFlags, ReplyEntry, Request};
use zpl::{Attributes, Cred, Result, Zfs};

use crate::attr::Inodes;
use crate::errno::errno;

/// How long the kernel may believe attributes and names. Nobody but the kernel changes the file
/// system, but allocated sizes move when groups sync.
pub(crate) const TTL: Duration = Duration::from_secs(1);

/// A file system as the session's threads see it.
pub(crate) struct Files {
    pub env: Arc<RealEnv>,
    pub zfs: Arc<Zfs>,
    pub inodes: Inodes,
}

impl Files {
    pub fn new(env: Arc<RealEnv>, zfs: Arc<Zfs>) -> Self {
        let inodes = Inodes { root: zfs.root() };
        Self { env, zfs, inodes }
    }

    /// Runs a request to its end on this thread.
    pub fn run<T>(&self, request: impl Future<Output = T>) -> T {
        self.env.block_on(request)
    }

    pub fn reply_entry(&self, found: Result<Attributes>, reply: ReplyEntry) {
        match found {
            Ok(found) => reply.entry(&TTL, &self.inodes.attr(&found), Generation(found.generation)),
            Err(error) => reply.error(errno(&error)),
        }
    }
}

pub(crate) fn cred(request: &Request, umask: u32) -> Cred {
    Cred { uid: request.uid(), gid: request.gid(), umask }
}

/// Whether every write through this handle must be stable before it returns.
pub(crate) fn is_sync(flags: OpenFlags) -> bool {
    flags.0 & (libc::O_DSYNC | libc::O_SYNC) != 0
}

/// Writes of a synchronous handle come directly, so that each is one request; others go through
/// the kernel's cache, which keeps what it has read.
pub(crate) fn fopen_flags(flags: OpenFlags) -> FopenFlags {
    if is_sync(flags) || flags.0 & libc::O_DIRECT != 0 {
        FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
    } else {
        FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH
    }
}
