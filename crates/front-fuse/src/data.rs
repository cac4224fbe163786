//! Requests about the contents of files.

use std::ops::Range;
use std::sync::Arc;

use device::{call_elsewhere, spawn_here};
use env::BoxFuture;
use rustix::io::Errno;
use zpl::{Allocate, Attributes, SeekTo, SetAttributes, WriteFlags};

use crate::abi::{
    FSYNC_FDATASYNC, FallocateIn, FsyncIn, LseekIn, LseekOut, OpenIn, OpenOut, READ_LOCKOWNER, ReleaseIn,
    WRITE_CACHE, WRITE_KILL_SUIDGID, WRITE_LOCKOWNER, WriteIn, WriteOut, fopen,
};
use crate::files::Files;
use crate::pages::PageDrop;
use crate::reply::Reply;
use crate::request::Request;
use crate::server::Answer;
use crate::writers::may_write;

/// The set-user-id and set-group-id bits.
pub(crate) const SETID: u32 = 0o6000;

/// Whether every write through a handle opened with `flags` must be stable before it returns.
fn is_sync(flags: u32) -> bool {
    flags as i32 & (libc::O_DSYNC | libc::O_SYNC) != 0
}

/// Returns true if a handle with these `flags` can read.
fn may_read(flags: u32) -> bool {
    flags as i32 & libc::O_ACCMODE != libc::O_WRONLY
}

/// What a handle is, in bits of its number: copies and ioctls come with the number alone, without the flags.
/// Writes must be stable.
pub(crate) const SYNC_HANDLE: u64 = 1;
/// It was opened for writing.
pub(crate) const WRITING_HANDLE: u64 = 2;
/// The file was opened for writes that bypass the kernel's cache.
const DIRECT_HANDLE: u64 = 4;

/// The bits from here on hold the epoch in which the handle was opened.
const EPOCH_SHIFT: u32 = 32;

/// Returns the epoch in which this handle was opened.
pub(crate) const fn handle_epoch(handle: u64) -> u32 {
    (handle >> EPOCH_SHIFT) as u32
}

/// The answer to who opens a file, on a mount that keeps what is written or does not.
pub(crate) fn open_out(flags: u32, writeback: bool, epoch: u32) -> OpenOut {
    let sync = if is_sync(flags) { SYNC_HANDLE } else { 0 };
    let writing = if may_write(flags) { WRITING_HANDLE } else { 0 };
    let direct = if may_write(flags) && is_direct(flags, writeback) { DIRECT_HANDLE } else { 0 };
    let fh = sync | writing | direct | u64::from(epoch) << EPOCH_SHIFT;
    OpenOut { fh, open_flags: open_flags(flags, writeback), padding: 0 }
}

/// True if reads and writes through a handle with these `flags` bypass the kernel's cache.
fn is_direct(flags: u32, writeback: bool) -> bool {
    flags as i32 & libc::O_DIRECT != 0 || (is_sync(flags) && !writeback)
}

