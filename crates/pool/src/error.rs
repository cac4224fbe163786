//! What can go wrong with a pool.

use std::path::PathBuf;
use std::sync::Arc;

use dmu::DmuError;
use dmu::zap::ZapError;
use dsl::DslError;
use evacuation::EvacuationError;
use metaslab::{SpaceError, VdevConfigError};
use units::{ObjectId, ObjsetId, Txg, VdevId};
use vdev::VdevError;
use zil::ZilError;
use zio::ZioError;
use zpl::ZplError;
use zvol::ZvolError;

/// A feature that a pool uses and this program does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingFeature {
    /// Its guid.
    pub guid: String,
    /// What the pool says of it; empty if nothing.
    pub description: String,
}

impl std::fmt::Display for MissingFeature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.description.as_str() {
            "" => f.write_str(&self.guid),
            description => write!(f, "{} ({description})", self.guid),
        }
    }
}

impl PoolError {
    /// True if data of the pool is lost, see [`DmuError::is_loss`].
    pub(crate) fn is_loss(&self) -> bool {
        match self {
            Self::Damaged { .. } | Self::SpaceMap { .. } => true,
            Self::Zio(error) => error.is_loss(),
            Self::Zap(error) => error.is_loss(),
            Self::Dmu(error) => error.is_loss(),
            Self::Dsl(error) => error.is_loss(),
            _ => false,
        }
    }
}

