//! Why a vdev cannot be emptied, or what is left of one cannot be read.

use dmu::DmuError;
use dmu::zap::ZapError;
use dsl::DslError;
use metaslab::AllocError;
use units::{ObjectId, VdevId};
use vdev::VdevError;

/// An error of an evacuation.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EvacuationError {
    /// The other vdevs have no room for a single sector more.
    #[error("no room for what is on vdev {vdev}")]
    NoSpace {
        /// Which is being emptied.
        vdev: VdevId,
        /// What was asked for last.
        #[source]
        source: AllocError,
    },
    /// Something could not be read from the vdev, or written elsewhere.
    #[error("cannot copy from vdev {vdev}")]
    Copy {
        /// Which is being emptied.
        vdev: VdevId,
        /// Where, and why.
        #[source]
        source: VdevError,
    },
    /// What the meta-objset says of removed vdevs makes no sense.
    #[error("MOS object {object}: damaged: {what}")]
    Damaged {
        /// Which object.
        object: ObjectId,
        /// What is wrong with it.
        what: String,
    },
    /// From below.
    #[error(transparent)]
    Vdev(#[from] VdevError),
    /// From below.
    #[error(transparent)]
    Dmu(#[from] DmuError),
    /// From below.
    #[error(transparent)]
    Zap(#[from] ZapError),
    /// From below.
    #[error(transparent)]
    Dsl(#[from] DslError),
}

impl EvacuationError {
    /// Whether it is the copying that cannot be done, and nothing has changed.
    #[must_use]
    pub const fn is_of_copying(&self) -> bool {
        matches!(self, Self::NoSpace { .. } | Self::Copy { .. })
    }
}
