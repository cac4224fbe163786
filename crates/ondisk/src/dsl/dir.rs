//! A directory of datasets.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the bonus.
pub const DSL_DIR_BYTES: usize = 256;

/// Bits of [`DslDirPhys::flags`].
pub mod flags {
    /// `used_breakdown` is kept (always, but in very old pools).
    pub const USED_BREAKDOWN: u64 = 1 << 0;
}

/// Indices of [`DslDirPhys::used_breakdown`].
pub mod used {
    /// By the head dataset.
    pub const HEAD: usize = 0;
    /// By snapshots.
    pub const SNAP: usize = 1;
    /// By children.
    pub const CHILD: usize = 2;
    /// By children's reservations, as far as they do not use them.
    pub const CHILD_RESERVATION: usize = 3;
    /// By the head's own reservation (refreservation).
    pub const REFRESERVATION: usize = 4;
    /// How many there are.
    pub const COUNT: usize = 5;
}

/// Names in a directory object that was turned into a ZAP (feature `extensible_dataset`).
pub mod names {
    /// File systems below, for limits.
    pub const FILESYSTEM_COUNT: &str = "com.joyent:filesystem_count";
    /// Snapshots below, for limits.
    pub const SNAPSHOT_COUNT: &str = "com.joyent:snapshot_count";
    /// Object with the wrapped encryption keys.
    pub const CRYPTO_KEY_OBJ: &str = "com.datto:crypto_key_obj";
    /// Deadlist of a clone's own blocks.
    pub const LIVELIST: &str = "com.delphix:livelist";
    /// When snapshots were last made or destroyed.
    pub const SNAPSHOTS_CHANGED: &str = "com.ixsystems:snapshots_changed";
}

/// The bonus of a directory, all words:
///
/// ```text
///   0 creation time     8 head dataset    16 parent dir     24 origin snapshot
///  32 children (ZAP)   40 used bytes      48 compressed     56 uncompressed
///  64 quota            72 reservation     80 props (ZAP)    88 permissions (ZAP)
///  96 flags           104 used breakdown (5)               144 clones (ZAP)   152 zero (13)   256
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct DslDirPhys {
    /// Written, but not used.
    pub creation_time: U64,
    /// The dataset that lives here; zero for `$MOS` and `$FREE`.
    pub head_dataset: U64,
    /// The directory above; zero for the root.
    pub parent: U64,
    /// The snapshot a clone was made of.
    pub origin: U64,
    /// ZAP: name to directory.
    pub child_dirs: U64,
    /// Space used by the head, snapshots and everything below.
    pub used_bytes: U64,
    /// The same before copies and parity were added.
    pub compressed_bytes: U64,
    /// The same before compression.
    pub uncompressed_bytes: U64,
    /// Most that may be used; zero for no limit.
    pub quota: U64,
    /// What is set aside.
    pub reserved: U64,
    /// ZAP: properties set here.
    pub props: U64,
    /// ZAP: delegated permissions.
    pub permissions: U64,
    /// See [`flags`].
    pub flags: U64,
    /// Who uses `used_bytes`, see [`used`].
    pub used_breakdown: [U64; used::COUNT],
    /// ZAP: clones of snapshots here.
    pub clones: U64,
    /// Zero.
    pub pad: [U64; 13],
}
const _: () = assert!(size_of::<DslDirPhys>() == DSL_DIR_BYTES);
const _: () = assert!(std::mem::offset_of!(DslDirPhys, flags) == 96);
const _: () = assert!(std::mem::offset_of!(DslDirPhys, clones) == 144);

impl DslDirPhys {
    /// Reads a bonus.
    ///
    /// # Errors
    /// When it is shorter than 256 bytes.
    pub fn decode(bonus: &[u8]) -> Result<Self, crate::OndiskError> {
        crate::reader::prefix("dsl directory", bonus)
    }
}
