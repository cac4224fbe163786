//! A file system as the kernel asks for it: which request is answered by which method.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use units::ObjectId;
use zpl::{Attributes, Zfs};

use crate::abi::{ROOT_ID, opcode};
use crate::attr::{Fsid, Inodes};
use crate::ctldir::Setting;
use crate::errno::errno;
use crate::handshake::Agreed;
use crate::known::KnownInodes;
use crate::live::OldPages;
use crate::mount::Mounter;
use crate::notifier::Notifier;
use crate::reply::Reply;
use crate::request::Request;
use crate::server::Answer;
use crate::syncs::Syncs;
use crate::views::Common;
use crate::writers::Writers;

/// A file system as the session's requests see it.
pub(crate) struct Files {
    pub zfs: Arc<Zfs>,
    pub inodes: Inodes,
    pub notifier: Notifier,
    pub agreed: Agreed,
    pub syncs: Arc<Syncs>,
    pub writers: Arc<Writers>,
    pub mounter: Arc<dyn Mounter>,
    /// Of what is mounted: how the control directory is shown. Snapshots have none.
    pub setting: Option<Arc<Setting>>,
    /// Of snapshots: how often the kernel was told of inodes that it has not forgotten.
    pub remembered: Option<Arc<AtomicU64>>,
    /// The inodes of the mount that the kernel remembers.
    pub known: Option<Arc<KnownInodes>>,
    /// The inodes whose written-back pages are stale and must be ignored.
    pub old_pages: Arc<OldPages>,
}

impl Files {
    /// Those of what is mounted.
    pub fn live(zfs: Arc<Zfs>, common: Common, setting: Arc<Setting>, known: Arc<KnownInodes>) -> Self {
        let inodes = Inodes { root: zfs.root(), fsid: Fsid::LIVE };
        let Common { notifier, agreed, syncs, writers, mounter } = common;
        listen(&zfs, inodes, &known);
        let (setting, known, old_pages) = (Some(setting), Some(known), Arc::default());
        Self {
            zfs,
            inodes,
            notifier,
            agreed,
            syncs,
            writers,
            mounter,
            setting,
            remembered: None,
            known,
            old_pages,
        }
    }

    /// Returns the same mount with the files of another file system.
    pub fn with(&self, zfs: Arc<Zfs>) -> Self {
        let inodes = Inodes { root: zfs.root(), ..self.inodes };
        if let Some(known) = &self.known {
            listen(&zfs, inodes, known);
        }
        Self {
            inodes,
            zfs,
            notifier: self.notifier.clone(),
            agreed: self.agreed,
            syncs: Arc::clone(&self.syncs),
            writers: Arc::clone(&self.writers),
            mounter: Arc::clone(&self.mounter),
            setting: self.setting.clone(),
            remembered: self.remembered.clone(),
            known: self.known.clone(),
            old_pages: Arc::clone(&self.old_pages),
        }
    }

    /// An operation, with the error that a program is to see.
    pub async fn run<T>(&self, operation: impl Future<Output = zpl::Result<T>>) -> Result<T, Errno> {
        operation.await.map_err(|error| errno(&error))
    }

    pub fn reply_entry(&self, found: &Attributes, reply: &mut Reply) {
        self.note_entry(found);
        reply.put(&self.inodes.entry_out(found));
    }

    /// The kernel is told of an inode once more.
    pub fn note_entry(&self, found: &Attributes) {
        if let Some(remembered) = &self.remembered {
            remembered.fetch_add(1, Ordering::AcqRel);
        }
        let inode = self.inodes.inode(found.object);
        if let Some(known) = self.known.as_ref().filter(|_| inode != ROOT_ID) {
            known.told(inode, found);
        }
    }

    /// Returns the object of an inode in a request. The object must belong to this file system and
    /// must still have the generation that the kernel knows.
    ///
    /// # Errors
    /// As [`Inodes::own`] and [`Files::check_inode`].
    pub async fn own(&self, inode: u64) -> Result<ObjectId, Errno> {
        let object = self.inodes.own(inode)?;
        if self.known.as_ref().is_some_and(|known| known.epoch() > 0) {
            self.check_inode(inode, None).await?;
        }
        Ok(object)
    }

