//! Bytes on their way into an object: planned once, and shared with the log.

use std::ops::Range;
use std::sync::Arc;

use dmu::{DmuError, Dnode, Plan};
use env::{IoBuf, boxed};
use units::BlockId;

/// Bytes to write.
#[derive(Clone, Copy)]
pub struct Piece<'a> {
    /// Where in the object.
    pub offset: u64,
    /// The bytes.
    pub data: &'a [u8],
}

impl<'a> Piece<'a> {
    /// The first byte behind it.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }

    /// What of it lies in a range of the object that is within it.
    #[must_use]
    pub fn part(&self, range: Range<u64>) -> Piece<'a> {
        let (from, to) = (range.start - self.offset, range.end - self.offset);
        Piece { offset: range.start, data: &self.data[from as usize..to as usize] }
    }
}

/// What holds the bytes of a planned piece.
pub enum Stored {
    /// The buffers of its blocks, for it is just whole ones.
    Blocks(Vec<Arc<IoBuf>>),
    /// A copy.
    Copied(Arc<[u8]>),
}

impl Stored {
    /// Plans the bytes of an object. They are copied once, into buffers that the log can share.
    ///
    /// # Errors
    /// When a block that is written in part, or one above what is written, cannot be read.
    #[boxed]
    pub async fn plan(plan: &Plan, dnode: &Arc<Dnode>, piece: Piece<'_>) -> Result<Self, DmuError> {
        let block_bytes = dnode.block_bytes_in(plan) as usize;
        let is_whole =
            piece.data.len().is_multiple_of(block_bytes) && piece.offset.is_multiple_of(block_bytes as u64);
        if !is_whole {
            let bytes = Arc::from(piece.data);
            dnode.write_shared(plan, piece.offset, &bytes).await?;
            return Ok(Self::Copied(bytes));
        }
        let first = piece.offset / block_bytes as u64;
        let mut blocks = Vec::with_capacity(piece.data.len() / block_bytes);
        for (block, bytes) in (first..).zip(piece.data.chunks(block_bytes)) {
            let buf = Arc::new(IoBuf::copy_of(bytes));
            dnode.write_block(plan, BlockId::new(block), Arc::clone(&buf)).await?;
            blocks.push(buf);
        }
        Ok(Self::Blocks(blocks))
    }
}
