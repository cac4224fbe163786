//! System attributes: a file's attributes, packed in the bonus and in a spill block.
//!
//! ```text
//!  buffer:   | header | attribute | attribute | ...          in the order its layout lists them
//!  header:   0 magic u32   4 header size / 8 (6 bits), layout (10 bits)   6 length u16[]   8n
//!  registry: u64 by name:   | zero | length (16) | byte swap (8) | number (16) |
//!                          64     40            24              16            0
//!  layouts:  u16[] by decimal number: the attributes' numbers
//! ```
//! Attributes have numbers, given by each file system's registry (a ZAP), and sizes: fixed, or
//! variable with registered length 0. The header carries the lengths of the variable ones, in their
//! order. Layouts (another ZAP) list attribute numbers; 0 is that of the old znode, 1 the empty one, both
//! unwritten; written ones start at 2. A header that names layout 0 means the empty one: an old znode has none.
//! Each attribute starts at a multiple of 8.
//!
//! Bonus and spill differ in byte order from other blocks: each attribute is swapped as registered.

#[cfg(test)]
mod tests;

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bits;
use crate::error::{OndiskError, bad};
use crate::reader::Reader;

/// The magic number of an attribute buffer, "ZFS SA".
pub const SA_MAGIC: u32 = 0x002f_505a;
/// The layout of an old znode; never written.
pub const LAYOUT_LEGACY: u16 = 0;
/// The empty layout; never written.
pub const LAYOUT_EMPTY: u16 = 1;
/// The first layout that is written.
pub const LAYOUT_FIRST: u16 = 2;
/// Bits of a header's second word that name its layout; the header's size is above them.
pub const LAYOUT_BITS: u32 = 10;
/// Most layouts that a header can name.
pub const LAYOUTS_MAX: u16 = 1 << LAYOUT_BITS;
/// Largest attribute value, and largest spill block with its header.
pub const SPILL_MAX_BYTES: usize = 128 << 10;
/// Smallest header: with no or one length.
pub const HEADER_MIN_BYTES: usize = 8;
/// Largest header.
pub const HEADER_MAX_BYTES: usize = 63 * 8;
/// Where the lengths of the variable attributes begin in a header.
pub const LENGTHS_OFFSET: usize = 6;

/// Name of the registry in the SA master node.
pub const REGISTRY: &str = "REGISTRY";
/// Name of the layouts in the SA master node.
pub const LAYOUTS: &str = "LAYOUTS";

/// The part of an attribute buffer's header that is always there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SaHeaderPhys {
    /// [`SA_MAGIC`].
    pub magic: U32,
    /// Header size in units of 8 bytes, and the layout.
    pub layout_info: U16,
    /// Length of the first variable attribute, if there is one.
    pub length0: U16,
}
const _: () = assert!(size_of::<SaHeaderPhys>() == HEADER_MIN_BYTES);

/// An attribute buffer's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaHeader {
    /// The number of the layout.
    pub layout: u16,
    /// Lengths of the variable attributes, in their order. After decoding also what pads the
    /// header: the layout tells how many count.
    pub lengths: Vec<u16>,
}

impl SaHeader {
    /// Bytes of a header with so many lengths.
    #[must_use]
    pub const fn bytes_for(lengths: usize) -> usize {
        let more = lengths.saturating_sub(1).saturating_mul(2);
        HEADER_MIN_BYTES.saturating_add(more.next_multiple_of(8))
    }

    /// Decodes the header at the start of a buffer; gives its size, which is where the first
    /// attribute starts.
    ///
    /// # Errors
    /// When there is no magic, or the header is larger than the buffer.
    pub fn decode(buffer: &[u8]) -> Result<(Self, usize), OndiskError> {
        let fixed: SaHeaderPhys = crate::reader::prefix("sa header", buffer)?;
        if fixed.magic.get() != SA_MAGIC {
            let (expected, found) = (SA_MAGIC.into(), fixed.magic.get().into());
            return Err(OndiskError::BadMagic { what: "sa header", expected, found });
        }
        let info = u64::from(fixed.layout_info.get());
        let units = usize::try_from(bits::get(info, LAYOUT_BITS, 6)).unwrap_or(0);
        let bytes = units.saturating_mul(8);
        if bytes < HEADER_MIN_BYTES {
            return Err(bad("sa header", "size", bytes as u64));
        }
        let mut from = Reader::new("sa header", buffer);
        let mut header = Reader::new("sa header", from.take(bytes)?);
        header.take(LENGTHS_OFFSET)?;
        let count = header.rest().len() / 2;
        let lengths = (0..count).map(|_| header.read::<U16>().map(U16::get)).collect::<Result<_, _>>()?;
        let layout = u16::try_from(bits::get(info, 0, LAYOUT_BITS)).unwrap_or(0);
        Ok((Self { layout, lengths }, bytes))
    }

