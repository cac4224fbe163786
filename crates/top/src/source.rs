//! Where looks come from.

use control::{Failure, PoolInfo};
use live::Look;

/// Somebody who asks the daemon. Both may take as long as that takes to answer.
pub trait Source {
    /// The pools that are open.
    ///
    /// # Errors
    /// What the daemon refuses, or why it cannot be asked.
    fn pools(&mut self) -> Result<Vec<PoolInfo>, Failure>;

    /// A look at one of them.
    ///
    /// # Errors
    /// The same.
    fn look(&mut self, pool: PoolInfo) -> Result<Look, Failure>;
}
