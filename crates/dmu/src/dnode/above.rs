//! Looking at what lies above a block before the block is changed.
//!
//! The sync of a txg reads the indirect blocks above everything that the txg changed. One that is damaged would end that
//! sync, and with it the pool, for the sake of one file. So whoever plans a change below it reads it first, and is
//! told. Between two syncs of an object each indirect block is looked at once.
//! (test: `a_damaged_indirect_block_is_the_trouble_of_its_file_alone`)

use units::BlockId;

use super::{Dnode, shape_of};
use crate::DmuError;

/// Indirect blocks of the lowest level that are remembered: the first so many of an object.
const REMEMBERED: u64 = 1 << 20;

/// Indirect blocks of the lowest level, a bit each.
#[derive(Debug, Default)]
pub(super) struct Reached(Vec<u64>);

impl Reached {
    fn has(&self, region: u64) -> bool {
        let word = usize::try_from(region / 64).ok().and_then(|word| self.0.get(word));
        word.is_some_and(|word| word >> (region % 64) & 1 == 1)
    }

    fn add(&mut self, region: u64) {
        if region < REMEMBERED {
            let word = (region / 64) as usize;
            if self.0.len() <= word {
                self.0.resize(word + 1, 0);
            }
            self.0[word] |= 1 << (region % 64);
        }
    }
}

impl Dnode {
    /// Makes sure that the indirect blocks above a data block can be read.
    pub(super) async fn check_above(&self, block: u64) -> Result<(), DmuError> {
        let Some(region) = self.unreached(block) else { return Ok(()) };
        self.synced_blkptr(BlockId::new(block)).await?;
        self.state.lock().reached.add(region);
        Ok(())
    }

    /// Which indirect block of the lowest level covers a data block, unless it was read already.
    fn unreached(&self, block: u64) -> Option<u64> {
        let state = self.state.lock();
        let shape = shape_of(&state.synced);
        let is_below_one = state.on_disk && shape.levels > 1 && block < shape.capacity();
        let region = shape.index_at(1, block);
        (is_below_one && !state.reached.has(region)).then_some(region)
    }
}