/// Writes of a synchronous handle come directly, so that each is one request; others go through
/// the kernel's cache, which keeps what it has read. A kernel that keeps what is written, and times with it, does not
/// set these for what it hands over directly: there all go through its cache.
fn open_flags(flags: u32, writeback: bool) -> u32 {
    if is_direct(flags, writeback) && !writeback {
        // A handle that only reads makes no cached page wrong.
        let keeps = if may_write(flags) { 0 } else { fopen::KEEP_CACHE };
        fopen::DIRECT_IO | fopen::PARALLEL_DIRECT_WRITES | keeps
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
        self.reply_open(&opened, args.flags, false, reply);
        if opened.size == 0
            && may_read(args.flags)
            && self.run(self.zfs.note_empty_read(opened.object)).await?
        {
            self.notifier.forget_attributes(request.header.nodeid);
        }
        Ok(())
    }

    /// Replies with a new handle of a file. `is_new` is true if this request created the file.
    pub fn reply_open(&self, opened: &Attributes, flags: u32, is_new: bool, reply: &mut Reply) {
        let inode = self.inodes.inode(opened.object);
        self.writers.opened(inode, opened.generation, flags);
        let epoch = self.known.as_ref().map_or(0, |known| {
            known.opened(inode);
            known.epoch()
        });
        let mut out = open_out(flags, self.agreed.writeback, epoch);
        // A program that reads pages from the kernel's cache causes no read request.
        if self.zfs.notes_every_read() && !self.agreed.writeback {
            out.open_flags &= !fopen::KEEP_CACHE;
        }
        if out.fh & DIRECT_HANDLE != 0 {
            self.writers.pages.opened(inode, is_new);
        }
        reply.put(&out);
    }

    pub async fn release(&self, request: &mut Request<'_>) -> Result<(), Errno> {
        let args: ReleaseIn = request.take()?;
        let inode = request.header.nodeid;
        self.writers.closed(inode, args.flags);
        if args.fh & DIRECT_HANDLE != 0 {
            self.writers.pages.closed(inode);
        }
        // A handle that an exchange has made stale is closed already.
        if self.known.as_ref().is_some_and(|known| !known.closed(inode, handle_epoch(args.fh))) {
            return Ok(());
        }
        self.run(self.zfs.close(request.object())).await
    }

    pub async fn read(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let args = request.take_read()?;
        let (object, len) = (request.object(), args.size as usize);
        if args.read_flags & READ_LOCKOWNER == 0 {
            let end = args.offset.saturating_add(args.size.into());
            self.writers.pages.filled(request.header.nodeid, args.offset..end);
        }
        reply.share(self.run(self.zfs.read_shared(object, args.offset, len)).await?);
        Ok(())
    }

    pub async fn write(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<Answer, Errno> {
        let args: WriteIn = request.take()?;
        let data = request.bytes(args.size)?;
        // Pages written back by the kernel are its own affair: an fsync follows if one is due.
        let is_from_cache = args.write_flags & WRITE_CACHE != 0;
        if is_from_cache && self.old_pages.are_of(request.header.nodeid) {
            reply.put(&WriteOut { size: args.size, padding: 0 });
            return Ok(Answer::Due);
        }
        let how = WriteFlags {
            append: false,
            sync: !is_from_cache && is_sync(args.flags),
            drop_setid: args.write_flags & WRITE_KILL_SUIDGID != 0,
        };
        let is_direct = args.write_flags & WRITE_LOCKOWNER != 0 && !is_from_cache;
        let range = args.offset..args.offset.saturating_add(args.size.into());
        if !is_direct {
            self.writers.pages.filled(request.header.nodeid, range.clone());
        }
        let since = how.sync.then(|| self.syncs.now());
        if is_direct {
            // The kernel removes file capabilities before other writes, but not before these.
            self.run(self.zfs.drop_capability(request.object())).await?;
        }
        let written = self.run(self.zfs.write(request.object(), args.offset, data, how)).await;
        let drop = if is_direct { self.writers.pages.written(request.header.nodeid, range) } else { None };
        let drop = drop.map(|drop| self.drop_pages(request.header.nodeid, drop));
        if let Err(error) = written {
            // A part may have been written. The contents are undefined after an error, so the
            // answer does not wait for the drop.
            drop.into_iter().for_each(|drop| spawn_here("fuse pages", drop));
            return Err(error);
        }
        if let Some(since) = since {
            self.syncs.note(request.header.pid, since);
        }
        if how.drop_setid {
            // The kernel knows that times and space have changed, but not that the mode may have.
            self.notifier.forget_attributes(request.header.nodeid);
        }
        reply.put(&WriteOut { size: args.size, padding: 0 });
        Ok(drop.map_or(Answer::Due, Answer::DueAfter))
    }

    /// Makes the kernel drop pages of a file after a write that bypassed its cache. If the kernel
    /// is reading one of these pages, it first waits for the answer to that request.
    fn drop_pages(&self, inode: u64, drop: PageDrop) -> BoxFuture<'static, ()> {
        let (writers, notifier) = (Arc::clone(&self.writers), self.notifier.clone());
        Box::pin(call_elsewhere(move || {
            notifier.forget_range(inode, drop.range.clone());
            writers.pages.dropped(inode, &drop);
        }))
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
        let object = request.object();
        // Linux removes the capabilities itself since 6.1.
        self.run(self.zfs.drop_capability(object)).await?;
        let now = self.run(self.zfs.allocate_range(object, args.offset, args.length, how)).await?;
        if now.permissions & SETID != 0 {
            // The request does not state whether the caller may keep set-id bits, so they are
            // removed.
            let drop = SetAttributes { drop_setid: true, ..SetAttributes::default() };
            self.run(self.zfs.set_attributes(object, drop)).await?;
            self.notifier.forget_attributes(request.header.nodeid);
        }
        Ok(())
    }

    /// Has the kernel write these bytes of a file that is open for writing. A process that has the
    /// file mapped may have changed pages that the kernel has not written yet. The kernel writes them
    /// now, with requests that the loops serve.
    /// (tests: `what_a_mapping_changed_is_data_for_who_looks_for_data`,
    /// `what_a_mapping_changed_is_copied_by_copy_file_range`)
    pub async fn write_back(&self, inode: u64, bytes: Range<u64>) {
        if self.writers.has(inode) {
            let notifier = self.notifier.clone();
            call_elsewhere(move || notifier.forget_range(inode, bytes)).await;
        }
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
        self.write_back(request.header.nodeid, from..u64::MAX).await;
        let offset = self.run(self.zfs.seek(request.object(), from, to)).await?;
        reply.put(&LseekOut { offset });
        Ok(())
    }
}
