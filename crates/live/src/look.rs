//! One look.

use control::{LogFacts, LogUsers, PoolInfo};
use std::time::Duration;

/// What the daemon answers about a pool at about one moment.
#[derive(Clone, Debug)]
pub struct Look {
    /// The pool.
    pub pool: PoolInfo,
    /// What its intent logs had to do.
    pub facts: LogFacts,
    /// Who uses them.
    pub users: LogUsers,
}

impl Look {
    /// When it was: how long the pool had been open.
    #[must_use]
    pub fn moment(&self) -> Duration {
        Duration::from_nanos(self.facts.open_nanos)
    }

    /// Whether this and a later look are of a pool that was open all the time between them, so that its counters went on.
    #[must_use]
    pub fn goes_on_in(&self, later: &Self) -> bool {
        self.pool.guid == later.pool.guid && self.facts.open_nanos <= later.facts.open_nanos
    }
}
