//! Placing a block's newest bytes of a txg before that txg is written.

use std::sync::Arc;

use env::IoBuf;
use ondisk::{Blkptr, CompressionKind};
use units::{BlockId, Level, Lsize, Txg};
use zio::{PackedEarly, Unplaced};

use super::Dnode;
use crate::dmu_sync::EarlyBlock;

impl Dnode {
    /// Gives a block as `txg` changed it a place, or finds that it needs none; `None` when the txg
    /// did not change it, is no longer open, or the block does not fit in one piece. `admits` is asked
    /// whether so many bytes may be taken now.
    ///
    /// Nothing here waits: the txg is held for no longer than the call, so that a caller who goes
    /// away holds up nobody.
    pub(crate) fn place_early(
        &self,
        txg: Txg,
        block: BlockId,
        admits: impl FnOnce(u64) -> bool,
    ) -> Option<EarlyBlock> {
        let block = block.get();
        let data = self.changed_block(txg, block)?;
        if let Some(bp) = self.state.lock().changes_of(txg)?.early.place_of(block, &data) {
            return Some(EarlyBlock::Before(bp));
        }
        let policy = self.block_policy(self.object_type());
        let class = policy.data;
        if class.compression.kind != CompressionKind::Off && codec::is_all_zero(&data) {
            let (size, level) = (Lsize::new(data.len() as u64), Level::new(0));
            return Some(EarlyBlock::Pointer(Blkptr::hole_with(size, policy.object_type, level, txg)));
        }
        let (bookmark, how) = (self.name().bookmark(0, block), policy.write_policy(class, 0, 1));
        match self.shared.zio.pack_early(txg, &bookmark, &data, &how).ok()? {
            PackedEarly::Embedded(bp) => Some(EarlyBlock::Pointer(bp)),
            PackedEarly::Packed(packed) => self.note_early(txg, block, data, packed, admits),
        }
    }

    fn changed_block(&self, txg: Txg, block: u64) -> Option<Arc<IoBuf>> {
        self.state.lock().changes_of(txg)?.data_of(block).cloned()
    }

    fn note_early(
        &self,
        txg: Txg,
        block: u64,
        data: Arc<IoBuf>,
        packed: Box<Unplaced>,
        admits: impl FnOnce(u64) -> bool,
    ) -> Option<EarlyBlock> {
        // Keeps the txg from being written until the note is there.
        let _held = self.shared.gate.try_join(txg)?;
        if !admits(packed.stored_bytes()) {
            return None;
        }
        let mut state = self.state.lock();
        let changes = state.changes_of(txg)?;
        if !changes.data_of(block).is_some_and(|now| Arc::ptr_eq(now, &data)) {
            return None;
        }
        let placed = self.shared.zio.place_early(packed)?;
        let write = changes.early.add((&self.shared.zio, self.name()), block, data, placed);
        Some(EarlyBlock::Placed(write))
    }
}
