//! Log vdevs that are taken out of a pool in use.
//!
//! ```text
//!  no block goes there ─► logs leave it ─► all that lay there is freed ─► a txg's sync ─► stable ─► labels wiped, closed
//!                         │ chains hop (`zil`), unreplayed                 maps, objects,
//!                         │ ones are replayed first                        a hole in the tree
//!                         └─ one cannot be: as it was before, and the refusal names the dataset
//! ```
//! A log holds nothing but promises that a txg has not kept yet. So nothing has to be copied: chains go on elsewhere with
//! their next block, and what they leave behind is freed as its txgs sync. Commits go on meanwhile. What was found at an
//! import and not replayed since is the exception: it is replayed first, whether or not anybody uses its dataset.
//!
//! What takes the vdev out is of one txg: its maps and objects, the hole in its place (no hole at the end), the
//! configuration. A crash before leaves an empty log, a crash after it a hole and a device whose label is older than
//! anybody's. Space that nobody refers to, of logs that an import had to give up, goes with the vdev.
//!
//! Invariants
//! - Nothing promised is lost when the power is cut anywhere in a removal, and the pool has the log or a hole.
//!   (test: `a_power_cut_while_a_log_is_removed_leaves_it_or_a_hole_and_every_promise`)
//! - Chains that do not touch the vdev are not touched. (test: `removing_one_of_several_logs_costs_the_others_nothing`)
//! - A log that cannot be replayed is never given up by a removal.
//!   (test: `a_log_that_cannot_be_replayed_is_not_removed_and_loses_nothing`)
//! - A removal ends though the device fails. (test: `removing_a_failing_log_does_not_hang`)

use std::sync::Arc;

use dmu::Tx;
use env::boxed;
use futures::stream::{self, StreamExt, TryStreamExt};
use ondisk::zil::ZilHeader;
use units::VdevId;
use vdev::Top;
use zil::{Leaving, LogWalk};

use crate::dataset::open::OpenDataset;
use crate::space::maps::forget_dtl;
use crate::{Pool, PoolError, config};

/// Logs that leave a vdev at the same time.
pub(crate) const LOGS_AT_ONCE: usize = 64;
/// Txgs that may pass until what was freed is written: more mean that somebody still uses the vdev.
pub(crate) const TXGS_MAX: usize = 16;

/// Why a vdev is not removed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RemovalRefusal {
    /// Its blocks have to be copied ([`Pool::evacuate`]).
    #[error("not a log device")]
    NotLog,
    /// The pool does not have the feature that it takes.
    #[error("operation not supported on this type of pool")]
    Unsupported,
    /// It is being removed already.
    #[error("removal for this vdev is already in progress.")]
    Leaving,
    /// The others have no room for what is there, or for what datasets may still write.
    #[error("out of space")]
    NoRoom,
    /// Another vdev is being removed, or this one lacks something.
    #[error("Pool busy; removal may already be in progress")]
    Busy,
    /// Too few of its devices are in use.
    #[error("I/O error")]
    Unreadable,
    /// Its runs cannot be copied to some of the others, or there are none.
    #[error("invalid config; all top-level vdevs must have the same sector size and not be raidz.")]
    Layout,
    /// What is to be added could not take runs of vdevs that are, or were, removed.
    #[error(
        "invalid config; a pool with removing/removed vdevs does not support adding raidz or dRAID vdevs"
    )]
    Raidz,
    /// Something else has to wait until a vdev is removed.
    #[error("device removal in progress")]
    InProgress,
    /// There is no removal to be given up.
    #[error("operation is not in progress")]
    NotUnderWay,
    /// What waits there for its replay needs a key.
    #[error("Mount encrypted datasets to replay logs: {dataset}")]
    NeedsKey {
        /// Whose log it is.
        dataset: String,
    },
    /// What waits there for its replay cannot be read or applied.
    #[error("the intent log of {dataset} cannot be replayed")]
    Unreplayed {
        /// Whose log it is.
        dataset: String,
        /// Why.
        #[source]
        source: Arc<PoolError>,
    },
    /// Blocks of logs are still there after many txgs.
    #[error("the device is still in use")]
    InUse,
}

impl Pool {
    /// Takes a log vdev out of the pool, with all that waits there replayed, and returns when its devices are nobody's.
    ///
    /// # Errors
    /// [`RemovalRefusal`], and a checkpoint that is in the way: the pool is as it was then. Those of making it stable.
    #[boxed]
    pub async fn remove_log(self: &Arc<Self>, vdev: VdevId) -> Result<(), PoolError> {
        self.check_writable()?;
        let _alone = self.adding.lock().await;
        let top = self.vdevs.top(vdev)?;
        if !top.is_log() {
            return Err(RemovalRefusal::NotLog.into());
        }
        self.check_no_checkpoint()?;
        self.zio.rest_vdev(vdev);
        let removed = self.empty_and_take_out(&top).await;
        if removed.is_err() {
            self.zio.use_vdev(vdev);
            self.trust_with_logs(&[vdev].into());
        }
        removed
    }

    async fn empty_and_take_out(self: &Arc<Self>, top: &Arc<Top>) -> Result<(), PoolError> {
        for _ in 0..TXGS_MAX {
            let logs = stream::iter(self.open_datasets())
                .map(|open| async move { self.leave_with_log(&open, top).await })
                .buffer_unordered(LOGS_AT_ONCE);
            logs.try_collect::<()>().await?;
            let gone = Arc::clone(top);
            if self.in_sync(move |pool, tx| async move { pool.take_vdev_out(&tx, &gone).await }).await? {
                tracing::info!(vdev = %top.id(), "log removed");
                return Ok(());
            }
        }
        Err(RemovalRefusal::InUse.into())
    }

