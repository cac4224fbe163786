//! Rolling a head back to the snapshot before it.
//!
//! ```text
//!  S ◄─ head     all that head has and S has not is freed later; all that S has and head had let go is head's again
//! ```

use std::sync::Arc;

use dmu::{SpaceDelta, Tx};
use ondisk::Blkptr;
use ondisk::dsl::used;
use units::{ObjectId, Txg};
use zerocopy::little_endian::U64;

use crate::dataset::Dataset;
use crate::features::feature;
use crate::space::signed;
use crate::{DatasetName, Dsl, DslError};

/// A head's tree that nobody has any more, but for what is older.
#[derive(Clone, Copy, Debug)]
pub struct Abandoned {
    /// Its root.
    pub root: Blkptr,
    /// Only what was born later is to be freed.
    pub born_after: Txg,
}

impl Dsl {
    /// Says whether a head can be rolled back to `snapshot` in `tx`.
    ///
    /// # Errors
    /// [`DslError::NotLatest`] when it is not the snapshot before it, or there are bookmarks since;
    /// [`DslError::TryAgain`] when it is of the same txg; [`DslError::NoSpace`] when quotas forbid it; those of
    /// reading the MOS.
    pub async fn check_rollback(
        &self,
        tx: &Tx,
        name: &DatasetName,
        snapshot: &DatasetName,
    ) -> Result<(), DslError> {
        let head = self.loaded_dataset(name.dataset).await?;
        let phys = head.phys();
        let latest = phys.prev_snapshot_txg.get();
        let later_bookmark = self.bookmark_list(&head).await?.iter().any(|mark| mark.made() > latest);
        if phys.prev_snapshot.get() != snapshot.dataset.get() || later_bookmark {
            return Err(DslError::NotLatest { name: snapshot.name.clone() });
        }
        if latest >= tx.txg().get() {
            return Err(DslError::TryAgain { name: name.name.clone() });
        }
        let referenced = self.dataset(snapshot.dataset).await?.referenced_bytes.get();
        if head.refquota() != 0 && referenced > head.refquota() {
            return Err(DslError::NoSpace { name: name.name.clone() });
        }
        Ok(())
    }

    /// Gives a head, which nobody uses, the contents of the snapshot before it, as [`Dsl::check_rollback`] approves
    /// of. What it had is freed later; where the pool cannot put that off it is the caller's to free, in the same
    /// txg.
    ///
    /// # Errors
    /// Those of changing the MOS.
    pub async fn roll_back(&self, tx: &Tx, name: &DatasetName) -> Result<Option<Abandoned>, DslError> {
        let head = self.loaded_dataset(name.dataset).await?;
        let before = self.before(&head).await?;
        let snapshot = before.ok_or(DslError::damaged(head.object(), "a head without a snapshot"))?;
        let (old, to) = (head.phys(), snapshot.phys());
        let let_go = self.deadlist_total(ObjectId::new(old.deadlist.get())).await?;
        let of_dir = self.snap_share(&head).await?;
        self.drop_livelist(tx, head.dir()).await?;
        self.drop_remapped(tx, &head).await?;
        self.drop_features(tx, &head, &snapshot).await?;
        // Referenced bytes of both, with what the head had let go, differ by what was written since.
        let change = |to: U64, let_go: i64, old: U64| signed(to) - let_go - signed(old);
        let gone = SpaceDelta {
            used: change(to.referenced_bytes, let_go.used, old.referenced_bytes),
            compressed: change(to.compressed_bytes, let_go.compressed, old.compressed_bytes),
            uncompressed: change(to.uncompressed_bytes, let_go.uncompressed, old.uncompressed_bytes),
        };
        let abandoned = Abandoned { root: old.bp, born_after: Txg::new(to.creation_txg.get()) };
        let later = self.frees_later().await?;
        if later {
            self.add_destroyed(tx, abandoned.root, abandoned.born_after.get(), gone.negated()).await?;
        }
        self.renew_deadlist(tx, &head).await?;
        head.change(tx, |phys| {
            phys.bp = to.bp;
            phys.referenced_bytes = to.referenced_bytes;
            phys.compressed_bytes = to.compressed_bytes;
            phys.uncompressed_bytes = to.uncompressed_bytes;
            phys.unique_bytes = U64::ZERO;
        })?;
        head.dir().use_space(tx, used::HEAD, gone)?;
        head.dir().move_space(tx, used::SNAP, used::HEAD, of_dir)?;
        let reserved = signed(U64::new(head.refreservation().min(old.unique_bytes.get())));
        let reserved = SpaceDelta { used: reserved, ..SpaceDelta::default() };
        head.dir().use_space(tx, used::REFRESERVATION, reserved)?;
        if snapshot.is_followed_by(head.object()) {
            snapshot.change(tx, |phys| phys.unique_bytes = U64::ZERO)?;
        }
        self.bookmarks_follow(tx, &head, &snapshot).await?;
        Ok((!later).then_some(abandoned))
    }

    /// What a head let go that counts as used by its dir's snapshots: what was born in its dir.
    pub(crate) async fn snap_share(&self, head: &Dataset) -> Result<i64, DslError> {
        let since = self.origin_txg(head).await?.get();
        Ok(self.deadlist_space(ObjectId::new(head.phys().deadlist.get()), since..u64::MAX).await?.used)
    }

    /// A head has let go nothing any more.
    async fn renew_deadlist(&self, tx: &Tx, head: &Dataset) -> Result<(), DslError> {
        let old = ObjectId::new(head.phys().deadlist.get());
        let new = self.clone_deadlist(tx, old, u64::MAX).await?;
        self.discard_deadlist(tx, old).await?;
        head.change(tx, |phys| phys.deadlist = U64::new(new.object().get()))
    }

    /// Features of datasets that the head uses and its snapshot did not.
    async fn drop_features(&self, tx: &Tx, head: &Dataset, snapshot: &Arc<Dataset>) -> Result<(), DslError> {
        let kept = self.dataset_fields(snapshot.dnode()).await?;
        for name in self.dataset_fields(head.dnode()).await? {
            if let Some(feature) = feature(&name).filter(|feature| feature.per_dataset)
                && !kept.contains(&name)
            {
                self.zap(head.object().get()).await?.remove(tx, name.as_bytes()).await?;
                self.count_feature(tx, feature, -1).await?;
            }
        }
        Ok(())
    }
}
