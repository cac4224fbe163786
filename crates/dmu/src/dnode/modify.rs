//! Changing a block in place: what a ZAP does to its leaves, thousands of times per txg.

use std::sync::Arc;

use env::IoBuf;
use ondisk::ObjectType;
use units::{BlockId, Txg};

use super::{Dnode, Found};
use crate::plan::Edit;
use crate::zap::{Blocks, Guard, Shared};
use crate::{DmuError, Step, Transaction, Tx};

impl Dnode {
    /// Changes a block through `edit`, which may run later, and on a copy. Nobody else may change the same
    /// block meanwhile.
    ///
    /// # Errors
    /// When the block cannot be read.
    pub(super) async fn edit_block(
        &self,
        tx: &dyn Transaction,
        block: u64,
        edit: Edit,
    ) -> Result<(), DmuError> {
        let is_planned = tx.plan().is_some_and(|plan| plan.rewrites(self, block));
        let base = if is_planned { None } else { self.block_in(tx, block).await? };
        self.edit_from(tx, block, base, edit);
        Ok(())
    }

    /// [`Self::edit_block`] of a block that has been read.
    fn edit_from(&self, tx: &dyn Transaction, block: u64, base: Option<Arc<IoBuf>>, edit: Edit) {
        match tx.plan() {
            Some(plan) => plan.edit(&self.me(), block, base, edit),
            None => tx.take(Step::edit(self.me(), block, base, edit)),
        }
    }

    /// Changes a block in `txg`: in place if that txg has changed it already, else a copy of its newest
    /// contents, which are `base` unless memory has newer ones.
    pub(crate) fn edit(&self, txg: Txg, block: u64, base: Option<Arc<IoBuf>>, edit: impl FnOnce(&mut [u8])) {
        let newest = {
            let mut state = self.state.lock();
            if let Some(data) = state.changes_of(txg).and_then(|changes| changes.block_mut(block)) {
                // It may be the very buffer that is changed now, and would be copied while it is shared.
                drop(base);
                let bytes: &mut IoBuf = Arc::make_mut(data);
                return edit(bytes);
            }
            match state.find(block) {
                Found::Data(data) => Some(data),
                Found::Hole => None,
                Found::OnDisk { .. } | Found::Shared(_) => base,
            }
        };
        let mut data = self.to_edit(newest);
        let bytes: &mut IoBuf = Arc::make_mut(&mut data);
        edit(bytes);
        self.put(txg, block, data);
    }

    /// A block's contents in the object's block size, to be changed; zeros for a hole.
    pub(crate) fn to_edit(&self, base: Option<Arc<IoBuf>>) -> Arc<IoBuf> {
        let block_bytes = self.block_bytes() as usize;
        match base {
            Some(data) if data.len() == block_bytes => data,
            Some(data) => Arc::new(data.resized(block_bytes)),
            None => Arc::new(IoBuf::zeroed(block_bytes)),
        }
    }
}

impl Blocks for Dnode {
    type Tx = dyn Transaction;

    fn object(&self) -> units::ObjectId {
        self.object
    }

    fn block_bytes(&self, tx: Option<&Self::Tx>) -> u32 {
        tx.map_or_else(|| Self::block_bytes(self), |tx| self.block_bytes_in(tx))
    }

    fn shared(&self) -> &Shared {
        &self.zap
    }

    fn take_guard(&self, tx: &Self::Tx) -> Option<Guard> {
        tx.plan()?.take_zap(&self.zap)
    }

    fn keep_guard(tx: &Self::Tx, guard: Guard) {
        if let Some(plan) = tx.plan() {
            plan.keep_zap(guard);
        }
    }

    async fn read_block(&self, tx: Option<&Self::Tx>, block: BlockId) -> Result<Arc<IoBuf>, DmuError> {
        let Some(tx) = tx else { return Self::read_block(self, block).await };
        let found = self.block_in(tx, block.get()).await?;
        Ok(found.unwrap_or_else(|| Arc::new(IoBuf::zeroed(self.block_bytes_in(tx) as usize))))
    }

    async fn write_block(&self, tx: &Self::Tx, block: BlockId, data: Arc<IoBuf>) -> Result<(), DmuError> {
        Self::write_block(self, tx, block, data).await
    }

    async fn modify_block(
        &self,
        tx: &Self::Tx,
        block: BlockId,
        change: impl FnOnce(&mut [u8]) + Send + 'static,
    ) -> Result<(), DmuError> {
        self.edit_block(tx, block.get(), Box::new(change)).await
    }

    fn modify_read(
        &self,
        tx: &Self::Tx,
        block: BlockId,
        base: Arc<IoBuf>,
        change: impl FnOnce(&mut [u8]) + Send + 'static,
    ) {
        self.edit_from(tx, block.get(), Some(base), Box::new(change));
    }

    async fn free_blocks(&self, tx: &Self::Tx, first: BlockId, count: u64) -> Result<(), DmuError> {
        let block_bytes = u64::from(self.block_bytes_in(tx));
        self.free_range(tx, first.get() * block_bytes, count * block_bytes).await
    }

    async fn set_block_bytes(&self, tx: &Self::Tx, bytes: u32) -> Result<(), DmuError> {
        Self::set_block_bytes(self, tx, bytes).await
    }
}

impl Dnode {
    /// Makes the object one of another type, in syncing context: what becomes of a dataset's
    /// object when it needs room for further fields.
    pub fn set_object_type(&self, tx: &Tx, object_type: ObjectType) {
        tx.note_change();
        {
            let mut state = self.state.lock();
            state.changes_for(tx.txg());
            state.synced.object_type = object_type;
        }
        self.mark_dirty(tx.txg(), 0);
    }
}
