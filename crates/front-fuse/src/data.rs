//! Requests about the contents of files.

use rustix::io::Errno;
use zpl::{Allocate, Attributes, SeekTo, WriteFlags};

use crate::abi::{
    FSYNC_FDATASYNC, FallocateIn, FsyncIn, LseekIn, LseekOut, OpenIn, OpenOut, ReleaseIn, WRITE_CACHE,
    WRITE_KILL_SUIDGID, WriteIn, WriteOut, fopen,
};
use crate::files::Files;
use crate::reply::Reply;
use crate::request::Request;
use crate::writers::may_write;

/// Whether every write through a handle opened with `flags` must be stable before it returns.
fn is_sync(flags: u32) -> bool {
    flags as i32 & (libc::O_DSYNC | libc::O_SYNC) != 0
}

/// What a handle is, in bits of its number: copies and ioctls come with the number alone, without the flags.
/// Writes must be stable.
pub(crate) const SYNC_HANDLE: u64 = 1;
/// It was opened for writing.
pub(crate) const WRITING_HANDLE: u64 = 2;

/// Above these bits stands the epoch in which it was opened.
const EPOCH_SHIFT: u32 = 32;

/// The epoch in which a handle of this number was opened.
pub(crate) const fn handle_epoch(handle: u64) -> u32 {
    (handle >> EPOCH_SHIFT) as u32
}

/// The answer to who opens a file, on a mount that keeps what is written or does not.
pub(crate) fn open_out(flags: u32, writeback: bool, epoch: u32) -> OpenOut {
    let sync = if is_sync(flags) { SYNC_HANDLE } else { 0 };
    let writing = if may_write(flags) { WRITING_HANDLE } else { 0 };
    let fh = sync | writing | u64::from(epoch) << EPOCH_SHIFT;
    OpenOut { fh, open_flags: open_flags(flags, writeback), padding: 0 }
}

/// Writes of a synchronous handle come directly, so that each is one request; others go through
/// the kernel's cache, which keeps what it has read. A kernel that keeps what is written, and times with it, does not
/// set these for what it hands over directly: there all go through its cache.
fn open_flags(flags: u32, writeback: bool) -> u32 {
    let is_direct = is_sync(flags) || flags as i32 & libc::O_DIRECT != 0;
    if is_direct && !writeback {
        fopen::DIRECT_IO | fopen::PARALLEL_DIRECT_WRITES
    } else {
        fopen::KEEP_CACHE | fopen::NOFLUSH
    }
}

impl Files {
    pub async fn open(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let args: OpenIn = request.take()?;
        // The kernel does not know of snapshots that they are only read.
        if may_write(args.flags) && self.zfs.options().read_only {
            return Err(Errno::ROFS);
        }
        let opened = self.run(self.zfs.open_object(request.object())).await?;
        self.reply_open(&opened, args.flags, reply);
        Ok(())
    }

    /// Tells the kernel of a handle that it has from now on.
    pub fn reply_open(&self, opened: &Attributes, flags: u32, reply: &mut Reply) {
        let inode = self.inodes.inode(opened.object);
        self.writers.opened(inode, opened.generation, flags);
        let epoch = self.known.as_ref().map_or(0, |known| {
            known.opened(inode);
            known.epoch()
        });
        reply.put(&open_out(flags, self.agreed.writeback, epoch));
    }

    pub async fn release(&self, request: &mut Request<'_>) -> Result<(), Errno> {
        let args: ReleaseIn = request.take()?;
        let inode = request.header.nodeid;
        self.writers.closed(inode, args.flags);
        // What an exchange has left of a file is closed already.
        if self.known.as_ref().is_some_and(|known| !known.closed(inode, handle_epoch(args.fh))) {
            return Ok(());
        }
        self.run(self.zfs.close(request.object())).await
    }

    pub async fn read(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let args = request.take_read()?;
        let (object, len) = (request.object(), args.size as usize);
        reply.share(self.run(self.zfs.read_shared(object, args.offset, len)).await?);
        Ok(())
    }

    pub async fn write(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let args: WriteIn = request.take()?;
        let data = request.bytes(args.size)?;
        // Pages written back by the kernel are its own affair: an fsync follows if one is due.
        let is_from_cache = args.write_flags & WRITE_CACHE != 0;
        if is_from_cache && self.old_pages.are_of(request.header.nodeid) {
            reply.put(&WriteOut { size: args.size, padding: 0 });
            return Ok(());
        }
        let how = WriteFlags {
            append: false,
            sync: !is_from_cache && is_sync(args.flags),
            drop_setid: args.write_flags & WRITE_KILL_SUIDGID != 0,
        };
        let since = how.sync.then(|| self.syncs.now());
        self.run(self.zfs.write(request.object(), args.offset, data, how)).await?;
        if let Some(since) = since {
            self.syncs.note(request.header.pid, since);
        }
        if how.drop_setid {
            // The kernel knows that times and space have changed, but not that the mode may have.
            self.notifier.forget_attributes(request.header.nodeid);
        }
        reply.put(&WriteOut { size: args.size, padding: 0 });
        Ok(())
    }

    pub async fn fsync(&self, request: &mut Request<'_>) -> Result<(), Errno> {
        let args: FsyncIn = request.take()?;
        let since = self.syncs.now();
        self.run(self.zfs.fsync(request.object(), args.fsync_flags & FSYNC_FDATASYNC != 0)).await?;
        self.syncs.note(request.header.pid, since);
        Ok(())
    }

    pub async fn fallocate(&self, request: &mut Request<'_>) -> Result<(), Errno> {
        let args: FallocateIn = request.take()?;
        let mode = args.mode as i32;
        let keep_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let how = match mode & !libc::FALLOC_FL_KEEP_SIZE {
            0 => Allocate::Reserve { keep_size },
            libc::FALLOC_FL_PUNCH_HOLE if keep_size => Allocate::PunchHole,
            libc::FALLOC_FL_ZERO_RANGE => Allocate::Zero { keep_size },
            _ => return Err(Errno::OPNOTSUPP),
        };
        self.run(self.zfs.allocate_range(request.object(), args.offset, args.length, how)).await?;
        Ok(())
    }

    pub async fn lseek(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let args: LseekIn = request.take()?;
        let to = match args.whence as i32 {
            libc::SEEK_DATA => SeekTo::Data,
            libc::SEEK_HOLE => SeekTo::Hole,
            _ => return Err(Errno::INVAL),
        };
        // What is negative in the kernel's signed offset is past every end.
        let from = i64::try_from(args.offset).map_err(|_| Errno::NXIO)? as u64;
        let offset = self.run(self.zfs.seek(request.object(), from, to)).await?;
        reply.put(&LseekOut { offset });
        Ok(())
    }
}
