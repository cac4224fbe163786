//! Byte ranges of an object: cutting them into blocks, freeing them, finding data in them.

use std::ops::Range;
use std::sync::Arc;

use env::{BufSlice, IoBuf, boxed};
use ondisk::Blkptr;
use units::{BlockId, Txg};

use super::{Dnode, Found, shape_of};
use crate::shape::Shape;
use crate::stored::Wanted;
use crate::{DmuError, Step, Transaction};

/// The part of a byte range that lies in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub block: u64,
    pub within: usize,
    pub len: usize,
}

impl Piece {
    /// Which bytes of the block.
    pub fn range(&self) -> Range<usize> {
        self.within..self.within + self.len
    }

    /// The piece itself, of the block's data; zeros where there are none.
    pub fn of(&self, block: Option<Arc<IoBuf>>) -> BufSlice {
        match block.filter(|data| self.range().end <= data.len()) {
            Some(data) => BufSlice::new(data, self.range()),
            None => Arc::new(IoBuf::zeroed(self.len)).into(),
        }
    }
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

/// The data blocks below a block of a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Covered {
    /// The block's height.
    pub level: u8,
    /// The first of them.
    pub start: u64,
    /// How many there are; of dnodes, how many objects.
    pub fill: u64,
}

/// What [`Dnode::seek`] looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTo {
    /// Bytes that are stored.
    Data,
    /// Bytes that are not.
    Hole,
}

impl From<SeekTo> for Wanted {
    fn from(to: SeekTo) -> Self {
        match to {
            SeekTo::Data => Self::Data,
            SeekTo::Hole => Self::Hole,
        }
    }
}

impl Dnode {
    /// Makes holes of `len` bytes from `offset` (`u64::MAX`: to the end). Whole blocks go,
    /// parts of blocks are zeroed.
    ///
    /// # Errors
    /// When a block that is covered in part cannot be read.
    #[boxed]
    pub async fn free_range(&self, tx: &dyn Transaction, offset: u64, len: u64) -> Result<(), DmuError> {
        let block_bytes = u64::from(self.block_bytes_in(tx));
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
            self.check_above(first).await?;
            self.check_above(last - 1).await?;
            tx.take(Step::free(self.me(), first..last));
        }
        Ok(())
    }

    /// Reduces an object, all of whose blocks are holes in this change, to a single block, so that
    /// its block size may change. OpenZFS treats `dn_maxblkid` in the same way.
    pub fn forget_blocks(&self, tx: &dyn Transaction) {
        tx.take(Step::emptied(self.me()));
    }

    pub(crate) fn put_emptied(&self, txg: Txg) {
        {
            let mut state = self.state.lock();
            let changes = state.changes_for(txg);
            assert!(changes.blocks.is_empty(), "object {} has blocks", self.object);
            changes.max_block = 0;
            state.newest.max_block = 0;
        }
        self.mark_dirty(txg, 0);
    }

    /// Makes whole blocks holes in `txg`.
    pub(crate) fn free_blocks(&self, txg: Txg, blocks: Range<u64>) {
        self.state.lock().changes_for(txg).free(blocks);
        self.mark_dirty(txg, 0);
    }

    /// Zeroes bytes within one block, unless it is a hole anyway.
    async fn zero_part(&self, tx: &dyn Transaction, start: u64, end: u64) -> Result<(), DmuError> {
        let block = start / u64::from(self.block_bytes_in(tx));
        if start >= end || self.block_in(tx, block).await?.is_none() {
            return Ok(());
        }
        self.write(tx, start, &vec![0; (end - start) as usize]).await
    }

    /// The first byte at or after `offset` that is data, or in a hole, within the blocks
    /// ever written; `None` when there is none.
    ///
    /// # Errors
    /// When an indirect block cannot be read.
    #[boxed]
    pub async fn seek(&self, offset: u64, to: SeekTo) -> Result<Option<u64>, DmuError> {
        let block_bytes = u64::from(self.block_bytes());
        let blocks = self.max_block().get() + 1;
        let mut block = offset / block_bytes;
        while block < blocks {
            let (found, next) = self.seek_in_run(block, blocks, to).await?;
            if let Some(found) = found {
                return Ok(Some(offset.max(found * block_bytes)));
            }
            block = next;
        }
        Ok(None)
    }

    /// The same among blocks that memory says one thing of, from `block` on; where not, the first block
    /// after those.
    async fn seek_in_run(&self, block: u64, end: u64, to: SeekTo) -> Result<(Option<u64>, u64), DmuError> {
        let (found, known) = self.state.lock().find_run(block);
        let next = known.min(end);
        let is_data = match found {
            Found::Data(_) | Found::Shared(_) => true,
            Found::Hole => false,
            Found::OnDisk { .. } => return Ok((self.synced_seek(block, next, to.into()).await?, next)),
        };
        Ok(((is_data == (to == SeekTo::Data)).then_some(block), next))
    }

    /// The block pointer of a block as the last synced txg left it: for tools and tests.
    ///
    /// # Errors
    /// When an indirect block cannot be read.
    #[boxed]
    pub async fn synced_blkptr(&self, block: BlockId) -> Result<Blkptr, DmuError> {
        let mut tree = self.synced_tree();
        loop {
            let (shape, roots) = &tree;
            let failed = match self.stored(*shape, roots).block(block.get()).await {
                Err(error @ DmuError::Io { .. }) => error,
                done => return done,
            };
            // As in `block_if_data`: the tree may have moved on.
            let seen = std::mem::replace(&mut tree, self.synced_tree());
            if tree.1 == seen.1 {
                return Err(failed);
            }
        }
    }

    /// The first block from `from` to `end` that is `wanted`, as of the last synced txg. That tree may
    /// move on under a slow reader, and what it pointed to be used again: then it is looked at once
    /// more from the top.
    pub(crate) async fn synced_seek(
        &self,
        from: u64,
        end: u64,
        wanted: Wanted,
    ) -> Result<Option<u64>, DmuError> {
        match self.try_synced_seek(from, end, wanted).await {
            Err(DmuError::Io { .. }) => self.try_synced_seek(from, end, wanted).await,
            other => other,
        }
    }

    async fn try_synced_seek(&self, from: u64, end: u64, wanted: Wanted) -> Result<Option<u64>, DmuError> {
        let (shape, roots) = self.synced_tree();
        self.stored(shape, &roots).seek(from, end, wanted).await
    }

    /// The last block at `level` (or the highest that there is) that covers anything below data block
    /// `end`, as of the last synced txg: its height, its number there, and what it says lies below it.
    pub(crate) async fn last_synced_below(&self, end: u64, level: u8) -> Result<Option<Covered>, DmuError> {
        match self.try_last_synced_below(end, level).await {
            Err(DmuError::Io { .. }) => self.try_last_synced_below(end, level).await,
            other => other,
        }
    }

    async fn try_last_synced_below(&self, end: u64, level: u8) -> Result<Option<Covered>, DmuError> {
        let (shape, roots) = self.synced_tree();
        let level = level.min(shape.levels - 1);
        let end = end.min(self.state.lock().synced.max_block_id.get().saturating_add(1));
        let last = self.stored(shape, &roots).last_below(end, level).await?;
        Ok(last.map(|(index, bp)| Covered {
            level,
            start: shape.covered(level, index).start,
            fill: bp.fill(),
        }))
    }

    /// Its tree as of the last synced txg: shape and roots.
    fn synced_tree(&self) -> (Shape, Vec<Blkptr>) {
        let state = self.state.lock();
        (shape_of(&state.synced), state.synced.blkptrs.clone())
    }

    pub(crate) fn strong(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }
}
