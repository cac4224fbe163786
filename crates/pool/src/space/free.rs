//! Freeing blocks that datasets no longer refer to.

use dmu::{SpaceDelta, SyncRead, Tx};
use env::impatient;
use ondisk::Blkptr;
use units::ObjectId;
use zio::Leak;

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

    /// Accounts for blocks of a dataset that were unlinked but cannot be found.
    pub(crate) async fn lose_blocks(&self, tx: &Tx, dataset: ObjectId, leak: Leak) -> Result<(), PoolError> {
        let bytes = match leak.bytes {
            // Part of the object remains and stays charged for the blocks that cannot be found.
            0 => 0,
            bytes => self.dsl.lose_blocks(tx, dataset, bytes).await?,
        };
        self.zio.note_leak(Leak { bytes, ..leak });
        Ok(())
    }

    /// Counts the space that the txg has leaked, and adds the damaged blocks to the error list. A
    /// free removes the pointers to the damaged block, so a later scan could not find the damage.
    pub(crate) async fn take_in_leaks(&self, tx: &Tx) -> Result<(), PoolError> {
        let leaks = self.zio.take_leaks();
        if leaks.is_empty() {
            return Ok(());
        }
        for leak in &leaks {
            if let Some(bookmark) = leak.bookmark
                && self.errors.note(bookmark, leak.birth)
            {
                self.tell_lost(bookmark);
            }
        }
        let bytes = leaks.iter().fold(0_u64, |sum, leak| sum.saturating_add(leak.bytes));
        tracing::error!(
            pool = self.name(),
            bytes,
            blocks = leaks.len(),
            "space below damaged blocks is leaked"
        );
        let used = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.dsl.add_leaked_space(tx, SpaceDelta { used, ..SpaceDelta::default() }).await?;
        impatient(self.store_errors(tx)).await;
        Ok(())
    }

    /// Frees a block in the txg being synced, unless a file that was cloned still needs it, or it
    /// is deduplicated and referred to from elsewhere. Every block of a dataset goes this way.
    ///
    /// # Errors
    /// When it was not allocated, or the tables of shared blocks are damaged.
    pub(crate) async fn free_block(&self, tx: &Tx, bp: &Blkptr) -> Result<(), PoolError> {
        match impatient(self.is_shared(tx, bp)).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) if error.is_loss() && SyncRead::SharedDrop.goes_on() => {
                tracing::error!(%error, "a block is not freed, because others may refer to it");
                let bytes = self.zio.charged_bytes(bp);
                self.zio.note_leak(Leak { bookmark: None, birth: bp.birth(), bytes });
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        tx.note_change();
        Ok(self.zio.free(tx.txg(), bp).await?)
    }

    /// Removes one reference to a block. Returns true if other references remain.
    async fn is_shared(&self, tx: &Tx, bp: &Blkptr) -> Result<bool, PoolError> {
        let is_marked = bp.dedup() && !bp.is_embedded() && !bp.is_hole();
        if is_marked && self.ddt.take_reference(&self.mos, tx, &self.zio, bp).await? {
            return Ok(true);
        }
        self.brt.take_reference(tx, &self.zio, bp).await
    }
}
