//! Rolling a head back to the snapshot before it.
//!
//! ```text
//!  S ◄─ head     all that head has and S has not is freed later; all that S has and head had let go is head's again
//! ```

use dmu::{SpaceDelta, Tx};
use env::boxed;
use ondisk::Blkptr;
use ondisk::dsl::used;
use units::{ObjectId, Txg};
use zerocopy::little_endian::U64;

use crate::dataset::Dataset;
use crate::features::feature;
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
    #[boxed]
    pub async fn check_rollback(
        &self,
        tx: &Tx,
        name: &DatasetName,
        snapshot: &DatasetName,
    ) -> Result<(), DslError> {
        let head = self.loaded_dataset(name.dataset).await?;
        let latest = head.phys().prev_snapshot_txg.get();
        self.check_bookmarks_before(name, latest).await?;
        if head.phys().prev_snapshot.get() != snapshot.dataset.get() {
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
    #[boxed]
    pub async fn roll_back(&self, tx: &Tx, name: &DatasetName) -> Result<Option<Abandoned>, DslError> {
        let head = self.loaded_dataset(name.dataset).await?;
        let before = self.before(&head).await?;
        let snapshot = before.ok_or(DslError::damaged(head.object(), "a head without a snapshot"))?;
        let (old, to) = (head.phys(), snapshot.phys());
        // Referenced bytes of both, with what the head had let go, differ by what was written since.
        let (since, of_dir) = self.since_snapshot(&head, self.origin_txg(&head).await?.get()).await?;
        let mut gone = snapshot.referenced();
        gone += since.negated();
        self.drop_livelist(tx, head.dir()).await?;
        self.drop_remapped(tx, &head).await?;
        self.follow_features(tx, &head, &snapshot).await?;
        let abandoned = Abandoned { root: old.bp, born_after: Txg::new(to.creation_txg.get()) };
        let later = self.frees_later().await?;
        if later {
            self.add_destroyed(tx, abandoned.root, abandoned.born_after.get(), gone.negated()).await?;
        }
        let reserved = SpaceDelta { used: head.reservation_taken(), ..SpaceDelta::default() };
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
        head.dir().use_space(tx, used::REFRESERVATION, reserved)?;
        if snapshot.is_followed_by(head.object()) {
            snapshot.change(tx, |phys| phys.unique_bytes = U64::ZERO)?;
        }
        self.bookmarks_follow(tx, &head, &snapshot).await?;
        Ok((!later).then_some(abandoned))
    }

    /// A head has let go nothing any more.
    async fn renew_deadlist(&self, tx: &Tx, head: &Dataset) -> Result<(), DslError> {
        let old = ObjectId::new(head.phys().deadlist.get());
        let new = self.clone_deadlist(tx, old, u64::MAX).await?;
        self.discard_deadlist(tx, old).await?;
        head.change(tx, |phys| phys.deadlist = U64::new(new.object().get()))
    }

    /// The head uses what its snapshot does, and says the same of it: what was received redacted is so again.
    async fn follow_features(&self, tx: &Tx, head: &Dataset, snapshot: &Dataset) -> Result<(), DslError> {
        let (of_head, kept) = (self.features_of(head).await?, self.features_of(snapshot).await?);
        for feature in of_head.difference(&kept).filter_map(|name| feature(name)) {
            self.take_feature(tx, head, feature).await?;
        }
        for feature in kept.iter().filter_map(|name| feature(name)) {
            self.take_over_feature(tx, snapshot, head.object(), feature).await?;
        }
        Ok(())
    }
}
