//! Closing pools: export, destroy, and the daemon's end.

use super::{Held, Holder, refusal};
use control::{Failure, Said};
use pool::PoolError;
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
        if state == PoolState::Exported && self.forget_absent(name) {
            return Ok(());
        }
        let held = self.pool(name)?;
        let verb = if state == PoolState::Destroyed { "destroy" } else { "export" };
        if let Some(txg) = held.pool.suspended() {
            if !force {
                return Err(refusal::pool(verb, name, &PoolError::Suspended { txg }));
            }
            return self.give_up(&held).await;
        }
        self.mounts.unmount_below(name, force)?;
        // What is only read keeps no history.
        _ = held.pool.log_history(&said.command, said.uid);
        held.pool.close(state).await.map_err(|e| refusal::pool(verb, name, &e))?;
        self.pools.write().remove(name);
        self.remember();
        tracing::info!(pool = name, "{verb}ed");
        Ok(())
    }

    /// Lets go of a suspended pool; its devices stay as they are. First of all it is given up, for what
    /// keeps a file system from being unmounted may be waiting for it.
    async fn give_up(&self, held: &Held) -> Result<(), Failure> {
        let name = held.pool.name();
        held.pool.abandon().await;
        self.mounts.unmount_below(&name, true)?;
        self.pools.write().remove(&name);
        self.remember();
        tracing::warn!(pool = name, "given up while suspended");
        Ok(())
    }

    /// Everything stable, nothing mounted: what may follow is the end of the process. Pools
    /// stay in the cache file.
    pub(super) async fn settle_all(&self) {
        let _alone = self.changing.lock().await;
        let (suspended, others): (Vec<_>, Vec<_>) =
            self.all().into_iter().partition(|held| held.pool.suspended().is_some());
        for held in suspended {
            held.pool.abandon().await;
        }
        if let Err(failure) = self.mounts.unmount_all(true) {
            tracing::warn!(%failure, "still mounted");
        }
        for held in others {
            if let Err(error) = held.pool.leave().await {
                tracing::error!(pool = held.pool.name(), error = refusal::chain(&error), "not synced");
                held.pool.abandon().await;
            }
        }
        self.pools.write().clear();
    }
}
