//! What can go wrong with an intent log.

use std::sync::Arc;

use ondisk::OndiskError;
use units::{ObjsetId, Txg, VdevId, ZilSeq};

/// An error of one dataset's intent log, or of the storage under it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ZilError {
    /// No log device and no other vdev has room for a log block.
    #[error("no space for a log block of {bytes} bytes")]
    NoSpace {
        /// How much was asked for.
        bytes: u32,
    },
    /// A log device did not do as it was told.
    #[error("log {op} on vdev {vdev} failed")]
    Io {
        /// Which top-level vdev.
        vdev: VdevId,
        /// "read", "write" or "flush".
        op: &'static str,
        /// What the layer below said.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// A device was opened anew while a batch was on its way: a flush does not speak for all of it.
    #[error("a device was opened anew beneath a log block")]
    Reopened,
    /// The txg engine has stopped (pool suspended): what was asked for may not be stable.
    #[error("txg {txg} cannot be synced")]
    TxgStopped {
        /// Which txg was waited for.
        txg: Txg,
        /// Why.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// Space that a log block occupies cannot be marked allocated.
    #[error("log block at vdev {vdev} cannot be claimed")]
    Claim {
        /// Which top-level vdev.
        vdev: VdevId,
        /// Why.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// A record names a block of a file's that is none, or in a pool that cannot count who has such blocks.
    #[error("a logged clone of a block on vdev {vdev} cannot be kept")]
    Clone {
        /// Which top-level vdev.
        vdev: VdevId,
    },
    /// A log block that claim vouched for no longer reads back: real damage, unlike
    /// a chain that simply ends, which is how every log ends.
    #[error("objset {objset}: claimed log block {seq} is lost")]
    LostBlock {
        /// Whose log.
        objset: ObjsetId,
        /// The block's place in the chain.
        seq: ZilSeq,
        /// Why it does not read, when a device said so.
        #[source]
        source: Option<Arc<ZilError>>,
    },
    /// A record that was claimed does not decode, or names data that cannot be read.
    #[error("objset {objset}: log record {seq} is damaged")]
    BadRecord {
        /// Whose log.
        objset: ObjsetId,
        /// The record's number.
        seq: ZilSeq,
        /// What is wrong with it.
        #[source]
        source: OndiskError,
    },
    /// A log block holds something this code does not understand (a foreign byte order).
    #[error("objset {objset}: log block {seq}: {what} is not supported")]
    Unsupported {
        /// Whose log.
        objset: ObjsetId,
        /// The block's place in the chain.
        seq: ZilSeq,
        /// What about it.
        what: &'static str,
    },
    /// The data of a logged write cannot be read back.
    #[error("data of object {object} cannot be read for the log")]
    Fetch {
        /// Which file.
        object: units::ObjectId,
        /// Why.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// A record could not be applied, twice. The log is kept as it is.
    #[error("objset {objset}: log record {seq} (type {txtype}) cannot be replayed")]
    Replay {
        /// Whose log.
        objset: ObjsetId,
        /// The record's number.
        seq: ZilSeq,
        /// The record's type, as on disk.
        txtype: u64,
        /// What the file system said.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
}

impl ZilError {
    /// The vdev at fault, when the error is a device's.
    #[must_use]
    pub const fn vdev(&self) -> Option<VdevId> {
        match self {
            Self::Io { vdev, .. } => Some(*vdev),
            _ => None,
        }
    }
}
