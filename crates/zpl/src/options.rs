//! How a file system behaves: what its dataset's properties come to.

use journal::{DataPolicy, IMMEDIATE_WRITE_BYTES, LogBias, SyncPolicy};

/// When reading a file updates its access time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtimePolicy {
    /// Never (`atime=off`).
    Off,
    /// When it is older than the last change, or than a day (`atime=on relatime=on`).
    Relative,
    /// Always (`atime=on relatime=off`).
    Always,
}

/// Where new extended attributes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrPolicy {
    /// There are none (`xattr=off`).
    Off,
    /// Files in a hidden directory (`xattr=dir`).
    Directory,
    /// System attributes, as far as they fit (`xattr=sa`).
    System,
}

/// The options of a mounted file system; may change while it is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZfsOptions {
    /// Largest block of a file, bytes: a power of two from 512 to 16 MiB (`recordsize`).
    pub record_bytes: u32,
    /// Access times.
    pub atime: AtimePolicy,
    /// Durability.
    pub sync: SyncPolicy,
    /// See there.
    pub log_bias: LogBias,
    /// Without log devices, data from this length on are written in place (`zfs_immediate_write_sz`).
    pub immediate_write_bytes: u64,
    /// No changes at all (`readonly`).
    pub read_only: bool,
    /// Slots of a new dnode, 512 bytes each: 1 to 32 (`dnodesize`).
    pub dnode_slots: u8,
    /// Extended attributes go to the log: the pool's `zilsaxattr` feature is enabled.
    pub log_xattrs: bool,
    /// Files may share blocks: the pool's `block_cloning` feature is enabled, and references are counted.
    pub clone_blocks: bool,
    /// Where new extended attributes go (`xattr`).
    pub xattr: XattrPolicy,
    /// Files have POSIX ACLs (`acltype=posix`).
    pub posix_acls: bool,
    /// NFSv4 ACLs that say more than the mode count (`acltype=nfsv4`).
    pub nfs4_acls: bool,
}

impl Default for ZfsOptions {
    fn default() -> Self {
        Self {
            record_bytes: 128 << 10,
            atime: AtimePolicy::Relative,
            sync: SyncPolicy::Standard,
            log_bias: LogBias::Latency,
            immediate_write_bytes: IMMEDIATE_WRITE_BYTES,
            read_only: false,
            dnode_slots: 1,
            log_xattrs: true,
            clone_blocks: false,
            xattr: XattrPolicy::System,
            posix_acls: false,
            nfs4_acls: false,
        }
    }
}

impl ZfsOptions {
    /// How the data of writes go to the log.
    pub(crate) fn data_policy(&self) -> DataPolicy {
        let Self { sync, log_bias, immediate_write_bytes, .. } = *self;
        DataPolicy { sync, log_bias, immediate_write_bytes }
    }
}

/// Owner of what is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cred {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission bits that new objects do not get.
    pub umask: u32,
}
