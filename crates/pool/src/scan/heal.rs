//! Repairing blocks of which a read found a bad copy.
//!
//! A reader may hold a blkptr longer than its block lives, and must not write to where it leads. So
//! reads only note the block ([`zio::Zio::take_damaged`]), and the next txg, before it changes
//! anything, looks whether the block is still the one of that name. If it is, its places are its own
//! until that txg has synced, and the good copy is written over the bad ones.
//! (test: `a_bad_copy_that_a_read_met_is_repaired_with_the_next_group`)

use std::sync::Arc;

use dmu::Objset;
use units::ObjsetId;
use zio::Damaged;

use crate::Pool;

impl Pool {
    /// Repairs what reads found since the last txg. What cannot be repaired now will be found
    /// again.
    pub(crate) async fn heal(&self) {
        self.gather_errors().await;
        for damaged in self.zio.take_damaged() {
            if !self.is_alive(&damaged).await {
                continue;
            }
            match self.zio.scrub(&damaged.bp, &damaged.bookmark).await {
                Ok(found) => {
                    tracing::info!(block = %damaged.bookmark, copies = found.bad_copies, "repaired");
                }
                Err(error) => tracing::warn!(block = %damaged.bookmark, %error, "not repaired"),
            }
        }
    }

    async fn is_alive(&self, damaged: &Damaged) -> bool {
        let Some(objset) = self.objset_in_use(damaged.bookmark.objset) else { return false };
        objset.is_alive(&damaged.bookmark, &damaged.bp).await.unwrap_or(false)
    }

    pub(crate) fn objset_in_use(&self, id: ObjsetId) -> Option<Arc<Objset>> {
        if id == ObjsetId::MOS {
            return Some(Arc::clone(&self.mos));
        }
        self.datasets.read().get(&id).map(|dataset| Arc::clone(&dataset.objset))
    }
}