    /// Encodes the header.
    ///
    /// # Panics
    /// When the layout or the number of lengths does not fit.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let bytes = Self::bytes_for(self.lengths.len());
        assert!(bytes <= HEADER_MAX_BYTES, "a header has few lengths");
        let info =
            bits::set(bits::set(0, 0, LAYOUT_BITS, self.layout.into()), LAYOUT_BITS, 6, (bytes / 8) as u64);
        let mut out = U32::new(SA_MAGIC).as_bytes().to_vec();
        out.extend_from_slice(U16::new(u16::try_from(info).expect("16 bits")).as_bytes());
        self.lengths.iter().for_each(|length| out.extend_from_slice(U16::new(*length).as_bytes()));
        out.resize(bytes, 0);
        out
    }
}

/// How an attribute is swapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SaByteSwap {
    /// 64-bit words.
    Uint64 = 0,
    /// 32-bit words.
    Uint32 = 1,
    /// 16-bit words.
    Uint16 = 2,
    /// Bytes.
    Uint8 = 3,
    /// ACL entries.
    Acl = 4,
}

/// An attribute as a registry has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaAttr {
    /// Its number.
    pub number: u16,
    /// Its length in bytes; 0 when it varies.
    pub length: u16,
    /// How it is swapped.
    pub byte_swap: SaByteSwap,
}

impl SaAttr {
    /// Decodes a registry entry.
    ///
    /// # Errors
    /// When the byte swap is unknown.
    pub fn from_word(word: u64) -> Result<Self, OndiskError> {
        let swap = bits::get(word, 16, 8);
        let byte_swap = match swap {
            0 => SaByteSwap::Uint64,
            1 => SaByteSwap::Uint32,
            2 => SaByteSwap::Uint16,
            3 => SaByteSwap::Uint8,
            4 => SaByteSwap::Acl,
            _ => return Err(bad("sa registry", "byte swap", swap)),
        };
        let half = |low| u16::try_from(bits::get(word, low, 16)).unwrap_or(u16::MAX);
        Ok(Self { number: half(0), length: half(24), byte_swap })
    }

    /// Encodes a registry entry.
    #[must_use]
    pub fn to_word(self) -> u64 {
        let word = bits::set(0, 0, 16, self.number.into());
        bits::set(bits::set(word, 16, 8, self.byte_swap as u64), 24, 16, self.length.into())
    }
}

/// The attributes of files. The number is the one that a new registry gives, which is the order
/// here; an older file system may have others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum ZplAttr {
    /// Time of last access.
    Atime = 0,
    /// Time of last change of data.
    Mtime = 1,
    /// Time of last change of attributes.
    Ctime = 2,
    /// Time of creation.
    Crtime = 3,
    /// Txg of creation: tells a reused object number.
    Gen = 4,
    /// Mode with file type.
    Mode = 5,
    /// Length in bytes; of a directory, its names, with `.` and `..`.
    Size = 6,
    /// The directory; for an attribute directory, its file.
    Parent = 7,
    /// Names.
    Links = 8,
    /// Attribute directory; zero for none.
    Xattr = 9,
    /// Device number.
    Rdev = 10,
    /// See [`crate::znode::flags`].
    Flags = 11,
    /// Owner.
    Uid = 12,
    /// Group.
    Gid = 13,
    /// Room.
    Pad = 14,
    /// The ACL of an old znode.
    ZnodeAcl = 15,
    /// Entries of the ACL.
    DaclCount = 16,
    /// Text of a symbolic link.
    Symlink = 17,
    /// Virus scanner's stamp.
    Scanstamp = 18,
    /// Entries of the ACL.
    DaclAces = 19,
    /// Extended attributes: an XDR nvlist of byte arrays.
    Dxattr = 20,
    /// Project.
    Projid = 21,
}

impl ZplAttr {
    /// How many there are.
    pub const COUNT: usize = 22;

    /// Attributes of the old znode: their numbers are fixed, registered or not.
    pub const LEGACY_COUNT: usize = 16;

    /// All attributes, in the order of their numbers.
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

    /// The name in the registry.
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

    /// Place in [`ZplAttr::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
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

    /// How a value is swapped.
    #[must_use]
    pub const fn byte_swap(self) -> SaByteSwap {
        match self {
            Self::DaclAces => SaByteSwap::Acl,
            Self::ZnodeAcl | Self::Symlink | Self::Scanstamp | Self::Dxattr => SaByteSwap::Uint8,
            _ => SaByteSwap::Uint64,
        }
    }

    /// What a registry says about it that gives it this number.
    #[must_use]
    pub const fn registration(self, number: u16) -> SaAttr {
        SaAttr { number, length: self.length(), byte_swap: self.byte_swap() }
    }
}

/// What [`LAYOUT_LEGACY`] stands for: the attributes of an old znode, in order.
#[must_use]
pub fn legacy_layout() -> Vec<u16> {
    (0..ZplAttr::LEGACY_COUNT as u16).collect()
}
