//! One method for each kind of request.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, Generation, INodeNo, InitFlags, KernelConfig, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use zpl::{Allocate, FileKind, NewNode, Place, RenameMode, SeekTo, SetAttributes, XattrMode, ZplError};

use crate::attr::{decode_device, file_type, set_time};
use crate::errno::errno;
use crate::files::{Files, TTL, cred, fopen_flags, is_sync};

/// Largest read or write that the kernel may ask for at once.
const REQUEST_BYTES: u32 = 1 << 20;
/// Requests that the kernel may have under way in the background.
const BACKGROUND: u16 = 64;
/// Directory entries fetched at a time.
const LIST_ENTRIES: usize = 256;
/// The unit in which `statfs` counts.
const STATFS_BLOCK_BYTES: u64 = 512;
/// The longest name of a file.
const NAME_MAX: u32 = 255;

macro_rules! reply_empty {
    ($result:expr, $reply:expr) => {
        match $result {
            Ok(_) => $reply.ok(),
            Err(error) => $reply.error(errno(&error)),
        }
    };
}

impl Filesystem for Files {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for wish in [
            InitFlags::FUSE_BIG_WRITES,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            InitFlags::FUSE_DONT_MASK,
        ] {
            if config.add_capabilities(wish).is_err() {
                tracing::debug!(?wish, "the kernel lacks a FUSE capability");
            }
        }
        if self.zfs.options().posix_acls && config.add_capabilities(InitFlags::FUSE_POSIX_ACL).is_err() {
            tracing::warn!("the kernel lacks POSIX ACLs: the mode alone counts");
        }
        // Refused only when out of the kernel's range; it then keeps what it has.
        let _nearest = config.set_max_write(REQUEST_BYTES);
        let _nearest = config.set_max_readahead(REQUEST_BYTES);
        let _nearest = config.set_max_background(BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.run(self.zfs.lookup(self.inodes.object(parent), name.as_bytes()));
        self.reply_entry(found, reply);
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        match self.run(self.zfs.attributes(self.inodes.object(inode))) {
            Ok(found) => reply.attr(&TTL, &self.inodes.attr(&found)),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn setattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = SetAttributes {
            permissions: mode.map(|mode| mode & 0o7777),
            uid,
            gid,
            size,
            atime: atime.map(set_time),
            mtime: mtime.map(set_time),
            drop_setid: false,
            ..SetAttributes::default()
        };
        match self.run(self.zfs.set_attributes(self.inodes.object(inode), set)) {
            Ok(found) => reply.attr(&TTL, &self.inodes.attr(&found)),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn readlink(&self, _request: &Request, inode: INodeNo, reply: ReplyData) {
        match self.run(self.zfs.readlink(self.inodes.object(inode))) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let node = match FileKind::of_mode(mode) {
            Some(FileKind::File) => NewNode::File,
            Some(FileKind::Fifo) => NewNode::Fifo,
            Some(FileKind::Socket) => NewNode::Socket,
            Some(FileKind::CharDevice) => NewNode::CharDevice(decode_device(rdev)),
            Some(FileKind::BlockDevice) => NewNode::BlockDevice(decode_device(rdev)),
            Some(FileKind::Directory | FileKind::Symlink) | None => return reply.error(Errno::EINVAL),
        };
        let made = self.create_node(request, parent, name, node, mode, umask);
        self.reply_entry(made, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let made = self.create_node(request, parent, name, NewNode::Directory, mode, umask);
        self.reply_entry(made, reply);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &std::path::Path,
        reply: ReplyEntry,
    ) {
        let node = NewNode::Symlink(target.as_os_str().as_bytes());
        let made = self.create_node(request, parent, name, node, 0o777, 0);
        self.reply_entry(made, reply);
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty!(self.run(self.zfs.unlink(self.inodes.object(parent), name.as_bytes())), reply);
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty!(self.run(self.zfs.rmdir(self.inodes.object(parent), name.as_bytes())), reply);
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mode = match flags {
            flags if flags.is_empty() => RenameMode::Replace,
            RenameFlags::RENAME_NOREPLACE => RenameMode::NoReplace,
            RenameFlags::RENAME_EXCHANGE => RenameMode::Exchange,
            _ => return reply.error(Errno::EINVAL),
        };
        let from = Place { dir: self.inodes.object(parent), name: name.as_bytes() };
        let to = Place { dir: self.inodes.object(new_parent), name: new_name.as_bytes() };
        reply_empty!(self.run(self.zfs.rename(from, to, mode)), reply);
    }

    fn link(&self, _request: &Request, inode: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (object, dir) = (self.inodes.object(inode), self.inodes.object(parent));
        let linked = self.run(self.zfs.link(object, dir, name.as_bytes()));
        self.reply_entry(linked, reply);
    }

    fn open(&self, _request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.run(self.open_file(inode, flags)) {
            Ok(()) => reply.opened(FileHandle(0), fopen_flags(flags)),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let flags = OpenFlags(flags);
        let made = self.create_node(request, parent, name, NewNode::File, mode, umask);
        let opened = made.and_then(|made| self.run(self.zfs.open_object(made.object)));
        match opened {
            Ok(made) => {
                let generation = Generation(made.generation);
                reply.created(&TTL, &self.inodes.attr(&made), generation, FileHandle(0), fopen_flags(flags));
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn release(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        reply_empty!(self.run(self.zfs.close(self.inodes.object(inode))), reply);
    }

    fn flush(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // Writes have arrived when they returned; nothing waits here.
        reply.ok();
    }

    fn read(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut bytes = vec![0; size as usize];
        match self.run(self.zfs.read(self.inodes.object(inode), offset, &mut bytes)) {
            Ok(len) => reply.data(&bytes[..len]),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn write(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // Pages written back by the kernel are its own affair: an fsync follows if one is due.
        let from_cache = how.contains(WriteFlags::FUSE_WRITE_CACHE);
        let how = zpl::WriteFlags {
            append: false,
            sync: !from_cache && is_sync(flags),
            drop_setid: how.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID),
        };
        match self.run(self.zfs.write(self.inodes.object(inode), offset, data, how)) {
            Ok(_) => reply.written(data.len() as u32),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn fsync(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        reply_empty!(self.run(self.zfs.fsync(self.inodes.object(inode), data_only)), reply);
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        reply_empty!(self.run(self.zfs.fsync(self.inodes.object(inode), data_only)), reply);
    }

    fn readdir(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let dir = self.inodes.object(inode);
        let mut cookie = offset;
        loop {
            let entries = match self.run(self.zfs.list(dir, cookie, LIST_ENTRIES)) {
                Ok(entries) => entries,
                Err(error) => return reply.error(errno(&error)),
            };
            if entries.is_empty() {
                return reply.ok();
            }
            for entry in entries {
                let kind = file_type(entry.kind.unwrap_or(FileKind::File));
                let inode = self.inodes.inode(entry.object);
                if reply.add(inode, entry.next, kind, OsStr::from_bytes(&entry.name)) {
                    return reply.ok();
                }
                cookie = entry.next;
            }
        }
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        let space = self.zfs.space();
        let free = space.available_bytes / STATFS_BLOCK_BYTES;
        let blocks = space.used_bytes / STATFS_BLOCK_BYTES + free;
        // As many files fit as there are free blocks; the format has no other limit.
        let files = space.objects.saturating_add(free);
        let unit = STATFS_BLOCK_BYTES as u32;
        reply.statfs(blocks, free, free, files, free, 128 << 10, NAME_MAX, unit);
    }

    fn setxattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let mode = match flags {
            0 => XattrMode::Set,
            libc::XATTR_CREATE => XattrMode::Create,
            libc::XATTR_REPLACE => XattrMode::Replace,
            _ => return reply.error(Errno::EINVAL),
        };
        reply_empty!(
            self.run(self.zfs.set_xattr(self.inodes.object(inode), name.as_bytes(), value, mode)),
            reply
        );
    }

    fn getxattr(&self, _request: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if zpl::is_acl(name.as_bytes()) && !self.zfs.options().posix_acls {
            return reply.error(Errno::EOPNOTSUPP);
        }
        reply_sized(self.run(self.zfs.xattr(self.inodes.object(inode), name.as_bytes())), size, reply);
    }

    fn listxattr(&self, _request: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        let names = self.run(self.zfs.xattr_names(self.inodes.object(inode)));
        let joined =
            names.map(|names| names.iter().flat_map(|name| name.iter().copied().chain([0])).collect());
        reply_sized(joined, size, reply);
    }

    fn removexattr(&self, _request: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty!(self.run(self.zfs.remove_xattr(self.inodes.object(inode), name.as_bytes())), reply);
    }

    fn fallocate(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let keep_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let how = match mode & !libc::FALLOC_FL_KEEP_SIZE {
            0 => Allocate::Reserve { keep_size },
            libc::FALLOC_FL_PUNCH_HOLE if keep_size => Allocate::PunchHole,
            libc::FALLOC_FL_ZERO_RANGE => Allocate::Zero { keep_size },
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        reply_empty!(
            self.run(self.zfs.allocate_range(self.inodes.object(inode), offset, length, how)),
            reply
        );
    }

    fn lseek(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let to = match whence {
            libc::SEEK_DATA => SeekTo::Data,
            libc::SEEK_HOLE => SeekTo::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        let Ok(from) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        match self.run(self.zfs.seek(self.inodes.object(inode), from, to)) {
            Ok(found) => reply.offset(found as i64),
            Err(error) => reply.error(errno(&error)),
        }
    }
}

impl Files {
    fn create_node(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        node: NewNode<'_>,
        mode: u32,
        umask: u32,
    ) -> zpl::Result<zpl::Attributes> {
        let (dir, cred) = (self.inodes.object(parent), cred(request, umask));
        self.run(self.zfs.create(dir, name.as_bytes(), node, mode & 0o7777, cred))
    }

    async fn open_file(&self, inode: INodeNo, flags: OpenFlags) -> zpl::Result<()> {
        let object = self.inodes.object(inode);
        self.zfs.open_object(object).await?;
        if flags.0 & libc::O_TRUNC == 0 {
            return Ok(());
        }
        let set = SetAttributes { size: Some(0), drop_setid: true, ..SetAttributes::default() };
        if let Err(error) = self.zfs.set_attributes(object, set).await {
            self.zfs.close(object).await?;
            return Err(error);
        }
        Ok(())
    }
}

/// Answers with the value, or with its size when that was asked for.
fn reply_sized(value: Result<Vec<u8>, ZplError>, size: u32, reply: ReplyXattr) {
    match value {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(errno(&error)),
    }
}
