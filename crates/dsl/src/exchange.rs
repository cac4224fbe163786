//! A head and a clone of the snapshot before it exchange what they have: so what was received into the clone takes the
//! head's place.
//!
//! ```text
//!  before:  S ◄─ head   (old blocks)        after:  S ◄─ head   (blocks that were received)
//!           └◄─ clone   (received)                  └◄─ clone   (old blocks), which goes then
//! ```
//! No block moves. Roots, deadlists and numbers change hands, and so do the features that blocks depend on; dirs are
//! charged for the difference, as both began from the same snapshot.
//!
//! Invariant: both dirs together use what they used before
//! (test: `snapshots_and_clones_account_for_every_block`).

use std::collections::BTreeSet;
use std::sync::Arc;

use dmu::zap::ZapValue;
use dmu::{SpaceDelta, Tx};
use env::boxed;
use ondisk::dsl::{dataset_flags, dataset_names, used};
use units::ObjectId;
use zerocopy::little_endian::U64;

use crate::dataset::Dataset;
use crate::features::{Feature, feature};
use crate::space::signed;
use crate::{DatasetName, Dsl, DslError};

impl Dsl {
    /// Says whether a head can come to have what a clone of a snapshot of it has.
    ///
    /// # Errors
    /// [`DslError::NotLatest`] when there are bookmarks since that snapshot, which could not tell any more what was freed
    /// since; [`DslError::NoSpace`] when what the clone refers to is more than the head may; those of reading the MOS.
    #[boxed]
    pub async fn check_exchange(&self, head: &DatasetName, clone: &DatasetName) -> Result<(), DslError> {
        let (to, from) =
            (self.loaded_dataset(head.dataset).await?, self.loaded_dataset(clone.dataset).await?);
        self.check_bookmarks_before(head, from.phys().prev_snapshot_txg.get()).await?;
        if to.refquota() != 0 && from.phys().referenced_bytes.get() > to.refquota() {
            return Err(DslError::NoSpace { name: head.name.clone() });
        }
        Ok(())
    }

    /// Whether a head has no bookmarks of what came after a txg.
    ///
    /// # Errors
    /// [`DslError::NotLatest`], and those of reading the MOS.
    #[boxed]
    pub async fn check_bookmarks_before(&self, head: &DatasetName, txg: u64) -> Result<(), DslError> {
        let marks = self.bookmark_list(&*self.loaded_dataset(head.dataset).await?).await?;
        match marks.iter().any(|mark| mark.made() > txg) {
            true => Err(DslError::NotLatest { name: head.name.clone() }),
            false => Ok(()),
        }
    }

    /// Has a head, which nobody uses, and a clone exchange what they have, as [`Dsl::check_exchange`] approves of.
    ///
    /// # Errors
    /// [`DslError::NotLatest`] when they do not follow the same snapshot; those of changing the MOS.
    #[boxed]
    pub async fn exchange(&self, tx: &Tx, head: &DatasetName, clone: &DatasetName) -> Result<(), DslError> {
        let not_latest = || DslError::NotLatest { name: head.name.clone() };
        let (head, clone) =
            (self.loaded_dataset(head.dataset).await?, self.loaded_dataset(clone.dataset).await?);
        if head.phys().prev_snapshot != clone.phys().prev_snapshot {
            return Err(not_latest());
        }
        let before = self.before(&head).await?;
        let snapshot = before.ok_or(DslError::damaged(head.object(), "a head without a snapshot"))?;
        self.drop_livelist(tx, head.dir()).await?;
        self.drop_livelist(tx, clone.dir()).await?;
        // What was remapped of the head's goes with it.
        self.move_remap_deadlist(tx, &head, &clone).await?;
        self.exchange_features(tx, &head, &clone).await?;
        self.exchange_space(tx, &head, &clone).await?;
        if snapshot.is_followed_by(head.object()) {
            let alone = snapshot.phys().prev_snapshot_txg.get()..u64::MAX;
            let deadlist = ObjectId::new(clone.phys().deadlist.get());
            let alone = self.deadlist_space(deadlist, alone).await?.used;
            snapshot.change(tx, |phys| phys.unique_bytes = U64::new(alone.max(0) as u64))?;
        }
        let (of_head, of_clone) = (head.phys(), clone.phys());
        for (dataset, from) in [(&head, of_clone), (&clone, of_head)] {
            dataset.change(tx, |phys| {
                phys.bp = from.bp;
                phys.deadlist = from.deadlist;
                phys.referenced_bytes = from.referenced_bytes;
                phys.compressed_bytes = from.compressed_bytes;
                phys.uncompressed_bytes = from.uncompressed_bytes;
                phys.unique_bytes = from.unique_bytes;
            })?;
        }
        self.bookmarks_follow(tx, &head, &snapshot).await
    }

