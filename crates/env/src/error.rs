//! What can go wrong with a device.

use std::path::PathBuf;

use units::LeafOffset;

/// An error of one device.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DeviceError {
    /// Nothing at that path.
    #[error("{}: no such device", path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// Someone else holds it for writing.
    #[error("{}: device is in use", path.display())]
    InUse {
        /// Whose path.
        path: PathBuf,
    },
    /// Neither a regular file nor a block device.
    #[error("{}: must be a block device or regular file", path.display())]
    NotADevice {
        /// Whose path.
        path: PathBuf,
    },
    /// Opening failed for another reason.
    #[error("{}: cannot open (errno {errno})", path.display())]
    Open {
        /// Whose path.
        path: PathBuf,
        /// The system's error number.
        errno: i32,
    },
    /// An I/O failed.
    #[error("{op} of {len} bytes at {offset} failed (errno {errno})")]
    Io {
        /// "read", "write" or "flush".
        op: &'static str,
        /// Where.
        offset: LeafOffset,
        /// How many bytes.
        len: u64,
        /// The system's error number.
        errno: i32,
    },
    /// Beyond the end of the device, or not in whole sectors.
    #[error("{op} of {len} bytes at {offset} does not fit the device")]
    OutOfRange {
        /// "read" or "write".
        op: &'static str,
        /// Where.
        offset: LeafOffset,
        /// How many bytes.
        len: u64,
    },
    /// The device has not answered in time. It may still do what it was asked for.
    #[error("the device does not answer")]
    TimedOut,
    /// The device has gone away.
    #[error("the device is gone")]
    Gone,
}

impl DeviceError {
    /// The system's error number of it, as Linux counts them.
    #[must_use]
    pub const fn errno(&self) -> i32 {
        match self {
            Self::Missing { .. } => 2,
            Self::InUse { .. } => 16,
            Self::NotADevice { .. } => 15,
            Self::Open { errno, .. } | Self::Io { errno, .. } => *errno,
            Self::OutOfRange { .. } => 22,
            Self::TimedOut => 110,
            Self::Gone => 6,
        }
    }
}
