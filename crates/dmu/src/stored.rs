//! An object's tree as the last synced txg left it: finding blocks by their pointers alone.
//!
//! ```text
//!            roots                 wanted: data        a hole ends the way down, and is passed whole
//!          /   │   \               wanted: a hole      so does a pointer whose fill says that all is data
//!       I2    hole   I2            wanted: few dnodes  so does one whose fill says that most are taken
//!      / \          / \
//!    I1  hole    hole  I1   ─► what is not allocated costs nothing, whatever its size
//! ```
//! Every indirect block's pointer counts what lies below it (`blk_fill`: blocks of data; objects, where
//! the data are dnodes).
//!
//! Invariants
//! - Levels strictly fall on the way down: a pointer cycle in a hostile image ends.
//! - What a search costs follows the blocks that there are, and not the object's size.
//!   (test: `a_hole_of_any_size_costs_no_more_than_what_is_beside_it`)

use std::sync::Arc;

use env::{IoBuf, boxed};
use ondisk::Blkptr;
use units::ObjectId;
use zio::{Keep, Zio};

use crate::DmuError;
use crate::objset::SLOTS_PER_BLOCK;
use crate::shape::Shape;
use crate::tree::{TreeName, pointer_at, read_indirect};

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct StoredTree<'a> {
    pub zio: &'a Zio,
    pub name: TreeName,
    /// Whether indirect blocks that are read stay in the cache.
    pub keep: Keep,
    pub shape: Shape,
    pub roots: &'a [Blkptr],
}

/// What a search is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    Data,
    Hole,
    /// A block that counts so much at most, or none: of dnodes, one with free slots.
    Sparse {
        fill: u64,
    },
}

impl Wanted {
    /// Whether a block with room for `blocks` of data below it, each of which counts for `full` at most,
    /// is passed whole.
    fn passes(self, bp: &Blkptr, blocks: u64, full: u64) -> bool {
        match self {
            Self::Data => false,
            Self::Hole => bp.fill() >= full.saturating_mul(blocks),
            Self::Sparse { fill } => bp.fill() > fill.saturating_mul(blocks),
        }
    }

    fn is(self, level: u8, bp: &Blkptr) -> bool {
        match self {
            Self::Data => level == 0 && !bp.is_hole(),
            Self::Hole => bp.is_hole(),
            Self::Sparse { fill } => bp.is_hole() || level == 0 && bp.fill() <= fill,
        }
    }
}

impl StoredTree<'_> {
    /// The pointer to data block `block`, a hole if there is none.
    #[boxed]
    pub async fn block(&self, block: u64) -> Result<Blkptr, DmuError> {
        self.pointer(0, block).await
    }

    /// The pointer to the block at level `down_to` that covers data block `block`.
    #[boxed]
    pub async fn pointer(&self, down_to: u8, block: u64) -> Result<Blkptr, DmuError> {
        let spot = self.descend(block, |level, _| level == down_to).await?;
        Ok(if spot.level == down_to { spot.bp } else { Blkptr::default() })
    }

    /// Goes down towards data block `block`, until a hole, a data block, or what `is_enough`.
    async fn descend(&self, block: u64, is_enough: impl Fn(u8, &Blkptr) -> bool) -> Result<Spot, DmuError> {
        let (shape, level) = (self.shape, self.shape.levels - 1);
        let index = shape.index_at(level, block);
        let mut spot = Spot { level, index, bp: self.root(index).unwrap_or_default(), around: None };
        while spot.level > 0 && !spot.bp.is_hole() && !is_enough(spot.level, &spot.bp) {
            let data = read_indirect(self.zio, self.name, self.keep, shape, spot.level, spot.index, &spot.bp)
                .await?;
            let level = spot.level - 1;
            let index = shape.index_at(level, block);
            let bp = pointer_at(&data, self.slot(index))
                .ok_or_else(|| self.name.damaged("short indirect block"))?;
            spot = Spot { level, index, bp, around: Some(data) };
        }
        Ok(spot)
    }

    fn root(&self, index: u64) -> Option<Blkptr> {
        usize::try_from(index).ok().and_then(|index| self.roots.get(index)).copied()
    }

    fn slot(&self, index: u64) -> usize {
        (index as usize) & (self.shape.fan_out() - 1)
    }

    /// The next pointer in the same block.
    fn after(&self, spot: &Spot) -> Option<Blkptr> {
        let next = spot.index + 1;
        match &spot.around {
            None => self.root(next),
            Some(_) if self.slot(next) == 0 => None,
            Some(data) => pointer_at(data, self.slot(next)),
        }
    }

    /// The pointer before it in the same block.
    fn before(&self, spot: &Spot) -> Option<Blkptr> {
        let before = spot.index.checked_sub(1)?;
        match &spot.around {
            None => self.root(before),
            Some(_) if self.slot(spot.index) == 0 => None,
            Some(data) => pointer_at(data, self.slot(before)),
        }
    }

    /// The first data block at or after `from`, below `end`, that is `wanted`.
    #[boxed]
    pub async fn seek(&self, from: u64, end: u64, wanted: Wanted) -> Result<Option<u64>, DmuError> {
        let full = if self.name.object == ObjectId::META_DNODE { SLOTS_PER_BLOCK } else { 1 };
        let is_passed = |level: u8, bp: &Blkptr| {
            bp.is_hole() || level == 0 || wanted.passes(bp, self.shape.blocks_below(level), full)
        };
        let mut at = from;
        while at < end {
            let mut spot = self.descend(at, is_passed).await?;
            while at < end && is_passed(spot.level, &spot.bp) {
                if wanted.is(spot.level, &spot.bp) {
                    return Ok(Some(at));
                }
                at = self.shape.covered(spot.level, spot.index).end;
                let Some(bp) = self.after(&spot) else { break };
                spot = Spot { index: spot.index + 1, bp, ..spot };
            }
        }
        Ok(None)
    }

    /// The last block at level `down_to` that covers anything below data block `end`: its number at that
    /// level, and the pointer to it.
    #[boxed]
    pub async fn last_below(&self, end: u64, down_to: u8) -> Result<Option<(u64, Blkptr)>, DmuError> {
        let mut end = end.min(self.shape.capacity());
        while end > 0 {
            let mut spot = self.descend(end - 1, |level, _| level <= down_to).await?;
            while spot.bp.is_hole() {
                end = self.shape.covered(spot.level, spot.index).start;
                let Some(bp) = self.before(&spot) else { break };
                spot = Spot { index: spot.index - 1, bp, ..spot };
            }
            if !spot.bp.is_hole() && spot.level <= down_to {
                return Ok(Some((spot.index, spot.bp)));
            }
        }
        Ok(None)
    }
}

/// Where a way down ended: a pointer, and the block of pointers that it stands in, if not in the dnode.
struct Spot {
    level: u8,
    index: u64,
    bp: Blkptr,
    around: Option<Arc<IoBuf>>,
}
