//! What the load runs on: pages and a log that are read and written, and how many bytes devices moved for it.

use std::io;
use std::path::PathBuf;

use pool::PoolError;

/// Why a load ended.
#[derive(Debug, thiserror::Error)]
pub enum OltpError {
    /// A file of the baseline cannot be used so.
    #[error("{}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It has less room than pages and log need.
    #[error("{} has {room} bytes, and {needed} are needed", path.display())]
    TooSmall {
        /// Which.
        path: PathBuf,
        /// Its bytes.
        room: u64,
        /// What pages and log need.
        needed: u64,
    },
    /// The pool cannot be made, read or written.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A page that was read is not the one that was written there.
    #[error("page {place} holds what was not written there")]
    Wrong {
        /// Which page.
        place: u64,
    },
    /// The write of another thread, which made the log's records stable for this one, too, has failed.
    #[error("the log could not be written")]
    Log,
}

/// Bytes read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Moved {
    /// Read.
    pub read: u64,
    /// Written.
    pub written: u64,
}

impl Moved {
    /// What was moved since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            read: self.read.saturating_sub(earlier.read),
            written: self.written.saturating_sub(earlier.written),
        }
    }

    /// Both together.
    pub(crate) fn bytes(self) -> u64 {
        self.read + self.written
    }
}

impl std::ops::Add for Moved {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { read: self.read + other.read, written: self.written + other.written }
    }
}

/// The pages and the log of a database. Calls return when that is done, and come from many threads at once.
/// Offsets and lengths are multiples of [`super::ALIGN_BYTES`], and so are the addresses of buffers.
pub(crate) trait Store: Sync {
    /// Reads pages.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), OltpError>;
    /// Writes pages, which are `stable` when the call returns, or else after [`Store::checkpoint`].
    fn write(&self, offset: u64, data: &[u8], stable: bool) -> Result<(), OltpError>;
    /// Writes to the log; stable when the call returns.
    fn append(&self, offset: u64, data: &[u8]) -> Result<(), OltpError>;
    /// All pages written before become stable.
    fn checkpoint(&self) -> Result<(), OltpError>;
    /// Nothing of what was written is left in memory, so that [`Store::moved`] has all of it.
    fn settle(&self) -> Result<(), OltpError>;
    /// What devices moved so far.
    fn moved(&self) -> Moved;
}
