//! Cloning: blocks of one object that another gets without their being read or written.
//!
//! ```text
//!  source: synced tree ─► pointers ─► target: changes of the open txg ─► sync: pointers into its tree,
//!          nothing of it dirty                                               told as `SyncedObjset::cloned`
//! ```
//! Only a block that a stable txg has can be cloned: the record of a clone names it, and an import that
//! replays the record finds it where it says. A block cloned in the open txg is such a block, and may be
//! cloned again.
//!
//! A block of a vdev that was removed is not cloned, nor one that was copied from there: where OpenZFS has changed the
//! place in some pointers, a head may have it under one name and a snapshot under the other. References are counted by
//! the name, so that who lets go of the other would free what a clone still has.
//! (test: `what_openzfs_wrote_to_a_vdev_that_was_removed_is_cloned_unless_it_was_moved`)
//!
//! Whoever clones keeps others from changing the source from before he reads its pointers until the clone is
//! made: so a txg that lets go of a block is never older than the one that clones it, and the pool counts
//! references up before it counts any down.
//! (tests: `a_clone_of_what_is_dirty_waits`, `a_clone_can_be_cloned_before_it_is_on_disk`)

use std::sync::Arc;

use env::{IoBuf, boxed};
use ondisk::Blkptr;
use units::{BlockId, Txg};

use super::{Dnode, Found};
use crate::changes::Written;
use crate::{DmuError, Step, Transaction};

/// What a block that is shared costs the dirty limit: its pointer, and what holds it.
const SHARED_DIRTY_BYTES: u64 = 256;

/// What stands at a block, for who would share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clonable {
    /// A block, which may lie in its pointer; or a hole.
    Block(Blkptr),
    /// Something that no stable txg has yet.
    Dirty,
    /// What is no file's data, or is called by more than one name.
    Never,
}

impl Dnode {
    /// What a clone of this block would refer to.
    ///
    /// # Errors
    /// When an indirect block cannot be read.
    #[boxed]
    pub async fn clonable(&self, block: BlockId) -> Result<Clonable, DmuError> {
        let found = self.state.lock().find(block.get());
        let bp = match found {
            Found::Data(_) => return Ok(Clonable::Dirty),
            Found::Hole => Blkptr::HOLE,
            Found::Shared(bp) => bp,
            Found::OnDisk { .. } => self.synced_blkptr(block).await?,
        };
        if bp.is_hole() || bp.is_embedded() {
            return Ok(Clonable::Block(bp));
        }
        if bp.physical_birth() > self.shared.gate.synced_txg() {
            return Ok(Clonable::Dirty);
        }
        let is_data = bp.level().get() == 0 && !bp.object_type().is_metadata();
        let has_one_name = !self.shared.zio.may_have_two_names(&bp);
        Ok(if is_data && has_one_name { Clonable::Block(bp) } else { Clonable::Never })
    }

    /// Has blocks from `first` on be those that the pointers name, or holes. Those of data have this object's
    /// block size as the transaction will have it.
    ///
    /// # Errors
    /// [`DmuError::Invalid`] for a block of another size, or a number too high; and when what leads to the
    /// blocks cannot be read.
    #[boxed]
    pub async fn share_blocks(
        &self,
        tx: &dyn Transaction,
        first: BlockId,
        pointers: &[Blkptr],
    ) -> Result<(), DmuError> {
        let block_bytes = self.block_bytes_in(tx);
        let is_other = |bp: &&Blkptr| !bp.is_hole() && bp.lsize().get() != u64::from(block_bytes);
        if pointers.iter().any(|bp| is_other(&bp)) {
            return Err(self.invalid("a block of another size"));
        }
        for (block, bp) in (first.get()..).zip(pointers) {
            self.check(block, block_bytes)?;
            self.check_above(block).await?;
            let step = match bp.is_hole() {
                true => Step::free(self.me(), block..block + 1),
                false => Step::share(self.me(), block, bp),
            };
            tx.take(step);
        }
        Ok(())
    }

    pub(crate) fn put_shared(&self, txg: Txg, block: u64, bp: &Blkptr) {
        let shared = Written::Shared(bp.shared_since(txg));
        let is_replaced = self.put_written(txg, block, bp.lsize().get(), shared);
        self.mark_dirty(txg, if is_replaced { 0 } else { SHARED_DIRTY_BYTES });
    }

    /// The bytes of a block that this object shares from a txg on that has not synced.
    pub(super) async fn shared_block(&self, block: u64, bp: &Blkptr) -> Result<Arc<IoBuf>, DmuError> {
        let (name, keep) = (self.name(), self.keeps_blocks());
        let read = self.shared.zio.read_as(bp, &name.bookmark(0, block), keep).await;
        read.map_err(|source| name.io_error(block, source))
    }
}
