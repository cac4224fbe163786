//! What becomes of blocks that a head lets go.
//!
//! ```text
//!  born after the latest snapshot ─► nobody else has them: freed
//!  older                          ─► the head's deadlist: they go when that snapshot goes
//! ```
//! Of the older ones, those born after the snapshot before the latest are from now on the latest's
//! alone, and count as unique to it; a clone's origin is shared with its own next, and is left
//! alone. Those born after the dir's origin were this dir's, and move from what its head uses to what
//! its snapshots use; still older ones are accounted to the dir that the clone came from.
//!
//! Invariants
//! - A block that a snapshot refers to is never given back to be freed
//!   (test: `a_block_that_a_snapshot_has_goes_on_the_deadlist`).
//! - A bookmark knows what was freed of its snapshot before the next one came: `freed_before_next`.

use dmu::{SpaceDelta, SyncRead, Tx};
use env::impatient;
use ondisk::Blkptr;
use ondisk::dsl::used;
use units::{ObjectId, Txg};

use crate::dataset::Dataset;
use crate::space::add;
use crate::{Dsl, DslError};

/// Space of the blocks that snapshots hold of those that a head let go.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    /// All of it.
    pub all: SpaceDelta,
    /// What was allocated for this dir.
    pub of_dir: i64,
}

impl Dsl {
    /// Puts those of the blocks that a head lets go that snapshots have on its deadlist; gives the
    /// others, and the space of those held.
    pub(crate) async fn hold_back(
        &self,
        tx: &Tx,
        head: &Dataset,
        killed: Vec<Blkptr>,
    ) -> Result<(Vec<Blkptr>, Held), DslError> {
        let phys = head.phys();
        let latest = Txg::new(phys.prev_snapshot_txg.get());
        match impatient(self.count_in_bookmarks(tx, head, latest, &killed)).await {
            Err(error) if error.is_loss() && SyncRead::Bookmarks.goes_on() => {
                tracing::error!(%error, "bookmarks cannot be read: they do not count what was let go");
            }
            counted => counted?,
        }
        let (to_free, to_hold): (Vec<Blkptr>, Vec<Blkptr>) =
            killed.into_iter().partition(|bp| bp.birth() > latest);
        if to_hold.is_empty() {
            return Ok((to_free, Held::default()));
        }
        let deadlist = ObjectId::new(phys.deadlist.get());
        match impatient(self.add_to_deadlist(tx, deadlist, &to_hold)).await {
            Err(error) if error.is_loss() && SyncRead::DeadlistAdd.goes_on() => {
                tracing::error!(%error, blocks = to_hold.len(), "blocks are not put on a damaged deadlist");
            }
            added => added?,
        }
        let snapshot = self.loaded_dataset(ObjectId::new(phys.prev_snapshot.get())).await?;
        if snapshot.phys().next_snapshot.get() == head.object().get() {
            let before = Txg::new(snapshot.phys().prev_snapshot_txg.get());
            let alone = self.space_of(to_hold.iter().filter(|bp| bp.birth() > before));
            snapshot.try_change(tx, |phys| add(&mut phys.unique_bytes, alone.used))?;
        }
        let origin = self.origin_txg(head).await?;
        let of_dir = self.space_of(to_hold.iter().filter(|bp| bp.birth() > origin)).used;
        Ok((to_free, Held { all: self.space_of(to_hold.iter()), of_dir }))
    }

    /// When the snapshot was made that a head's dir began from.
    pub(crate) async fn origin_txg(&self, head: &Dataset) -> Result<Txg, DslError> {
        match head.dir().phys().origin.get() {
            0 => Ok(Txg::ZERO),
            origin => Ok(Txg::new(self.dataset(ObjectId::new(origin)).await?.creation_txg.get())),
        }
    }

    /// What these blocks take.
    pub(crate) fn space_of<'a>(&self, bps: impl Iterator<Item = &'a Blkptr>) -> SpaceDelta {
        let mut space = SpaceDelta::default();
        bps.for_each(|bp| space.add(self.mos.zio(), bp));
        space
    }
}

/// Moves what snapshots hold of a head's former blocks to what they use.
pub(crate) fn account_held(tx: &Tx, head: &Dataset, held: &Held) -> Result<(), DslError> {
    head.dir().move_space(tx, used::HEAD, used::SNAP, held.of_dir)
}
