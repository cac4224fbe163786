//! Closing pools: export, destroy, and the daemon's end.

use super::{Holder, refusal};
use control::{Failure, Said};
use vdev::PoolState;

impl Holder {
    /// Unmounts all of a pool and closes it, leaving labels that say `state`.
    pub(super) async fn close(
        &self,
        name: &str,
        state: PoolState,
        force: bool,
        said: &Said,
    ) -> Result<(), Failure> {
        let _alone = self.changing.lock().await;
        let held = self.pool(name)?;
        self.mounts.unmount_below(name, force)?;
        let verb = if state == PoolState::Destroyed { "destroy" } else { "export" };
        // What is only read keeps no history.
        _ = held.pool.log_history(&said.command, said.uid);
        held.pool.close(state).await.map_err(|e| refusal::pool(verb, name, &e))?;
        self.pools.write().remove(name);
        self.remember();
        tracing::info!(pool = name, "{verb}ed");
        Ok(())
    }

    /// Everything stable, nothing mounted: what may follow is the end of the process. Pools
    /// stay in the cache file.
    pub(super) async fn settle_all(&self) {
        let _alone = self.changing.lock().await;
        if let Err(failure) = self.mounts.unmount_all(true) {
            tracing::warn!(%failure, "still mounted");
        }
        for held in self.all() {
            if let Err(error) = held.pool.leave().await {
                tracing::error!(pool = held.pool.name(), error = refusal::chain(&error), "not synced");
            }
        }
        self.pools.write().clear();
    }
}
