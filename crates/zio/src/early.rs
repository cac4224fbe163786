//! Blocks whose pointers are known before they are written: what an intent log needs, whose record
//! names a block of data while both are on their way.
//!
//! ```text
//!   data ─► pack ─┬─► it fits its pointer
//!                 └─► place ─► blkptr ─► copies written, each when its owner says
//! ```
//! Unlike [`Zio::write`] nothing is tried twice: no gang is made, and nothing goes elsewhere when a
//! vdev fails. Whoever asks has another way.
//! (test: `a_block_placed_early_reads_back_once_its_copies_are_written`)

use std::sync::Arc;

use env::{BufSlice, Durability, IoBuf, boxed};
use ondisk::{Blkptr, Dva};
use units::{SECTOR_BYTES, Txg};
use vdev::Address;

use crate::pack::Ready;
use crate::write::{Placing, parts_of};
use crate::{Bookmark, Keep, WritePolicy, Zio, ZioError};

/// A block as it will be stored.
pub enum PackedEarly {
    /// It lies in its pointer: there is nothing to write.
    Embedded(Blkptr),
    /// It needs places.
    Packed(Box<Unplaced>),
}

/// A packed block that has no places yet.
pub struct Unplaced {
    txg: Txg,
    bookmark: Bookmark,
    policy: WritePolicy,
    parts: ondisk::BlkptrParts,
    bytes: Arc<IoBuf>,
}

impl Unplaced {
    /// Bytes that it takes for all its copies, without parity.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.bytes.len() as u64 * u64::from(self.policy.copies)
    }
}

/// A block that has its places, allocated in its txg, and is not written.
#[derive(Clone)]
pub struct Placed {
    bookmark: Bookmark,
    bp: Blkptr,
    bytes: Arc<IoBuf>,
}

impl Placed {
    /// Its pointer.
    #[must_use]
    pub const fn bp(&self) -> &Blkptr {
        &self.bp
    }
}

impl Zio {
    /// Packs a block that is to be born in `txg`, here and now.
    ///
    /// # Errors
    /// [`ZioError::UnknownChecksum`].
    ///
    /// # Panics
    /// When `data` is not whole sectors, or the policy makes no sense.
    pub fn pack_early(
        &self,
        txg: Txg,
        bookmark: &Bookmark,
        data: &Arc<IoBuf>,
        policy: &WritePolicy,
    ) -> Result<PackedEarly, ZioError> {
        assert!(!data.is_empty() && (data.len() as u64).is_multiple_of(SECTOR_BYTES), "whole sectors");
        let ready = self.pack_job(txg, data, policy).run();
        let ready = ready.map_err(|source| ZioError::UnknownChecksum { bookmark: *bookmark, source })?;
        Ok(match ready {
            Ready::Embedded(bp) => PackedEarly::Embedded(bp),
            Ready::Packed(packed, checksum) => PackedEarly::Packed(Box::new(Unplaced {
                txg,
                bookmark: *bookmark,
                policy: *policy,
                parts: parts_of(txg, data.len(), policy, &packed, checksum),
                bytes: packed.bytes,
            })),
        })
    }

    /// Allocates places for all copies, on vdevs that nothing is wrong with; `None` when there are
    /// none for the whole block. The caller holds the block's txg open.
    pub fn place_early(&self, block: Box<Unplaced>) -> Option<Placed> {
        let Unplaced { txg, bookmark, policy, mut parts, bytes } = *block;
        if self.is_too_long(bytes.len() as u64) {
            return None;
        }
        let mut avoid = self.vdevs().unusable();
        avoid.extend(self.vdevs().doubtful());
        let job = Placing::new(self, txg, &bookmark, &policy, parts.psize);
        parts.dvas = self.allocate(&job, parts.psize, usize::from(policy.copies), &avoid).ok()?;
        Some(Placed { bookmark, bp: parts.to_blkptr(), bytes })
    }

    /// Writes one copy of a placed block.
    ///
    /// # Errors
    /// [`ZioError::Write`] when its vdev could not take it.
    #[boxed]
    pub async fn write_placed(
        &self,
        block: &Placed,
        place: Dva,
        durability: Durability,
    ) -> Result<(), ZioError> {
        let slices = vec![BufSlice::from(Arc::clone(&block.bytes))];
        let result = self.vdevs().write(Address::of(&place, block.bp.birth()), slices, durability).await;
        if durability == Durability::Cached {
            self.note_unflushed(place.vdev);
        }
        let (bookmark, txg) = (block.bookmark, block.bp.birth());
        result.map_err(|source| {
            self.note_failed_write(place, &source);
            ZioError::Write { bookmark, txg, source }
        })
    }

    /// Keeps in the cache what a placed block holds, now that it is somebody's.
    pub fn keep(&self, bp: &Blkptr, keep: Keep, data: &Arc<IoBuf>) {
        self.cache.insert(bp, keep, data, None);
    }
}
