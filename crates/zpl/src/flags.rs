//! The persistent flags of an object (`ZPL_FLAGS`), with the format's numbers.

/// Part of an extended attribute directory.
pub const XATTR: u64 = 0x1;
/// The ACL says no more than the mode.
pub const ACL_TRIVIAL: u64 = 0x4;
/// The ACL may be inherited anew.
pub const ACL_AUTO_INHERIT: u64 = 0x40;
/// Everybody may execute: searching it needs no look at the ACL.
pub const NO_EXECS_DENIED: u64 = 0x100;
/// Not to be written to, by DOS's rules.
pub const READ_ONLY: u64 = 0x1_0000_0000;
/// Not to be listed, by DOS's rules.
pub const HIDDEN: u64 = 0x2_0000_0000;
/// Part of a system, by DOS's rules.
pub const SYSTEM: u64 = 0x4_0000_0000;
/// Changed since the last backup.
pub const ARCHIVE: u64 = 0x8_0000_0000;
/// Nothing but the times of access may change.
pub const IMMUTABLE: u64 = 0x10_0000_0000;
/// Its names cannot be removed.
pub const NO_UNLINK: u64 = 0x20_0000_0000;
/// Only appending changes it.
pub const APPEND_ONLY: u64 = 0x40_0000_0000;
/// Not to be backed up.
pub const NO_DUMP: u64 = 0x80_0000_0000;
/// A virus was found in it.
pub const AV_QUARANTINED: u64 = 0x200_0000_0000;
/// Changed since the last virus scan.
pub const AV_MODIFIED: u64 = 0x400_0000_0000;
/// Has holes, by NTFS's rules.
pub const SPARSE: u64 = 0x2000_0000_0000;
/// Children inherit the project.
pub const PROJECT_INHERIT: u64 = 0x4000_0000_0000;
/// Has a project id.
pub const PROJECT_ID: u64 = 0x8000_0000_0000;
