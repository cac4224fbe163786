//! The send stream: a snapshot, or what changed since an earlier one, as records in a row.
//!
//! ```text
//!  substream   BEGIN (who, since when, features)  OBJECT WRITE FREE SPILL ...   END (checksum of it all)
//!  compound    BEGIN (nvlist: which snapshots)  END  substream substream ...  END (all zero)
//!
//!  record   0 type (u32)   4 payload length (u32, of BEGIN alone)   8 the type's own, up to 304 bytes
//!         280 checksum (4 words), of all records but BEGIN          312 end, then the payload, if any
//! ```
//! The checksum of a record is the fletcher4 of the substream from its BEGIN up to this checksum. So it vouches
//! for the payload before it, and its own payload is vouched for by the next record. END holds once more the
//! sum of all before it. Records come in the order of objects, and in an object in that of offsets; what an
//! object loses beyond its end comes right after its OBJECT.
//!
//! Words have the order of the machine that sent; BEGIN's magic tells which. A record of the other order is swapped
//! when it is decoded ([`DrrRecord::decode`]), its payload is not: how that is swapped depends on the object's type.
//!
//! Source: `sys/zfs_ioctl.h` (`dmu_replay_record`), sizes of payloads by the macros `DRR_*_PAYLOAD_SIZE`.
//!
//! Invariants
//! - No record makes a reader allocate more than the largest block: [`DrrRecord::payload_bytes`] refuses it.
//!   (test: `payloads_beyond_the_largest_block_are_refused`)
//! - Decoding what was encoded gives it back, from either order. (test: `a_record_survives_in_both_orders`)

mod begin;
mod blocks;
mod features;
mod objects;
mod record;
mod resume;
mod swap;
#[cfg(test)]
mod tests;

pub use begin::{DrrBegin, DrrEnd, HeaderType, TONAME_BYTES};
pub use blocks::{DrrFree, DrrRedact, DrrSpill, DrrWrite, DrrWriteByref, DrrWriteEmbedded};
pub use features::StreamFeatures;
pub use objects::{DrrFreeobjects, DrrObject, DrrObjectRange};
pub use record::{DrrBody, DrrRecord, DrrType};
pub use resume::{ResumeForm, ResumePoint, ResumeState};

/// Bytes of a record, without its payload.
pub const RECORD_BYTES: usize = 312;
/// Where a record's checksum is; BEGIN has the end of its name there.
pub const CHECKSUM_AT: usize = 280;
/// What every BEGIN starts with.
pub const BACKUP_MAGIC: u64 = 0x2_f5ba_cbac;
/// Bytes of the longest payload of a BEGIN.
pub const BEGIN_PAYLOAD_MAX_BYTES: u64 = 1 << 28;
/// Bytes of the longest payload of another record: a block of the largest size.
pub const BLOCK_PAYLOAD_MAX_BYTES: u64 = 16 << 20;
/// A length that means up to the object's end.
pub const TO_THE_END: u64 = u64::MAX;

/// Bits of [`DrrBegin::flags`].
pub mod begin_flags {
    /// The snapshot that this stream starts from is the origin of a clone.
    pub const CLONE: u32 = 1 << 0;
    /// Names are looked up without regard to case.
    pub const CI_DATA: u32 = 1 << 1;
    /// A full stream that says, too, what is not there: it can be received as a clone.
    pub const FREERECORDS: u32 = 1 << 2;
    /// [`super::record_flags::OBJECT_SPILL`] and [`super::record_flags::SPILL_UNMODIFIED`] mean something.
    pub const SPILL_BLOCK: u32 = 1 << 3;
}

/// Bits of the flags of other records.
pub mod record_flags {
    /// WRITE and WRITE_BYREF: the checksum is strong enough to call blocks equal by it.
    pub const CHECKSUM_DEDUP: u8 = 1 << 0;
    /// Raw streams: the contents are in the other byte order than the stream.
    pub const RAW_BYTESWAP: u8 = 1 << 1;
    /// OBJECT: it has a spill block.
    pub const OBJECT_SPILL: u8 = 1 << 2;
    /// SPILL: the block is as it was in the earlier snapshot.
    pub const SPILL_UNMODIFIED: u8 = 1 << 2;
}

/// Names in the nvlist that is the payload of a BEGIN.
pub mod begin_names {
    /// Snapshots that the stream was redacted by (guids).
    pub const REDACT_SNAPS: &str = "redact_snaps";
    /// Snapshots that the one it starts from was redacted by (guids).
    pub const REDACT_FROM_SNAPS: &str = "redact_from_snaps";
    /// Object that a resumed stream begins with.
    pub const RESUME_OBJECT: &str = "resume_object";
    /// Offset in it, in bytes.
    pub const RESUME_OFFSET: &str = "resume_offset";
    /// Keys of an encrypted dataset, wrapped (raw streams).
    pub const CRYPT_KEYDATA: &str = "crypt_keydata";
}
