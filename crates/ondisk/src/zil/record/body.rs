//! Log records as they are in memory.

use units::ObjectId;

use crate::blkptr::Blkptr;

/// A time: seconds since 1970, and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970; negative before.
    pub seconds: i64,
    /// Nanoseconds, 0 to 999,999,999 as a rule; kept as read.
    pub nanos: u64,
}

/// Additional attributes that come with a create or setattr.
///
/// ```text
///  0 words in bitmap (u32)   4 bitmap   then: attrs (u64)   crtime   scan stamp (32 bytes)
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LrAttr {
    /// Which attributes are set; three words as a rule.
    pub bitmap: Vec<u32>,
    /// Values of flag attributes.
    pub attrs: u64,
    /// Time of creation, where the bitmap asks for it.
    pub crtime: Timestamp,
    /// Scan stamp; or a project id in the first 8 bytes.
    pub scanstamp: [u8; 32],
}

/// A file, directory, attribute directory or symbolic link was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LrCreate {
    /// The directory.
    pub dir: ObjectId,
    /// The new object.
    pub object: ObjectId,
    /// Slots its dnode takes, 1 to 32.
    pub slots: u8,
    /// Mode with file type.
    pub mode: u64,
    /// Owner; an index into `domains` in the upper half for foreign ids.
    pub uid: u64,
    /// Group; the same.
    pub gid: u64,
    /// The txg of creation.
    pub generation: u64,
    /// Time of creation.
    pub crtime: Timestamp,
    /// Device number.
    pub rdev: u64,
    /// Attributes; there in the `Attr` types, and only there.
    pub attr: Option<LrAttr>,
    /// Domains of foreign owner and group.
    pub domains: Vec<Vec<u8>>,
    /// The name.
    pub name: Vec<u8>,
    /// The text of a symbolic link; there in that type, and only there.
    pub target: Option<Vec<u8>>,
}

/// The ACL of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LrAclBody {
    /// Entries.
    pub aces: u64,
    /// ACL-wide flags.
    pub flags: u64,
    /// The entries, as [`crate::acl::decode_logged`] reads them.
    pub bytes: Vec<u8>,
    /// Foreign ids of entries.
    pub fuids: Vec<u64>,
    /// Domains of foreign ids.
    pub domains: Vec<Vec<u8>>,
}

/// A file or directory was made with an ACL. `create.domains` is empty: they are in `acl`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LrCreateAcl {
    /// What was made.
    pub create: LrCreate,
    /// With which ACL.
    pub acl: LrAclBody,
}

/// A name was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LrRemove {
    /// The directory.
    pub dir: ObjectId,
    /// The name.
    pub name: Vec<u8>,
}

/// A file got another name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LrLink {
    /// The directory.
    pub dir: ObjectId,
    /// The file.
    pub object: ObjectId,
    /// The name.
    pub name: Vec<u8>,
}

/// A name was changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LrRename {
    /// Where it was.
    pub source_dir: ObjectId,
    /// Where it went.
    pub target_dir: ObjectId,
    /// The old name.
    pub source: Vec<u8>,
    /// The new name.
    pub target: Vec<u8>,
}

/// A name was changed, and a whiteout put in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LrRenameWhiteout {
    /// The rename.
    pub rename: LrRename,
    /// The whiteout's object.
    pub object: ObjectId,
    /// Slots its dnode takes.
    pub slots: u8,
    /// Its mode with file type.
    pub mode: u64,
    /// Its owner.
    pub uid: u64,
    /// Its group.
    pub gid: u64,
    /// The txg of its creation.
    pub generation: u64,
    /// Time of its creation.
    pub crtime: Timestamp,
    /// Its device number.
    pub rdev: u64,
}

/// Data were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LrWrite {
    /// The file.
    pub object: ObjectId,
    /// Where in it.
    pub offset: u64,
    /// Bytes written.
    pub length: u64,
    /// No longer used; zero.
    pub blkoff: u64,
    /// Where the file's whole block went, when `data` is `None`; a hole for zeroes.
    pub blkptr: Blkptr,
    /// The data, `length` bytes; `None` when they are in the block of `blkptr`.
    pub data: Option<Vec<u8>>,
}

/// A range was freed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LrTruncate {
    /// The file.
    pub object: ObjectId,
    /// From where on.
    pub offset: u64,
    /// How much; zero to cut the file here.
    pub length: u64,
}

