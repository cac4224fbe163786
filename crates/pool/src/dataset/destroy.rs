//! Destroying datasets.
//!
//! A dataset goes at once; its blocks are freed by this and the next txgs, so many in each, and a
//! crash in between only delays that. Pools without the feature `async_destroy` free them all in the
//! txg that destroys the dataset.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dmu::{DestroyedObjset, Objset, SpaceDelta, SyncRead, Tx};
use dsl::DatasetName;
use env::boxed;
use ondisk::Blkptr;
use units::{ObjectId, Txg};

use crate::dataset::readers::KeptOut;
use crate::{Pool, PoolError, Sealed};

impl Pool {
    /// Destroys a file system or volume, a clone or not, which must not be in use.
    ///
    /// # Errors
    /// [`dsl::DslError::HasChildren`], [`dsl::DslError::HasSnapshots`]. [`PoolError::Busy`] when
    /// its origin would be destroyed with it and is being read, and while a stream is being
    /// received into it.
    #[boxed]
    pub async fn destroy_filesystem(self: &Arc<Self>, name: &str) -> Result<(), PoolError> {
        let dataset = self.dsl.resolve(name).await?;
        self.check_not_receiving(&dataset).await?;
        let half = self.dsl.receiving_below(&dataset).await?;
        self.dsl.check_removable_but_for(&dataset, half.as_ref()).await?;
        // What was received for it in part is nobody's any more when it is gone.
        if let Some(half) = half {
            Box::pin(self.destroy_filesystem(&half.name)).await?;
        }
        // A log that waits for its replay has blocks that only it can give back. What came in by half
        // was never in use.
        if self.sealed(name).await? != Some(Sealed::HalfReceived) {
            self.check_readable(&dataset).await?;
            self.replay_log_of(name).await?;
        }
        // A concurrent lookup waits: it finds the dataset only if the task has refused to destroy
        // the dataset.
        let _nobody_opens_it = self.loading.write().await;
        self.close_filesystem(name).await?;
        let going = dataset;
        self.in_sync(move |pool, tx| async move {
            let dataset = pool.dsl.resolve(&going.name).await?;
            if dataset != going || pool.datasets.read().contains_key(&dataset.objset()) {
                return Err(PoolError::Busy { objset: dataset.objset() });
            }
            pool.dsl.check_removable(&dataset).await?;
            let _nobody_reads_it = pool.readers.keep_out(dataset.objset())?;
            pool.remove_head(&tx, &dataset).await?;
            pool.note_event(&tx, "destroy", Some(&dataset), "").await
        })
        .await
    }

    /// Destroys a file system or volume that nobody uses and that can be.
    pub(crate) async fn remove_head(&self, tx: &Tx, dataset: &DatasetName) -> Result<(), PoolError> {
        let _nobody_opens_it = self.keep_out_of_origin(dataset).await?;
        self.remove_head_alone(tx, dataset).await
    }

    /// Keeps readers out of the origin of a head, if that snapshot is destroyed with the head.
    ///
    /// # Errors
    /// [`PoolError::Busy`] while the snapshot is being read; or when it cannot be looked up.
    pub(crate) async fn keep_out_of_origin(
        &self,
        dataset: &DatasetName,
    ) -> Result<Option<KeptOut<'_>>, PoolError> {
        let origin = ObjectId::new(self.dsl.dir(dataset.dir).await?.origin.get());
        self.keep_out_of_deferred(origin).await
    }

    /// Destroys a head as [`Self::remove_head`] does. The caller keeps readers out of its origin.
    pub(crate) async fn remove_head_alone(&self, tx: &Tx, dataset: &DatasetName) -> Result<(), PoolError> {
        let phys = self.dsl.dataset(dataset.dataset).await?;
        if !phys.bp.is_hole() && !self.dsl.frees_later().await? {
            self.free_tree(tx, phys.bp, Txg::new(phys.prev_snapshot_txg.get())).await?;
        }
        Ok(self.dsl.remove_dataset(tx, dataset, self.env.wall_clock()).await?)
    }

    /// Frees all blocks of a tree that were born after a txg: what pools have to do that cannot put it off.
    pub(crate) async fn free_tree(&self, tx: &Tx, root: Blkptr, born_after: Txg) -> Result<(), PoolError> {
        let tree = DestroyedObjset { root, born_after, from: None };
        let taken = Objset::take_apart(&self.zio, &tree, usize::MAX).await?;
        self.free_all(tx, &taken.blocks).await?;
        Ok(())
    }

    /// Frees some of the blocks that wait for it.
    pub(crate) async fn free_some(&self, tx: &Tx) -> Result<(), PoolError> {
        if !self.dsl.has_destroyed().await? {
            return Ok(());
        }
        if self.space.must_not_free() {
            self.space.set_freeing(false);
            return Ok(());
        }
        let mut room = self.tuning.freed_blocks;
        let listed = self.dsl.take_from_free_list(tx, room).await?;
        self.free_all(tx, &listed).await?;
        room -= listed.len();
        let of_clones = self.dsl.take_from_deleted_clones(tx, room).await?;
        self.free_all(tx, &of_clones).await?;
        room -= of_clones.len();
        let mut stalled = false;
        while room > 0 && !stalled {
            let destroyed = match self.dsl.next_destroyed().await {
                Err(error) if error.is_loss() && SyncRead::FreeList.goes_on() => {
                    self.dsl.abandon_destroyed(tx, &error).await?;
                    break;
                }
                next => next?,
            };
            let Some(destroyed) = destroyed else { break };
            match Objset::take_apart(&self.zio, &destroyed, room).await {
                Ok(taken) => {
                    let space = self.free_all(tx, &taken.blocks).await?;
                    self.dsl.note_freed(tx, space, taken.next).await?;
                    room = room.saturating_sub(taken.work().max(1));
                }
                Err(error) => {
                    tracing::warn!(%error, "a destroyed dataset cannot be freed");
                    stalled = true;
                }
            }
        }
        let more = !stalled && self.dsl.has_destroyed().await?;
        self.has_destroyed.store(more, Ordering::Release);
        self.space.set_freeing(more);
        Ok(())
    }

    /// Stops the freeing of destroyed datasets. The next destroy starts it again.
    pub(crate) fn stop_freeing(&self, error: &PoolError) {
        tracing::error!(pool = self.name(), %error, "the blocks to free cannot be found");
        self.has_destroyed.store(false, Ordering::Release);
        self.space.set_freeing(false);
    }

    async fn free_all(&self, tx: &Tx, bps: &[Blkptr]) -> Result<SpaceDelta, PoolError> {
        let mut space = SpaceDelta::default();
        for bp in bps {
            space.add(&self.zio, bp);
            self.free_block(tx, bp).await?;
        }
        Ok(space)
    }
}

#[cfg(test)]
mod tests;
