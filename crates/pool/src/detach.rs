//! Devices are let go of: by a command, and when their work is done: old ones that were replaced, spares whose devices
//! are back.
//!
//! ```text
//!  resilver ends ─► DTL empty ─► taken out of the vdev ─► configuration ─► stable ─► label wiped, closed
//!                   └──────────── one txg ─────────────────────────────┘
//!  detach ─► needed? ──────────► taken out of the vdev ─► configuration ─► stable ─► label wiped, closed
//! ```
//! The end of the resilver, the empty DTL and the vdev without the old device are of one txg: a crash before it
//! is stable leaves a device that is being replaced, and the resilver is done again; a crash after it, one
//! that was replaced. The old device's label is wiped last. A crash before that leaves a device whose
//! label says that it is of the pool, and a pool that knows of no such device.
//!
//! Whether the others have all that a device has is asked as it is taken out: one of them may have failed just
//! before.
//!
//! Invariants
//! - A crash at any flush of a resilver and its end leaves a pool that imports and goes on with it.
//!   (test: `a_crash_anywhere_in_a_replace_leaves_a_pool_that_goes_on`)
//! - The only device that has something is not let go of.
//!   (test: `devices_are_attached_and_detached_as_openzfs_says`)

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dmu::Tx;
use env::boxed;
use units::Guid;
use vdev::{Leaf, NodeKind, VdevError, retire_label};

use crate::attach::come_back;
use crate::space::maps::forget_dtl;
use crate::{DeviceRefusal, Pool, PoolError, config};

impl Pool {
    /// Lets go of a leaf that others are copies of.
    ///
    /// # Errors
    /// [`PoolError::Device`]; [`PoolError::Checkpoint`]; when it cannot be made stable.
    #[boxed]
    pub async fn detach(self: &Arc<Self>, leaf: Guid) -> Result<(), PoolError> {
        self.check_writable()?;
        let _alone = self.adding.lock().await;
        self.in_sync(move |pool, tx| async move {
            pool.check_no_checkpoint()?;
            let standing = pool.standing(leaf)?;
            if !standing.is_a_copy() {
                return Err(DeviceRefusal::NoCopy.into());
            }
            // What is left has to be told what it is from there on.
            let top = pool.vdevs.top(standing.leaf.vdev())?;
            if !top.leaves().iter().any(|left| left.guid() != leaf && left.is_usable()) {
                return Err(DeviceRefusal::NoReplicas.into());
            }
            // One that is alone in its vdev then has the vdev's guid from there on.
            let spares = standing.siblings().filter(|left| left.config().is_spare);
            let spares: Vec<_> = spares.map(|spare| (Arc::clone(spare), spare.guid())).collect();
            pool.take_out(&tx, leaf).await?;
            if standing.parent == Some(NodeKind::Spare) && !standing.leaf.config().is_spare {
                for (spare, listed_as) in spares {
                    pool.keep_spare(&tx, &spare, listed_as).await?;
                }
            }
            if standing.leaf.config().is_spare {
                // Who sends a spare away does not want it back at once: not before the device fails anew.
                standing.siblings().for_each(|left| left.set_config(|config| config.no_spare_found = true));
            }
            if standing.parent == Some(NodeKind::Replacing) {
                come_back(&standing);
            }
            pool.store_config(&tx).await
        })
        .await
    }

    /// Takes all leaves out of their vdevs that are not needed any more; see [`vdev::VdevTree::finished`].
    pub(crate) async fn detach_finished(&self, tx: &Tx) -> Result<(), PoolError> {
        let mut is_any = false;
        while let Some(leaf) = self.vdevs.finished() {
            self.take_out(tx, leaf.guid()).await?;
            is_any = true;
        }
        if is_any { self.store_config(tx).await } else { Ok(()) }
    }

    /// Takes a leaf out of its vdev, and what the meta-objset has of it.
    async fn take_out(&self, tx: &Tx, leaf: Guid) -> Result<(), PoolError> {
        let leaf = {
            // Whoever finds it gone from its vdev finds it here.
            let mut detached = self.detached.lock();
            let leaf = self.vdevs.take_out(leaf).map_err(|error| match error {
                VdevError::NoReplica { .. } => PoolError::from(DeviceRefusal::NoReplicas),
                other => other.into(),
            })?;
            detached.push(Arc::clone(&leaf));
            leaf
        };
        // From here on it is whole or never stable: nothing more is written to the leaf.
        tx.note_change();
        config::forget_leaf_zap(&self.dsl, tx, &leaf).await?;
        forget_dtl(&self.dsl, tx, &leaf).await?;
        self.end_standing_in(&leaf);
        self.may_grow.store(true, Ordering::Release);
        self.note_event(tx, "detach", None, &format!("vdev={}", leaf.path().display())).await?;
        tracing::info!(guid = leaf.guid().get(), path = %leaf.path().display(), "detached");
        self.tell_done("vdev_remove", Some(&leaf));
        Ok(())
    }

    /// Nobody stands in any more for devices of the vdev that are whole.
    fn end_standing_in(&self, gone: &Leaf) {
        let whole = |back: &&Arc<Leaf>| back.vdev() == gone.vdev() && !back.is_stale();
        for back in self.vdevs.leaves().iter().filter(whole) {
            back.set_config(|config| config.unspare = false);
        }
    }

    pub(crate) async fn store_config(&self, tx: &Tx) -> Result<(), PoolError> {
        let config = self.config.lock().clone();
        config::store(&self.dsl, tx, &config, &self.vdevs).await
    }

    /// The txg is stable in which leaves were detached: nothing leads to them any more.
    pub(crate) async fn let_go_of_detached(&self) {
        let detached = self.detached.lock().clone();
        let (guid, pool) = (self.guid(), self.config.lock().at(self.gate.synced_txg()));
        for leaf in detached {
            self.end_sweeps_of(&leaf).await;
            if let Err(error) = retire_label(guid, &leaf, &pool).await {
                tracing::warn!(%error, "a detached device keeps its label");
            }
            leaf.close();
            self.detached.lock().retain(|other| !Arc::ptr_eq(other, &leaf));
        }
    }

    /// Whether leaves have been taken out whose devices are not free for others yet.
    #[must_use]
    pub fn is_letting_go(&self) -> bool {
        !self.detached.lock().is_empty()
    }
}
