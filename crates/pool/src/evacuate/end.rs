//! The end of a removal: the vdev is a mapping, or it is as it was.

use std::sync::Arc;

use dmu::Tx;
use dmu::zap::Zap;
use env::boxed;
use evacuation::EvacuationError;
use ondisk::indirect::RemovingPhys;
use ondisk::mos::vdev_zap::MS_UNFLUSHED_PHYS_TXGS;
use units::{ObjectId, VdevId, VdevOffset};
use vdev::{Mapping, Run, Top};

use super::path_of;
use crate::space::maps::{forget_dtl, forget_map};
use crate::{Pool, PoolError, RemovalRefusal, config};

impl Pool {
    /// Nothing is left on the vdev that was not copied: a mapping takes its place in the txg being synced.
    pub(super) async fn end_evacuation(&self, tx: &Tx, top: &Arc<Top>) -> Result<(), PoolError> {
        let vdev = top.id();
        // From here on it is whole or never stable.
        tx.note_change();
        self.space_maps.forget(&self.dsl, tx, vdev).await?;
        self.zio.with_allocator(|allocator| allocator.retire_vdev(vdev))?;
        let zap = Zap::hold(self.dsl.mos(), ObjectId::new(top.config().top_zap)).await?;
        if zap.lookup_u64(MS_UNFLUSHED_PHYS_TXGS.as_bytes()).await?.is_some() {
            zap.remove(tx, MS_UNFLUSHED_PHYS_TXGS.as_bytes()).await?;
        }
        for leaf in top.leaves() {
            config::forget_leaf_zap(&self.dsl, tx, leaf).await?;
            forget_dtl(&self.dsl, tx, leaf).await?;
        }
        let last = self.evacuation.phys().map_or(RemovingPhys::NO_VDEV, |phys| phys.last_removed.get());
        let gone = self.vdevs.make_indirect(vdev, u32::try_from(last).ok().map(VdevId::new))?;
        self.detached.lock().extend(gone.leaves().iter().cloned());
        self.log_store.forget_home(vdev);
        let now = self.env.wall_clock().as_secs();
        self.note_evacuation(tx, |phys| {
            phys.state.set(RemovingPhys::FINISHED);
            phys.last_removed.set(vdev.get().into());
            phys.end_secs.set(now);
            phys.copied = phys.to_copy;
        })
        .await?;
        self.store_leaving(tx).await?;
        self.tell_done("vdev_remove_dev", top.leaves().first().map(|leaf| &**leaf));
        tracing::info!(%vdev, "removed");
        self.note_event(tx, "vdev remove completed", None, &format!("{} vdev {vdev}", self.name())).await
    }

    /// Gives up the removal that is under way: what was copied is freed, and the vdev is used as before.
    ///
    /// # Errors
    /// [`RemovalRefusal::NotUnderWay`]; when it cannot be made stable: then it goes on.
    #[boxed]
    pub async fn cancel_evacuation(self: &Arc<Self>) -> Result<(), PoolError> {
        self.check_writable()?;
        let _alone = self.adding.lock().await;
        if !self.evacuation.is_under_way() {
            return Err(RemovalRefusal::NotUnderWay.into());
        }
        self.halt_evacuation().await;
        let given_up = self.give_up_and_use().await;
        if given_up.is_err() {
            self.resume_evacuation();
        }
        given_up
    }

    /// Nothing is allocated on the vdev before it is stable that it stays: a log block there, that a crash leaves unclaimed,
    /// would not be where the mapping says.
    pub(super) async fn give_up_and_use(self: &Arc<Self>) -> Result<(), PoolError> {
        let vdev = self.in_sync(|pool, tx| async move { pool.give_up(&tx).await }).await?;
        self.evacuation.tell();
        self.use_again(vdev);
        Ok(())
    }

    async fn give_up(&self, tx: &Tx) -> Result<VdevId, PoolError> {
        let top = self.leaving_top().ok_or(RemovalRefusal::NotUnderWay)?;
        let (vdev, leaving) = (top.id(), top.config().leaving.ok_or(RemovalRefusal::NotUnderWay)?);
        let copies = self.copies_of_what_is_left(&top)?;
        self.zio.free_runs(tx.txg(), &copies)?;
        // From here on it is whole or never stable.
        tx.note_change();
        self.zio.drop_obsolete(tx.txg(), vdev);
        let zap = ObjectId::new(top.config().top_zap);
        if let Some(obsolete) = evacuation::remove(&self.dsl, tx, leaving, zap).await? {
            forget_map(&self.dsl, tx, obsolete).await?;
        }
        top.set_config(|config| config.leaving = None);
        top.change_copied(|copied| *copied = Mapping::default());
        let now = self.env.wall_clock().as_secs();
        self.note_evacuation(tx, |phys| {
            phys.state.set(RemovingPhys::CANCELED);
            phys.end_secs.set(now);
        })
        .await?;
        self.store_leaving(tx).await?;
        tracing::info!(%vdev, "removal given up");
        let detail = format!("{} vdev {vdev} {}", self.name(), path_of(&top));
        self.note_event(tx, "vdev remove canceled", None, &detail).await?;
        Ok(vdev)
    }

    /// Where all is that is allocated on the vdev and was copied.
    fn copies_of_what_is_left(&self, top: &Top) -> Result<Vec<Run>, PoolError> {
        let end = top.with_copied(Mapping::end);
        let left = self.zio.with_allocator(|allocator| allocator.left_on(top.id(), 0, u64::MAX));
        let copied = left.into_iter().filter(|run| run.start < end);
        let pieces = |mapping: &Mapping| {
            copied
                .map(|run| mapping.pieces(VdevOffset::new(run.start), run.end.min(end) - run.start))
                .collect()
        };
        let pieces: Option<Vec<Vec<Run>>> = top.with_copied(pieces);
        let object = top.config().leaving.map_or(ObjectId::new(0), |leaving| leaving.mapping);
        let what = || "something allocated was not copied".to_owned();
        let pieces = pieces.ok_or_else(|| EvacuationError::Damaged { object, what: what() })?;
        Ok(pieces.concat())
    }
}
