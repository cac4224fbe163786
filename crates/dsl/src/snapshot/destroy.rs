//! Destroying snapshots.
//!
//! ```text
//!  P ◄─ S ◄─ N     S goes: N follows P. What N let go that was born after P was S's alone: it is freed.
//! ```
//! What S's deadlist has, N has not either: it goes on N's. Blocks that S and its neighbours shared may now be the
//! alone of P or N. All of it moves as lists (see `dataset::deadlist::merge`), and is freed by later txgs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dmu::{SpaceDelta, Tx};
use env::boxed;
use ondisk::dsl::{dataset_flags, used};
use units::ObjectId;
use zerocopy::little_endian::U64;

use crate::counts::Counted;
use crate::dataset::Dataset;
use crate::dir::Dir;
use crate::names::split;
use crate::space::{add, signed};
use crate::{DatasetName, Dsl, DslError};

impl Dsl {
    /// Says whether a snapshot can be destroyed; `later`: or at least as soon as nothing keeps it any more.
    ///
    /// # Errors
    /// [`DslError::HasHolds`], [`DslError::HasClones`]; [`DslError::InUse`] when it is no snapshot or the pool's own;
    /// those of reading the MOS.
    #[boxed]
    pub async fn check_snapshot_removable(&self, name: &DatasetName, later: bool) -> Result<(), DslError> {
        let snapshot = self.loaded_dataset(name.dataset).await?;
        let in_use = |why| Err(DslError::InUse { name: name.name.clone(), why });
        if !snapshot.is_snapshot() {
            return in_use("it is no snapshot");
        }
        if snapshot.object() == self.origin().await?.object() {
            return in_use("it is the origin of all datasets");
        }
        if later {
            return Ok(());
        }
        if self.has_holds(&snapshot).await? {
            return Err(DslError::HasHolds { name: name.name.clone() });
        }
        if snapshot.phys().children.get() > 1 {
            return Err(DslError::HasClones { name: name.name.clone() });
        }
        Ok(())
    }

