//! The attributes that the file layer knows by name.

/// How a foreign-endian value is swapped: the registry's class numbers.
pub(super) const SWAP_U64: u8 = 0;
pub(super) const SWAP_U32: u8 = 1;
pub(super) const SWAP_U16: u8 = 2;
pub(super) const SWAP_U8: u8 = 3;
pub(super) const SWAP_ACL: u8 = 4;

/// One of the attributes of a file. The discriminant is the place in the table that a new
/// dataset registers, in OpenZFS 2.3's order; a dataset's own numbers come from its registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ZplAttr {
    /// Last access.
    Atime,
    /// Last change of content.
    Mtime,
    /// Last change of attributes or content.
    Ctime,
    /// Creation.
    Crtime,
    /// Group of creation: tells a reused object number apart.
    Gen,
    /// Type and permissions.
    Mode,
    /// Bytes of a file, entries of a directory (`.` and `..` count).
    Size,
    /// Directory it was last linked into.
    Parent,
    /// Names that refer to it.
    Links,
    /// Object number of a directory of extended attributes.
    Xattr,
    /// Device number.
    Rdev,
    /// Persistent flags ([`crate::flags`]).
    Flags,
    /// Owner.
    Uid,
    /// Group.
    Gid,
    /// Unused words of an old znode.
    Pad,
    /// ACL of an old znode.
    ZnodeAcl,
    /// Entries in [`ZplAttr::DaclAces`].
    DaclCount,
    /// Target of a symbolic link.
    Symlink,
    /// A virus scanner's stamp.
    Scanstamp,
    /// The ACL.
    DaclAces,
    /// Extended attributes, a packed nvlist.
    Dxattr,
    /// Project.
    Projid,
}

impl ZplAttr {
    /// How many there are.
    pub const COUNT: usize = 22;

    /// All, in the order of registration.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Atime,
        Self::Mtime,
        Self::Ctime,
        Self::Crtime,
        Self::Gen,
        Self::Mode,
        Self::Size,
        Self::Parent,
        Self::Links,
        Self::Xattr,
        Self::Rdev,
        Self::Flags,
        Self::Uid,
        Self::Gid,
        Self::Pad,
        Self::ZnodeAcl,
        Self::DaclCount,
        Self::Symlink,
        Self::Scanstamp,
        Self::DaclAces,
        Self::Dxattr,
        Self::Projid,
    ];

    /// Attributes of the old znode: their numbers are fixed, registered or not.
    pub const LEGACY_COUNT: usize = 16;

    /// Place in [`ZplAttr::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The registered name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Atime => "ZPL_ATIME",
            Self::Mtime => "ZPL_MTIME",
            Self::Ctime => "ZPL_CTIME",
            Self::Crtime => "ZPL_CRTIME",
            Self::Gen => "ZPL_GEN",
            Self::Mode => "ZPL_MODE",
            Self::Size => "ZPL_SIZE",
            Self::Parent => "ZPL_PARENT",
            Self::Links => "ZPL_LINKS",
            Self::Xattr => "ZPL_XATTR",
            Self::Rdev => "ZPL_RDEV",
            Self::Flags => "ZPL_FLAGS",
            Self::Uid => "ZPL_UID",
            Self::Gid => "ZPL_GID",
            Self::Pad => "ZPL_PAD",
            Self::ZnodeAcl => "ZPL_ZNODE_ACL",
            Self::DaclCount => "ZPL_DACL_COUNT",
            Self::Symlink => "ZPL_SYMLINK",
            Self::Scanstamp => "ZPL_SCANSTAMP",
            Self::DaclAces => "ZPL_DACL_ACES",
            Self::Dxattr => "ZPL_DXATTR",
            Self::Projid => "ZPL_PROJID",
        }
    }

    /// Bytes of a value; 0 when each value has its own length.
    #[must_use]
    pub const fn length(self) -> u16 {
        match self {
            Self::Atime | Self::Mtime | Self::Ctime | Self::Crtime => 16,
            Self::Pad | Self::Scanstamp => 32,
            Self::ZnodeAcl => 88,
            Self::Symlink | Self::DaclAces | Self::Dxattr => 0,
            _ => 8,
        }
    }

    /// The byte order class that the registry records.
    #[must_use]
    pub const fn swap_class(self) -> u8 {
        match self {
            Self::DaclAces => SWAP_ACL,
            Self::ZnodeAcl | Self::Symlink | Self::Scanstamp | Self::Dxattr => SWAP_U8,
            _ => SWAP_U64,
        }
    }
}
