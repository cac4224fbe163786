//! Writing blocks once more that stay as they are: somewhere else, with what the dataset's properties say now.

use std::ops::Range;

use env::boxed;
use futures::future::try_join_all;
use units::Txg;

use super::{Dnode, Found};
use crate::{DmuError, Step, Transaction};

impl Dnode {
    /// Has whole blocks written once more. Holes stay holes, and what is to be written anyway is left to the txg that has it;
    /// a block that is shared since a txg that has not synced becomes one of the object's own.
    ///
    /// # Errors
    /// When a block cannot be read.
    #[boxed]
    pub async fn rewrite_blocks(&self, tx: &dyn Transaction, blocks: Range<u64>) -> Result<(), DmuError> {
        let to_read = |&block: &u64| matches!(self.found(block), Found::OnDisk { .. } | Found::Shared(_));
        self.look_ahead(&blocks);
        let reads = blocks.filter(to_read).map(|block| async move {
            self.check_above(block).await?;
            Ok::<_, DmuError>((block, self.block_if_data(block).await?))
        });
        for (block, data) in try_join_all(reads).await? {
            if let Some(data) = data {
                tx.take(Step::put(self.me(), block, data));
                let dnode = self.me();
                tx.take(Step::then(move |txg| dnode.move_block(txg, block)));
            }
        }
        Ok(())
    }

    /// Has a block that is written in `txg` take another place, though its bytes are the same.
    fn move_block(&self, txg: Txg, block: u64) {
        self.state.lock().changes_for(txg).moved.insert(block);
    }
}
