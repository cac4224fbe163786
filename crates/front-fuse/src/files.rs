//! A mounted file system as the kernel asks for it: which request is answered by which method.

use std::future::Future;
use std::sync::Arc;

use device::RealEnv;
use rustix::io::Errno;
use zpl::{Attributes, Zfs};

use crate::abi::opcode;
use crate::attr::Inodes;
use crate::errno::errno;
use crate::notifier::Notifier;
use crate::reply::Reply;
use crate::request::Request;

/// Whether the kernel waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// What stands in the [`Reply`].
    Due,
    /// The kernel only tells something.
    None,
}

/// A file system as the session's threads see it.
pub(crate) struct Files {
    pub env: Arc<RealEnv>,
    pub zfs: Arc<Zfs>,
    pub inodes: Inodes,
    pub notifier: Notifier,
}

impl Files {
    pub fn new(env: Arc<RealEnv>, zfs: Arc<Zfs>, notifier: Notifier) -> Self {
        let inodes = Inodes { root: zfs.root() };
        Self { env, zfs, inodes, notifier }
    }

    /// Does what a request asks for, to its end on this thread.
    ///
    /// # Errors
    /// What the program is to see; `ENOSYS` for what is not served at all, which the kernel then asks for
    /// no more.
    pub fn serve(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<Answer, Errno> {
        match request.header.opcode {
            opcode::LOOKUP => self.lookup(request, reply)?,
            opcode::FORGET | opcode::BATCH_FORGET | opcode::NOTIFY_REPLY => return Ok(Answer::None),
            opcode::GETATTR => self.getattr(request, reply)?,
            opcode::SETATTR => self.setattr(request, reply)?,
            opcode::READLINK => self.readlink(request, reply)?,
            opcode::SYMLINK => self.symlink(request, reply)?,
            opcode::MKNOD => self.mknod(request, reply)?,
            opcode::MKDIR => self.mkdir(request, reply)?,
            opcode::UNLINK => self.unlink(request)?,
            opcode::RMDIR => self.rmdir(request)?,
            opcode::RENAME => self.rename(request)?,
            opcode::RENAME2 => self.rename2(request)?,
            opcode::LINK => self.link(request, reply)?,
            opcode::OPEN => self.open(request, reply)?,
            opcode::CREATE => self.create(request, reply)?,
            opcode::TMPFILE => self.tmpfile(request, reply)?,
            opcode::READ => self.read(request, reply)?,
            opcode::WRITE => self.write(request, reply)?,
            opcode::FALLOCATE => self.fallocate(request)?,
            opcode::LSEEK => self.lseek(request, reply)?,
            // Writes have arrived when they returned; nothing waits here.
            opcode::FLUSH => {}
            opcode::RELEASE => self.run(self.zfs.close(request.object()))?,
            opcode::FSYNC | opcode::FSYNCDIR => self.fsync(request)?,
            opcode::SYNCFS => self.run(self.zfs.sync())?,
            opcode::DESTROY => self.run(self.zfs.sync_for_unmount())?,
            opcode::OPENDIR => reply.put(&crate::abi::OpenOut::default()),
            opcode::RELEASEDIR => {}
            opcode::READDIR => self.readdir(request, reply)?,
            opcode::READDIRPLUS => self.readdirplus(request, reply)?,
            opcode::COPY_FILE_RANGE => self.copy_file_range(request, reply)?,
            opcode::IOCTL => self.ioctl(request, reply)?,
            opcode::STATFS => self.statfs(reply),
            opcode::SETXATTR => self.setxattr(request)?,
            opcode::GETXATTR => self.getxattr(request, reply)?,
            opcode::LISTXATTR => self.listxattr(request, reply)?,
            opcode::REMOVEXATTR => self.removexattr(request)?,
            _ => return Err(Errno::NOSYS),
        }
        Ok(Answer::Due)
    }

    /// Runs an operation to its end on this thread.
    pub fn run<T>(&self, operation: impl Future<Output = zpl::Result<T>>) -> Result<T, Errno> {
        self.env.block_on(operation).map_err(|error| errno(&error))
    }

    pub fn reply_entry(&self, found: &Attributes, reply: &mut Reply) {
        reply.put(&self.inodes.entry_out(found));
    }

    pub fn reply_attr(&self, found: &Attributes, reply: &mut Reply) {
        reply.put(&self.inodes.attr_out(found));
    }
}
