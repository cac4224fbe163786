//! Livelists: of a clone, the blocks that it has come to refer to since it was made and still does, so that to destroy it
//! costs what is its own and not a walk through what it shares (feature `livelist`).
//!
//! ```text
//!  dir ─ "com.delphix:livelist" ─► deadlist: key (txg) ─► sublist of blocks born after it, ALLOC or FREE
//!
//!  sync:     births are appended as ALLOC, what is let go as FREE; a full sublist is followed by another
//!  destroy:  the list goes to "com.delphix:deleted_clones"; txgs free what is ALLOC and not FREE (see `deleted`)
//! ```
//! Blocks that the origin has, or that lie in their pointers, are not listed. A list that is longer than it need be is
//! shortened: of two sublists in a row one is made, without what was freed, once that is no longer than one may be.
//! Where a clone has hardly anything in common with its origin any more, its tree is the better list: the livelist goes,
//! as it does when promotion, rollback or receiving give the head another past.
//!
//! Invariants
//! - ALLOC and FREE of a block are in one sublist. A block's birth says in which: a new key is the txg being written, in
//!   which everything listed so far was born, or earlier.
//! - A list tells of every block, or is not there. (tests: `a_livelist_has_what_a_clone_has_of_its_own`, and `zdb`, which
//!   compares its sums with what the clone has written)

mod deleted;
pub(crate) mod sublist;

use std::collections::BTreeMap;

use dmu::zap::int_name;
use dmu::{SpaceDelta, Tx};
use env::boxed;
use ondisk::dsl::{dir_names, used};
use ondisk::{Blkptr, ObjectType};
use units::ObjectId;

use crate::dataset::Dataset;
use crate::dir::Dir;
use crate::features::LIVELIST;
use crate::{Bpobj, DatasetName, Dsl, DslError};

/// Blocks that a sublist may have before another is begun. OpenZFS has `zfs_livelist_max_entries`, ten times as many;
/// here two sublists are made one within a sync.
pub const SUBLIST_ENTRIES: u64 = if cfg!(test) { 3 } else { 50_000 };
/// A clone that shares no more than this part of what it refers to is destroyed by its tree
/// (`zfs_livelist_min_percent_shared`).
const SHARED_MIN_PERCENT: u64 = if cfg!(test) { 0 } else { 75 };

/// What a sync of a clone's head has to say to its livelist.
pub(crate) struct Turnover {
    list: ObjectId,
    /// Nobody has kept account of them where there are none.
    born: Option<Vec<Blkptr>>,
    died: Vec<Blkptr>,
}

