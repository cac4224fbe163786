//! Devices that are taken out of use and brought back: `offline`, `online`, `reopen`.
//!
//! ```text
//!            refused: the rest cannot do without it (but for logs)
//!   ONLINE ──offline──► chains leave a lone log ─► OFFLINE in memory ─► a txg: nothing there is needed
//!      ▲                                                                    │
//!      │                                                                    ▼
//!      └──resilver ◄── opened anew ◄── a txg: not in the configuration ◄──online── OFFLINE there, closed
//! ```
//! The configuration says so last. A crash before that leaves a pool whose device is opened as ever, with a
//! log's chain whole behind it; a crash after that, one that needs nothing of it. A device that is out for a
//! time only (`-t`) is never so in the configuration: the next import opens it.
//!
//! What a device misses while it is out is noted by every txg ([`vdev::Dtl`]), for whoever has it back.
//!
//! Invariants
//! - The only device that has something is not taken out, unless it is a log's: then what it has is in a
//!   stable txg first.
//!   (tests: `devices_are_taken_out_and_brought_back_as_openzfs_says`,
//!   `nothing_promised_needs_a_lone_log_that_was_taken_out`)

use std::sync::Arc;
use std::sync::atomic::Ordering;

use env::boxed;
use units::{Guid, VdevId};
use vdev::{Leaf, NO_VDEV, VdevAux, VdevError, VdevState};

use crate::{DeviceRefusal, Pool, PoolError};

/// How a device is taken out of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// Until somebody brings it back.
    Offline,
    /// As if it had failed, until somebody brings it back.
    Faulted,
}

impl Pool {
    /// Takes a leaf out of use; `for_now` until the next import at most.
    ///
    /// # Errors
    /// [`PoolError::Device`]; when it cannot be made stable.
    #[boxed]
    pub async fn take_offline(
        self: &Arc<Self>,
        leaf: Guid,
        absence: Absence,
        for_now: bool,
    ) -> Result<(), PoolError> {
        self.check_writable()?;
        let _alone = self.adding.lock().await;
        if let Some(cache) = self.cache_leaf(leaf) {
            return self.take_cache_offline(&cache, absence, for_now).await;
        }
        let leaf = self.standing(leaf)?.leaf;
        self.leave_log(&leaf).await?;
        self.vdevs.offline(leaf.guid()).map_err(|error| match error {
            VdevError::NoReplica { .. } => PoolError::from(DeviceRefusal::NoReplicas),
            // Its replacement was whole meanwhile.
            VdevError::NoSuchLeaf { .. } => DeviceRefusal::NoSuchDevice.into(),
            other => other.into(),
        })?;
        // What a log had is in a txg that is stable before the configuration says that it is out.
        leaf.set_away_for_now(true);
        self.sync_now().await?;
        let kept = Arc::clone(&leaf);
        self.in_sync(move |pool, tx| async move {
            match absence {
                Absence::Offline => kept.take_out_of_use(VdevState::Offline, VdevAux::None),
                Absence::Faulted => kept.take_out_of_use(VdevState::Faulted, VdevAux::External),
            }
            kept.set_away_for_now(for_now);
            pool.vdevs.mark_changed(kept.vdev());
            pool.store_config(&tx).await
        })
        .await?;
        tracing::info!(guid = leaf.guid().get(), path = %leaf.path().display(), ?absence, "out of use");
        Ok(())
    }

    /// Has no intent log anything on a log vdev that ends with this leaf.
    async fn leave_log(self: &Arc<Self>, leaf: &Arc<Leaf>) -> Result<(), PoolError> {
        let top = self.vdevs.top(leaf.vdev())?;
        if !top.is_log() || !leaf.is_usable() || self.vdevs.can_do_without(leaf) {
            return Ok(());
        }
        for dataset in self.open_datasets() {
            self.leave_with_log(&dataset, &top).await?;
        }
        Ok(())
    }

    /// Opens a leaf anew that was out of use, and begins to bring it up to date; says how it is then.
    ///
    /// # Errors
    /// [`PoolError::Device`]; [`VdevError::WrittenElsewhere`]; or when the change cannot be made
    /// stable. A missing device is not an error.
    #[boxed]
    pub async fn bring_online(self: &Arc<Self>, leaf: Guid) -> Result<VdevState, PoolError> {
        self.check_writable()?;
        let _alone = self.adding.lock().await;
        let leaf = match self.cache_leaf(leaf) {
            Some(cache) => {
                self.bring_cache_online(&cache).await?;
                cache
            }
            None => self.standing(leaf)?.leaf,
        };
        let is_cache = leaf.vdev() == NO_VDEV;
        if !leaf.is_usable() && !is_cache {
            self.open_again(&leaf).await?;
        }
        self.tell_done("vdev_online", Some(&leaf));
        Ok(leaf.state().0)
    }

    pub(crate) async fn open_again(self: &Arc<Self>, leaf: &Arc<Leaf>) -> Result<(), PoolError> {
        let vdev = leaf.vdev();
        let store = async |pool: &Arc<Self>| {
            pool.in_sync(move |pool, tx| async move {
                pool.vdevs.mark_changed(vdev);
                pool.store_config(&tx).await
            })
            .await
        };
        // As soon as it is open a log may use it. An import opens it only if the configuration does not say that it is out.
        // A data device that has failed may be what the pool waits for: then no txg would come.
        let was_taken_out =
            matches!(leaf.state(), (VdevState::Offline, _) | (VdevState::Faulted, VdevAux::External));
        if was_taken_out || self.is_log_declared_out(leaf) {
            leaf.set_away_for_now(true);
            store(self).await?;
        }
        self.call_back(leaf);
        let reopened = {
            let _one_at_a_time = self.reopening.lock().await;
            self.vdevs.reopen(leaf.guid(), None, || self.gate.open_txg()).await
        };
        leaf.set_away_for_now(false);
        self.trust_again(vdev);
        store(self).await?;
        match reopened {
            Err(error @ VdevError::WrittenElsewhere { .. }) => return Err(error.into()),
            Err(error) => tracing::warn!(guid = leaf.guid().get(), %error, "not brought back"),
            Ok(()) => {
                leaf.stats().clear_errors();
                self.may_grow.store(true, Ordering::Release);
            }
        }
        self.begin_resilver().await
    }

    /// Returns an error if a leaf is out of use because it was written elsewhere. The error names
    /// the first such leaf.
    fn check_none_elsewhere(&self) -> Result<(), PoolError> {
        let is_elsewhere = |leaf: &Arc<Leaf>| leaf.state() == (VdevState::Unavail, VdevAux::Elsewhere);
        match self.vdevs.leaves().into_iter().find(is_elsewhere) {
            Some(leaf) => Err(VdevError::WrittenElsewhere { path: leaf.path() }.into()),
            None => Ok(()),
        }
    }

    fn trust_again(&self, vdev: VdevId) {
        if !self.vdevs.doubtful().contains(&vdev) {
            self.open_datasets().iter().for_each(|dataset| dataset.trust_with_log(vdev));
        }
    }

    /// Looks for all devices again where they are to be: those that are back are brought up to date, those that are
    /// gone are out of use, and of those that have become larger the size is known. Hot spares that wait are looked
    /// for, too.
    ///
    /// # Errors
    /// When it cannot be made stable.
    #[boxed]
    pub async fn reopen_devices(self: &Arc<Self>) -> Result<(), PoolError> {
        self.check_writable()?;
        self.vdevs.look_for_absent().await;
        self.look_for_spares().await;
        self.clear(&Leaf::has_failed_by_itself).await?;
        self.look_at_sizes().await?;
        self.check_none_elsewhere()
    }
}
