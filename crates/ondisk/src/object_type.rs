//! What an object, a bonus area or a block holds: the format's one-byte type.
//!
//! Two number spaces share the byte. Up to 53 every number stands for one use, in a table. From
//! 0x80 on the byte describes itself, and no more table entries are made:
//!
//! ```text
//!   7   6   5   4       0
//! +---+---+---+-----------+
//! | 1 | M | E | byte swap |   M metadata, E encrypted in encrypted datasets
//! +---+---+---+-----------+
//! ```

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// How the contents of a block are turned from one byte order into the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ByteSwap {
    /// Bytes: nothing to swap.
    Uint8 = 0,
    /// An array of 16-bit words.
    Uint16 = 1,
    /// An array of 32-bit words.
    Uint32 = 2,
    /// An array of 64-bit words.
    Uint64 = 3,
    /// A ZAP block.
    Zap = 4,
    /// Dnodes.
    Dnode = 5,
    /// An objset.
    Objset = 6,
    /// An old znode.
    Znode = 7,
    /// An ACL of file-system version 1.
    Oldacl = 8,
    /// An ACL.
    Acl = 9,
}

impl ByteSwap {
    /// All classes, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Uint8,
        Self::Uint16,
        Self::Uint32,
        Self::Uint64,
        Self::Zap,
        Self::Dnode,
        Self::Objset,
        Self::Znode,
        Self::Oldacl,
        Self::Acl,
    ];
}

/// What a type says about the blocks that carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectTypeProps {
    /// How its blocks are swapped.
    pub byte_swap: ByteSwap,
    /// Metadata is written in one more copy than data, and never with a weak checksum.
    pub is_metadata: bool,
    /// Encrypted in encrypted datasets (as opposed to authenticated only).
    pub is_encrypted: bool,
    /// The name `zdb` prints.
    pub name: &'static str,
}

/// The type of an object, of a bonus area or of a block; any byte, see [`ObjectType::props`].
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(transparent)]
pub struct ObjectType(u8);

const fn row(
    byte_swap: ByteSwap,
    is_metadata: bool,
    is_encrypted: bool,
    name: &'static str,
) -> ObjectTypeProps {
    ObjectTypeProps { byte_swap, is_metadata, is_encrypted, name }
}

