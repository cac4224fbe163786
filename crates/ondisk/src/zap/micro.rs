//! The micro ZAP: one block of fixed-size entries.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of an entry, and of the header.
pub const MZAP_ENTRY_BYTES: usize = 64;
/// Room for a name with its NUL.
pub const MZAP_NAME_BYTES: usize = 50;

/// The first 64 bytes of a micro ZAP.
///
/// ```text
///  0 block type   8 salt   16 normalization flags   24 zero   64 end
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct MzapHeaderPhys {
    /// [`super::BLOCK_MICRO`].
    pub block_type: U64,
    /// Random; stirred into hashes.
    pub salt: U64,
    /// How names are normalized before they are compared; zero for not.
    pub normalization: U64,
    /// Zero.
    pub pad: [U64; 5],
}
const _: () = assert!(size_of::<MzapHeaderPhys>() == MZAP_ENTRY_BYTES);

/// One name and its value. Free when the name is empty.
///
/// ```text
///  0 value   8 collision number   12 zero   14 name, NUL-terminated   64 end
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct MzapEntryPhys {
    /// The value.
    pub value: U64,
    /// Tells names of equal hash apart: the lowest number free when the name was added.
    pub cd: U32,
    /// Zero.
    pub pad: U16,
    /// The name, padded with NULs.
    pub name: [u8; MZAP_NAME_BYTES],
}
const _: () = assert!(size_of::<MzapEntryPhys>() == MZAP_ENTRY_BYTES);
const _: () = assert!(std::mem::offset_of!(MzapEntryPhys, name) == 14);

impl MzapEntryPhys {
    /// A free entry.
    pub const FREE: Self =
        Self { value: U64::ZERO, cd: U32::ZERO, pad: U16::ZERO, name: [0; MZAP_NAME_BYTES] };

    /// An entry for `name`.
    ///
    /// # Panics
    /// When the name is empty, holds a NUL, or is too long for a micro ZAP.
    #[must_use]
    pub fn new(name: &[u8], value: u64, cd: u32) -> Self {
        assert!(!name.is_empty() && name.len() < MZAP_NAME_BYTES, "the name fits a micro ZAP");
        assert!(!name.contains(&0), "a name holds no NUL");
        let mut entry = Self { value: U64::new(value), cd: U32::new(cd), ..Self::FREE };
        entry.name.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        entry
    }

    /// The name, without its NUL; empty when the entry is free. A name that fills its room
    /// without a NUL is cut at the end.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.name.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    /// Whether the entry holds a name.
    #[must_use]
    pub fn is_used(&self) -> bool {
        !self.name().is_empty()
    }
}

impl std::fmt::Debug for MzapEntryPhys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = String::from_utf8_lossy(self.name());
        write!(f, "{name:?} = {} (cd {})", self.value.get(), self.cd.get())
    }
}

/// All entries of a micro ZAP block, free ones too, in order. A last piece of less than an entry
/// is left out.
pub fn entries(block: &[u8]) -> impl Iterator<Item = MzapEntryPhys> {
    let body = block.get(MZAP_ENTRY_BYTES..).unwrap_or_default();
    body.chunks_exact(MZAP_ENTRY_BYTES).filter_map(|chunk| MzapEntryPhys::read_from_bytes(chunk).ok())
}
