//! Lists of blocks whose place was changed in their pointers because their vdev was removed: a head has them under their new
//! places, and snapshots before it under the old ones.
//!
//! ```text
//!  dataset object (a ZAP) ─ "com.delphix:remap_deadlist" ─► deadlist of old pointers that snapshots still have
//! ```
//! OpenZFS makes them when it writes pointers anew; we never change a place. They go the way of deadlists: a new snapshot
//! takes its head's, and when a snapshot goes, what no snapshot has under its old place any more is obsolete there.

use std::sync::Arc;

use dmu::{SyncRead, Tx};
use env::impatient;
use ondisk::dsl::dataset_names::REMAP_DEADLIST;
use ondisk::{Blkptr, ObjectType};
use units::ObjectId;

use crate::dataset::Dataset;
use crate::features::OBSOLETE_COUNTS;
use crate::{Bpobj, Dsl, DslError};

impl Dsl {
    /// Blocks that nothing names by their old places any more, since this was last asked: those are obsolete.
    #[must_use]
    pub fn take_obsolete(&self) -> Vec<Blkptr> {
        std::mem::take(&mut *self.obsolete.lock())
    }

    async fn remap_deadlist(&self, dataset: &Dataset) -> Result<Option<ObjectId>, DslError> {
        if dataset.dnode().object_type() != ObjectType::OTN_ZAP_METADATA {
            return Ok(None);
        }
        match impatient(self.find_remap_deadlist(dataset)).await {
            Err(error) if error.is_loss() && SyncRead::Remapped.goes_on() => {
                let dataset = dataset.object().get();
                tracing::error!(dataset, %error, "the list of moved blocks cannot be found");
                Ok(None)
            }
            found => found,
        }
    }

    async fn find_remap_deadlist(&self, dataset: &Dataset) -> Result<Option<ObjectId>, DslError> {
        let fields = self.zap(dataset.object().get()).await?;
        Ok(fields.lookup_u64(REMAP_DEADLIST.as_bytes()).await?.map(ObjectId::new))
    }

    /// A dataset's list becomes another's that has none.
    pub(crate) async fn move_remap_deadlist(
        &self,
        tx: &Tx,
        from: &Dataset,
        to: &Dataset,
    ) -> Result<(), DslError> {
        let Some(list) = self.remap_deadlist(from).await? else { return Ok(()) };
        self.zap(from.object().get()).await?.remove(tx, REMAP_DEADLIST.as_bytes()).await?;
        self.fields_of(tx, to.dnode()).await?.add_u64(tx, REMAP_DEADLIST.as_bytes(), list.get()).await?;
        Ok(())
    }

    /// A new snapshot takes its head's list.
    pub(crate) async fn remapped_before(
        &self,
        tx: &Tx,
        head: &Dataset,
        snapshot: ObjectId,
    ) -> Result<(), DslError> {
        if self.remap_deadlist(head).await?.is_some() {
            let snapshot = self.loaded_dataset(snapshot).await?;
            self.move_remap_deadlist(tx, head, &snapshot).await?;
        }
        Ok(())
    }

    /// A snapshot goes: what only it had under old places is obsolete, and the next one has the rest.
    pub(crate) async fn remapped_after(
        &self,
        tx: &Tx,
        snapshot: &Dataset,
        next: &Arc<Dataset>,
    ) -> Result<(), DslError> {
        let of_next = self.remap_deadlist(next).await?;
        if let Some(list) = of_next {
            let since = snapshot.phys().prev_snapshot_txg.get();
            for (_, taken) in self.take_lists(tx, list, since..u64::MAX).await? {
                let taken = Bpobj::open(&self.mos, taken).await?;
                self.count_in_deadlist(tx, list, taken.space().negated()).await?;
                taken.for_each(&mut |bps| self.obsolete.lock().extend_from_slice(bps)).await?;
                taken.discard(tx).await?;
            }
        }
        match (self.remap_deadlist(snapshot).await?, of_next) {
            (Some(list), Some(of_next)) => {
                self.merge_deadlist(tx, of_next, list).await?;
                self.count_feature(tx, &OBSOLETE_COUNTS, -1).await
            }
            (Some(_), None) => self.move_remap_deadlist(tx, snapshot, next).await,
            (None, _) => Ok(()),
        }
    }

    /// A head goes, or goes back to its snapshot: what it had under new places does not matter any more.
    pub(crate) async fn drop_remapped(&self, tx: &Tx, head: &Dataset) -> Result<(), DslError> {
        let Some(list) = self.remap_deadlist(head).await? else { return Ok(()) };
        self.zap(head.object().get()).await?.remove(tx, REMAP_DEADLIST.as_bytes()).await?;
        self.discard_deadlist(tx, list).await?;
        self.count_feature(tx, &OBSOLETE_COUNTS, -1).await
    }

    /// A head's lists need no key for a txg any more: neither that of what it let go nor that of what was remapped.
    pub(crate) async fn remove_key_from_head(
        &self,
        tx: &Tx,
        head: &Dataset,
        txg: u64,
    ) -> Result<(), DslError> {
        self.remove_deadlist_key(tx, ObjectId::new(head.phys().deadlist.get()), txg).await?;
        match self.remap_deadlist(head).await? {
            Some(list) => self.remove_deadlist_key(tx, list, txg).await,
            None => Ok(()),
        }
    }
}
