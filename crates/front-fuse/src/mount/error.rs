//! Why something was not mounted or unmounted.

use std::io;
use std::path::PathBuf;

use crate::headroom::Short;

/// Why something was not mounted or unmounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The mount point cannot be made.
    #[error("cannot make mount point {}: {source}", path.display())]
    MountPoint {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something is in the directory already.
    #[error("directory is not empty")]
    NotEmpty {
        /// Which.
        path: PathBuf,
    },
    /// The kernel refused.
    #[error("cannot mount at {}: {source}", path.display())]
    Refused {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// One mount more could end the process.
    #[error(transparent)]
    Short(#[from] Short),
    /// Files on it are open.
    #[error("pool or dataset is busy")]
    Busy {
        /// Where.
        path: PathBuf,
    },
}