/// The old number space, in order; flags as OpenZFS registers them.
static TABLE: [ObjectTypeProps; 54] = [
    row(ByteSwap::Uint8, true, false, "unallocated"),
    row(ByteSwap::Zap, true, false, "object directory"),
    row(ByteSwap::Uint64, true, false, "object array"),
    row(ByteSwap::Uint8, true, false, "packed nvlist"),
    row(ByteSwap::Uint64, true, false, "packed nvlist size"),
    row(ByteSwap::Uint64, true, false, "bpobj"),
    row(ByteSwap::Uint64, true, false, "bpobj header"),
    row(ByteSwap::Uint64, true, false, "SPA space map header"),
    row(ByteSwap::Uint64, true, false, "SPA space map"),
    row(ByteSwap::Uint64, true, true, "ZIL intent log"),
    row(ByteSwap::Dnode, true, true, "DMU dnode"),
    row(ByteSwap::Objset, true, false, "DMU objset"),
    row(ByteSwap::Uint64, true, false, "DSL directory"),
    row(ByteSwap::Zap, true, false, "DSL directory child map"),
    row(ByteSwap::Zap, true, false, "DSL dataset snap map"),
    row(ByteSwap::Zap, true, false, "DSL props"),
    row(ByteSwap::Uint64, true, false, "DSL dataset"),
    row(ByteSwap::Znode, true, false, "ZFS znode"),
    row(ByteSwap::Oldacl, true, true, "ZFS V0 ACL"),
    row(ByteSwap::Uint8, false, true, "ZFS plain file"),
    row(ByteSwap::Zap, true, true, "ZFS directory"),
    row(ByteSwap::Zap, true, false, "ZFS master node"),
    row(ByteSwap::Zap, true, true, "ZFS delete queue"),
    row(ByteSwap::Uint8, false, true, "zvol object"),
    row(ByteSwap::Zap, true, false, "zvol prop"),
    row(ByteSwap::Uint8, false, true, "other uint8[]"),
    row(ByteSwap::Uint64, false, true, "other uint64[]"),
    row(ByteSwap::Zap, true, false, "other ZAP"),
    row(ByteSwap::Zap, true, false, "persistent error log"),
    row(ByteSwap::Uint8, true, false, "SPA history"),
    row(ByteSwap::Uint64, true, false, "SPA history offsets"),
    row(ByteSwap::Zap, true, false, "Pool properties"),
    row(ByteSwap::Zap, true, false, "DSL permissions"),
    row(ByteSwap::Acl, true, true, "ZFS ACL"),
    row(ByteSwap::Uint8, true, true, "ZFS SYSACL"),
    row(ByteSwap::Uint8, true, true, "FUID table"),
    row(ByteSwap::Uint64, true, false, "FUID table size"),
    row(ByteSwap::Zap, true, false, "DSL dataset next clones"),
    row(ByteSwap::Zap, true, false, "scan work queue"),
    row(ByteSwap::Zap, true, true, "ZFS user/group/project used"),
    row(ByteSwap::Zap, true, true, "ZFS user/group/project quota"),
    row(ByteSwap::Zap, true, false, "snapshot refcount tags"),
    row(ByteSwap::Zap, true, false, "DDT ZAP algorithm"),
    row(ByteSwap::Zap, true, false, "DDT statistics"),
    row(ByteSwap::Uint8, true, true, "System attributes"),
    row(ByteSwap::Zap, true, true, "SA master node"),
    row(ByteSwap::Zap, true, true, "SA attr registration"),
    row(ByteSwap::Zap, true, true, "SA attr layouts"),
    row(ByteSwap::Zap, true, false, "scan translations"),
    row(ByteSwap::Uint8, false, true, "deduplicated block"),
    row(ByteSwap::Zap, true, false, "DSL deadlist map"),
    row(ByteSwap::Uint64, true, false, "DSL deadlist map hdr"),
    row(ByteSwap::Zap, true, false, "DSL dir clones"),
    row(ByteSwap::Uint64, true, false, "bpobj subobj"),
];

const NEW_STYLE: u8 = 0x80;
const METADATA: u8 = 0x40;
const ENCRYPTED: u8 = 0x20;
const SWAP_MASK: u8 = 0x1f;

