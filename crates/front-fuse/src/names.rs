//! Requests about names: finding, making, moving and removing what they stand for.

use rustix::fs::RenameFlags;
use rustix::io::Errno;
use zpl::{Attributes, FileKind, NewNode, Place, RenameMode};

use crate::abi::{CreateIn, LinkIn, MkdirIn, MknodIn, ROOT_ID, Rename2In, RenameIn};
use crate::attr::{Inodes, decode_device};
use crate::ctldir::CTLDIR;
use crate::files::Files;
use crate::reply::Reply;
use crate::request::Request;

/// The bits of a mode that are not the type.
const PERMISSIONS: u32 = 0o7777;

/// A name that is to be made, moved or removed in the request's directory.
///
/// # Errors
/// As [`refuse_ctldir`].
fn own_name<'a>(request: &mut Request<'a>) -> Result<&'a [u8], Errno> {
    let name = request.name()?;
    refuse_ctldir(request.header.nodeid, name)?;
    Ok(name)
}

/// # Errors
/// `EEXIST` for the control directory, also where it is not shown: nothing else has its name.
fn refuse_ctldir(dir: u64, name: &[u8]) -> Result<(), Errno> {
    if dir == ROOT_ID && name == CTLDIR { Err(Errno::EXIST) } else { Ok(()) }
}

impl Files {
    pub async fn lookup(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let (object, name) = (request.object(), request.name()?);
        let found = match name {
            // The kernel has a file handle (name_to_handle_at(2), NFS) of an inode that it has forgotten.
            // The root has one inode, whose number is not that of its object.
            b"." if self.inodes.inode(object) != request.header.nodeid => Err(Errno::STALE),
            b"." => self.run(self.zfs.of_number(object)).await,
            b".." => self.run(self.zfs.parent_of_number(object)).await,
            _ => self.run(self.zfs.lookup(object, name)).await,
        };
        match found {
            Ok(found) => self.reply_entry(&found, reply),
            Err(Errno::NOENT) => reply.put(&Inodes::no_entry()),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    pub async fn readlink(&self, request: &Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        reply.put_bytes(&self.run(self.zfs.readlink(request.object())).await?);
        Ok(())
    }

    pub async fn symlink(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let (name, target) = (own_name(request)?, request.name()?);
        let made = self.make(request, name, NewNode::Symlink(target), PERMISSIONS, 0).await?;
        self.reply_entry(&made, reply);
        Ok(())
    }

    pub async fn mknod(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let args: MknodIn = request.take()?;
        let node = match FileKind::of_mode(args.mode) {
            Some(FileKind::File) => NewNode::File,
            Some(FileKind::Fifo) => NewNode::Fifo,
            Some(FileKind::Socket) => NewNode::Socket,
            Some(FileKind::CharDevice) => NewNode::CharDevice(decode_device(args.rdev)),
            Some(FileKind::BlockDevice) => NewNode::BlockDevice(decode_device(args.rdev)),
            Some(FileKind::Directory | FileKind::Symlink) | None => return Err(Errno::INVAL),
        };
        let name = own_name(request)?;
        let made = self.make(request, name, node, args.mode, args.umask).await?;
        self.reply_entry(&made, reply);
        Ok(())
    }

    pub async fn mkdir(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let args: MkdirIn = request.take()?;
        let name = own_name(request)?;
        let made = self.make(request, name, NewNode::Directory, args.mode, args.umask).await?;
        self.reply_entry(&made, reply);
        Ok(())
    }

    /// Makes a file and opens it.
    pub async fn create(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let args: CreateIn = request.take()?;
        let name = own_name(request)?;
        let made = self.make(request, name, NewNode::File, args.mode, args.umask).await?;
        let made = self.run(self.zfs.open_object(made.object)).await?;
        self.reply_entry(&made, reply);
        self.reply_open(&made, args.flags, true, reply);
        Ok(())
    }

    /// Makes a file without a name, and opens it.
    pub async fn tmpfile(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let args: CreateIn = request.take()?;
        let (dir, cred) = (request.object(), request.cred(args.umask));
        let made = self.run(self.zfs.create_unnamed(dir, args.mode & PERMISSIONS, cred)).await?;
        self.reply_entry(&made, reply);
        self.reply_open(&made, args.flags, true, reply);
        Ok(())
    }

    async fn make(
        &self,
        request: &Request<'_>,
        name: &[u8],
        node: NewNode<'_>,
        mode: u32,
        umask: u32,
    ) -> Result<Attributes, Errno> {
        self.run(self.zfs.create(request.object(), name, node, mode & PERMISSIONS, request.cred(umask))).await
    }

    pub async fn unlink(&self, request: &mut Request<'_>) -> Result<(), Errno> {
        self.run(self.zfs.unlink(request.object(), own_name(request)?)).await
    }

    pub async fn rmdir(&self, request: &mut Request<'_>) -> Result<(), Errno> {
        self.run(self.zfs.rmdir(request.object(), own_name(request)?)).await
    }

    pub async fn link(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let LinkIn { oldnodeid } = request.take()?;
        let name = own_name(request)?;
        let linked = self.run(self.zfs.link(self.own(oldnodeid).await?, request.object(), name)).await?;
        self.reply_entry(&linked, reply);
        Ok(())
    }

    pub async fn rename(&self, request: &mut Request<'_>) -> Result<(), Errno> {
        let RenameIn { newdir } = request.take()?;
        self.rename_to(request, newdir, RenameFlags::empty()).await
    }

    pub async fn rename2(&self, request: &mut Request<'_>) -> Result<(), Errno> {
        let Rename2In { newdir, flags, .. } = request.take()?;
        self.rename_to(request, newdir, RenameFlags::from_bits_retain(flags)).await
    }

    async fn rename_to(
        &self,
        request: &mut Request<'_>,
        newdir: u64,
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let from = Place { dir: request.object(), name: own_name(request)? };
        let to = Place { dir: self.own(newdir).await?, name: request.name()? };
        refuse_ctldir(newdir, to.name)?;
        if flags == RenameFlags::WHITEOUT {
            return self.run(self.zfs.rename_leaving_whiteout(from, to, request.cred(0))).await;
        }
        let mode = match flags {
            flags if flags.is_empty() => RenameMode::Replace,
            RenameFlags::NOREPLACE => RenameMode::NoReplace,
            RenameFlags::EXCHANGE => RenameMode::Exchange,
            _ => return Err(Errno::INVAL),
        };
        self.run(self.zfs.rename(from, to, mode)).await
    }
}
