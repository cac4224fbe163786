//! The files of a pool.

use super::side::{CopySource, CopyTarget, Meta, New, Put, Trouble, Xattr};
use crate::visit::{Visit, words};
use dmu::Objset;
use rescue::{BlockTree, LostRanges, copy_contents};
use sawmill::{Error, Files};
use std::sync::Arc;
use units::ObjectId;
use zpl::{
    Attributes, Cred, DeviceNumber, FileKind, NewNode, SeekTo, SetAttributes, SetTime, WriteFlags, XattrMode,
    ZplError,
};

/// A dataset of a pool.
pub struct Inside<'a> {
    pub visit: &'a Visit,
    pub files: Files,
}

impl Inside<'_> {
    fn wait<T>(&self, future: impl Future<Output = Result<T, ZplError>>) -> Result<T, Trouble> {
        self.visit.env().block_on(future).map_err(|error| words::file(&error))
    }

    fn spot(&self, path: &[u8], follow: bool) -> Result<sawmill::Spot, Trouble> {
        self.visit.env().block_on(self.files.spot(path, follow)).map_err(|e: Error| words::reason(&e))
    }

    fn object(&self, path: &[u8], follow: bool) -> Result<ObjectId, Trouble> {
        let node = self.spot(path, follow)?.node;
        Ok(node.ok_or_else(|| words::file(&ZplError::NotFound))?.object)
    }
}

fn meta_of(at: &Attributes) -> Meta {
    Meta {
        kind: at.kind,
        permissions: at.permissions,
        uid: at.uid,
        gid: at.gid,
        size: at.size,
        links: at.links,
        device: at.device,
        atime: at.atime,
        mtime: at.mtime,
        identity: (at.object.get(), at.generation),
    }
}

impl CopySource for Inside<'_> {
    type Input = ObjectId;

    fn meta(&self, path: &[u8], follow: bool) -> Result<Option<Meta>, Trouble> {
        Ok(self.spot(path, follow)?.node.as_ref().map(meta_of))
    }

    fn list(&self, path: &[u8]) -> Result<Vec<Vec<u8>>, Trouble> {
        let dir = self.object(path, true)?;
        let entries = self.wait(self.files.entries(dir))?;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    fn read_link(&self, path: &[u8]) -> Result<Vec<u8>, Trouble> {
        let object = self.object(path, false)?;
        self.wait(self.files.zfs().readlink(object))
    }

    fn xattrs(&self, path: &[u8]) -> Result<Vec<Xattr>, Trouble> {
        let object = self.object(path, false)?;
        let mut all = Vec::new();
        for name in self.wait(self.files.zfs().xattr_names(object))? {
            let value = self.wait(self.files.zfs().xattr(object, &name))?;
            all.push((name, value));
        }
        Ok(all)
    }

    fn open(&self, path: &[u8]) -> Result<ObjectId, Trouble> {
        self.object(path, true)
    }

    fn data(&self, file: &ObjectId, from: u64, size: u64) -> Result<Option<(u64, u64)>, Trouble> {
        if from >= size {
            return Ok(None);
        }
        let zfs = self.files.zfs();
        self.visit.env().block_on(async {
            let start = match zfs.seek(*file, from, SeekTo::Data).await {
                Err(ZplError::NoSuchOffset) => return Ok(None),
                start => start.map_err(|e| words::file(&e))?,
            };
            let end = zfs.seek(*file, start, SeekTo::Hole).await.map_err(|e| words::file(&e))?;
            Ok(Some((start, end)))
        })
    }

    fn read(&self, file: &ObjectId, at: u64, into: &mut [u8]) -> Result<usize, Trouble> {
        self.wait(self.files.zfs().read(*file, at, into))
    }

    fn salvage(&self, file: &ObjectId, size: u64, put: Put<'_>) -> Result<LostRanges, Trouble> {
        let objset = self.files.zfs().objset();
        salvage(self.visit, objset, *file, size, put)
    }
}

