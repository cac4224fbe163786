//! Freeing blocks that datasets no longer refer to.

use dmu::Tx;
use ondisk::Blkptr;

use crate::{Pool, PoolError};

impl Pool {
    /// Counts what the txg being synced has cloned, once for each time. To be called before anything that it lets
    /// go of is freed.
    ///
    /// # Errors
    /// When the tables of shared blocks cannot be read, or are damaged.
    pub(crate) async fn count_clones(&self, tx: &Tx, cloned: &[Blkptr]) -> Result<(), PoolError> {
        let mut uncounted = Vec::with_capacity(cloned.len());
        for bp in cloned {
            if !bp.dedup() || !self.ddt.add_reference(&self.mos, tx, &self.zio, bp).await? {
                uncounted.push(*bp);
            }
        }
        if !cloned.is_empty() {
            tx.note_change();
        }
        self.brt.add_references(&self.dsl, tx, &self.zio, &uncounted).await
    }

    /// Frees a block in the txg being synced, unless a file that was cloned still needs it, or it
    /// is deduplicated and referred to from elsewhere. Every block of a dataset goes this way.
    ///
    /// # Errors
    /// When it was not allocated, or the tables of shared blocks are damaged.
    pub(crate) async fn free_block(&self, tx: &Tx, bp: &Blkptr) -> Result<(), PoolError> {
        let is_marked = bp.dedup() && !bp.is_embedded() && !bp.is_hole();
        if is_marked && self.ddt.take_reference(&self.mos, tx, &self.zio, bp).await? {
            return Ok(());
        }
        if self.brt.take_reference(tx, &self.zio, bp).await? {
            return Ok(());
        }
        tx.note_change();
        Ok(self.zio.free(tx.txg(), bp).await?)
    }
}
