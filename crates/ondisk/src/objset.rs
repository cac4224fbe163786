//! The objset: a set of objects of one kind: the MOS, a file system, a volume, a snapshot.
//!
//! ```text
//!    0 meta-dnode (512)   512 intent-log header (192)   704 type   712 flags
//!  720 portable MAC (32)  752 local MAC (32)            784 zero
//! 1024 user-used dnode (512)    1536 group-used dnode (512)                 version 1 ends at 1024
//! 2048 project-used dnode (512) 2560 zero               4096 end            version 2 ends at 2048
//! ```
//! The block's size tells its version: 1024 bytes, 2048 (file systems from version 4 on) or 4096
//! (pools with `project_quota`). The meta-dnode's data are the objset's dnodes: object *n* lies in
//! slot *n*; objects 0 and the three accounting dnodes have no slot.
//!
//! Invariant: a shorter block reads as a longer one whose missing dnodes are free, and is written
//! back in its own length (test: `an_objset_of_each_size_survives`).

#[cfg(test)]
mod tests;

use units::ObjectId;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::dnode::{DNODE_SLOT_BYTES, DnodeImage, DnodePhys};
use crate::error::{OndiskError, bad, short};
use crate::zil::ZilHeader;

/// Size of an objset without accounting.
pub const OBJSET_BYTES_V1: usize = 1024;
/// Size of an objset that accounts space by user and group.
pub const OBJSET_BYTES_V2: usize = 2048;
/// Size of an objset that accounts space by project as well.
pub const OBJSET_BYTES_V3: usize = 4096;

/// Number under which the user accounting object goes (it has no slot).
pub const USERUSED_OBJECT: ObjectId = ObjectId::new(u64::MAX);
/// Number under which the group accounting object goes.
pub const GROUPUSED_OBJECT: ObjectId = ObjectId::new(u64::MAX - 1);
/// Number under which the project accounting object goes.
pub const PROJECTUSED_OBJECT: ObjectId = ObjectId::new(u64::MAX - 2);
/// What precedes an id in the accounting ZAPs' entries that count objects.
pub const OBJECT_ACCOUNTING_PREFIX: &str = "obj-";

/// What kind of objects live in an objset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ObjsetType {
    /// Not yet anything: a dataset just created.
    None = 0,
    /// The pool's own: the MOS.
    Meta = 1,
    /// A file system.
    Zfs = 2,
    /// A volume.
    Zvol = 3,
    /// Tests.
    Other = 4,
}

impl ObjsetType {
    /// The type with this number.
    ///
    /// # Errors
    /// When the format has no such number.
    pub fn from_raw(raw: u64) -> Result<Self, OndiskError> {
        match raw {
            0 => Ok(Self::None),
            1 => Ok(Self::Meta),
            2 => Ok(Self::Zfs),
            3 => Ok(Self::Zvol),
            4 => Ok(Self::Other),
            _ => Err(bad("objset", "type", raw)),
        }
    }

    /// The format's number.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self as u64
    }
}

/// Bits of an objset's flags.
pub mod flags {
    /// Space is accounted by user and group for all objects.
    pub const USERACCOUNTING_COMPLETE: u64 = 1 << 0;
    /// So are numbers of objects.
    pub const USEROBJACCOUNTING_COMPLETE: u64 = 1 << 1;
    /// So is space by project.
    pub const PROJECTQUOTA_COMPLETE: u64 = 1 << 2;
}

/// A dnode of one slot, as bytes.
pub type DnodeSlot = [u8; DNODE_SLOT_BYTES];

/// An objset block of the largest size.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ObjsetPhys {
    /// The object whose data are the dnodes.
    pub meta_dnode: DnodeSlot,
    /// Where the intent log starts.
    pub zil_header: ZilHeader,
    /// An [`ObjsetType`].
    pub objset_type: U64,
    /// See [`flags`].
    pub flags: U64,
    /// Authenticates what a raw send carries (encrypted datasets).
    pub portable_mac: [u8; 32],
    /// Authenticates the rest.
    pub local_mac: [u8; 32],
    /// Zero.
    pub pad0: [u8; 240],
    /// ZAP: space by user.
    pub userused_dnode: DnodeSlot,
    /// ZAP: space by group.
    pub groupused_dnode: DnodeSlot,
    /// ZAP: space by project.
    pub projectused_dnode: DnodeSlot,
    /// Zero.
    pub pad1: [u8; 1536],
}
const _: () = assert!(size_of::<ObjsetPhys>() == OBJSET_BYTES_V3);
const _: () = assert!(std::mem::offset_of!(ObjsetPhys, objset_type) == 704);
const _: () = assert!(std::mem::offset_of!(ObjsetPhys, userused_dnode) == OBJSET_BYTES_V1);
const _: () = assert!(std::mem::offset_of!(ObjsetPhys, projectused_dnode) == OBJSET_BYTES_V2);

impl ObjsetPhys {
    /// All zero but for the type.
    #[must_use]
    pub fn new(objset_type: ObjsetType) -> Self {
        let mut objset = Self::new_zeroed();
        objset.objset_type = U64::new(objset_type.raw());
        objset
    }

    /// Reads a block of any of the three sizes.
    ///
    /// # Errors
    /// When its length is none of them.
    pub fn decode(block: &[u8]) -> Result<Self, OndiskError> {
        if ![OBJSET_BYTES_V1, OBJSET_BYTES_V2, OBJSET_BYTES_V3].contains(&block.len()) {
            return Err(short("objset", OBJSET_BYTES_V1, block.len()));
        }
        let mut objset = Self::new_zeroed();
        let bytes = objset.as_mut_bytes().get_mut(..block.len());
        bytes.ok_or_else(|| short("objset", block.len(), OBJSET_BYTES_V3))?.copy_from_slice(block);
        Ok(objset)
    }

    /// The block, cut to `bytes` (one of the three sizes).
    ///
    /// # Panics
    /// When `bytes` is another size.
    #[must_use]
    pub fn encode(&self, bytes: usize) -> Vec<u8> {
        assert!(
            [OBJSET_BYTES_V1, OBJSET_BYTES_V2, OBJSET_BYTES_V3].contains(&bytes),
            "an objset has no {bytes} bytes"
        );
        self.as_bytes().get(..bytes).unwrap_or_default().to_vec()
    }

    /// What kind of objects live here.
    ///
    /// # Errors
    /// When the format has no such kind.
    pub fn kind(&self) -> Result<ObjsetType, OndiskError> {
        ObjsetType::from_raw(self.objset_type.get())
    }

    /// Decodes one of the four dnodes; `None` when it is free.
    ///
    /// # Errors
    /// When it is neither free nor a dnode.
    pub fn dnode(slot: &DnodeSlot) -> Result<Option<DnodeImage>, OndiskError> {
        if DnodePhys::read(slot)?.is_allocated() { DnodeImage::decode(slot).map(Some) } else { Ok(None) }
    }
}

impl std::fmt::Debug for ObjsetPhys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjsetPhys")
            .field("objset_type", &self.objset_type)
            .field("flags", &self.flags)
            .field("zil_header", &self.zil_header)
            .finish_non_exhaustive()
    }
}
