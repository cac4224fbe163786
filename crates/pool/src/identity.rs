//! The pool gets another guid: what copies of one pool's devices need to be told apart.
//!
//! ```text
//!   a txg's sync: root guid, configuration ─► even labels say the new one ─► uberblock ─► odd labels
//!                                              └ the power goes: younger than every uberblock, they do not count
//! ```
//! Every device must be there, for one that is not would be of a pool that nobody has any more. After a crash the devices are
//! found under the old guid or under the new one, all of them (test: `a_power_cut_while_a_guid_is_changed_leaves_one_pool`). A
//! device that fails before its labels are written is known by the old one until the pool is closed
//! (test: `a_device_that_fails_while_a_guid_is_changed_comes_back`).

use std::sync::Arc;

use env::boxed;
use units::Guid;
use vdev::VdevState;

use crate::{DeviceRefusal, Pool, PoolError};

impl Pool {
    /// Gives the pool that guid, which must be no other pool's, or one that is drawn.
    ///
    /// # Errors
    /// [`DeviceRefusal::Unavailable`]; [`PoolError::Checkpoint`]; when it cannot be made stable.
    #[boxed]
    pub async fn change_guid(self: &Arc<Self>, new: Option<Guid>) -> Result<(), PoolError> {
        self.check_writable()?;
        let _alone = self.adding.lock().await;
        let new = new.unwrap_or_else(|| Guid::new(self.env.random_u64().max(1)));
        self.in_sync(move |pool, tx| async move {
            pool.check_no_checkpoint()?;
            if pool.vdevs.state().0 != VdevState::Online {
                return Err(DeviceRefusal::Unavailable.into());
            }
            let old = pool.guid();
            tx.note_change();
            pool.vdevs.set_root(|root| (root.former_guid, root.guid) = (Some(old), new));
            pool.vdevs.mark_all_changed();
            pool.note_event(&tx, "guid change", None, &format!("old={} new={}", old.get(), new.get()))
                .await?;
            pool.store_config(&tx).await
        })
        .await?;
        self.tell_done("pool_reguid", None);
        Ok(())
    }

    /// Makes everything done so far stable, and labels and configuration written anew, even if nothing has changed.
    ///
    /// # Errors
    /// As [`Self::sync_now`].
    #[boxed]
    pub async fn sync_all(self: &Arc<Self>) -> Result<(), PoolError> {
        self.in_sync(|pool, tx| async move {
            pool.vdevs.mark_all_changed();
            pool.store_config(&tx).await
        })
        .await
    }
}
