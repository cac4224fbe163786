//! Requests about attributes, plain and extended, and about the file system's space.

use rustix::io::Errno;
use units::ObjectId;
use zpl::{Attributes, SetAttributes, Timestamp, XattrMode};

use crate::abi::{
    GetxattrIn, GetxattrOut, SETXATTR_ACL_KILL_SGID, SetattrIn, SetxattrExt, SetxattrIn, StatfsOut, fattr,
};
use crate::attr::set_time;
use crate::files::Files;
use crate::reply::Reply;
use crate::request::Request;

/// The unit in which `statfs` counts.
const STATFS_BLOCK_BYTES: u64 = 512;
/// What `statfs` recommends for reads and writes.
const STATFS_IO_BYTES: u32 = 128 << 10;
/// The longest name of a file.
const NAME_MAX: u32 = 255;

/// Namespaces of extended attributes that may be set. The kernel checks the rights of the caller.
const PREFIXES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

impl Files {
    pub async fn getattr(&self, request: &Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let found = self.attributes_of(request).await?;
        self.reply_attr(&found, reply);
        Ok(())
    }

    /// The kernel asks so where a program wants the time of birth. An error that says that there is no such request
    /// would end that for the whole mount.
    pub async fn statx(&self, request: &Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let found = self.attributes_of(request).await?;
        reply.put(&self.inodes.statx_out(&found));
        Ok(())
    }

    async fn attributes_of(&self, request: &Request<'_>) -> Result<Attributes, Errno> {
        match self.run(self.zfs.attributes(request.object())).await {
            Err(Errno::STALE) => self.last_of(request.header.nodeid),
            found => found,
        }
    }

    /// Returns the last attributes of an object that was freed. A program can still have the object: as its working
    /// directory, or by a descriptor with `O_PATH`.
    ///
    /// # Errors
    /// `ESTALE` if the kernel was never told of the inode, or if the object went in an exchange of the file system.
    fn last_of(&self, inode: u64) -> Result<Attributes, Errno> {
        self.known.as_ref().and_then(|known| known.last_of(inode)).ok_or(Errno::STALE)
    }

    pub async fn setattr(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let args: SetattrIn = request.take()?;
        let has = |bit: u32| args.valid & bit != 0;
        let set = SetAttributes {
            permissions: has(fattr::MODE).then_some(args.mode & 0o7777),
            uid: has(fattr::UID).then_some(args.uid),
            gid: has(fattr::GID).then_some(args.gid),
            size: has(fattr::SIZE).then_some(args.size),
            atime: has(fattr::ATIME).then(|| set_time(has(fattr::ATIME_NOW), args.atime, args.atimensec)),
            mtime: has(fattr::MTIME).then(|| set_time(has(fattr::MTIME_NOW), args.mtime, args.mtimensec)),
            ctime: has(fattr::CTIME).then_some(Timestamp { secs: args.ctime as i64, nanos: args.ctimensec }),
            drop_setid: has(fattr::KILL_SUIDGID),
            ..SetAttributes::default()
        };
        let found = match self
            .change_attributes(request.object(), set, has(fattr::SIZE | fattr::UID | fattr::GID))
            .await
        {
            Err(Errno::STALE) => self.change_last(request.header.nodeid, &set)?,
            found => found?,
        };
        self.reply_attr(&found, reply);
        Ok(())
    }

    async fn change_attributes(
        &self,
        object: ObjectId,
        set: SetAttributes,
        drops_capability: bool,
    ) -> Result<Attributes, Errno> {
        // The kernel has removed the capabilities already. The protocol leaves it to the file system.
        if drops_capability {
            self.run(self.zfs.drop_capability(object)).await?;
        }
        self.run(self.zfs.set_attributes(object, set)).await
    }

    /// Changes the last attributes of an object that was freed: of a directory that was removed and that a program has
    /// open, because the kernel opens directories without a request.
    fn change_last(&self, inode: u64, set: &SetAttributes) -> Result<Attributes, Errno> {
        let changed = self.zfs.changed_after_freeing(&self.last_of(inode)?, set);
        if let Some(known) = &self.known {
            known.freed(inode, &changed);
        }
        Ok(changed)
    }

