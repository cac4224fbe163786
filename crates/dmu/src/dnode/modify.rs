//! Changing a block in place: what a ZAP does to its leaves, thousands of times per group.

use std::sync::Arc;

use device::IoBuf;
use ondisk::ObjectType;
use units::{BlockId, Txg};

use super::Dnode;
use crate::zap::{Blocks, Shared};
use crate::{DmuError, Tx};

impl Dnode {
    /// Changes a block through `change`: a copy the first time in a group, then in place.
    /// Nobody else may change the same block meanwhile.
    ///
    /// # Errors
    /// When the block cannot be read; [`DmuError::Invalid`] when its number is too high.
    async fn change_block<R>(
        &self,
        tx: &Tx,
        block: BlockId,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, DmuError> {
        let change = match self.change_dirty(tx.txg(), block, change) {
            Ok(result) => return Ok(result),
            Err(change) => change,
        };
        let base = self.read_block(block).await?;
        let mut data = base.resized(self.block_bytes() as usize);
        let result = change(&mut data);
        self.write_block(tx, block, Arc::new(data)).await?;
        Ok(result)
    }

    /// Changes a block that the group has changed already; otherwise gives `change` back.
    fn change_dirty<R, F: FnOnce(&mut [u8]) -> R>(
        &self,
        txg: Txg,
        block: BlockId,
        change: F,
    ) -> Result<R, F> {
        let mut state = self.state.lock();
        match state.changes_of(txg).and_then(|changes| changes.block_mut(block.get())) {
            Some(data) => Ok(change(data)),
            None => Err(change),
        }
    }
}

impl Blocks for Dnode {
    type Tx = Tx;

    fn object(&self) -> units::ObjectId {
        self.object
    }

    fn txg(tx: &Tx) -> units::Txg {
        tx.txg()
    }

    fn block_bytes(&self) -> u32 {
        Self::block_bytes(self)
    }

    fn shared(&self) -> &Shared {
        &self.zap
    }

    async fn read_block(&self, block: BlockId) -> Result<Arc<IoBuf>, DmuError> {
        Self::read_block(self, block).await
    }

    async fn write_block(&self, tx: &Tx, block: BlockId, data: Arc<IoBuf>) -> Result<(), DmuError> {
        Self::write_block(self, tx, block, data).await
    }

    async fn modify_block<R: Send>(
        &self,
        tx: &Tx,
        block: BlockId,
        change: impl FnOnce(&mut [u8]) -> R + Send,
    ) -> Result<R, DmuError> {
        self.change_block(tx, block, change).await
    }

    async fn free_blocks(&self, tx: &Tx, first: BlockId, count: u64) -> Result<(), DmuError> {
        let block_bytes = u64::from(Self::block_bytes(self));
        self.free_range(tx, first.get() * block_bytes, count * block_bytes).await
    }

    async fn set_block_bytes(&self, tx: &Tx, bytes: u32) -> Result<(), DmuError> {
        Self::set_block_bytes(self, tx, bytes).await
    }
}

impl Dnode {
    /// Makes the object one of another type, in syncing context: what becomes of a dataset's
    /// object when it needs room for further fields.
    pub fn set_object_type(&self, tx: &Tx, object_type: ObjectType) {
        {
            let mut state = self.state.lock();
            state.changes_for(tx.txg());
            state.synced.object_type = object_type;
        }
        self.mark_dirty(tx.txg(), 0);
    }
}