/// An error of a pool as a whole.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PoolError {
    /// No device among those given has a label of that pool.
    #[error("no such pool available")]
    NoSuchPool,
    /// Several pools have that name: only a guid tells them apart.
    #[error("more than one matching pool")]
    Ambiguous,
    /// No uberblock could be read from any label.
    #[error("no uberblock found")]
    NoUberblock,
    /// A top-level vdev that holds data, or a log that was not to be left behind, is missing.
    #[error("one or more devices is currently unavailable")]
    MissingVdev {
        /// The first that is missing.
        vdev: VdevId,
    },
    /// The devices of the pool have more than one history: the pool was imported twice, each time
    /// without the other devices.
    #[error("its devices hold different histories of the pool ({})", .devices.iter().map(|other| format!("{} and {}", other.path.display(), other.kept.display())).collect::<Vec<_>>().join(", "))]
    TwoHistories {
        /// The devices. Each names a device that has the other history.
        devices: Vec<vdev::OtherCopy>,
    },
    /// A device has become smaller than what the pool has on it.
    #[error("{} has become too small: the pool needs {needs_bytes} bytes of it", .path.display())]
    DeviceShrunk {
        /// Which device.
        path: PathBuf,
        /// How large it has to be.
        needs_bytes: u64,
    },
    /// Another system may have the pool open.
    #[error("pool was previously in use from another system")]
    ForeignHost {
        /// Its name.
        hostname: String,
        /// Its number.
        hostid: u64,
        /// When it last wrote, in seconds since 1970.
        last_secs: u64,
    },
    /// Another system has the pool open: it wrote to it while it was watched.
    #[error("pool is imported on {hostname} (hostid: {hostid:#x})")]
    ActiveElsewhere {
        /// Its name.
        hostname: String,
        /// Its number.
        hostid: u64,
    },
    /// The pool has `multihost=on`, and this host has no number by which others could tell it.
    #[error("pool has the multihost property on and the\nsystem's hostid is not set")]
    NoHostId,
    /// This host had the pool open when it went down, but it is not as this host left it.
    #[error(transparent)]
    LeftAlone(#[from] crate::LeftAlone),
    /// A device is of another pool that is in use, or was.
    #[error("{} is part of a pool", .path.display())]
    DeviceInUse {
        /// Which device.
        path: PathBuf,
        /// By whom.
        used: Box<vdev::LabelUse>,
    },
    /// The pool was opened for reading only.
    #[error("pool is read-only")]
    ReadOnly,
    /// A txg could not be made stable: nothing can be changed any more.
    #[error("pool suspended at txg {txg}")]
    Suspended {
        /// The txg.
        txg: Txg,
    },
    /// A dataset is in use and cannot be taken away.
    #[error("dataset is busy")]
    Busy {
        /// Its objset.
        objset: ObjsetId,
    },
    /// The pool uses features that this program does not know.
    #[error("unsupported features: {}", .features.iter().map(|f| f.guid.as_str()).collect::<Vec<_>>().join(", "))]
    UnsupportedFeatures {
        /// Which.
        features: Vec<MissingFeature>,
        /// They are needed for changing the pool only.
        readable: bool,
    },
    /// What was asked for needs a feature that the pool does not have enabled.
    #[error("feature '{name}' must be enabled first")]
    NeedsFeature {
        /// Its name.
        name: &'static str,
    },
    /// A dataset's contents need a key.
    #[error("{name} is encrypted")]
    Encrypted {
        /// Which dataset.
        name: String,
    },
    /// A volume, or something else that has no files.
    #[error("{name} is not a file system")]
    NotFilesystem {
        /// Which dataset.
        name: String,
    },
    /// A file system, or something else that is not one row of bytes.
    #[error("{name} is not a volume")]
    NotVolume {
        /// Which dataset.
        name: String,
    },
    /// An object of the meta-objset makes no sense.
    #[error("MOS object {object}: damaged: {what}")]
    Damaged {
        /// Which object.
        object: ObjectId,
        /// What is wrong with it.
        what: String,
    },
    /// A space map contradicts itself.
    #[error("vdev {vdev}: damaged space map")]
    SpaceMap {
        /// Of which vdev.
        vdev: VdevId,
        /// How.
        #[source]
        source: SpaceError,
    },
    /// A scrub cannot be started, paused or stopped now.
    #[error(transparent)]
    Scrub(#[from] crate::ScrubRefusal),
    /// A vdev cannot be removed.
    #[error(transparent)]
    Removal(#[from] crate::RemovalRefusal),
    /// A checkpoint is in the way, or is not there.
    #[error(transparent)]
    Checkpoint(#[from] crate::CheckpointRefusal),
    /// A device cannot come, go, or be taken out of use.
    #[error(transparent)]
    Device(#[from] crate::DeviceRefusal),
    /// It is not split.
    #[error(transparent)]
    Split(#[from] crate::SplitRefusal),
    /// A property of a vdev is not set.
    #[error(transparent)]
    VdevProp(#[from] crate::VdevPropRefusal),
    /// A stream is not received, though nothing is wrong with it.
    #[error(transparent)]
    Receive(#[from] crate::ReceiveRefusal),
    /// A stream cannot be received on.
    #[error(transparent)]
    Stream(Arc<stream::ReceiveError>),
    /// A snapshot is not redacted, though nothing is wrong with it.
    #[error(transparent)]
    Redact(#[from] crate::RedactRefusal),
    /// What a snapshot has changed cannot be told.
    #[error(transparent)]
    Redaction(Arc<stream::SendError>),
    /// A dataset that is being received is nobody's to use before that is done.
    #[error("{name} is being received")]
    HalfReceived {
        /// Which dataset.
        name: String,
    },
    /// What is on a vdev cannot be brought elsewhere, or what is left of one cannot be read.
    #[error(transparent)]
    Evacuation(#[from] EvacuationError),
    /// From below.
    #[error(transparent)]
    Geometry(#[from] VdevConfigError),
    /// From below.
    #[error(transparent)]
    Vdev(#[from] VdevError),
    /// From below.
    #[error(transparent)]
    Zio(#[from] ZioError),
    /// From below.
    #[error(transparent)]
    Dmu(#[from] DmuError),
    /// From below.
    #[error(transparent)]
    Zap(#[from] ZapError),
    /// From below.
    #[error(transparent)]
    Dsl(#[from] DslError),
    /// From below.
    #[error(transparent)]
    Zil(#[from] ZilError),
    /// From below.
    #[error(transparent)]
    Zpl(#[from] ZplError),
    /// From below.
    #[error(transparent)]
    Zvol(Arc<ZvolError>),
}

impl From<stream::ReceiveError> for PoolError {
    fn from(error: stream::ReceiveError) -> Self {
        Self::Stream(Arc::new(error))
    }
}

impl From<stream::SendError> for PoolError {
    fn from(error: stream::SendError) -> Self {
        Self::Redaction(Arc::new(error))
    }
}

impl From<ZvolError> for PoolError {
    fn from(error: ZvolError) -> Self {
        Self::Zvol(Arc::new(error))
    }
}