impl Dsl {
    /// Gives a clone that has just been made a livelist, where the pool has such.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn begin_livelist(&self, tx: &Tx, clone: &DatasetName) -> Result<(), DslError> {
        if self.feature_count(&LIVELIST).await?.is_none() {
            return Ok(());
        }
        let fields = self.fields_of(tx, self.loaded_dir(clone.dir).await?.dnode()).await?;
        let list = self.create_deadlist(tx).await?.object();
        fields.add_u64(tx, dir_names::LIVELIST.as_bytes(), list.get()).await?;
        self.count_feature(tx, &LIVELIST, 1).await
    }

    /// Whether a dataset has a livelist: then [`Dsl::apply_sync`] wants to know of births.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn has_livelist(&self, dataset: &DatasetName) -> Result<bool, DslError> {
        let dir = self.loaded_dir(dataset.dir).await?;
        Ok(dir.phys().head_dataset.get() == dataset.dataset.get() && self.livelist(&dir).await?.is_some())
    }

    pub(crate) async fn livelist(&self, dir: &Dir) -> Result<Option<ObjectId>, DslError> {
        if dir.dnode().object_type() != ObjectType::OTN_ZAP_METADATA {
            return Ok(None);
        }
        let fields = self.zap(dir.object().get()).await?;
        Ok(fields.lookup_u64(dir_names::LIVELIST.as_bytes()).await?.map(ObjectId::new))
    }

    /// Drops the livelist of a dir whose head is about to change, if it has one.
    pub(crate) async fn drop_livelist(&self, tx: &Tx, dir: &Dir) -> Result<(), DslError> {
        let Some(list) = self.take_livelist(tx, dir).await? else { return Ok(()) };
        self.discard_deadlist(tx, list).await?;
        self.count_feature(tx, &LIVELIST, -1).await
    }

    /// Takes the livelist from a dir, which has none then.
    async fn take_livelist(&self, tx: &Tx, dir: &Dir) -> Result<Option<ObjectId>, DslError> {
        let Some(list) = self.livelist(dir).await? else { return Ok(None) };
        self.zap(dir.object().get()).await?.remove(tx, dir_names::LIVELIST.as_bytes()).await?;
        Ok(Some(list))
    }

    /// What a livelist is to be told of a sync of its head; none where there is no list.
    pub(crate) async fn turnover(
        &self,
        head: &Dataset,
        births: Option<Vec<Blkptr>>,
        killed: &[Blkptr],
    ) -> Result<Option<Turnover>, DslError> {
        let Some(list) = self.livelist(head.dir()).await? else { return Ok(None) };
        let origin = self.origin_txg(head).await?;
        let is_listed = |bp: &Blkptr| !bp.is_hole() && !bp.is_embedded() && bp.birth() > origin;
        let born = births.map(|births| births.into_iter().filter(is_listed).collect());
        let died = killed.iter().copied().filter(is_listed).collect();
        Ok(Some(Turnover { list, born, died }))
    }

    /// Keeps a livelist up with its head, whose numbers are those after the sync.
    pub(crate) async fn keep_livelist(
        &self,
        tx: &Tx,
        head: &Dataset,
        turnover: Turnover,
    ) -> Result<(), DslError> {
        let Turnover { list, born: Some(born), died } = turnover else {
            return self.drop_livelist(tx, head.dir()).await;
        };
        if !shares_enough(head) {
            return self.drop_livelist(tx, head.dir()).await;
        }
        if self.deadlist_keys(list).await?.is_empty() {
            self.add_sublist(tx, list, self.origin_txg(head).await?.get()).await?;
        }
        self.add_to_livelist(tx, list, &born, false).await?;
        self.add_to_livelist(tx, list, &died, true).await?;
        self.follow_full_sublist(tx, list).await
    }

    /// Appends blocks, each to the sublist of its birth.
    async fn add_to_livelist(
        &self,
        tx: &Tx,
        list: ObjectId,
        bps: &[Blkptr],
        freed: bool,
    ) -> Result<(), DslError> {
        let keys = self.deadlist_keys(list).await?;
        let mut by_key: BTreeMap<usize, Vec<Blkptr>> = BTreeMap::new();
        for bp in bps {
            let above = keys.partition_point(|(txg, _)| *txg < bp.birth().get());
            let key = above.checked_sub(1).ok_or(DslError::damaged(list, "no key below a birth"))?;
            by_key.entry(key).or_default().push(*bp);
        }
        for (key, bps) in by_key {
            let (txg, sublist) = keys[key];
            let sublist = self.own_sublist(tx, list, txg, sublist).await?;
            sublist.append_listed(tx, &bps, freed).await?;
        }
        let space = self.space_of(bps.iter());
        self.count_in_deadlist(tx, list, if freed { space.negated() } else { space }).await
    }

    /// Begins a sublist for blocks born after a txg.
    async fn add_sublist(&self, tx: &Tx, list: ObjectId, txg: u64) -> Result<(), DslError> {
        let sublist = Bpobj::create_listed(&self.mos, tx).await?.object();
        self.zap(list.get()).await?.add_u64(tx, int_name(txg).as_bytes(), sublist.get()).await?;
        self.known_keys.set(list, txg, sublist);
        Ok(())
    }

    /// A sublist, no longer the empty list that OpenZFS may have begun it with.
    async fn own_sublist(
        &self,
        tx: &Tx,
        list: ObjectId,
        txg: u64,
        sublist: ObjectId,
    ) -> Result<Bpobj, DslError> {
        if !self.is_shared_empty_bpobj(sublist).await? {
            return Bpobj::open(&self.mos, sublist).await;
        }
        let own = Bpobj::create_listed(&self.mos, tx).await?;
        self.zap(list.get()).await?.update_u64(tx, int_name(txg).as_bytes(), own.object().get()).await?;
        self.known_keys.set(list, txg, own.object());
        self.release_empty_bpobj(tx, 1).await?;
        Ok(own)
    }

    /// Begins another sublist once the last one is full, and makes one of two older ones if that can be.
    async fn follow_full_sublist(&self, tx: &Tx, list: ObjectId) -> Result<(), DslError> {
        let keys = self.deadlist_keys(list).await?;
        let Some((_, last)) = keys.last().filter(|(key, _)| *key < tx.txg().get()) else { return Ok(()) };
        let (entries, freed) = Bpobj::open(&self.mos, *last).await?.listed();
        if entries.saturating_sub(freed) <= self.sublist_entries() {
            return Ok(());
        }
        self.add_sublist(tx, list, tx.txg().get()).await?;
        self.condense(tx, list).await
    }
}

/// Whether a clone still has so much in common with its origin that a list of the rest is worth while.
fn shares_enough(head: &Dataset) -> bool {
    let referenced = head.phys().referenced_bytes.get();
    let own = head.dir().phys().used_breakdown[used::HEAD].get();
    let percent = referenced.saturating_sub(own).saturating_mul(100).checked_div(referenced);
    percent.is_none_or(|percent| percent > SHARED_MIN_PERCENT)
}

/// What sublists have, less what is freed of it.
fn without(all: SpaceDelta, freed: SpaceDelta) -> SpaceDelta {
    let mut left = all;
    left += freed.negated();
    left
}
