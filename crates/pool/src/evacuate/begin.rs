//! The beginning of a removal: nobody allocates on the vdev any more, no log has a block there, and the meta-objset says that it is
//! to go.

use std::sync::Arc;

use dmu::Tx;
use env::boxed;
use futures::stream::{self, StreamExt, TryStreamExt};
use ondisk::indirect::RemovingPhys;
use units::{ObjectId, VdevId};
use vdev::{Mapping, Top};

use super::path_of;
use crate::dataset::open::OpenDataset;
use crate::remove::{LOGS_AT_ONCE, TXGS_MAX};
use crate::{Pool, PoolError, RemovalRefusal};

impl Pool {
    /// Begins to take a data vdev out of the pool, by copying what is on it to the others, and returns when it is stable that
    /// this has begun. It goes on by itself.
    ///
    /// # Errors
    /// [`RemovalRefusal`], and a checkpoint that is in the way: the pool is as it was then. Those of making it stable.
    #[boxed]
    pub async fn evacuate(self: &Arc<Self>, vdev: VdevId) -> Result<(), PoolError> {
        self.check_writable()?;
        let _alone = self.adding.lock().await;
        let top = self.vdevs.top(vdev)?;
        self.check_no_checkpoint()?;
        self.admit_evacuation(&top).await?;
        self.zio.rest_vdev(vdev);
        self.space.outdate();
        let begun = self.clear_of_logs_and_begin(&top).await;
        if begun.is_err() {
            self.use_again(vdev);
        }
        begun?;
        self.evacuation.tell();
        tracing::info!(%vdev, "removal begun");
        self.run_evacuation();
        Ok(())
    }

    /// Blocks may go to a vdev that does not go after all.
    pub(crate) fn use_again(&self, vdev: VdevId) {
        if self.vdevs.top(vdev).is_ok_and(|top| top.config().non_allocating) {
            return;
        }
        self.zio.use_vdev(vdev);
        self.space.outdate();
        self.trust_with_logs(&[vdev].into());
    }

    async fn clear_of_logs_and_begin(self: &Arc<Self>, top: &Arc<Top>) -> Result<(), PoolError> {
        // All that was allocated there is stable then, or given back.
        self.sync_now().await?;
        for _ in 0..TXGS_MAX {
            let logs = stream::iter(self.open_datasets())
                .map(|open| async move { self.clear_of_log(&open, top).await })
                .buffer_unordered(LOGS_AT_ONCE);
            logs.try_collect::<()>().await?;
            let vdev = top.id();
            if self.in_sync(move |pool, tx| async move { pool.begin_evacuation(&tx, vdev).await }).await? {
                return Ok(());
            }
        }
        Err(RemovalRefusal::InUse.into())
    }

    /// Replays a log that waits for it, wherever it lies: a place that was reserved for its end is on no block. Then it leaves
    /// the vdev.
    async fn clear_of_log(self: &Arc<Self>, open: &Arc<OpenDataset>, top: &Top) -> Result<(), PoolError> {
        if open.is_claimed() {
            self.settle_claimed(open).await?;
        }
        self.leave_with_log(open, top).await
    }

    /// False when a log still has a block there.
    async fn begin_evacuation(self: &Arc<Self>, tx: &Tx, vdev: VdevId) -> Result<bool, PoolError> {
        self.check_no_checkpoint()?;
        self.check_no_evacuation()?;
        if self.has_log_on(vdev) {
            return Ok(false);
        }
        let top = self.vdevs.top(vdev)?;
        // From here on it is whole or never stable.
        tx.note_change();
        let leaving = evacuation::create(&self.dsl, tx, ObjectId::new(top.config().top_zap)).await?;
        top.change_copied(|copied| *copied = Mapping::default());
        top.set_config(|config| config.leaving = Some(leaving));
        let left = self.zio.with_allocator(|allocator| allocator.bytes_left_on(vdev, 0));
        let now = self.env.wall_clock().as_secs();
        self.note_evacuation(tx, |phys| {
            *phys = RemovingPhys {
                state: RemovingPhys::UNDER_WAY.into(),
                vdev: u64::from(vdev.get()).into(),
                last_removed: phys.last_removed,
                start_secs: now.into(),
                end_secs: 0.into(),
                to_copy: left.into(),
                copied: 0.into(),
            };
        })
        .await?;
        evacuation::rewrite_directory(&self.dsl, tx).await?;
        self.store_leaving(tx).await?;
        let detail = format!("{} vdev {vdev} {}", self.name(), path_of(&top));
        self.note_event(tx, "vdev remove started", None, &detail).await?;
        Ok(true)
    }
}
