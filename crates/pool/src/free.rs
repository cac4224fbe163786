//! Freeing blocks that datasets no longer refer to.

use dmu::Tx;
use ondisk::Blkptr;

use crate::{Pool, PoolError};

impl Pool {
    /// Frees a block in the group being synced, unless a file that was cloned still needs it. Every
    /// block of a dataset goes this way.
    ///
    /// # Errors
    /// When it was not allocated, or the table of shared blocks is damaged.
    pub(crate) async fn free_block(&self, tx: &Tx, bp: &Blkptr) -> Result<(), PoolError> {
        if bp.dedup() && !bp.is_embedded() && !bp.is_hole() {
            return Err(PoolError::Deduplicated { vdev: bp.dva(0).vdev, offset: bp.dva(0).offset });
        }
        if self.clones.take_reference(tx, &self.zio, bp).await? {
            return Ok(());
        }
        Ok(self.zio.free(tx.txg(), bp).await?)
    }
}