impl ObjectType {
    /// No object.
    pub const NONE: Self = Self(0);
    /// The MOS directory: names of the pool's top objects.
    pub const OBJECT_DIRECTORY: Self = Self(1);
    /// A plain array of object numbers.
    pub const OBJECT_ARRAY: Self = Self(2);
    /// An XDR nvlist.
    pub const PACKED_NVLIST: Self = Self(3);
    /// Bonus of a packed nvlist: its length in bytes.
    pub const PACKED_NVLIST_SIZE: Self = Self(4);
    /// A list of blkptrs waiting to be freed.
    pub const BPOBJ: Self = Self(5);
    /// Bonus of a bpobj.
    pub const BPOBJ_HDR: Self = Self(6);
    /// Bonus of a space map.
    pub const SPACE_MAP_HEADER: Self = Self(7);
    /// Allocations and frees of one metaslab.
    pub const SPACE_MAP: Self = Self(8);
    /// An intent-log block.
    pub const INTENT_LOG: Self = Self(9);
    /// The meta-dnode's contents: dnodes.
    pub const DNODE: Self = Self(10);
    /// An objset block.
    pub const OBJSET: Self = Self(11);
    /// A dataset directory (bonus).
    pub const DSL_DIR: Self = Self(12);
    /// Names of a directory's children.
    pub const DSL_DIR_CHILD_MAP: Self = Self(13);
    /// Names of a dataset's snapshots.
    pub const DSL_DS_SNAP_MAP: Self = Self(14);
    /// Properties set on a directory or snapshot.
    pub const DSL_PROPS: Self = Self(15);
    /// A dataset: head or snapshot (bonus).
    pub const DSL_DATASET: Self = Self(16);
    /// A file's attributes before system attributes (bonus).
    pub const ZNODE: Self = Self(17);
    /// An ACL object of file-system version 1.
    pub const OLDACL: Self = Self(18);
    /// A file's data.
    pub const PLAIN_FILE_CONTENTS: Self = Self(19);
    /// A directory's names.
    pub const DIRECTORY_CONTENTS: Self = Self(20);
    /// A file system's own values, object 1.
    pub const MASTER_NODE: Self = Self(21);
    /// Files unlinked but not yet freed.
    pub const UNLINKED_SET: Self = Self(22);
    /// A volume's data.
    pub const ZVOL: Self = Self(23);
    /// A volume's own values.
    pub const ZVOL_PROP: Self = Self(24);
    /// Bytes, for tests.
    pub const PLAIN_OTHER: Self = Self(25);
    /// 64-bit words, for tests.
    pub const UINT64_OTHER: Self = Self(26);
    /// A ZAP, for tests.
    pub const ZAP_OTHER: Self = Self(27);
    /// Blocks found damaged.
    pub const ERROR_LOG: Self = Self(28);
    /// Commands the pool has seen.
    pub const SPA_HISTORY: Self = Self(29);
    /// Bonus of the history.
    pub const SPA_HISTORY_OFFSETS: Self = Self(30);
    /// Properties of the pool.
    pub const POOL_PROPS: Self = Self(31);
    /// Delegated permissions.
    pub const DSL_PERMS: Self = Self(32);
    /// An ACL too long for its znode.
    pub const ACL: Self = Self(33);
    /// A system ACL.
    pub const SYSACL: Self = Self(34);
    /// Domains of foreign user ids, an nvlist.
    pub const FUID: Self = Self(35);
    /// Bonus of the FUID table: its length.
    pub const FUID_SIZE: Self = Self(36);
    /// Clones made of a snapshot.
    pub const NEXT_CLONES: Self = Self(37);
    /// Datasets a scan has still to visit.
    pub const SCAN_QUEUE: Self = Self(38);
    /// Space used by user, group or project.
    pub const USERGROUP_USED: Self = Self(39);
    /// Quotas of users, groups or projects.
    pub const USERGROUP_QUOTA: Self = Self(40);
    /// Holds on a snapshot.
    pub const USERREFS: Self = Self(41);
    /// Dedup table entries.
    pub const DDT_ZAP: Self = Self(42);
    /// Dedup table figures.
    pub const DDT_STATS: Self = Self(43);
    /// A file's attributes (bonus and spill).
    pub const SA: Self = Self(44);
    /// Names the attribute registry and layouts.
    pub const SA_MASTER_NODE: Self = Self(45);
    /// Attribute names with number, size, byte swap.
    pub const SA_ATTR_REGISTRATION: Self = Self(46);
    /// Layout numbers with their attributes.
    pub const SA_ATTR_LAYOUTS: Self = Self(47);
    /// Left by old scans.
    pub const SCAN_XLATE: Self = Self(48);
    /// Never stored: a blkptr made from a dedup entry.
    pub const DEDUP: Self = Self(49);
    /// Deadlist: birth txg to bpobj.
    pub const DEADLIST: Self = Self(50);
    /// Bonus of a deadlist.
    pub const DEADLIST_HDR: Self = Self(51);
    /// Clones of a directory.
    pub const DSL_CLONES: Self = Self(52);
    /// Object numbers of bpobjs within a bpobj.
    pub const BPOBJ_SUBOBJ: Self = Self(53);
    /// New-style: uint8 data.
    pub const OTN_UINT8_DATA: Self = Self(0x80);
    /// New-style: uint8 metadata.
    pub const OTN_UINT8_METADATA: Self = Self(0xc0);
    /// New-style: uint16 data.
    pub const OTN_UINT16_DATA: Self = Self(0x81);
    /// New-style: uint16 metadata.
    pub const OTN_UINT16_METADATA: Self = Self(0xc1);
    /// New-style: uint32 data.
    pub const OTN_UINT32_DATA: Self = Self(0x82);
    /// New-style: uint32 metadata.
    pub const OTN_UINT32_METADATA: Self = Self(0xc2);
    /// New-style: uint64 data.
    pub const OTN_UINT64_DATA: Self = Self(0x83);
    /// New-style: uint64 metadata.
    pub const OTN_UINT64_METADATA: Self = Self(0xc3);
    /// New-style: zap data.
    pub const OTN_ZAP_DATA: Self = Self(0x84);
    /// New-style: zap metadata.
    pub const OTN_ZAP_METADATA: Self = Self(0xc4);
    /// New-style: uint8 data, encrypted.
    pub const OTN_UINT8_ENC_DATA: Self = Self(0xa0);
    /// New-style: uint8 metadata, encrypted.
    pub const OTN_UINT8_ENC_METADATA: Self = Self(0xe0);
    /// New-style: uint16 data, encrypted.
    pub const OTN_UINT16_ENC_DATA: Self = Self(0xa1);
    /// New-style: uint16 metadata, encrypted.
    pub const OTN_UINT16_ENC_METADATA: Self = Self(0xe1);
    /// New-style: uint32 data, encrypted.
    pub const OTN_UINT32_ENC_DATA: Self = Self(0xa2);
    /// New-style: uint32 metadata, encrypted.
    pub const OTN_UINT32_ENC_METADATA: Self = Self(0xe2);
    /// New-style: uint64 data, encrypted.
    pub const OTN_UINT64_ENC_DATA: Self = Self(0xa3);
    /// New-style: uint64 metadata, encrypted.
    pub const OTN_UINT64_ENC_METADATA: Self = Self(0xe3);
    /// New-style: zap data, encrypted.
    pub const OTN_ZAP_ENC_DATA: Self = Self(0xa4);
    /// New-style: zap metadata, encrypted.
    pub const OTN_ZAP_ENC_METADATA: Self = Self(0xe4);

