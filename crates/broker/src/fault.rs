//! Errors on their way between processes.

use std::io;
use std::path::{Path, PathBuf};

use engine::MountError;
use env::DeviceError;
use serde::{Deserialize, Serialize};

/// An error of the system, or one in words.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RemoteError {
    errno: Option<i32>,
    words: String,
}

impl From<io::Error> for RemoteError {
    fn from(error: io::Error) -> Self {
        Self { errno: error.raw_os_error(), words: error.to_string() }
    }
}

impl From<RemoteError> for io::Error {
    fn from(fault: RemoteError) -> Self {
        fault.errno.map_or_else(|| Self::other(fault.words), Self::from_raw_os_error)
    }
}

/// Why a device was not opened.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum DeviceFault {
    Missing,
    InUse,
    NotADevice,
    Open { errno: i32 },
}

impl From<&DeviceError> for DeviceFault {
    fn from(error: &DeviceError) -> Self {
        match error {
            DeviceError::Missing { .. } => Self::Missing,
            DeviceError::InUse { .. } => Self::InUse,
            DeviceError::NotADevice { .. } => Self::NotADevice,
            other => Self::Open { errno: other.errno() },
        }
    }
}

impl DeviceFault {
    pub fn of(self, path: &Path) -> DeviceError {
        let path = path.to_owned();
        match self {
            Self::Missing => DeviceError::Missing { path },
            Self::InUse => DeviceError::InUse { path },
            Self::NotADevice => DeviceError::NotADevice { path },
            Self::Open { errno } => DeviceError::Open { path, errno },
        }
    }
}

/// Why a file system was not mounted.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum MountFault {
    MountPoint(RemoteError),
    NotEmpty,
    Hides,
    Refused(RemoteError),
}

impl From<MountError> for MountFault {
    fn from(error: MountError) -> Self {
        match error {
            MountError::MountPoint { source, .. } => Self::MountPoint(source.into()),
            MountError::NotEmpty { .. } => Self::NotEmpty,
            MountError::Hides { .. } => Self::Hides,
            MountError::Refused { source, .. } => Self::Refused(source.into()),
            other => Self::Refused(io::Error::other(other.to_string()).into()),
        }
    }
}

impl MountFault {
    pub fn of(self, path: PathBuf) -> MountError {
        match self {
            Self::MountPoint(fault) => MountError::MountPoint { path, source: fault.into() },
            Self::NotEmpty => MountError::NotEmpty { path },
            Self::Hides => MountError::Hides { path },
            Self::Refused(fault) => MountError::Refused { path, source: fault.into() },
        }
    }
}
