//! A block that no copy is left of, put right with bytes that somebody else has.
//!
//! The bytes go to the places that the block has already, so that whatever refers to it stays as it is. They are only taken if
//! the block's pointer vouches for them. Who mends has to know that the block is alive, and to keep it so, as for a scrub.

use std::sync::Arc;

use env::{BufSlice, Durability, IoBuf, boxed};
use ondisk::Blkptr;
use vdev::Address;

use crate::stats::one_more;
use crate::{Bookmark, Zio, ZioError};

impl Zio {
    /// Whether these are the bytes of a block as it is stored: `bp.psize()` of them, compressed as it says.
    ///
    /// # Errors
    /// When the pointer makes no sense.
    pub fn is_block(&self, bp: &Blkptr, bookmark: &Bookmark, stored: &[u8]) -> Result<bool, ZioError> {
        let is_plain = !bp.is_hole() && !bp.is_embedded() && !bp.is_gang();
        let is_whole = is_plain && stored.len() as u64 == bp.psize().get();
        Ok(is_whole && self.check_of(bp, bookmark)?.holds(stored))
    }

    /// Writes a block's bytes, which [`Self::is_block`] knows, over all its copies.
    ///
    /// # Errors
    /// [`ZioError::Checksum`] when they are not that block's; [`ZioError::Write`], in the txg that it was written in, when a
    /// copy cannot be.
    #[boxed]
    pub async fn mend(&self, bp: &Blkptr, bookmark: &Bookmark, stored: IoBuf) -> Result<(), ZioError> {
        if !self.is_block(bp, bookmark, &stored)? {
            return Err(ZioError::Checksum { bookmark: *bookmark });
        }
        let stored = Arc::new(stored);
        for dva in bp.dvas() {
            let at = Address::of(&dva, bp.physical_birth());
            let slices = vec![BufSlice::from(Arc::clone(&stored))];
            let written = self.vdevs.write(at, slices, Durability::Cached).await;
            let failed = |source| ZioError::Write { bookmark: *bookmark, txg: bp.physical_birth(), source };
            written.map_err(failed)?;
            self.note_unflushed(dva.vdev);
            one_more(&self.counters.repaired_copies);
        }
        Ok(())
    }
}
