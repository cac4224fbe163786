//! Byte ranges of an object: cutting them into blocks, freeing them, finding data in them.

use std::sync::Arc;

use units::BlockId;

use super::{Dnode, Found};
use crate::{DmuError, Tx, tree};

/// The part of a byte range that lies in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub block: u64,
    pub within: usize,
    pub len: usize,
}

/// Cuts `len` bytes from `offset` at the boundaries of blocks.
pub(super) fn pieces(offset: u64, len: usize, block_bytes: u32) -> impl Iterator<Item = Piece> {
    let block_bytes = u64::from(block_bytes);
    let (mut at, mut left) = (offset, len);
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let within = at % block_bytes;
        let here = usize::try_from(block_bytes - within).unwrap_or(usize::MAX).min(left);
        let piece = Piece { block: at / block_bytes, within: within as usize, len: here };
        at += here as u64;
        left -= here;
        Some(piece)
    })
}

/// What [`Dnode::seek`] looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTo {
    /// Bytes that are stored.
    Data,
    /// Bytes that are not.
    Hole,
}

impl Dnode {
    /// Makes holes of `len` bytes from `offset` (`u64::MAX`: to the end). Whole blocks go,
    /// parts of blocks are zeroed.
    ///
    /// # Errors
    /// When a block that is covered in part cannot be read.
    pub async fn free_range(&self, tx: &Tx, offset: u64, len: u64) -> Result<(), DmuError> {
        let block_bytes = u64::from(self.block_bytes());
        let blocks = self.max_block().get() + 1;
        let end = offset.saturating_add(len).min(blocks.saturating_mul(block_bytes));
        if offset >= end {
            return Ok(());
        }
        let (first, last) = (offset.div_ceil(block_bytes), end / block_bytes);
        if first > last {
            return self.zero_part(tx, offset, end).await;
        }
        self.zero_part(tx, offset, first * block_bytes).await?;
        self.zero_part(tx, last * block_bytes, end).await?;
        if first < last {
            self.state.lock().changes_for(tx.txg()).free(first..last);
            self.mark_dirty(tx.txg(), 0);
        }
        Ok(())
    }

    /// Zeroes bytes within one block, unless it is a hole anyway.
    async fn zero_part(&self, tx: &Tx, start: u64, end: u64) -> Result<(), DmuError> {
        let block = start / u64::from(self.block_bytes());
        if start >= end || self.block_if_data(block).await?.is_none() {
            return Ok(());
        }
        self.write(tx, start, &vec![0; (end - start) as usize]).await
    }

    /// The first byte at or after `offset` that is data, or in a hole, within the blocks
    /// ever written; `None` when there is none.
    ///
    /// # Errors
    /// When an indirect block cannot be read.
    pub async fn seek(&self, offset: u64, to: SeekTo) -> Result<Option<u64>, DmuError> {
        let block_bytes = u64::from(self.block_bytes());
        let blocks = self.max_block().get() + 1;
        let mut block = offset / block_bytes;
        while block < blocks {
            let (is_data, next) = self.kind_of_run(block, blocks).await?;
            if is_data == (to == SeekTo::Data) {
                return Ok(Some(offset.max(block * block_bytes)));
            }
            block = next;
        }
        Ok(None)
    }

    /// Whether `block` is data, and the first block after it that may be different.
    async fn kind_of_run(&self, block: u64, end: u64) -> Result<(bool, u64), DmuError> {
        let (shape, roots, known) = {
            let state = self.state.lock();
            match state.find(block) {
                Found::Data(_) => return Ok((true, block + 1)),
                Found::Hole if block <= state.synced.max_block_id.get() => return Ok((false, block + 1)),
                Found::Hole => {
                    let next =
                        state.pending.iter().flat_map(|c| c.blocks.range(block..).next().map(|(&b, _)| b));
                    let syncing =
                        state.syncing.iter().flat_map(|c| c.blocks.range(block..).next().map(|(&b, _)| b));
                    return Ok((false, next.chain(syncing).min().unwrap_or(end)));
                }
                Found::OnDisk { shape, roots } => {
                    let known = state.pending.iter().map(|c| c.next_touched(block + 1));
                    let syncing = state.syncing.iter().map(|c| c.next_touched(block + 1));
                    (shape, roots, known.chain(syncing).flatten().min().unwrap_or(end).min(end))
                }
            }
        };
        let bp = tree::find_block(&self.shared.zio, self.name(), shape, &roots, block).await?;
        let (zio, name, want_data) = (&self.shared.zio, self.name(), bp.is_hole());
        let next = tree::seek_block(zio, name, shape, &roots, block, known, want_data).await?;
        Ok((!bp.is_hole(), next.unwrap_or(known).max(block + 1)))
    }

    /// The block pointer of a block as the last synced group left it: for tools and tests.
    ///
    /// # Errors
    /// When an indirect block cannot be read.
    pub async fn synced_blkptr(&self, block: BlockId) -> Result<ondisk::Blkptr, DmuError> {
        let (shape, roots) = {
            let state = self.state.lock();
            (super::shape_of(&state.synced), state.synced.blkptrs.clone())
        };
        tree::find_block(&self.shared.zio, self.name(), shape, &roots, block.get()).await
    }

    pub(crate) fn strong(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }
}
