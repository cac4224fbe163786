//! The attributes that an object is born with.

use units::ObjectId;

use crate::acl::{Acl, Owners, with_rwx};
use crate::flags;
use crate::mode::{DeviceNumber, FileKind};
use crate::sa::{SaAttrs, SaTables, ZplAttr};
use crate::time::Timestamp;

/// Header of a dnode and its one block pointer: what a slot has no room for bonus in.
const DNODE_CORE_BYTES: usize = 64 + 128;
/// A dnode slot.
const SLOT_BYTES: usize = 512;

/// Bytes of bonus in a dnode of this many slots with one block pointer.
pub(crate) const fn bonus_capacity(slots: u8) -> usize {
    slots as usize * SLOT_BYTES - DNODE_CORE_BYTES
}

/// What a new object is to be.
#[derive(Clone, Debug)]
pub(crate) struct NewAttributes<'a> {
    pub kind: FileKind,
    pub permissions: u32,
    pub uid: u32,
    pub gid: u32,
    pub generation: u64,
    pub parent: ObjectId,
    pub born: Timestamp,
    pub device: Option<DeviceNumber>,
    pub target: Option<&'a [u8]>,
    pub project: Option<u64>,
    /// Flags inherited from the directory.
    pub flags: u64,
    /// An ACL of its own, which the permissions follow.
    pub acl: Option<&'a Acl>,
}

/// The stored attributes of a new object, in OpenZFS's order: the places of the first ones
/// are relied on where space is accounted to users.
pub(crate) fn new_attributes(tables: &SaTables, new: &NewAttributes<'_>) -> SaAttrs {
    let is_directory = new.kind == FileKind::Directory;
    let owners = Owners { uid: new.uid.into(), gid: new.gid.into() };
    let acl = new.acl.cloned().unwrap_or_else(|| Acl::of_mode(new.permissions, is_directory));
    let permissions = with_rwx(new.permissions, acl.rwx(owners));
    let size = match new.target {
        Some(target) => target.len() as u64,
        None if is_directory => 2,
        None => 0,
    };
    let links = if is_directory { 2 } else { 1 };
    let born = new.born.encode();
    let mut attrs = SaAttrs::with_room();
    attrs.set_word(tables, ZplAttr::Mode, u64::from(new.kind.mode_bits() | permissions));
    attrs.set_word(tables, ZplAttr::Size, size);
    attrs.set_word(tables, ZplAttr::Gen, new.generation);
    attrs.set_word(tables, ZplAttr::Uid, u64::from(new.uid));
    attrs.set_word(tables, ZplAttr::Gid, u64::from(new.gid));
    attrs.set_word(tables, ZplAttr::Parent, new.parent.get());
    attrs.set_word(tables, ZplAttr::Flags, birth_flags(new) | acl.flags(is_directory, owners));
    for time in [ZplAttr::Atime, ZplAttr::Mtime, ZplAttr::Ctime, ZplAttr::Crtime] {
        attrs.set_known(tables, time, &born);
    }
    attrs.set_word(tables, ZplAttr::Links, links);
    if let Some(project) = new.project {
        attrs.set_word(tables, ZplAttr::Projid, project);
    }
    if let Some(device) = new.device {
        attrs.set_word(tables, ZplAttr::Rdev, device.encode());
    }
    attrs.set_word(tables, ZplAttr::DaclCount, acl.count());
    attrs.set_known(tables, ZplAttr::DaclAces, &acl.bytes());
    if let Some(target) = new.target {
        attrs.set_known(tables, ZplAttr::Symlink, target);
    }
    attrs
}

fn birth_flags(new: &NewAttributes<'_>) -> u64 {
    let project = if new.project.is_some() { flags::PROJID } else { 0 };
    new.flags | flags::ARCHIVE | flags::AV_MODIFIED | project
}
