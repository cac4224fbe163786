//! What can go wrong with a volume.

use dmu::DmuError;
use dmu::zap::ZapError;
use journal::JournalError;
use units::ObjsetId;
use zil::ZilError;
use zio::ZioError;

/// An error of a volume.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ZvolError {
    /// Its properties make no sense.
    #[error("objset {objset}: damaged volume: {what}")]
    Damaged {
        /// Its objset.
        objset: ObjsetId,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A log record is not about volumes.
    #[error("a record of type {0} is not one of a volume")]
    Foreign(&'static str),
    /// A read, a write or a log record leads past the volume's end.
    #[error("past the end of a volume of {size_bytes} bytes")]
    TooFar {
        /// The volume's size.
        size_bytes: u64,
    },
    /// A log record has no data and names none.
    #[error("a logged write without data")]
    NoData,
    /// A log record shares blocks of an impossible size.
    #[error("no volume has blocks of {0} bytes")]
    BlockSize(u64),
    /// No volume of these blocks has such a size.
    #[error("no volume with blocks of {block_bytes} bytes has {size_bytes}")]
    Size {
        /// The size.
        size_bytes: u64,
        /// Its unit of storage, in bytes.
        block_bytes: u32,
    },
    /// It takes no changes.
    #[error("the volume is read-only")]
    ReadOnly,
    /// It was closed: destroyed, rolled back, or its pool exported.
    #[error("the volume is closed")]
    Closed,
    /// From below.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// From below.
    #[error(transparent)]
    Zil(#[from] ZilError),
    /// From below.
    #[error(transparent)]
    Dmu(#[from] DmuError),
    /// From below.
    #[error(transparent)]
    Zap(#[from] ZapError),
    /// From below.
    #[error(transparent)]
    Zio(#[from] ZioError),
}