    /// Has a dataset's log leave a vdev, replayed first if it waits there.
    ///
    /// # Errors
    /// [`RemovalRefusal::Unreplayed`], [`RemovalRefusal::NeedsKey`]; when it cannot be made stable.
    pub(crate) async fn leave_with_log(
        self: &Arc<Self>,
        open: &Arc<OpenDataset>,
        top: &Top,
    ) -> Result<(), PoolError> {
        if self.waits_on(open, top.id()).await? {
            self.settle_claimed(open).await?;
        }
        let how = if top.is_trusted() { Leaving::AfterItsTail } else { Leaving::AtOnce };
        match open.log() {
            Some(log) => Ok(log.evacuate(top.id(), how).await?),
            None => Ok(()),
        }
    }

    /// Whether a log that was claimed and not replayed has blocks on a vdev.
    async fn waits_on(&self, open: &OpenDataset, vdev: VdevId) -> Result<bool, PoolError> {
        let _nobody_replays_it = open.loading.lock().await;
        let Some(header) = open.claimed_header() else { return Ok(false) };
        let refuse = |error: PoolError| self.unreplayed(open, error);
        self.lies_on(open, &header, vdev).await.map_err(refuse)
    }

    async fn lies_on(&self, open: &OpenDataset, header: &ZilHeader, vdev: VdevId) -> Result<bool, PoolError> {
        let mut walk = LogWalk::new(open.objset.id(), header, &*self.log_store);
        if header.log.dvas().any(|dva| dva.vdev == vdev) {
            return Ok(true);
        }
        while let Some(block) = walk.next().await? {
            if block.bp.dvas().any(|dva| dva.vdev == vdev) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn unreplayed(&self, open: &OpenDataset, error: PoolError) -> PoolError {
        RemovalRefusal::Unreplayed { dataset: open.name().name, source: Arc::new(error) }.into()
    }

    /// Replays a claimed log. One of a dataset that needs a key can only be given back, and only if it is empty.
    pub(crate) async fn settle_claimed(self: &Arc<Self>, open: &Arc<OpenDataset>) -> Result<(), PoolError> {
        match self.check_readable(&open.name()).await {
            Ok(()) => self.replay_log(open).await.map_err(|error| self.unreplayed(open, error)),
            Err(PoolError::Encrypted { name }) if open.needs_replay() => {
                Err(RemovalRefusal::NeedsKey { dataset: name }.into())
            }
            Err(PoolError::Encrypted { .. }) => self.give_back_empty_log(open).await,
            Err(error) => Err(error),
        }
    }

    /// A log without records: it is given back, and whoever uses the dataset next begins a new one.
    async fn give_back_empty_log(&self, open: &OpenDataset) -> Result<(), PoolError> {
        let _nobody_replays_it = open.loading.lock().await;
        let Some(claimed) = open.take_claimed() else { return Ok(()) };
        let empty = claimed.discard().await?;
        self.use_log(open, empty.handle());
        Ok(empty.close().await?)
    }

    /// Whether any log has a block on a vdev.
    pub(crate) fn has_log_on(&self, vdev: VdevId) -> bool {
        let is_there = |open: &Arc<OpenDataset>| {
            let blocks = open.log().map(|log| log.blocks()).unwrap_or_default();
            blocks.iter().any(|bp| bp.dvas().any(|dva| dva.vdev == vdev))
        };
        self.open_datasets().iter().any(is_there)
    }

    /// Takes an empty log vdev out in the txg being synced; false when changes of its maps are not written yet.
    async fn take_vdev_out(self: &Arc<Self>, tx: &Tx, top: &Arc<Top>) -> Result<bool, PoolError> {
        let vdev = top.id();
        if self.has_log_on(vdev) || self.zio.with_allocator(|allocator| allocator.forget_vdev(vdev)).is_err()
        {
            return Ok(false);
        }
        // From here on it is whole or never stable.
        tx.note_change();
        self.space_maps.forget(&self.dsl, tx, vdev).await?;
        self.space_maps.flush_all_next();
        for leaf in top.leaves() {
            config::forget_leaf_zap(&self.dsl, tx, leaf).await?;
            forget_dtl(&self.dsl, tx, leaf).await?;
        }
        config::forget_vdev_zap(&self.dsl, tx, top.config().top_zap).await?;
        self.vdevs.remove(vdev)?;
        self.detached.lock().extend(top.leaves().iter().cloned());
        let config = self.config.lock().clone();
        config::store(&self.dsl, tx, &config, &self.vdevs).await?;
        self.tell_done("vdev_remove_dev", top.leaves().first().map(|leaf| &**leaf));
        let path = top.leaves().first().map(|leaf| leaf.path().display().to_string()).unwrap_or_default();
        self.note_event(tx, "vdev remove", None, &format!("{} vdev (log) {path}", self.name())).await?;
        Ok(true)
    }

    /// Has all chains go on on log vdevs that were just added.
    pub(crate) async fn move_logs_on(&self) {
        let good = &self.log_store.good_homes();
        if good.is_empty() {
            return;
        }
        let logs = self.open_datasets().into_iter().filter_map(|open| open.log());
        let moves = stream::iter(logs).for_each_concurrent(LOGS_AT_ONCE, |log| async move {
            log.move_on(|vdev| good.contains(&vdev)).await;
        });
        moves.await;
    }
}

#[cfg(test)]
mod tests;