/// Attributes were set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LrSetattr {
    /// The file.
    pub object: ObjectId,
    /// Which of the following count: [`attr_mask`].
    pub mask: u64,
    /// Mode with file type.
    pub mode: u64,
    /// Owner.
    pub uid: u64,
    /// Group.
    pub gid: u64,
    /// Length of the file.
    pub size: u64,
    /// Time of last access.
    pub atime: Timestamp,
    /// Time of last change of data.
    pub mtime: Timestamp,
    /// Additional attributes; there when the mask says so.
    pub attr: Option<LrAttr>,
    /// Domains of foreign owner and group.
    pub domains: Vec<Vec<u8>>,
}

/// Bits of [`LrSetattr::mask`], as the writers on Linux have them. (The log is not portable here:
/// illumos and FreeBSD write other bits, and nothing in the record tells which.)
pub mod attr_mask {
    /// `mode` counts.
    pub const MODE: u64 = 1 << 0;
    /// `uid` counts.
    pub const UID: u64 = 1 << 1;
    /// `gid` counts.
    pub const GID: u64 = 1 << 2;
    /// `size` counts.
    pub const SIZE: u64 = 1 << 3;
    /// `atime` counts.
    pub const ATIME: u64 = 1 << 4;
    /// `mtime` counts.
    pub const MTIME: u64 = 1 << 5;
    /// The time of last change of attributes counts; replay always sets it.
    pub const CTIME: u64 = 1 << 6;
    /// Additional attributes follow.
    pub const XVATTR: u64 = 1 << 31;
}

/// Bits of [`LrAttr::attrs`] and of the first word of [`LrAttr::bitmap`].
pub mod xattr_bits {
    /// Time of creation.
    pub const CREATETIME: u32 = 0x0000_0001;
    /// DOS: archive.
    pub const ARCHIVE: u32 = 0x0000_0002;
    /// DOS: system.
    pub const SYSTEM: u32 = 0x0000_0004;
    /// DOS: read-only.
    pub const READONLY: u32 = 0x0000_0008;
    /// DOS: hidden.
    pub const HIDDEN: u32 = 0x0000_0010;
    /// May not be removed.
    pub const NOUNLINK: u32 = 0x0000_0020;
    /// May not be changed.
    pub const IMMUTABLE: u32 = 0x0000_0040;
    /// May only be appended to.
    pub const APPENDONLY: u32 = 0x0000_0080;
    /// Left out of dumps.
    pub const NODUMP: u32 = 0x0000_0100;
    /// A union file system looks no further.
    pub const OPAQUE: u32 = 0x0000_0200;
    /// A virus scanner locked it up.
    pub const AV_QUARANTINED: u32 = 0x0000_0400;
    /// Changed since the last virus scan.
    pub const AV_MODIFIED: u32 = 0x0000_0800;
    /// The scan stamp is there.
    pub const AV_SCANSTAMP: u32 = 0x0000_1000;
    /// Reparse point.
    pub const REPARSE: u32 = 0x0000_2000;
    /// Generation number (read only).
    pub const GENERATION: u32 = 0x0000_4000;
    /// DOS: offline.
    pub const OFFLINE: u32 = 0x0000_8000;
    /// DOS: sparse.
    pub const SPARSE: u32 = 0x0001_0000;
    /// New files inherit the directory's project.
    pub const PROJINHERIT: u32 = 0x0002_0000;
    /// The project id is there.
    pub const PROJID: u32 = 0x0004_0000;
}

/// An extended attribute kept in system attributes was set or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LrSetSaXattr {
    /// The file.
    pub object: ObjectId,
    /// The attribute's name.
    pub name: Vec<u8>,
    /// Its value; empty to remove it.
    pub value: Vec<u8>,
}

/// An old ACL was set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LrAclV0 {
    /// The file.
    pub object: ObjectId,
    /// The entries, 12 bytes each, as in [`crate::acl`].
    pub aces: Vec<[u8; 12]>,
}

/// An ACL was set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LrAcl {
    /// The file.
    pub object: ObjectId,
    /// The ACL.
    pub acl: LrAclBody,
}

/// Blocks were cloned into a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LrCloneRange {
    /// The file cloned into.
    pub object: ObjectId,
    /// Where in it.
    pub offset: u64,
    /// Bytes cloned.
    pub length: u64,
    /// The file's block size.
    pub block_bytes: u64,
    /// The blocks, some of them holes.
    pub blkptrs: Vec<Blkptr>,
}
