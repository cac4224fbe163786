//! What can go wrong between a vdev offset and the devices.

use std::path::PathBuf;

use env::DeviceError;
use units::{Guid, Txg, VdevId, VdevOffset};

use crate::VdevState;

/// An error of the vdev layer. Each says which vdev, and which leaf where one is to blame.
#[derive(Debug, Clone, thiserror::Error)]
pub enum VdevError {
    /// No top-level vdev of that number: a hole, or beyond the last.
    #[error("no vdev {vdev} in this pool")]
    NoSuchVdev {
        /// Which was asked for.
        vdev: VdevId,
    },
    /// No leaf of that guid.
    #[error("no leaf {guid} in this pool")]
    NoSuchLeaf {
        /// Which was asked for.
        guid: Guid,
    },
    /// An I/O on a leaf failed, after a retry.
    #[error("vdev {vdev}, leaf {guid} ({})", path.display())]
    Leaf {
        /// Top-level vdev.
        vdev: VdevId,
        /// Which leaf.
        guid: Guid,
        /// Where it was opened.
        path: PathBuf,
        /// What the device said.
        #[source]
        source: DeviceError,
    },
    /// The read of a block failed because that was on order (`zinject`).
    #[error("an injected error")]
    Injected,
    /// The leaf is not open, or is not to be used.
    #[error("vdev {vdev}, leaf {guid} ({}) is {state}", path.display())]
    LeafUnavailable {
        /// Top-level vdev.
        vdev: VdevId,
        /// Which leaf.
        guid: Guid,
        /// Where it is expected.
        path: PathBuf,
        /// Why it cannot be used.
        state: VdevState,
    },
    /// Too few leaves of the vdev are in use any more.
    #[error("vdev {vdev} ({guid}) has too few usable leaves")]
    NoReplica {
        /// Top-level vdev.
        vdev: VdevId,
        /// Its guid.
        guid: Guid,
    },
    /// Something was read, but no copy is what was once written.
    #[error("vdev {vdev} at {offset}, {len} bytes: nothing there has the right checksum")]
    Checksum {
        /// Top-level vdev.
        vdev: VdevId,
        /// Where on it.
        offset: VdevOffset,
        /// How many bytes.
        len: u64,
    },
    /// Past the end of the vdev.
    #[error("vdev {vdev} at {offset}, {len} bytes: beyond its end")]
    OutOfRange {
        /// Top-level vdev.
        vdev: VdevId,
        /// Where on it.
        offset: VdevOffset,
        /// How many bytes.
        len: u64,
    },
    /// On a removed vdev, and its mapping does not say where that is now.
    #[error("vdev {vdev} at {offset}, {len} bytes: removed, and mapped to nowhere")]
    Unmapped {
        /// Top-level vdev.
        vdev: VdevId,
        /// Where on it.
        offset: VdevOffset,
        /// How many bytes.
        len: u64,
    },
    /// Copies of a run differ, nothing tells which of them is right, and there is no place for all of them.
    #[error("vdev {vdev} at {offset}, {len} bytes: copies differ, and only a scrub can tell which is right")]
    CopiesDiffer {
        /// Top-level vdev.
        vdev: VdevId,
        /// Where on it.
        offset: VdevOffset,
        /// How many bytes.
        len: u64,
    },
    /// The pool is open for reading only.
    #[error("the pool is open for reading only")]
    ReadOnly,
    /// Smaller than a pool's smallest device.
    #[error("{}: device is too small ({size_bytes} bytes)", path.display())]
    TooSmall {
        /// Whose path.
        path: PathBuf,
        /// Its size.
        size_bytes: u64,
    },
    /// The sector size asked for is impossible, or too small for the device.
    #[error("{}: ashift {ashift} cannot be used", path.display())]
    BadAshift {
        /// Whose path.
        path: PathBuf,
        /// The base-2 logarithm that was asked for, or that the device needs.
        ashift: u8,
    },
    /// A device could not be opened.
    #[error("{}", path.display())]
    Open {
        /// Whose path.
        path: PathBuf,
        /// What the device said.
        #[source]
        source: DeviceError,
    },
    /// A device has the labels of a leaf, and states that the pool does not have: it was imported
    /// without the other devices of the pool.
    #[error("{} was written by another system, and has data that the pool does not have", path.display())]
    WrittenElsewhere {
        /// The path of the device.
        path: PathBuf,
    },
    /// A vdev of a kind that is not written yet.
    #[error("vdevs of type '{kind}' are not supported")]
    UnsupportedKind {
        /// The type's name in the configuration.
        kind: String,
    },
    /// A configuration lacks something, or says something impossible.
    #[error("bad vdev configuration: {what}")]
    BadConfig {
        /// Which key, and what is wrong with it.
        what: String,
    },
    /// A label's nvlist does not fit its 112 KiB.
    #[error("configuration of {len} bytes does not fit a label")]
    LabelTooLarge {
        /// Encoded length in bytes.
        len: usize,
    },
    /// Labels of a vdev could be written to none of its leaves.
    #[error("no label of vdev {vdev} could be written in txg {txg}")]
    LabelsLost {
        /// Top-level vdev.
        vdev: VdevId,
        /// For which txg.
        txg: Txg,
    },
    /// The uberblock reached no device, or none made it stable.
    #[error("the uberblock of txg {txg} is stable nowhere")]
    UberblockLost {
        /// Whose.
        txg: Txg,
    },
}

impl VdevError {
    /// Whether a device is not there, as against one that is and fails: all of it may come back.
    #[must_use]
    pub const fn is_absence(&self) -> bool {
        match self {
            Self::LeafUnavailable { .. } | Self::NoReplica { .. } => true,
            Self::Leaf { source, .. } => matches!(source, DeviceError::Gone | DeviceError::TimedOut),
            _ => false,
        }
    }
}
