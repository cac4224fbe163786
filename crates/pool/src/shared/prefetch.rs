//! Reading the tables of shared blocks ahead (`zpool prefetch`), so that the first frees and clones after an import
//! do not wait for the devices.

use env::boxed;
use units::ObjectId;

use crate::{Pool, PoolError};

/// Bytes that are read at once.
const PIECE_BYTES: u64 = 1 << 20;

impl Pool {
    /// Reads the tables of deduplicated blocks.
    ///
    /// # Errors
    /// Those of reading them.
    #[boxed]
    pub async fn prefetch_ddt(&self) -> Result<(), PoolError> {
        self.read_through(self.ddt.objects().await).await
    }

    /// Reads the tables of cloned blocks.
    ///
    /// # Errors
    /// Those of reading them.
    #[boxed]
    pub async fn prefetch_brt(&self) -> Result<(), PoolError> {
        self.read_through(self.brt.objects().await).await
    }

    /// Reads objects of the meta-objset from beginning to end.
    async fn read_through(&self, objects: Vec<ObjectId>) -> Result<(), PoolError> {
        for object in objects {
            let dnode = self.mos.hold(object).await?;
            let end = (dnode.max_block().get() + 1) * u64::from(dnode.block_bytes());
            let mut piece = vec![0; PIECE_BYTES.min(end) as usize];
            for at in (0..end).step_by(PIECE_BYTES as usize) {
                let len = PIECE_BYTES.min(end - at) as usize;
                dnode.read(at, &mut piece[..len]).await?;
            }
        }
        Ok(())
    }
}
