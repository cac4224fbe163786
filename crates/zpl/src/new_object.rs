//! The attributes that an object is born with.

use units::ObjectId;

use crate::acl::TrivialAcl;
use crate::flags;
use crate::mode::{DeviceNumber, FileKind, MODE_EXECUTE};
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
}

/// The stored attributes of a new object, in OpenZFS's order: the places of the first ones
/// are relied on where space is accounted to users.
pub(crate) fn new_attributes(tables: &SaTables, new: &NewAttributes<'_>) -> SaAttrs {
    let is_directory = new.kind == FileKind::Directory;
    let acl = TrivialAcl::of_mode(new.permissions, is_directory);
    let size = match new.target {
        Some(target) => target.len() as u64,
        None if is_directory => 2,
        None => 0,
    };
    let links = if is_directory { 2 } else { 1 };
    let born = new.born.encode();
    let mut attrs = SaAttrs::default();
    attrs.set_word(tables, ZplAttr::Mode, u64::from(new.kind.mode_bits() | new.permissions));
    attrs.set_word(tables, ZplAttr::Size, size);
    attrs.set_word(tables, ZplAttr::Gen, new.generation);
    attrs.set_word(tables, ZplAttr::Uid, u64::from(new.uid));
    attrs.set_word(tables, ZplAttr::Gid, u64::from(new.gid));
    attrs.set_word(tables, ZplAttr::Parent, new.parent.get());
    attrs.set_word(tables, ZplAttr::Flags, birth_flags(new));
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
    attrs.set_word(tables, ZplAttr::DaclCount, acl.count);
    attrs.set_known(tables, ZplAttr::DaclAces, &acl.aces);
    if let Some(target) = new.target {
        attrs.set_known(tables, ZplAttr::Symlink, target);
    }
    attrs
}

fn birth_flags(new: &NewAttributes<'_>) -> u64 {
    let mut flags = new.flags | flags::ARCHIVE | flags::AV_MODIFIED | flags::ACL_TRIVIAL;
    if new.kind == FileKind::Directory {
        flags |= flags::ACL_AUTO_INHERIT;
    }
    if new.project.is_some() {
        flags |= flags::PROJECT_ID;
    }
    flags | exec_flag(new.permissions)
}

/// The flag that says that nobody is denied execution.
pub(crate) fn exec_flag(permissions: u32) -> u64 {
    if permissions & MODE_EXECUTE == MODE_EXECUTE { flags::NO_EXECS_DENIED } else { 0 }
}
