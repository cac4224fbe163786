//! Which objects may differ between a snapshot and what came after it: those whose blocks of dnodes were written since.
//!
//! ```text
//!   meta-dnode ─► block of pointers ─► block of dnodes     older than the snapshot: passed over, with all below it
//!                      │                    └─► each object in it, in use or free
//!                      └─► hole, made since: all that could be below it is free
//! ```

use std::ops::RangeInclusive;

use env::{BoxFuture, boxed};
use ondisk::Blkptr;
use ondisk::dnode::{DNODE_SLOT_BYTES, dnodes_of_block};
use units::{BlockId, Txg};
use zio::Keep;

use crate::dnode::shape_of;
use crate::objset::SLOTS_PER_BLOCK;
use crate::shape::Shape;
use crate::tree::{pointer_at, read_indirect};
use crate::{DmuError, Objset};

/// Objects in a row that may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedObjects {
    /// Their numbers.
    pub objects: RangeInclusive<u64>,
    /// They are in use; else there are none by these numbers any more.
    pub in_use: bool,
}

impl Objset {
    /// Objects that may have changed after `since`, by their numbers, as of the last synced txg.
    ///
    /// # Errors
    /// When a block of dnodes, or what leads to it, cannot be read.
    #[boxed]
    pub async fn changed_since(&self, since: Txg) -> Result<Vec<ChangedObjects>, DmuError> {
        let image = self.meta().synced_image();
        let mut search = Search { objset: self, shape: shape_of(&image), since, found: Vec::new() };
        for (index, bp) in image.blkptrs.iter().enumerate() {
            search.below(search.shape.levels - 1, index as u64, *bp).await?;
        }
        Ok(search.found)
    }
}

struct Search<'a> {
    objset: &'a Objset,
    shape: Shape,
    since: Txg,
    found: Vec<ChangedObjects>,
}

impl Search<'_> {
    fn below(&mut self, level: u8, index: u64, bp: Blkptr) -> BoxFuture<'_, Result<(), DmuError>> {
        Box::pin(async move {
            if bp.birth() <= self.since {
                return Ok(());
            }
            if bp.is_hole() {
                let blocks = self.shape.covered(level, index);
                let first = blocks.start.saturating_mul(SLOTS_PER_BLOCK);
                let end = blocks.end.saturating_mul(SLOTS_PER_BLOCK);
                self.note(first..=end.saturating_sub(1), false);
                return Ok(());
            }
            if level == 0 {
                return self.block(index).await;
            }
            let (meta, zio) = (self.objset.meta(), self.objset.zio());
            let block =
                read_indirect(zio, meta.name(), Keep::InMemory, self.shape, level, index, &bp).await?;
            let first = index << self.shape.fan_shift();
            for slot in 0..self.shape.fan_out() {
                let damaged = || meta.name().damaged("short indirect block");
                let below = pointer_at(&block, slot).ok_or_else(damaged)?;
                self.below(level - 1, first + slot as u64, below).await?;
            }
            Ok(())
        })
    }

    async fn block(&mut self, block: u64) -> Result<(), DmuError> {
        let data = self.objset.meta().read_block(BlockId::new(block)).await?;
        let first = block * SLOTS_PER_BLOCK;
        let mut next = 0;
        for (slot, bytes) in dnodes_of_block(&data) {
            (next..slot).for_each(|free| self.note_one(first + free as u64, false));
            self.note_one(first + slot as u64, true);
            next = slot + bytes.len() / DNODE_SLOT_BYTES;
        }
        (next as u64..SLOTS_PER_BLOCK).for_each(|free| self.note_one(first + free, false));
        Ok(())
    }

    fn note_one(&mut self, object: u64, in_use: bool) {
        self.note(object..=object, in_use);
    }

    fn note(&mut self, objects: RangeInclusive<u64>, in_use: bool) {
        match self.found.last_mut() {
            Some(last)
                if last.in_use == in_use && last.objects.end().checked_add(1) == Some(*objects.start()) =>
            {
                last.objects = *last.objects.start()..=*objects.end();
            }
            _ => self.found.push(ChangedObjects { objects, in_use }),
        }
    }
}
