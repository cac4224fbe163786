//! The block tree of one object, read in spite of damage.
//!
//! A run extends as far as the pointer that determines it: a hole or an unreadable indirect block
//! covers all data blocks below it. Indirect blocks stay in the cache, so reading block by block
//! costs no additional I/O. The level decreases with each step, so a pointer to itself cannot loop.

use std::ops::Range;

use ondisk::{BLKPTR_BYTES, BLKPTR_SHIFT, Blkptr, DnodeImage};
use units::{BlockId, Level, ObjectId, ObjsetId};
use zio::{Bookmark, Keep, Zio};

/// A data block, or a run of data blocks that are all holes or all lost.
#[derive(Clone, Debug, PartialEq)]
pub enum TreeRun {
    /// One data block.
    Data(Blkptr),
    /// There are only holes before block `end`.
    Hole {
        /// The first block after the hole.
        end: u64,
    },
    /// The pointers to all blocks before `end` cannot be read.
    Lost {
        /// The first block after the lost blocks.
        end: u64,
        /// The reason.
        why: String,
    },
}

/// The block tree of a dnode.
#[derive(Clone, Copy)]
pub struct BlockTree<'a> {
    zio: &'a Zio,
    objset: ObjsetId,
    object: ObjectId,
    image: &'a DnodeImage,
}

impl<'a> BlockTree<'a> {
    /// The tree of `object` in `objset`, whose dnode is `image`.
    #[must_use]
    pub fn new(zio: &'a Zio, objset: ObjsetId, object: ObjectId, image: &'a DnodeImage) -> Self {
        Self { zio, objset, object, image }
    }

    /// Returns the pool's block layer.
    #[must_use]
    pub fn zio(&self) -> &'a Zio {
        self.zio
    }

    /// Returns the size of a data block in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.image.data_block_bytes()
    }

    /// Returns the number of data blocks, including holes.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.image.max_block_id.get().saturating_add(1)
    }

    /// Returns the bookmark of a block of this object.
    #[must_use]
    pub fn bookmark(&self, level: u8, block: u64) -> Bookmark {
        Bookmark {
            objset: self.objset,
            object: self.object,
            level: Level::new(level),
            block: BlockId::new(block),
        }
    }

    /// Returns the run at data block `block`. `None` after the last block.
    pub async fn run_at(&self, block: u64) -> Option<TreeRun> {
        if block >= self.blocks() {
            return None;
        }
        let fan_shift = u32::from(self.image.indirect_shift).saturating_sub(BLKPTR_SHIFT);
        let mut level = self.image.levels.saturating_sub(1);
        let root = usize::try_from(index_at(block, fan_shift, level)).ok();
        let Some(mut bp) = root.and_then(|root| self.image.blkptrs.get(root)).copied() else {
            let why = "the dnode has no pointer for the block".to_owned();
            return Some(TreeRun::Lost { end: self.blocks(), why });
        };
        loop {
            let covered = covered(block, fan_shift, level);
            if bp.is_hole() {
                return Some(TreeRun::Hole { end: covered.end.min(self.blocks()) });
            }
            if level == 0 {
                return Some(TreeRun::Data(bp));
            }
            let name = self.bookmark(level, index_at(block, fan_shift, level));
            let slot = index_at(block, fan_shift, level - 1) & ((1 << fan_shift) - 1);
            match self.pointer(&bp, &name, slot).await {
                Ok(below) => bp = below,
                Err(why) => return Some(TreeRun::Lost { end: covered.end.min(self.blocks()), why }),
            }
            level -= 1;
        }
    }

    /// Returns pointer `slot` of the indirect block under `bp`.
    async fn pointer(&self, bp: &Blkptr, name: &Bookmark, slot: u64) -> Result<Blkptr, String> {
        let read = self.zio.read_as(bp, name, Keep::InMemory).await;
        let bytes = read.map_err(|error| chain(&error))?;
        let start = usize::try_from(slot).unwrap_or(usize::MAX).saturating_mul(BLKPTR_BYTES);
        let pointer = bytes.get(start..).and_then(|rest| Blkptr::decode(rest).ok());
        pointer.ok_or_else(|| "an indirect block that is too short".to_owned())
    }

    /// Returns the contents of a data block with metadata.
    ///
    /// # Errors
    /// The reason why the block cannot be read.
    pub async fn read(&self, block: u64, bp: &Blkptr) -> Result<std::sync::Arc<env::IoBuf>, String> {
        let read = self.zio.read_as(bp, &self.bookmark(0, block), Keep::InMemory).await;
        read.map_err(|error| chain(&error))
    }
}

/// Formats an error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text = format!("{text}: {error}");
        next = error.source();
    }
    text
}

/// Returns the index at `level` of the block above data block `block`.
fn index_at(block: u64, fan_shift: u32, level: u8) -> u64 {
    block.checked_shr(fan_shift.saturating_mul(level.into())).unwrap_or(0)
}

/// Returns the range of data blocks below the block at `level` above `block`.
fn covered(block: u64, fan_shift: u32, level: u8) -> Range<u64> {
    let shift = fan_shift.saturating_mul(level.into());
    let Some(index) = block.checked_shr(shift) else { return 0..u64::MAX };
    let start = index << shift;
    let end = 1_u64.checked_shl(shift).and_then(|len| start.checked_add(len)).unwrap_or(u64::MAX);
    start..end
}

#[cfg(test)]
mod tests {
    use super::{covered, index_at};

    #[test]
    fn a_pointer_covers_all_blocks_below_it() {
        assert_eq!(covered(5, 10, 0), 5..6);
        assert_eq!(covered(1025, 10, 1), 1024..2048);
        assert_eq!(covered(u64::MAX, 10, 2).end, u64::MAX);
        assert_eq!(covered(7, 10, 11), 0..u64::MAX);
        assert_eq!((index_at(1025, 10, 1), index_at(1025, 10, 9)), (1, 0));
    }
}
