//! Clones that were destroyed, by their livelists.
//!
//! ```text
//!  MOS directory ─ "com.delphix:deleted_clones" ─► ZAP: number of a livelist ─► the same
//! ```
//! Each txg frees some blocks and takes them off their list in the same change, so a crash anywhere means that the next txg
//! frees the same ones. A sublist that has entries of freed blocks is rewritten without them first: from then on each of its
//! entries is a block to free. Sublists go one after the other, then the list, and with the last list the ZAP.

use dmu::zap::{Zap, ZapSpec, int_name};
use dmu::{SpaceDelta, Tx};
use env::{boxed, impatient};
use ondisk::mos::directory;
use ondisk::{Blkptr, ObjectType};
use units::ObjectId;

use super::sublist::live;
use super::without;
use crate::bpobj::can_lose;
use crate::dataset::Dataset;
use crate::features::LIVELIST;
use crate::space::signed;
use crate::tree::named_objects;
use crate::{Bpobj, Dsl, DslError};

impl Dsl {
    /// Has the blocks that a clone which is being destroyed has of its own be freed by its livelist. Says whether it has
    /// one that tells of all of them.
    pub(crate) async fn delete_by_livelist(&self, tx: &Tx, dataset: &Dataset) -> Result<bool, DslError> {
        let Some(list) = self.livelist(dataset.dir()).await? else { return Ok(false) };
        let (space, dir) = (self.deadlist_total(list).await?, dataset.dir().phys());
        let own = (signed(dir.used_bytes), signed(dir.compressed_bytes));
        if (space.used, space.compressed) != own {
            tracing::warn!(list = %list, ?space, ?own, "a livelist does not tell what its clone has");
            return Ok(false);
        }
        self.take_livelist(tx, dataset.dir()).await?;
        let clones = match self.deleted_clones().await? {
            Some(clones) => clones,
            None => {
                let made = Zap::create(&self.mos, tx, &ZapSpec::new(ObjectType::OTN_ZAP_METADATA)).await?;
                self.directory.add_u64(tx, directory::DELETED_CLONES.as_bytes(), made.object().get()).await?;
                made
            }
        };
        clones.add_u64(tx, int_name(list.get()).as_bytes(), list.get()).await?;
        self.add_freeing_space(tx, space).await?;
        Ok(true)
    }

    /// Whether blocks of clones wait to be freed by their livelists. The object with the livelists is
    /// not opened, because a sync may free that object meanwhile.
    pub(crate) async fn has_deleted_clones(&self) -> Result<bool, DslError> {
        Ok(self.directory.lookup_u64(directory::DELETED_CLONES.as_bytes()).await?.is_some())
    }

    async fn deleted_clones(&self) -> Result<Option<Zap>, DslError> {
        match self.directory.lookup_u64(directory::DELETED_CLONES.as_bytes()).await? {
            Some(clones) => Ok(Some(self.zap(clones).await?)),
            None => Ok(None),
        }
    }

    /// Takes up to `limit` blocks off the livelists of clones that were destroyed.
    ///
    /// # Errors
    /// Damage, and those of changing the MOS.
    #[boxed]
    pub async fn take_from_deleted_clones(&self, tx: &Tx, limit: usize) -> Result<Vec<Blkptr>, DslError> {
        let Some(clones) = self.deleted_clones().await? else { return Ok(Vec::new()) };
        let (mut taken, mut lost) = (Vec::new(), SpaceDelta::default());
        let lists = named_objects(&clones).await?;
        let mut left = lists.len();
        for (_, list) in lists {
            if !self.take_from_livelist(tx, list, limit, &mut taken, &mut lost).await? {
                break;
            }
            clones.remove(tx, int_name(list.get()).as_bytes()).await?;
            self.discard_deadlist(tx, list).await?;
            self.count_feature(tx, &LIVELIST, -1).await?;
            left -= 1;
        }
        if left == 0 {
            self.directory.remove(tx, directory::DELETED_CLONES.as_bytes()).await?;
            self.mos.free_object(tx, clones.object()).await?;
        }
        self.add_freeing_space(tx, self.space_of(taken.iter()).negated()).await?;
        self.add_freeing_space(tx, lost.negated()).await?;
        self.add_leaked_space(tx, lost).await?;
        Ok(taken)
    }

    /// Takes blocks off one livelist until `taken` has `limit`. Says whether the list is empty.
    async fn take_from_livelist(
        &self,
        tx: &Tx,
        list: ObjectId,
        limit: usize,
        taken: &mut Vec<Blkptr>,
        lost: &mut SpaceDelta,
    ) -> Result<bool, DslError> {
        for (key, sublist) in self.deadlist_keys(list).await?.iter() {
            if self.is_shared_empty_bpobj(*sublist).await? {
                // It goes with the list.
                continue;
            }
            let sublist = Bpobj::open(&self.mos, *sublist).await?;
            let mut gone = SpaceDelta::default();
            if sublist.listed().1 > 0 {
                let live = match impatient(live(&sublist)).await {
                    // Without the whole list, entries of freed blocks cannot be told from entries
                    // of live blocks.
                    Err(error) if can_lose(&error) => {
                        tracing::error!(%error, "blocks on a damaged livelist are never freed");
                        gone = sublist.space();
                        *lost += gone;
                        Vec::new()
                    }
                    live => live?,
                };
                sublist.replace_listed(tx, &live).await?;
            }
            let before = sublist.space();
            let room = limit.saturating_sub(taken.len());
            if room > 0 {
                taken.extend(sublist.take(tx, room).await?);
                *lost += sublist.take_lost();
            }
            gone += without(before, sublist.space());
            self.count_in_deadlist(tx, list, gone.negated()).await?;
            if !sublist.is_empty() {
                return Ok(false);
            }
            self.remove_sublist(tx, list, *key, sublist).await?;
        }
        Ok(true)
    }
}