/// Calls `put` for all readable data of an object, and returns the lost ranges.
pub fn salvage(
    visit: &Visit,
    objset: &Arc<Objset>,
    object: ObjectId,
    size: u64,
    put: Put<'_>,
) -> Result<LostRanges, Trouble> {
    visit.env().block_on(async {
        let dnode = objset.hold(object).await.map_err(|error| words::file(&error.into()))?;
        let image = dnode.synced_image();
        let tree = BlockTree::new(objset.zio(), objset.id(), object, &image);
        copy_contents(&tree, size, put).await
    })
}

impl CopyTarget for Inside<'_> {
    type Output = ObjectId;

    fn there(&self, path: &[u8], follow: bool) -> Result<Option<FileKind>, Trouble> {
        Ok(self.spot(path, follow)?.node.map(|node| node.kind))
    }

    fn create(&self, path: &[u8], permissions: u32) -> Result<ObjectId, Trouble> {
        let spot = self.spot(path, true)?;
        let zfs = self.files.zfs();
        match spot.node {
            Some(old) => {
                let empty = SetAttributes { size: Some(0), ..SetAttributes::default() };
                Ok(self.wait(zfs.set_attributes(old.object, empty))?.object)
            }
            None => {
                let made = zfs.create(spot.dir, &spot.name, NewNode::File, permissions, owner());
                Ok(self.wait(made)?.object)
            }
        }
    }

    fn write(&self, file: &ObjectId, at: u64, bytes: &[u8]) -> Result<(), Trouble> {
        self.wait(self.files.zfs().write(*file, at, bytes, WriteFlags::default())).map(drop)
    }

    fn set_size(&self, file: &ObjectId, size: u64) -> Result<(), Trouble> {
        let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
        self.wait(self.files.zfs().set_attributes(*file, set)).map(drop)
    }

    fn make(&self, path: &[u8], new: New<'_>, permissions: u32) -> Result<(), Trouble> {
        let spot = self.spot(path, false)?;
        let node = node(new)?;
        self.wait(self.files.zfs().create(spot.dir, &spot.name, node, permissions, owner())).map(drop)
    }

    fn link(&self, old: &[u8], new: &[u8]) -> Result<(), Trouble> {
        let (object, spot) = (self.object(old, false)?, self.spot(new, false)?);
        self.wait(self.files.zfs().link(object, spot.dir, &spot.name)).map(drop)
    }

    fn remove(&self, path: &[u8]) -> Result<(), Trouble> {
        let spot = self.spot(path, false)?;
        self.wait(self.files.zfs().unlink(spot.dir, &spot.name))
    }

    fn set_xattr(&self, path: &[u8], (name, value): &Xattr) -> Result<(), Trouble> {
        let object = self.object(path, false)?;
        self.wait(self.files.zfs().set_xattr(object, name, value, XattrMode::Set))
    }

    fn set_meta(&self, path: &[u8], meta: &Meta) -> Result<(), Trouble> {
        let object = self.object(path, false)?;
        let owner = SetAttributes { uid: Some(meta.uid), gid: Some(meta.gid), ..SetAttributes::default() };
        self.wait(self.files.zfs().set_attributes(object, owner))?;
        let rest = SetAttributes {
            // Of its own after the owner, whose change drops set-id bits.
            permissions: (meta.kind != FileKind::Symlink).then_some(meta.permissions),
            atime: Some(SetTime::To(meta.atime)),
            mtime: Some(SetTime::To(meta.mtime)),
            ..SetAttributes::default()
        };
        self.wait(self.files.zfs().set_attributes(object, rest)).map(drop)
    }
}

/// Who owns what is made: whoever runs the command.
fn owner() -> Cred {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Cred { uid, gid, umask: 0 }
}

fn node(new: New<'_>) -> Result<NewNode<'_>, Trouble> {
    let special = |kind, device: DeviceNumber| match kind {
        FileKind::Fifo => Some(NewNode::Fifo),
        FileKind::Socket => Some(NewNode::Socket),
        FileKind::CharDevice => Some(NewNode::CharDevice(device)),
        FileKind::BlockDevice => Some(NewNode::BlockDevice(device)),
        FileKind::File | FileKind::Directory | FileKind::Symlink => None,
    };
    match new {
        New::Directory => Ok(NewNode::Directory),
        New::Symlink(text) => Ok(NewNode::Symlink(text)),
        New::Special(kind, device) => special(kind, device).ok_or_else(|| "no special file".to_owned()),
    }
}