    pub fn reply_attr(&self, found: &Attributes, reply: &mut Reply) {
        reply.put(&self.inodes.attr_out(found));
    }

    /// Does what a request asks for: see [`crate::server::Server::serve`].
    pub async fn serve(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<Answer, Errno> {
        match request.header.opcode {
            opcode::LOOKUP => self.lookup(request, reply).await?,
            opcode::FORGET | opcode::BATCH_FORGET | opcode::NOTIFY_REPLY => return Ok(Answer::None),
            opcode::GETATTR => self.getattr(request, reply).await?,
            opcode::STATX => self.statx(request, reply).await?,
            opcode::SETATTR => self.setattr(request, reply).await?,
            opcode::READLINK => self.readlink(request, reply).await?,
            opcode::SYMLINK => self.symlink(request, reply).await?,
            opcode::MKNOD => self.mknod(request, reply).await?,
            opcode::MKDIR => self.mkdir(request, reply).await?,
            opcode::UNLINK => self.unlink(request).await?,
            opcode::RMDIR => self.rmdir(request).await?,
            opcode::RENAME => self.rename(request).await?,
            opcode::RENAME2 => self.rename2(request).await?,
            opcode::LINK => self.link(request, reply).await?,
            opcode::OPEN => self.open(request, reply).await?,
            opcode::CREATE => self.create(request, reply).await?,
            opcode::TMPFILE => self.tmpfile(request, reply).await?,
            opcode::READ => self.read(request, reply).await?,
            opcode::WRITE => return self.write(request, reply).await,
            opcode::FALLOCATE => self.fallocate(request).await?,
            // What the kernel keeps is data also where there is a hole here, which it does not look for: it takes all
            // for data then.
            opcode::LSEEK if self.agreed.writeback => return Err(Errno::NOSYS),
            opcode::LSEEK => self.lseek(request, reply).await?,
            opcode::RELEASE => self.release(request).await?,
            opcode::FSYNC | opcode::FSYNCDIR => self.fsync(request).await?,
            opcode::SYNCFS => self.run(self.zfs.sync()).await?,
            opcode::DESTROY => self.run(self.zfs.sync_for_unmount()).await?,
            opcode::OPENDIR if !self.agreed.directories_unopened => {
                reply.put(&crate::abi::OpenOut::default())
            }
            opcode::RELEASEDIR => {}
            opcode::READDIR => self.readdir(request, reply).await?,
            opcode::READDIRPLUS => self.readdirplus(request, reply).await?,
            opcode::COPY_FILE_RANGE => self.copy_file_range(self, request, reply).await?,
            opcode::IOCTL => self.ioctl(request, reply).await?,
            opcode::STATFS => self.statfs(request.object(), reply).await?,
            opcode::SETXATTR => self.setxattr(request).await?,
            opcode::GETXATTR => self.getxattr(request, reply).await?,
            opcode::LISTXATTR => self.listxattr(request, reply).await?,
            opcode::REMOVEXATTR => self.removexattr(request).await?,
            // Of those that come once and never again then: FLUSH, for writes have arrived when they returned, and OPENDIR.
            _ => return Err(Errno::NOSYS),
        }
        Ok(Answer::Due)
    }

    /// After the last request: makes all that was written stable.
    pub async fn finish(&self) {
        if let Err(error) = self.zfs.sync_for_unmount().await {
            tracing::error!(%error, "what was written before an unmount may be lost in a crash");
        }
    }
}

/// Keeps the last attributes of the objects of `zfs` that are freed.
fn listen(zfs: &Zfs, inodes: Inodes, known: &Arc<KnownInodes>) {
    let known = Arc::downgrade(known);
    zfs.on_freed(Box::new(move |last| {
        if let Some(known) = known.upgrade() {
            known.freed(inodes.inode(last.object), last);
        }
    }));
}
