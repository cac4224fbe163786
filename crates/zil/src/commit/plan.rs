//! Which record goes into which block.
//!
//! The first block's size was fixed when its predecessor was written; those that follow are as
//! large as what is put into them. A write is split where a block ends, unless little room is
//! left there; other records stay whole.

use ondisk::zil::{ZIL_CHAIN_BYTES, ZIL_MIN_BLOCK_BYTES};
use units::{SECTOR_BYTES, round_up};

/// Largest log block, in bytes: what every version of the format reads.
pub const BLOCK_BYTES_MAX: u32 = 128 << 10;
/// Smallest log block, in bytes.
pub const BLOCK_BYTES_MIN: u32 = ZIL_MIN_BLOCK_BYTES as u32;
/// A chain's first block, in bytes: what is not used of it is not written.
pub const FIRST_BLOCK_BYTES: u32 = 32 << 10;
/// Header of a write record, in bytes.
pub const WRITE_HEAD_BYTES: u64 = 192;
/// Most bytes of records that one block holds.
pub const RECORD_BYTES_MAX: u64 = BLOCK_BYTES_MAX as u64 - ZIL_CHAIN_BYTES as u64;
/// A write is split only where at least this much of it fits: what a second header is worth.
const SPLIT_BYTES_MIN: u64 = 1024;

/// What the planner needs to know of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// So many bytes (a multiple of 8) in one block.
    Whole(u64),
    /// A write's data from one offset to another, which may be split; the write begins at `base` in
    /// its file.
    Splittable { base: u64, from: u64, to: u64 },
}

/// A record, or a piece of a write, in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index of the record.
    pub record: usize,
    /// Where in the write's data the piece begins.
    pub from: u64,
    /// Bytes of data; zero unless the record is splittable.
    pub data: u64,
    /// Bytes in the block.
    pub bytes: u64,
    /// Nothing of the record is left after this piece.
    pub is_last: bool,
}

/// What goes into one block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockPlan {
    pub pieces: Vec<Piece>,
    /// Bytes of records.
    pub used: u64,
}

impl BlockPlan {
    /// Bytes to write: chain structure and records, in whole units of 4 KiB.
    pub const fn block_bytes(&self) -> u32 {
        round_up(self.used + ZIL_CHAIN_BYTES as u64, ZIL_MIN_BLOCK_BYTES) as u32
    }

    fn push(&mut self, piece: Piece) {
        self.used += piece.bytes;
        self.pieces.push(piece);
    }
}

/// Lays `shapes` out, the first block holding at most `first_room` bytes of records. At least one
/// block results, the first possibly empty.
///
/// # Panics
/// When a whole record is larger than [`RECORD_BYTES_MAX`]: the caller sorts those out.
pub fn plan(shapes: &[Shape], first_room: u64) -> Vec<BlockPlan> {
    let mut blocks = vec![BlockPlan::default()];
    let mut room = first_room;
    for (record, shape) in shapes.iter().enumerate() {
        match *shape {
            Shape::Whole(bytes) => {
                assert!(bytes <= RECORD_BYTES_MAX, "a record of {bytes} bytes fits no block");
                open_if(bytes > room, &mut blocks, &mut room);
                put(&mut blocks, &mut room, Piece { record, from: 0, data: 0, bytes, is_last: true });
            }
            Shape::Splittable { base, mut from, to } => {
                while from < to {
                    let left = to - from;
                    let data = data_that_fits(base + from, left, room);
                    open_if(data == 0, &mut blocks, &mut room);
                    let data = if data == 0 { data_that_fits(base + from, left, room) } else { data };
                    let bytes = WRITE_HEAD_BYTES + round_up(data, 8);
                    let is_last = data == left;
                    put(&mut blocks, &mut room, Piece { record, from, data, bytes, is_last });
                    from += data;
                }
            }
        }
    }
    blocks
}

/// How much of `left` bytes of data, from `offset` of the file on, goes into `room`: all, a good part,
/// or none. A part ends where a sector of the file does: after a crash, the first part of a write
/// may be there and the second not, and programs take a sector for what is written wholly or not at all.
fn data_that_fits(offset: u64, left: u64, room: u64) -> u64 {
    let fits = room.saturating_sub(WRITE_HEAD_BYTES) & !7;
    if left <= fits {
        return left;
    }
    let whole = fits.saturating_sub((offset + fits) % SECTOR_BYTES);
    if whole >= SPLIT_BYTES_MIN { whole } else { 0 }
}

fn open_if(full: bool, blocks: &mut Vec<BlockPlan>, room: &mut u64) {
    if full {
        blocks.push(BlockPlan::default());
        *room = RECORD_BYTES_MAX;
    }
}

fn put(blocks: &mut [BlockPlan], room: &mut u64, piece: Piece) {
    *room -= piece.bytes;
    blocks.last_mut().expect("a plan has a block").push(piece);
}

/// Sizes of recent batches: what the next block, allocated before anybody knows what will be in
/// it, should hold.
#[derive(Clone, Copy, Debug, Default)]
pub struct SizeHistory {
    recent: [u32; Self::DEPTH],
    next: usize,
}

impl SizeHistory {
    const DEPTH: usize = 8;

    /// A batch took `bytes` in all its blocks.
    pub fn note(&mut self, bytes: u64) {
        self.recent[self.next] = u32::try_from(bytes).unwrap_or(u32::MAX).min(BLOCK_BYTES_MAX);
        self.next = (self.next + 1) % Self::DEPTH;
    }

    /// Bytes of the next block.
    ///
    /// Where a cache has to be flushed, the largest of the last few: a batch that needs a second block is written and
    /// then flushed, where a lone block is stable in one step. Where nothing has to be flushed a second block costs
    /// next to nothing, and room that is not used does: a disk that turns has to pass over it. There it is so small
    /// that three of four batches fill it. `needs_flush` is asked only where that makes a difference.
    pub fn expected(&self, needs_flush: impl FnOnce() -> bool) -> u32 {
        let mut sizes = self.recent;
        sizes.sort_unstable();
        let (few, most) = (sizes[Self::DEPTH / 4 - 1], sizes[Self::DEPTH - 1]);
        let expected = if few == most || needs_flush() { most } else { few };
        expected.max(BLOCK_BYTES_MIN)
    }
}

#[cfg(test)]
mod tests;
