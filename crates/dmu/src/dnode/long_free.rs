//! Freeing much: piece by piece, each of a size that a txg can do.
//!
//! ```text
//!   start                                             end
//!     │ hole │ data │      hole      │ data │ … │ data │
//!                                    ╰─ one piece ─────╯  from the end, one transaction each
//!     ╰──── the last piece takes all the holes before it ╯
//! ```
//! A piece is measured by what there is to free, not by its length, so that a file of exabytes that
//! holds nothing is one piece. Going from the end, a crash between two pieces leaves a file that is
//! only longer than it was to be.

use std::sync::Arc;

use super::{Dnode, shape_of};
use crate::changes::Changes;
use crate::{DmuError, Step, Transaction};
use env::boxed;

/// Blocks that one piece frees, about.
const PIECE_BLOCKS: u64 = 32 << 10;
/// What an indirect block counts for, which has to be read before what lies below it can be freed.
const INDIRECT_BLOCKS: u64 = 64;
/// A block on disk takes so much at least.
const BLOCK_MIN_BYTES: u64 = 512;

/// A part of an object that one transaction frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreePiece {
    /// Its first byte.
    pub offset: u64,
    /// The first byte after it.
    pub end: u64,
    /// What it costs to free, in blocks: see [`crate::Estimate::freed_blocks`].
    pub blocks: u64,
}

/// What lies below one indirect block of the lowest level.
struct Region {
    start: u64,
    blocks: u64,
}

impl Dnode {
    /// The last part of the bytes from `offset` to `end` that is to be freed in one transaction; from
    /// `offset` on, if no more is left.
    ///
    /// # Errors
    /// When an indirect block cannot be read.
    #[boxed]
    pub async fn last_piece(&self, offset: u64, end: u64) -> Result<FreePiece, DmuError> {
        let block_bytes = u64::from(self.block_bytes());
        let first = offset / block_bytes;
        let mut at = end.div_ceil(block_bytes).min(self.max_block().get() + 1);
        let mut blocks = 0_u64;
        while blocks < PIECE_BLOCKS {
            let Some(region) = self.region_below(at).await?.filter(|_| at > first) else { break };
            blocks = blocks.saturating_add(region.blocks);
            at = region.start;
        }
        let is_all = blocks < PIECE_BLOCKS || at <= first;
        let offset = if is_all { offset } else { at * block_bytes };
        Ok(FreePiece { offset, end, blocks })
    }

    /// Frees a piece as [`Self::last_piece`] cut it.
    ///
    /// # Errors
    /// As of [`Self::free_range`].
    #[boxed]
    pub async fn free_piece(&self, tx: &dyn Transaction, piece: &FreePiece) -> Result<(), DmuError> {
        tx.take(Step::note_freed(Arc::clone(&self.shared.gate), piece.blocks));
        self.free_range(tx, piece.offset, piece.end - piece.offset).await
    }

    /// What it costs to free the whole object, in blocks, without a look at its tree.
    #[must_use]
    pub fn blocks_to_free(&self) -> u64 {
        let state = self.state.lock();
        let dirty: u64 = state.newest_first().map(|changes| changes.blocks.len() as u64).sum();
        let stored = state.synced.used_bytes / BLOCK_MIN_BYTES;
        stored.saturating_add(dirty).min(state.newest.max_block.saturating_add(1))
    }

    /// The last region below block `end` that holds anything, on disk or in memory.
    async fn region_below(&self, end: u64) -> Result<Option<Region>, DmuError> {
        let stored = self.last_synced_below(end, 1).await?.map(|covered| {
            let above = if covered.level > 0 { INDIRECT_BLOCKS } else { 0 };
            Region { start: covered.start, blocks: covered.fill.saturating_add(above) }
        });
        let changed = self.changed_region_below(end);
        Ok(match (stored, changed) {
            (Some(stored), Some(changed)) if stored.start == changed.start => {
                Some(Region { blocks: stored.blocks.saturating_add(changed.blocks), ..stored })
            }
            (stored, changed) => stored.into_iter().chain(changed).max_by_key(|region| region.start),
        })
    }

    fn changed_region_below(&self, end: u64) -> Option<Region> {
        let state = self.state.lock();
        let last_of = |changes: &Changes| changes.blocks.range(..end).next_back().map(|(&block, _)| block);
        let last = state.newest_first().filter_map(last_of).max()?;
        let shape = shape_of(&state.synced);
        let start = shape.covered(1, shape.index_at(1, last)).start;
        let blocks = state.newest_first().map(|changes| changes.blocks.range(start..end).count() as u64);
        Some(Region { start, blocks: blocks.sum() })
    }
}
