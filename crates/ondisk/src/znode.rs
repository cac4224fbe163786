//! Files as file systems before version 5 keep them, and names all file systems use.
//!
//! From version 5 on the same attributes lie in system attributes ([`crate::sa`]).

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::acl::AclPhys;

/// Bytes of an old znode; a short symbolic link's text follows in the bonus.
pub const ZNODE_BYTES: usize = 264;
/// Object number of the master node of file systems and volumes.
pub const MASTER_NODE: units::ObjectId = units::ObjectId::new(1);
/// The newest version of file systems.
pub const ZPL_VERSION: u64 = 5;
/// First version whose files use system attributes.
pub const ZPL_VERSION_SA: u64 = 5;

/// Names in the master node of a file system (its properties that never change are there as well:
/// `version`, `normalization`, `utf8only`, `casesensitivity`).
pub mod master {
    /// The version of the file system.
    pub const VERSION: &str = "VERSION";
    /// Object of the root directory.
    pub const ROOT: &str = "ROOT";
    /// ZAP of files unlinked but not yet freed; keys are object numbers in hex.
    pub const DELETE_QUEUE: &str = "DELETE_QUEUE";
    /// Object of the SA master node.
    pub const SA_ATTRS: &str = "SA_ATTRS";
    /// Object of the domains of foreign user ids.
    pub const FUID: &str = "FUID";
    /// Object of the hidden directory with SMB shares.
    pub const SHARES: &str = "SHARES";
    /// File-system id (unused).
    pub const FSID: &str = "FSID";
    /// How names are normalized.
    pub const NORMALIZATION: &str = "normalization";
    /// Whether names must be UTF-8.
    pub const UTF8ONLY: &str = "utf8only";
    /// Whether case matters in names.
    pub const CASESENSITIVITY: &str = "casesensitivity";
    /// Object of quotas by user.
    pub const USERQUOTA: &str = "userquota@";
    /// Object of quotas by group.
    pub const GROUPQUOTA: &str = "groupquota@";
    /// Object of quotas by project.
    pub const PROJECTQUOTA: &str = "projectquota@";
    /// Object of object quotas by user.
    pub const USEROBJQUOTA: &str = "userobjquota@";
    /// Object of object quotas by group.
    pub const GROUPOBJQUOTA: &str = "groupobjquota@";
    /// Object of object quotas by project.
    pub const PROJECTOBJQUOTA: &str = "projectobjquota@";
}

/// Bits of a file's flags.
pub mod flags {
    /// Is an extended attribute, or a directory of such.
    pub const XATTR: u64 = 0x1;
    /// The ACL has entries for children to inherit.
    pub const INHERIT_ACE: u64 = 0x2;
    /// The ACL says just what the mode says.
    pub const ACL_TRIVIAL: u64 = 0x4;
    /// The ACL has entries for object types.
    pub const ACL_OBJ_ACE: u64 = 0x8;
    /// The ACL is not to be changed by inheritance.
    pub const ACL_PROTECTED: u64 = 0x10;
    /// The ACL came by default.
    pub const ACL_DEFAULTED: u64 = 0x20;
    /// The ACL was inherited.
    pub const ACL_AUTO_INHERIT: u64 = 0x40;
    /// A scan stamp follows an old znode.
    pub const BONUS_SCANSTAMP: u64 = 0x80;
    /// The ACL denies nobody execution that the mode allows.
    pub const NO_EXECS_DENIED: u64 = 0x100;
    /// DOS: read-only.
    pub const READONLY: u64 = 1 << 32;
    /// DOS: hidden.
    pub const HIDDEN: u64 = 1 << 33;
    /// DOS: system.
    pub const SYSTEM: u64 = 1 << 34;
    /// DOS: archive.
    pub const ARCHIVE: u64 = 1 << 35;
    /// May not be changed.
    pub const IMMUTABLE: u64 = 1 << 36;
    /// May not be removed.
    pub const NOUNLINK: u64 = 1 << 37;
    /// May only be appended to.
    pub const APPENDONLY: u64 = 1 << 38;
    /// Left out of dumps.
    pub const NODUMP: u64 = 1 << 39;
    /// A union file system looks no further.
    pub const OPAQUE: u64 = 1 << 40;
    /// A virus scanner locked it up.
    pub const AV_QUARANTINED: u64 = 1 << 41;
    /// Changed since the last virus scan.
    pub const AV_MODIFIED: u64 = 1 << 42;
    /// Reparse point.
    pub const REPARSE: u64 = 1 << 43;
    /// DOS: offline.
    pub const OFFLINE: u64 = 1 << 44;
    /// DOS: sparse.
    pub const SPARSE: u64 = 1 << 45;
    /// New files inherit the directory's project.
    pub const PROJINHERIT: u64 = 1 << 46;
    /// The project attribute is there.
    pub const PROJID: u64 = 1 << 47;
}

/// An old znode: the bonus of type `ZNODE`. Times are seconds and nanoseconds.
///
/// ```text
///   0 atime   16 mtime   32 ctime   48 crtime   64 gen   72 mode   80 size   88 parent   96 links
/// 104 xattr  112 rdev   120 flags  128 uid     136 gid  144 zap   152 zero (3)  176 acl  264 end
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ZnodePhys {
    /// Time of last access.
    pub atime: [U64; 2],
    /// Time of last change of data.
    pub mtime: [U64; 2],
    /// Time of last change of attributes.
    pub ctime: [U64; 2],
    /// Time of creation.
    pub crtime: [U64; 2],
    /// Txg of creation.
    pub generation: U64,
    /// Mode with file type.
    pub mode: U64,
    /// Length in bytes, or names.
    pub size: U64,
    /// The directory.
    pub parent: U64,
    /// Names.
    pub links: U64,
    /// Attribute directory.
    pub xattr: U64,
    /// Device number.
    pub rdev: U64,
    /// See [`flags`].
    pub flags: U64,
    /// Owner.
    pub uid: U64,
    /// Group.
    pub gid: U64,
    /// Unused.
    pub zap: U64,
    /// Zero.
    pub pad: [U64; 3],
    /// The ACL, or where it is.
    pub acl: AclPhys,
}
const _: () = assert!(size_of::<ZnodePhys>() == ZNODE_BYTES);
const _: () = assert!(std::mem::offset_of!(ZnodePhys, flags) == 120);
const _: () = assert!(std::mem::offset_of!(ZnodePhys, acl) == 176);

impl ZnodePhys {
    /// Reads a bonus.
    ///
    /// # Errors
    /// When it is shorter than 264 bytes.
    pub fn decode(bonus: &[u8]) -> Result<Self, crate::OndiskError> {
        crate::reader::prefix("znode", bonus)
    }
}
