//! Why something cannot be made stable.

use dmu::DmuError;
use zil::ZilError;

/// Why something cannot be made stable, or not be done again.
#[derive(Clone, Debug, thiserror::Error)]
pub enum JournalError {
    /// The txg that has the change cannot be waited for.
    #[error(transparent)]
    Txg(#[from] DmuError),
    /// The log cannot hold it.
    #[error(transparent)]
    Log(#[from] ZilError),
}

/// Results of the journal.
pub type Result<T, E = JournalError> = std::result::Result<T, E>;
