//! Which bytes of a leaf are those of a stretch of its vdev.
//!
//! ```text
//!   mirror      all of it, on each leaf                      raidz of 3, sectors 4 to 11
//!                                                             child   0   1   2
//!   raidz       sector n is sector n / width of                       0   1   2
//!               child n % width, whatever is parity                   3  [4   5]     leaf of child 0: rows 2 and 3
//!                                                                    [6   7   8]     leaf of child 1: rows 1 to 3
//!                                                                    [9  10  11]
//! ```
//! A raidz that was widened has all its blocks in rows of its width by now.
//! (tests: `the_shares_of_all_leaves_are_the_stretch`, `a_share_leads_back_to_where_it_begins`)

use std::sync::Arc;

use units::{LeafOffset, VdevOffset};

use crate::leaf::block_on_leaf;
use crate::{Leaf, NodeKind, Top, VdevError};

#[cfg(test)]
mod tests;

/// Bytes of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Where they begin on the device.
    pub start: LeafOffset,
    /// How many.
    pub len: u64,
}

/// How sectors are dealt to one leaf: it has those whose number is `child` in rows of `width`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Deal {
    child: u64,
    width: u64,
}

impl Top {
    /// What of `len` bytes from `offset` lies on a leaf; nothing where it cannot be told: of a draid, and of a vdev that is gone.
    ///
    /// # Errors
    /// [`VdevError::OutOfRange`] past the end of the vdev.
    pub fn share_of(
        &self,
        leaf: &Arc<Leaf>,
        offset: VdevOffset,
        len: u64,
    ) -> Result<Option<Share>, VdevError> {
        let out_of_range = || VdevError::OutOfRange { vdev: self.id(), offset, len };
        let end = offset.get().checked_add(len).ok_or_else(out_of_range)?;
        let Some(deal) = self.deal(leaf) else { return Ok(None) };
        let (first, past) = (self.row(deal, offset.get()), self.row(deal, end));
        let share = (past - first) << self.ashift().get();
        if share == 0 {
            return Ok(None);
        }
        let at = VdevOffset::new(first << self.ashift().get());
        let start = block_on_leaf(self.id(), at, share, self.asize_of_leaf())?;
        Ok(Some(Share { start, len: share }))
    }

    /// Whether it can be told what of the vdev lies on which leaf.
    #[must_use]
    pub fn has_shares(&self) -> bool {
        !matches!(self.kind(), NodeKind::Hole | NodeKind::Indirect | NodeKind::Draid(_))
    }

    /// From where on bytes of the vdev lie at `at` on a leaf, or behind it.
    #[must_use]
    pub fn offset_from(&self, leaf: &Arc<Leaf>, at: LeafOffset) -> VdevOffset {
        let own = at.get().saturating_sub(units::LABEL_START_BYTES);
        match self.deal(leaf) {
            Some(Deal { width: 1, .. }) | None => VdevOffset::new(own),
            Some(deal) => {
                let shift = self.ashift().get();
                let sector = (own >> shift).saturating_mul(deal.width).saturating_add(deal.child);
                VdevOffset::new(sector.saturating_mul(1 << shift))
            }
        }
    }

    /// How many of a leaf's sectors come before a byte of the vdev.
    fn row(&self, deal: Deal, at: u64) -> u64 {
        (at >> self.ashift().get()).saturating_sub(deal.child).div_ceil(deal.width)
    }

    fn deal(&self, leaf: &Arc<Leaf>) -> Option<Deal> {
        if !self.has_shares() {
            return None;
        }
        if self.kind().holds_copies() {
            let is_own = self.leaves().iter().any(|own| Arc::ptr_eq(own, leaf));
            return is_own.then_some(Deal { child: 0, width: 1 });
        }
        let children = self.node().children().len();
        let has = |child: &usize| self.copies_of(*child).iter().any(|own| Arc::ptr_eq(own, leaf));
        let child = (0..children).find(has)?;
        Some(Deal { child: child as u64, width: children as u64 })
    }
}
