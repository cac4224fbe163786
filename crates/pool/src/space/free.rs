//! Freeing blocks that datasets no longer refer to.

use dmu::Tx;
use ondisk::Blkptr;

use crate::{Pool, PoolError};

impl Pool {
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
