//! What becomes of deadlists when a snapshot goes.
//!
//! ```text
//!  snapshot P     S, which goes          N, what follows it
//!                 deadlist of S ──merged──► deadlist of N ── born after P ──► the pool's list of blocks to free
//! ```
//! What N lets go was S's; of that, P has what was born no later than P, and the rest is nobody's any more. Lists
//! move as they are, block by block only where they are short, so that a snapshot goes in a time that does not
//! depend on how much it held.

use std::ops::Range;

use dmu::zap::int_name;
use dmu::{SpaceDelta, Tx};
use ondisk::ObjectType;
use ondisk::mos::directory;
use units::ObjectId;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

use crate::dataset::Dataset;
use crate::{Bpobj, Dsl, DslError};

/// So many keys are taken off a deadlist one by one.
const MADE_ANEW_BEYOND: usize = if cfg!(test) { 2 } else { 32 };

impl Dsl {
    /// Hands the blocks that a dataset let go and that were born after `after`, one of its deadlist's keys, over to be
    /// freed; gives their space.
    pub(crate) async fn free_from_deadlist(
        &self,
        tx: &Tx,
        dataset: &Dataset,
        after: u64,
    ) -> Result<SpaceDelta, DslError> {
        let to_free = Bpobj::open(&self.mos, self.directory_object(directory::FREE_BPOBJ).await?).await?;
        let mut space = SpaceDelta::default();
        for (_, list) in self.take_from_dataset(tx, dataset, after).await? {
            let Some(list) = self.open_or_leave(list).await? else { continue };
            space += list.space();
            to_free.take_in(tx, list).await?;
        }
        self.count_in_deadlist(tx, ObjectId::new(dataset.phys().deadlist.get()), space.negated()).await?;
        Ok(space)
    }

    /// Takes keys from `after` on and their lists off a dataset's deadlist. Where few stay, a new deadlist is made of
    /// those: a snapshot's has a key for each snapshot that was there when it was made, and most of them go at once when
    /// those before it are gone.
    async fn take_from_dataset(
        &self,
        tx: &Tx,
        dataset: &Dataset,
        after: u64,
    ) -> Result<Vec<(u64, ObjectId)>, DslError> {
        let old = ObjectId::new(dataset.phys().deadlist.get());
        let keys = self.deadlist_keys(old).await?;
        let stay = keys.partition_point(|(txg, _)| *txg < after);
        if keys.len() - stay <= MADE_ANEW_BEYOND.max(stay) {
            return self.take_lists(tx, old, after..u64::MAX).await;
        }
        let new = self.create_deadlist(tx).await?;
        for (txg, list) in &keys[..stay] {
            new.add_u64(tx, int_name(*txg).as_bytes(), list.get()).await?;
            self.known_keys.set(new.object(), *txg, *list);
        }
        let header = self.deadlist_header(old).await?;
        new.dnode().set_bonus(tx, ObjectType::DEADLIST_HDR, header.as_bytes())?;
        self.mos.free_object(tx, old).await?;
        self.known_keys.forget(old);
        dataset.change(tx, |phys| phys.deadlist = U64::new(new.object().get()))?;
        self.without_empty(tx, keys[stay..].to_vec()).await
    }

    /// Puts all that is on the deadlist `from` on `into`, and frees `from`.
    pub(crate) async fn merge_deadlist(
        &self,
        tx: &Tx,
        into: ObjectId,
        from: ObjectId,
    ) -> Result<(), DslError> {
        let keys_into = self.deadlist_keys(into).await?;
        for (txg, list) in self.take_lists(tx, from, 0..u64::MAX).await? {
            let at = keys_into.partition_point(|(key, _)| *key <= txg);
            let key = at.checked_sub(1).ok_or(DslError::damaged(into, "no key below a merged one"))?;
            let Some(list) = self.open_or_leave(list).await? else { continue };
            self.count_in_deadlist(tx, into, list.space()).await?;
            self.add_list(tx, into, keys_into[key].0, list).await?;
        }
        self.mos.free_object(tx, from).await?;
        self.known_keys.forget(from);
        Ok(())
    }

    /// Gives up a key: what is listed under it goes under the one before. Nothing happens where it is not.
    pub(crate) async fn remove_deadlist_key(
        &self,
        tx: &Tx,
        deadlist: ObjectId,
        txg: u64,
    ) -> Result<(), DslError> {
        if self.is_old_deadlist(deadlist).await? {
            return Ok(());
        }
        let keys = self.deadlist_keys(deadlist).await?;
        let below = keys.partition_point(|(key, _)| *key < txg);
        if keys.get(below).is_none_or(|(key, _)| *key != txg) {
            return Ok(());
        }
        let below = below.checked_sub(1).ok_or(DslError::damaged(deadlist, "no key below one that goes"))?;
        let before = keys[below].0;
        for (_, list) in self.take_lists(tx, deadlist, txg..txg + 1).await? {
            if let Some(list) = self.open_or_leave(list).await? {
                self.add_list(tx, deadlist, before, list).await?;
            }
        }
        Ok(())
    }

    /// Takes keys and their lists off a deadlist; those that are the shared empty one are only let go.
    pub(crate) async fn take_lists(
        &self,
        tx: &Tx,
        deadlist: ObjectId,
        txgs: Range<u64>,
    ) -> Result<Vec<(u64, ObjectId)>, DslError> {
        let zap = self.zap(deadlist.get()).await?;
        let keys = self.deadlist_keys(deadlist).await?;
        let taken: Vec<_> = keys.iter().filter(|(txg, _)| txgs.contains(txg)).copied().collect();
        drop(keys);
        for (txg, _) in &taken {
            zap.remove(tx, int_name(*txg).as_bytes()).await?;
            self.known_keys.remove(deadlist, *txg);
        }
        self.without_empty(tx, taken).await
    }

    /// Those of lists that were taken off a deadlist that are not the shared empty one.
    async fn without_empty(
        &self,
        tx: &Tx,
        mut taken: Vec<(u64, ObjectId)>,
    ) -> Result<Vec<(u64, ObjectId)>, DslError> {
        let (shared, before) = (self.empty_bpobj().await?, taken.len());
        taken.retain(|(_, list)| Some(*list) != shared);
        self.release_empty_bpobj(tx, (before - taken.len()) as i64).await?;
        Ok(taken)
    }

    /// What is on a list goes under a key that is there.
    async fn add_list(&self, tx: &Tx, deadlist: ObjectId, key: u64, list: Bpobj) -> Result<(), DslError> {
        if list.is_empty() {
            return list.free(tx).await;
        }
        let zap = self.zap(deadlist.get()).await?;
        let missing = DslError::damaged(deadlist, "a key is gone");
        let there = zap.lookup_u64(int_name(key).as_bytes()).await?.ok_or(missing)?;
        self.own_list(tx, &zap, key, ObjectId::new(there)).await?.take_in(tx, list).await
    }
}
