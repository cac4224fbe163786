//! Looking at what lies above a block before the block is changed.
//!
//! The sync of a txg reads the indirect blocks above everything that the txg changed. One that is damaged would end that
//! sync, and with it the pool, for the sake of one file. So whoever plans a change below it reads it first, and is
//! told.
//! (test: `a_damaged_indirect_block_is_the_trouble_of_its_file_alone`)

use std::ops::Range;
use std::sync::atomic::Ordering;

use units::BlockId;

use super::{Dnode, shape_of};
use crate::DmuError;

impl Dnode {
    /// Makes sure that the indirect blocks above some data blocks can be read. What was read last is not read
    /// again, so a change in one place after the other costs a look at each region only.
    pub(super) async fn check_above(&self, blocks: Range<u64>) -> Result<(), DmuError> {
        let shape = {
            let state = self.state.lock();
            if !state.on_disk || state.synced.levels == 1 {
                return Ok(());
            }
            shape_of(&state.synced)
        };
        let end = blocks.end.min(shape.capacity());
        let mut at = blocks.start;
        while at < end {
            let region = shape.index_at(1, at);
            if self.checked.load(Ordering::Relaxed) != region + 1 {
                self.synced_blkptr(BlockId::new(at)).await?;
                self.checked.store(region + 1, Ordering::Relaxed);
            }
            at = shape.covered(1, region).end;
        }
        Ok(())
    }
}
