//! What can go wrong.

use control::Failure;
use pool::PoolError;
use zpl::ZplError;

/// An error, with the place it befell; causes are linked ([`std::error::Error::source`]).
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for is against the rules, or went wrong, in the words of the commands.
    #[error(transparent)]
    Refused(#[from] Failure),
    /// A pool or dataset could not be used.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A file or directory could not be used.
    #[error("{path}: {source}")]
    File {
        /// Its path.
        path: String,
        /// What is wrong.
        source: ZplError,
    },
    /// A symbolic link has an absolute path: where that leads depends on mount points.
    #[error("{path}: a symbolic link leads out of the file system")]
    LeadsOut {
        /// The path that was to be followed.
        path: String,
    },
    /// Symbolic links lead to symbolic links without end.
    #[error("{path}: too many symbolic links")]
    TooManyLinks {
        /// The path that was to be followed.
        path: String,
    },
}
