//! Giving back room: what of a vdev's bytes lies where on its leaves.

use futures::future::join_all;
use units::VdevOffset;

use crate::leaf::block_on_leaf;
use crate::{NodeKind, Top, VdevError};

impl Top {
    /// Says that nobody wants these bytes any more: each leaf's share of them is discarded where
    /// the device can do so. Of a raidz, only rows that are covered whole are.
    ///
    /// # Errors
    /// One leaf's that could not, after all have been tried.
    pub async fn discard(&self, offset: VdevOffset, len: u64) -> Result<(), VdevError> {
        let Some((start, share)) = self.share_of_leaves(offset, len) else { return Ok(()) };
        let place = block_on_leaf(self.id(), start, share, self.config().asize)?;
        let usable = self.leaves().iter().filter(|leaf| leaf.is_usable());
        let discards = join_all(usable.map(|leaf| leaf.discard(place, share))).await;
        discards.into_iter().collect()
    }

    /// The part of every leaf that these bytes cover.
    fn share_of_leaves(&self, offset: VdevOffset, len: u64) -> Option<(VdevOffset, u64)> {
        let sector = 1_u64 << self.ashift().get();
        let row = match self.kind() {
            NodeKind::Hole | NodeKind::Indirect | NodeKind::Draid(_) => return None,
            kind if kind.holds_copies() => return Some((offset, len)),
            _ => self.spread().children() as u64 * sector,
        };
        let first = offset.get().div_ceil(row);
        let rows = (offset.get().checked_add(len)? / row).checked_sub(first).filter(|&rows| rows > 0)?;
        Some((VdevOffset::new(first * sector), rows * sector))
    }
}