    /// Destroys a snapshot that [`Dsl::check_snapshot_removable`] approves of, or marks it to go with the last hold
    /// or clone. Its blocks are freed by [`Dsl::take_from_free_list`]. Says whether it is gone.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn destroy_snapshot(
        &self,
        tx: &Tx,
        name: &DatasetName,
        now: Duration,
    ) -> Result<bool, DslError> {
        let snapshot = self.loaded_dataset(name.dataset).await?;
        if self.has_holds(&snapshot).await? || snapshot.phys().children.get() > 1 {
            let deferred = |flags: U64| U64::new(flags.get() | dataset_flags::DEFER_DESTROY);
            snapshot.change(tx, |phys| phys.flags = deferred(phys.flags))?;
            return Ok(false);
        }
        self.remove_snapshot(tx, &snapshot, split(&name.name).1.map(str::to_owned), now).await?;
        Ok(true)
    }

    /// Destroys a snapshot that was to go once nothing keeps it, if nothing does any more.
    pub(crate) async fn destroy_if_deferred(
        &self,
        tx: &Tx,
        snapshot: &Arc<Dataset>,
        now: Duration,
    ) -> Result<(), DslError> {
        let phys = snapshot.phys();
        let is_deferred = phys.flags.get() & dataset_flags::DEFER_DESTROY != 0;
        if is_deferred && phys.children.get() <= 1 && !self.has_holds(snapshot).await? {
            self.remove_snapshot(tx, snapshot, None, now).await?;
        }
        Ok(())
    }

    /// `name` is what its head calls it, if that is known.
    async fn remove_snapshot(
        &self,
        tx: &Tx,
        snapshot: &Arc<Dataset>,
        name: Option<String>,
        now: Duration,
    ) -> Result<(), DslError> {
        let phys = snapshot.phys();
        let head = self.loaded_dataset(ObjectId::new(snapshot.dir().phys().head_dataset.get())).await?;
        let next = self.loaded_dataset(ObjectId::new(phys.next_snapshot.get())).await?;
        let keeps_key = self.bookmarks_lose(tx, &head, snapshot, &next).await?;
        self.deactivate_features(tx, snapshot.dnode()).await?;
        let unique_before = next.phys().unique_bytes.get();
        self.unlink_snapshot(tx, snapshot, &next).await?;
        self.hand_on_blocks(tx, snapshot, &next).await?;
        self.remapped_after(tx, snapshot, &next).await?;
        if !keeps_key {
            self.remove_key_from_clones(tx, snapshot.dir(), phys.creation_txg.get()).await?;
        }
        if next.is_snapshot() {
            self.share_with_next(tx, snapshot, &next).await?;
            if !keeps_key {
                self.remove_key_from_head(tx, &head, phys.creation_txg.get()).await?;
            }
        } else {
            self.recount_unique(tx, &next).await?;
            release_refreservation(tx, &next, unique_before)?;
        }
        let names = self.zap(head.phys().snapshot_names.get()).await?;
        let name = match name {
            Some(name) => name,
            None => self.snapshot_name(&names, snapshot.object()).await?,
        };
        names.remove(tx, name.as_bytes()).await?;
        self.count(tx, head.dir(), Counted::Snapshots, -1).await?;
        self.note_snapshots_changed(tx, &head, now).await?;
        self.free_snapshot_objects(tx, snapshot).await
    }

    /// The neighbours follow each other.
    async fn unlink_snapshot(&self, tx: &Tx, snapshot: &Dataset, next: &Dataset) -> Result<(), DslError> {
        let phys = snapshot.phys();
        if let Some(before) = self.before(snapshot).await? {
            self.replace_follower(tx, &before, snapshot.object(), next.object()).await?;
        }
        next.change(tx, |next| {
            next.prev_snapshot = phys.prev_snapshot;
            next.prev_snapshot_txg = phys.prev_snapshot_txg;
        })
    }

    /// What only the snapshot had is freed; what the one before shared with it alone is that one's; its deadlist is
    /// the next one's.
    async fn hand_on_blocks(&self, tx: &Tx, snapshot: &Dataset, next: &Dataset) -> Result<(), DslError> {
        let phys = snapshot.phys();
        let deadlist = ObjectId::new(next.phys().deadlist.get());
        if let Some(before) = self.before(snapshot).await?
            && before.is_followed_by(next.object())
        {
            let since = before.phys().prev_snapshot_txg.get();
            let alone = self.deadlist_space(deadlist, since..phys.prev_snapshot_txg.get()).await?;
            before.try_change(tx, |phys| add(&mut phys.unique_bytes, alone.used))?;
        }
        let freed = self.free_from_deadlist(tx, next, phys.prev_snapshot_txg.get()).await?;
        snapshot.dir().use_space(tx, used::SNAP, freed.negated())?;
        self.add_freeing_space(tx, freed).await?;
        let deadlist = ObjectId::new(next.phys().deadlist.get());
        self.merge_deadlist(tx, deadlist, ObjectId::new(phys.deadlist.get())).await
    }

    /// Blocks that only the snapshot and the next one had are the next one's alone.
    async fn share_with_next(&self, tx: &Tx, snapshot: &Dataset, next: &Dataset) -> Result<(), DslError> {
        let phys = snapshot.phys();
        let after_next = self.dataset(ObjectId::new(next.phys().next_snapshot.get())).await?;
        let born = phys.prev_snapshot_txg.get()..phys.creation_txg.get();
        let alone = self.deadlist_space(ObjectId::new(after_next.deadlist.get()), born).await?;
        next.try_change(tx, |phys| add(&mut phys.unique_bytes, alone.used))
    }

    /// Counts the bytes that only the head refers to: all bytes of the head without the bytes that
    /// the snapshot before it has too. Blocks that the head freed below a damaged block are on no
    /// deadlist, so the difference can be negative. The count is zero then.
    pub(crate) async fn recount_unique(&self, tx: &Tx, head: &Dataset) -> Result<(), DslError> {
        let shared = match self.before(head).await? {
            Some(before) => {
                let let_go = self.deadlist_total(ObjectId::new(head.phys().deadlist.get())).await?;
                signed(before.phys().referenced_bytes) - let_go.used
            }
            None => 0,
        };
        head.change(tx, |phys| {
            let own = signed(phys.referenced_bytes) - shared;
            phys.unique_bytes = U64::new(u64::try_from(own).unwrap_or(0));
        })
    }

    /// Deadlists of heads that began in this dir after a txg, or in dirs of those, need no key for it any more.
    pub(crate) async fn remove_key_from_clones(
        &self,
        tx: &Tx,
        dir: &Arc<Dir>,
        txg: u64,
    ) -> Result<(), DslError> {
        let (mut todo, mut seen) = (vec![Arc::clone(dir)], BTreeSet::new());
        while let Some(dir) = todo.pop() {
            let clones = dir.phys().clones.get();
            if clones == 0 || !seen.insert(dir.object()) {
                continue;
            }
            for clone in self.clones_on(clones).await? {
                let clone = self.loaded_dataset(clone).await?;
                if self.origin_txg(&clone).await?.get() > txg {
                    self.remove_key_from_head(tx, &clone, txg).await?;
                    todo.push(Arc::clone(clone.dir()));
                }
            }
        }
        Ok(())
    }

    /// What the head's ZAP of names calls a snapshot.
    pub(crate) async fn snapshot_name(
        &self,
        names: &dmu::zap::Zap,
        snapshot: ObjectId,
    ) -> Result<String, DslError> {
        let found =
            crate::tree::named_objects(names).await?.into_iter().find(|(_, object)| *object == snapshot);
        found.map(|(name, _)| name).ok_or(DslError::damaged(snapshot, "snapshot without a name"))
    }

    async fn free_snapshot_objects(&self, tx: &Tx, snapshot: &Dataset) -> Result<(), DslError> {
        let phys = snapshot.phys();
        for object in [phys.next_clones, phys.props, phys.user_refs].map(U64::get) {
            if object != 0 {
                self.mos.free_object(tx, ObjectId::new(object)).await?;
            }
        }
        self.mos.free_object(tx, snapshot.object()).await?;
        self.forget_dataset(snapshot.object());
        Ok(())
    }

    /// What would be freed if two snapshots of a dataset and all between them were destroyed, in bytes.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn reclaimable(&self, first: ObjectId, last: ObjectId) -> Result<u64, DslError> {
        let since = self.dataset(first).await?.prev_snapshot_txg.get();
        let (mut at, mut bytes) = (last, 0);
        loop {
            let snapshot = self.dataset(at).await?;
            let next = self.dataset(ObjectId::new(snapshot.next_snapshot.get())).await?;
            bytes += self.deadlist_space(ObjectId::new(next.deadlist.get()), since..u64::MAX).await?.used;
            if at == first || snapshot.prev_snapshot.get() == 0 {
                return Ok(u64::try_from(bytes).unwrap_or(0));
            }
            at = ObjectId::new(snapshot.prev_snapshot.get());
        }
    }

    /// Snapshots of the same heads, oldest first within each: the order in which destroying many of them moves the
    /// least, for the next one's deadlist has few keys then.
    ///
    /// # Errors
    /// [`DslError::NoSuchDataset`], and those of reading the MOS.
    #[boxed]
    pub async fn oldest_first(&self, names: &[String]) -> Result<Vec<DatasetName>, DslError> {
        let mut found = Vec::new();
        for name in names {
            let dataset = self.resolve(name).await?;
            let made = self.dataset(dataset.dataset).await?.creation_txg.get();
            found.push((split(&dataset.name).0.to_owned(), made, dataset));
        }
        found.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        found.dedup_by(|a, b| a.2.dataset == b.2.dataset);
        Ok(found.into_iter().map(|(_, _, dataset)| dataset).collect())
    }
}

/// A head has more that is its own: less of what is reserved for it is unused.
fn release_refreservation(tx: &Tx, head: &Dataset, unique_before: u64) -> Result<(), DslError> {
    let reserved = head.refreservation();
    let unused = |unique: u64| signed(U64::new(reserved.saturating_sub(unique)));
    let delta = unused(head.phys().unique_bytes.get()) - unused(unique_before);
    head.dir().use_space(tx, used::REFRESERVATION, SpaceDelta { used: delta, ..SpaceDelta::default() })
}
