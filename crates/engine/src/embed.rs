//! What a program that has the engine in itself asks beside requests: the pools themselves.

use crate::Engine;
use pool::Pool;
use std::sync::Arc;

impl Engine {
    /// A pool that is open.
    #[must_use]
    pub fn pool(&self, name: &str) -> Option<Arc<Pool>> {
        self.0.pools.read().get(name).map(|held| Arc::clone(&held.pool))
    }

    /// Lets go of a pool without closing it: it is as a crash would leave it once nobody else has it.
    pub fn drop_pool(&self, pool: &Arc<Pool>) {
        let name = pool.name();
        if self.pool(&name).is_some_and(|open| Arc::ptr_eq(&open, pool)) {
            self.0.let_go(&name);
        }
    }
}