    /// Reports the space that programs see at the given object.
    pub async fn statfs(&self, object: ObjectId, reply: &mut Reply) -> Result<(), Errno> {
        let space = match self.run(self.zfs.space_at(object)).await {
            // A program can have a removed directory as its working directory.
            Err(Errno::STALE) => self.run(self.zfs.space_at(self.inodes.root)).await?,
            space => space?,
        };
        let free = space.free_bytes / STATFS_BLOCK_BYTES;
        // Each free block may become a file, because the format has no other limit.
        let (files, ffree) = match space.free_objects {
            Some(free_objects) => (space.objects, free_objects),
            None => (space.objects.saturating_add(free), free),
        };
        reply.put(&StatfsOut {
            blocks: space.bytes / STATFS_BLOCK_BYTES,
            bfree: free,
            bavail: free,
            files,
            ffree,
            bsize: STATFS_IO_BYTES,
            namelen: NAME_MAX,
            frsize: STATFS_BLOCK_BYTES as u32,
            ..StatfsOut::default()
        });
        Ok(())
    }

    pub async fn setxattr(&self, request: &mut Request<'_>) -> Result<(), Errno> {
        let args: SetxattrIn = request.take()?;
        let ext = if self.agreed.xattr_flags { request.take()? } else { SetxattrExt::default() };
        let (name, value) = (request.name()?, request.bytes(args.size)?);
        check_xattr_name(name)?;
        if !PREFIXES.iter().any(|prefix| name.starts_with(prefix)) && !zpl::is_acl(name) {
            return Err(Errno::OPNOTSUPP);
        }
        let mode = match args.flags as i32 {
            0 => XattrMode::Set,
            libc::XATTR_CREATE => XattrMode::Create,
            libc::XATTR_REPLACE => XattrMode::Replace,
            _ => return Err(Errno::INVAL),
        };
        // The header does not say whose request it is, so only the kernel can judge the bit.
        if zpl::is_acl(name) && ext.setxattr_flags & SETXATTR_ACL_KILL_SGID != 0 {
            return self.run(self.zfs.set_acl_without_setgid(request.object(), name, value)).await;
        }
        self.run(self.zfs.set_xattr(request.object(), name, value, mode)).await
    }

    pub async fn getxattr(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let GetxattrIn { size, .. } = request.take()?;
        let name = request.name()?;
        check_xattr_name(name)?;
        if zpl::is_acl(name) && !self.zfs.options().posix_acls {
            return Err(Errno::OPNOTSUPP);
        }
        let value = match self.run(self.zfs.xattr(request.object(), name)).await {
            // The kernel asks for the ACL of a removed directory. Without an ACL, the kernel uses the permissions.
            Err(Errno::STALE) if self.last_of(request.header.nodeid).is_ok() => return Err(Errno::NODATA),
            value => value?,
        };
        put_sized(&value, size, reply)
    }

    pub async fn listxattr(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let GetxattrIn { size, .. } = request.take()?;
        let mut names = self.run(self.zfs.xattr_names(request.object())).await?;
        // With `acltype=off` there are none, though they may be stored.
        names.retain(|name| self.zfs.options().posix_acls || !zpl::is_acl(name));
        // The kernel leaves it to the file system to hide these names from users.
        let is_trusted = |name: &Vec<u8>| name.starts_with(b"trusted.");
        if names.iter().any(is_trusted) && !self.mounter.may_administer(request.header.pid) {
            names.retain(|name| !is_trusted(name));
        }
        let joined: Vec<u8> = names.iter().flat_map(|name| name.iter().copied().chain([0])).collect();
        put_sized(&joined, size, reply)
    }

    pub async fn removexattr(&self, request: &mut Request<'_>) -> Result<(), Errno> {
        let name = request.name()?;
        check_xattr_name(name)?;
        match self.run(self.zfs.remove_xattr(request.object(), name)).await {
            // An object without an ACL has the one that its mode says, as in other file systems.
            Err(Errno::NODATA) if zpl::is_acl(name) => Ok(()),
            other => other,
        }
    }
}

/// Refuses names to which Linux file systems give a meaning, because the kernel leaves the check of
/// rights for these names to the file system. Only ACLs are supported.
///
/// # Errors
/// `EOPNOTSUPP`, or `EINVAL` for a namespace without a name.
fn check_xattr_name(name: &[u8]) -> Result<(), Errno> {
    if PREFIXES.contains(&name) {
        return Err(Errno::INVAL);
    }
    if name.starts_with(b"system.") && !zpl::is_acl(name) { Err(Errno::OPNOTSUPP) } else { Ok(()) }
}

/// Answers with the value, or with its size when that was asked for.
pub(crate) fn put_sized(value: &[u8], size: u32, reply: &mut Reply) -> Result<(), Errno> {
    match size as usize {
        0 => reply.put(&GetxattrOut { size: value.len() as u32, padding: 0 }),
        room if value.len() > room => return Err(Errno::RANGE),
        _ => reply.put_bytes(value),
    }
    Ok(())
}
