//! Giving back room.

use env::boxed;
use futures::future::join_all;
use units::VdevOffset;

use crate::{Top, VdevError};

impl Top {
    /// Says that nobody wants these bytes any more: each leaf's share of them is discarded where
    /// the device can do so.
    ///
    /// # Errors
    /// One leaf's that could not, after all have been tried.
    #[boxed]
    pub async fn discard(&self, offset: VdevOffset, len: u64) -> Result<(), VdevError> {
        let mut shares = Vec::new();
        for leaf in self.leaves().iter().filter(|leaf| leaf.is_usable()) {
            shares.extend(self.share_of(leaf, offset, len)?.map(|share| (leaf, share)));
        }
        let discards = join_all(shares.into_iter().map(|(leaf, share)| leaf.discard(share.start, share.len)));
        discards.await.into_iter().collect()
    }
}
