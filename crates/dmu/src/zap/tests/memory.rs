//! An object in memory, for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use env::IoBuf;
use parking_lot::Mutex;
use units::{BlockId, ObjectId, Txg};

use crate::DmuError;
use crate::zap::{Blocks, Guard, Shared, Zap};

/// Blocks of one object; block writes are counted.
#[derive(Default)]
pub(super) struct Memory {
    state: Mutex<State>,
    shared: Shared,
}

#[derive(Clone, Default)]
struct State {
    block_bytes: u32,
    blocks: BTreeMap<u64, Arc<IoBuf>>,
    changes: u64,
}

impl Memory {
    pub(super) fn new(block_bytes: u32) -> Arc<Self> {
        let memory = Self::default();
        memory.state.lock().block_bytes = block_bytes;
        Arc::new(memory)
    }

    pub(super) fn of_blocks(blocks: &[Vec<u8>]) -> Arc<Self> {
        let memory = Self::new(blocks[0].len() as u32);
        let numbered = blocks.iter().enumerate();
        memory.state.lock().blocks =
            numbered.map(|(block, bytes)| (block as u64, Arc::new(IoBuf::copy_of(bytes)))).collect();
        memory
    }

    /// The same blocks as after a restart: nothing known of them.
    pub(super) fn reopened(&self) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(self.state.lock().clone()), shared: Shared::default() })
    }

    pub(super) fn blocks(&self) -> Vec<Vec<u8>> {
        let state = self.state.lock();
        let last = state.blocks.keys().next_back().map_or(0, |last| last + 1);
        let bytes =
            |block| state.blocks.get(&block).map_or(vec![0; state.block_bytes as usize], |b| b.to_vec());
        (0..last).map(bytes).collect()
    }

    pub(super) fn changes(&self) -> u64 {
        self.state.lock().changes
    }
}

impl Blocks for Memory {
    type Tx = Txg;

    fn object(&self) -> ObjectId {
        ObjectId::new(7)
    }

    fn block_bytes(&self, _: Option<&Txg>) -> u32 {
        self.state.lock().block_bytes
    }

    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn take_guard(&self, _: &Txg) -> Option<Guard> {
        None
    }

    fn keep_guard(_: &Txg, guard: Guard) {
        drop(guard);
    }

    async fn read_block(&self, _: Option<&Txg>, block: BlockId) -> Result<Arc<IoBuf>, DmuError> {
        let state = self.state.lock();
        let hole = || Arc::new(IoBuf::zeroed(state.block_bytes as usize));
        Ok(state.blocks.get(&block.get()).map_or_else(hole, Arc::clone))
    }

    async fn write_block(&self, _: &Txg, block: BlockId, data: Arc<IoBuf>) -> Result<(), DmuError> {
        let mut state = self.state.lock();
        assert_eq!(data.len(), state.block_bytes as usize);
        state.changes += 1;
        state.blocks.insert(block.get(), data);
        Ok(())
    }

    async fn modify_block(
        &self,
        _: &Txg,
        block: BlockId,
        change: impl FnOnce(&mut [u8]) + Send + 'static,
    ) -> Result<(), DmuError> {
        let mut state = self.state.lock();
        state.changes += 1;
        let block_bytes = state.block_bytes as usize;
        let data = state.blocks.entry(block.get()).or_insert_with(|| Arc::new(IoBuf::zeroed(block_bytes)));
        let data: &mut IoBuf = Arc::make_mut(data);
        change(data);
        Ok(())
    }

    fn modify_read(
        &self,
        _: &Txg,
        block: BlockId,
        base: Arc<IoBuf>,
        change: impl FnOnce(&mut [u8]) + Send + 'static,
    ) {
        let mut state = self.state.lock();
        state.changes += 1;
        let mut data = (*base).clone();
        change(&mut data);
        state.blocks.insert(block.get(), Arc::new(data));
    }

    async fn free_blocks(&self, _: &Txg, first: BlockId, count: u64) -> Result<(), DmuError> {
        self.state.lock().blocks.retain(|&block, _| block < first.get() || block >= first.get() + count);
        Ok(())
    }

    async fn set_block_bytes(&self, _: &Txg, bytes: u32) -> Result<(), DmuError> {
        let mut state = self.state.lock();
        assert!(state.blocks.keys().all(|&block| block == 0), "only an object of one block changes its size");
        state.block_bytes = bytes;
        for data in state.blocks.values_mut() {
            *data = Arc::new(data.resized(bytes as usize));
        }
        Ok(())
    }
}

/// The transaction of all tests.
pub(super) const TX: Txg = Txg::new(9);

/// A new ZAP of 512-byte blocks.
pub(super) async fn micro() -> Zap<Memory> {
    Zap::format(Memory::new(512), &TX, 0x1234_5679, 0, 0).await.unwrap()
}