    /// Gives a raw byte its type; any byte, valid or not.
    #[must_use]
    pub const fn new(raw: u8) -> Self {
        Self(raw)
    }

    /// The raw byte.
    #[must_use]
    pub const fn raw(self) -> u8 {
        self.0
    }

    /// What the type says; `None` for a number the format does not have.
    #[must_use]
    pub fn props(self) -> Option<ObjectTypeProps> {
        if self.0 & NEW_STYLE == 0 {
            return TABLE.get(usize::from(self.0)).copied();
        }
        let byte_swap = ByteSwap::ALL.get(usize::from(self.0 & SWAP_MASK)).copied()?;
        let is_metadata = self.0 & METADATA != 0;
        let is_encrypted = self.0 & ENCRYPTED != 0;
        Some(row(byte_swap, is_metadata, is_encrypted, new_style_name(byte_swap, is_metadata)))
    }

    /// Whether the format has this number.
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.props().is_some()
    }

    /// Metadata; an unknown type counts as such, which errs on the side of more copies.
    #[must_use]
    pub fn is_metadata(self) -> bool {
        self.props().is_none_or(|props| props.is_metadata)
    }

    /// Whether the fill count of its level-0 blkptrs counts things inside the block (allocated
    /// dnodes), so that it cannot be embedded in a blkptr.
    #[must_use]
    pub fn counts_fill(self) -> bool {
        self == Self::DNODE || self == Self::OBJSET
    }
}

const fn new_style_name(byte_swap: ByteSwap, is_metadata: bool) -> &'static str {
    match (byte_swap, is_metadata) {
        (ByteSwap::Uint8, false) => "uint8 data",
        (ByteSwap::Uint8, true) => "uint8 metadata",
        (ByteSwap::Uint16, false) => "uint16 data",
        (ByteSwap::Uint16, true) => "uint16 metadata",
        (ByteSwap::Uint32, false) => "uint32 data",
        (ByteSwap::Uint32, true) => "uint32 metadata",
        (ByteSwap::Uint64, false) => "uint64 data",
        (ByteSwap::Uint64, true) => "uint64 metadata",
        (ByteSwap::Zap, false) => "zap data",
        (ByteSwap::Zap, true) => "zap metadata",
        (_, false) => "other data",
        (_, true) => "other metadata",
    }
}

impl std::fmt::Debug for ObjectType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.props() {
            Some(props) => write!(f, "ObjectType({}, {})", self.0, props.name),
            None => write!(f, "ObjectType({}, unknown)", self.0),
        }
    }
}
