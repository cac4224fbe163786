//! What can go wrong between a block and its blkptr.

use codec::CodecError;
use metaslab::{AllocError, SpaceError};
use ondisk::{Dva, OndiskError};
use units::Txg;
use vdev::VdevError;

use crate::Bookmark;

/// An error of the zio layer, with the block's name.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ZioError {
    /// Somebody asked for the contents of a hole.
    #[error("block {bookmark}: a hole has no contents")]
    Hole {
        /// Which block.
        bookmark: Bookmark,
    },
    /// The blkptr makes no sense.
    #[error("block {bookmark}: bad block pointer")]
    BadBlkptr {
        /// Which block.
        bookmark: Bookmark,
        /// What is wrong with it.
        #[source]
        source: OndiskError,
    },
    /// Bytes came from some copy, but from none the right ones: damage that nothing repairs.
    #[error("block {bookmark}: no copy has the right checksum")]
    Checksum {
        /// Which block.
        bookmark: Bookmark,
    },
    /// No copy could be read.
    #[error("block {bookmark}: cannot be read")]
    Read {
        /// Which block.
        bookmark: Bookmark,
        /// What the last vdev said.
        #[source]
        source: VdevError,
    },
    /// The right bytes do not unpack: whoever wrote them is at fault.
    #[error("block {bookmark}: cannot be decompressed")]
    Decompress {
        /// Which block.
        bookmark: Bookmark,
        /// What the codec said.
        #[source]
        source: CodecError,
    },
    /// A checksum that this code does not compute, or a keyed one without the pool's salt.
    #[error("block {bookmark}: unknown checksum")]
    UnknownChecksum {
        /// Which block.
        bookmark: Bookmark,
        /// What the codec said.
        #[source]
        source: CodecError,
    },
    /// A block of a kind that this code does not read or free.
    #[error("block {bookmark}: {what} is not supported")]
    Unsupported {
        /// Which block.
        bookmark: Bookmark,
        /// What about it.
        what: &'static str,
    },
    /// No room for a new block.
    #[error("block {bookmark}: no space in txg {txg}")]
    NoSpace {
        /// Which block.
        bookmark: Bookmark,
        /// For which txg.
        txg: Txg,
        /// How much was missing.
        #[source]
        source: AllocError,
    },
    /// Written nowhere: every vdev that was tried failed.
    #[error("block {bookmark}: cannot be written in txg {txg}")]
    Write {
        /// Which block.
        bookmark: Bookmark,
        /// For which txg.
        txg: Txg,
        /// What the last vdev said.
        #[source]
        source: VdevError,
    },
    /// No room for a log block, on log devices or elsewhere.
    #[error("no space for a log block in txg {txg}")]
    NoLogSpace {
        /// For which txg.
        txg: Txg,
        /// How much was missing.
        #[source]
        source: AllocError,
    },
    /// A log block could not be written or read.
    #[error("log block at {dva}")]
    Log {
        /// Which block.
        dva: Dva,
        /// What the vdev said.
        #[source]
        source: VdevError,
    },
    /// A vdev could not make its writes stable.
    #[error("flush failed")]
    Flush(#[source] VdevError),
    /// A block pointer names space of a removed vdev, and its mapping does not say where that is now.
    #[error("space at {dva}")]
    Removed {
        /// Which copy.
        dva: Dva,
        /// What is missing.
        #[source]
        source: VdevError,
    },
    /// A block pointer names space that is not what it says.
    #[error("space at {dva}")]
    Space {
        /// Which copy.
        dva: Dva,
        /// What is wrong with it.
        #[source]
        source: SpaceError,
    },
}

impl ZioError {
    /// Whether the block's bytes are there and are not what was written: nothing will make them so again.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Checksum { .. } | Self::Decompress { .. } | Self::BadBlkptr { .. })
    }

    /// True if the block is lost and the pool can do nothing about it: it is damaged, or on bad
    /// sectors of a device that is present. A block on a missing device may return with the device.
    #[must_use]
    pub const fn is_loss(&self) -> bool {
        match self {
            Self::Read { source, .. } => !source.is_absence(),
            error => error.is_damage(),
        }
    }
}
