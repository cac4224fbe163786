//! What bookmarks know of blocks that their snapshot had and that are gone.
//!
//! ```text
//!  S (bookmark) ──────► N, the next snapshot or the head      freed before next = what N's deadlist has of S's
//! ```
//! A bookmark counts that as blocks are let go (`dataset::block_kill`), until a snapshot comes after it; then deadlists
//! keep a key for the bookmark's txg, so that the rest can be told from them.

use std::collections::BTreeSet;

use dmu::{SpaceDelta, Tx};
use ondisk::Blkptr;
use units::{ObjectId, Txg};
use zerocopy::little_endian::U64;

use super::{Bookmark, SNAPSHOT_EXISTS, store};
use crate::dataset::Dataset;
use crate::space::{Imbalance, add};
use crate::{Dsl, DslError};

impl Dsl {
    /// Bookmarks since the latest snapshot learn what their own snapshots had of these blocks, which a head lets go.
    pub(crate) async fn count_in_bookmarks(
        &self,
        tx: &Tx,
        head: &Dataset,
        latest: Txg,
        killed: &[Blkptr],
    ) -> Result<(), DslError> {
        if killed.is_empty() {
            return Ok(());
        }
        for mut mark in self.bookmark_list(head).await? {
            if mark.made() < latest.get() || !mark.counts() {
                continue;
            }
            let freed = self.space_of(killed.iter().filter(|bp| bp.birth().get() <= mark.made()));
            self.add_freed(&mut mark, freed)?;
            self.store_bookmark(tx, head, &mark).await?;
        }
        Ok(())
    }

    /// Txgs of bookmarks later than `after` that count what is freed: deadlists have keys for them.
    pub(crate) async fn counting_bookmark_txgs(
        &self,
        head: &Dataset,
        after: u64,
    ) -> Result<BTreeSet<u64>, DslError> {
        let marks = self.bookmark_list(head).await?.into_iter();
        Ok(marks.filter(|mark| mark.counts() && mark.made() > after).map(|mark| mark.made()).collect())
    }

    /// A snapshot goes: bookmarks between the snapshot before it and itself are followed by `next` from now on, and
    /// its own bookmarks stand alone. Says whether one of them still needs its key in deadlists.
    pub(crate) async fn bookmarks_lose(
        &self,
        tx: &Tx,
        head: &Dataset,
        snapshot: &Dataset,
        next: &Dataset,
    ) -> Result<bool, DslError> {
        let (before, made) = (snapshot.phys().prev_snapshot_txg.get(), snapshot.phys().creation_txg.get());
        let deadlist = ObjectId::new(next.phys().deadlist.get());
        let mut needs_key = false;
        for mut mark in self.bookmark_list(head).await?.into_iter().filter(Bookmark::counts) {
            if mark.made() == made {
                mark.phys.flags = U64::new(mark.phys.flags.get() & !SNAPSHOT_EXISTS);
                needs_key = true;
            } else if (before..made).contains(&mark.made()) {
                let freed = self.deadlist_space(deadlist, 0..mark.made()).await?;
                self.add_freed(&mut mark, freed)?;
            } else {
                continue;
            }
            self.store_bookmark(tx, head, &mark).await?;
        }
        Ok(needs_key)
    }

    /// Another dataset follows a snapshot now: its bookmarks count what that one has let go.
    pub(crate) async fn bookmarks_follow(
        &self,
        tx: &Tx,
        head: &Dataset,
        snapshot: &Dataset,
    ) -> Result<(), DslError> {
        let phys = snapshot.phys();
        let next = self.dataset(ObjectId::new(phys.next_snapshot.get())).await?;
        for mut mark in self.bookmark_list(head).await? {
            if mark.counts() && mark.made() == phys.creation_txg.get() {
                let let_go = self.deadlist_total(ObjectId::new(next.deadlist.get())).await?;
                mark.phys.freed_before_next = figures(let_go);
                self.store_bookmark(tx, head, &mark).await?;
            }
        }
        Ok(())
    }

    /// A bookmark goes: deadlists need its key no more, unless the snapshot is there or another bookmark of it
    /// counts, or no snapshot came after it.
    pub(super) async fn give_up_key_of(
        &self,
        tx: &Tx,
        head: &Dataset,
        gone: &Bookmark,
        others: &[Bookmark],
    ) -> Result<(), DslError> {
        let is_last = !others.iter().any(|other| other.counts() && other.made() == gone.made());
        let snapshot_exists = gone.phys.flags.get() & SNAPSHOT_EXISTS != 0;
        if !gone.counts() || snapshot_exists || !is_last || gone.made() >= head.phys().prev_snapshot_txg.get()
        {
            return Ok(());
        }
        self.remove_key_from_clones(tx, head.dir(), gone.made()).await?;
        self.remove_key_from_head(tx, head, gone.made()).await
    }

    /// Bookmarks of a head that are no later than a snapshot move to another head's.
    pub(crate) async fn move_bookmarks(
        &self,
        tx: &Tx,
        from: &Dataset,
        to: &Dataset,
        until: u64,
    ) -> Result<(), DslError> {
        let Some(marks) = self.bookmark_zap(from).await? else { return Ok(()) };
        for mark in self.bookmark_list(from).await?.iter().filter(|mark| mark.made() <= until) {
            marks.remove(tx, mark.name.as_bytes()).await?;
            store(tx, &self.bookmark_zap_for(tx, to).await?, mark).await?;
        }
        Ok(())
    }

    async fn store_bookmark(&self, tx: &Tx, head: &Dataset, mark: &Bookmark) -> Result<(), DslError> {
        match self.bookmark_zap(head).await? {
            Some(marks) => store(tx, &marks, mark).await,
            None => Ok(()),
        }
    }

    fn add_freed(&self, mark: &mut Bookmark, freed: SpaceDelta) -> Result<(), DslError> {
        let [used, compressed, uncompressed] = &mut mark.phys.freed_before_next;
        add(used, freed.used)
            .and_then(|()| add(compressed, freed.compressed))
            .and_then(|()| add(uncompressed, freed.uncompressed))
            .map_err(|Imbalance| Imbalance.of(self.root))
    }
}

/// Space as a bookmark notes it.
pub(super) fn figures(space: SpaceDelta) -> [U64; 3] {
    [space.used, space.compressed, space.uncompressed].map(|figure| U64::new(figure.max(0) as u64))
}