    /// What was written since the snapshot, and what was let go, is charged to the other dir.
    async fn exchange_space(&self, tx: &Tx, head: &Dataset, clone: &Dataset) -> Result<(), DslError> {
        let since = self.origin_txg(head).await?.get();
        let (of_head, let_go_of_dir) = self.since_snapshot(head, since).await?;
        let (of_clone, to_let_go) = self.since_snapshot(clone, since).await?;
        let mut more = of_clone;
        more += of_head.negated();
        head.dir().use_space(tx, used::HEAD, more)?;
        clone.dir().use_space(tx, used::HEAD, more.negated())?;
        head.dir().move_space(tx, used::HEAD, used::SNAP, to_let_go - let_go_of_dir)?;
        let to_be_taken = head.refreservation().min(clone.phys().unique_bytes.get());
        let used = head.reservation_taken() - signed(U64::new(to_be_taken));
        let reserved = SpaceDelta { used, ..SpaceDelta::default() };
        head.dir().use_space(tx, used::REFRESERVATION, reserved)
    }

    /// What a dataset refers to and what it let go, which of those that follow the same snapshot differs by what was
    /// written since; and what of the second was born after a txg.
    pub(crate) async fn since_snapshot(
        &self,
        dataset: &Dataset,
        since: u64,
    ) -> Result<(SpaceDelta, i64), DslError> {
        let deadlist = ObjectId::new(dataset.phys().deadlist.get());
        let mut space = dataset.referenced();
        space += self.deadlist_total(deadlist).await?;
        Ok((space, self.deadlist_space(deadlist, since..u64::MAX).await?.used))
    }

    async fn exchange_features(&self, tx: &Tx, head: &Dataset, clone: &Dataset) -> Result<(), DslError> {
        let (of_head, of_clone) = (self.features_of(head).await?, self.features_of(clone).await?);
        for feature in of_head.intersection(&of_clone).filter_map(|name| feature(name)) {
            let said = self.said_of_feature(head.dnode(), feature).await?;
            self.take_over_feature(tx, clone, head.object(), feature).await?;
            if let Some(said) = said.filter(|said| *said != ZapValue::U64(vec![0])) {
                let fields = self.zap(clone.object().get()).await?;
                fields.update(tx, feature.guid.as_bytes(), &said).await?;
            }
        }
        for (from, to, more) in
            [(clone, head, of_clone.difference(&of_head)), (head, clone, of_head.difference(&of_clone))]
        {
            for name in more {
                let Some(feature) = feature(name) else { continue };
                self.take_over_feature(tx, from, to.object(), feature).await?;
                self.take_feature(tx, from, feature).await?;
            }
        }
        Ok(())
    }

    /// A dataset does not use a feature of datasets any more.
    pub(crate) async fn take_feature(
        &self,
        tx: &Tx,
        dataset: &Dataset,
        feature: &Feature,
    ) -> Result<(), DslError> {
        self.zap(dataset.object().get()).await?.remove(tx, feature.guid.as_bytes()).await?;
        self.count_feature(tx, feature, -1).await
    }

    /// Features of datasets that one uses.
    pub(crate) async fn features_of(&self, dataset: &Dataset) -> Result<BTreeSet<String>, DslError> {
        let fields = self.dataset_fields(dataset.dnode()).await?.into_iter();
        Ok(fields.filter(|name| feature(name).is_some_and(|feature| feature.per_dataset)).collect())
    }

    /// Marks a head as one that is being received, or takes the mark away.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn set_inconsistent(&self, tx: &Tx, head: ObjectId, is_so: bool) -> Result<(), DslError> {
        let head: Arc<Dataset> = self.loaded_dataset(head).await?;
        head.change(tx, |phys| {
            let others = phys.flags.get() & !dataset_flags::INCONSISTENT;
            phys.flags = U64::new(others | if is_so { dataset_flags::INCONSISTENT } else { 0 });
        })
    }

    /// Whether a receive has left what it is to go on from.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn can_be_resumed(&self, head: ObjectId) -> Result<bool, DslError> {
        let head = self.loaded_dataset(head).await?;
        Ok(self.dataset_fields(head.dnode()).await?.iter().any(|name| name == dataset_names::RESUME_TOGUID))
    }

    /// The hidden dataset below another that something is received into on its behalf, if there is one.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn receiving_below(&self, head: &DatasetName) -> Result<Option<DatasetName>, DslError> {
        match self.resolve(&format!("{}/{RECEIVING}", head.name)).await {
            Ok(found) => Ok(Some(found)),
            Err(DslError::NoSuchDataset { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What a dataset is called that is received into on behalf of the one above it.
pub const RECEIVING: &str = "%recv";
