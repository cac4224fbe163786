//! Telling devices which room nobody needs: the property `autotrim`.
//!
//! ```text
//!   freed in txg T-2 ─► rests ─► discarded while T is written ─► T is stable: free again
//! ```
//! What rests cannot be allocated before T is stable, and no uberblock from T-2 on leads to it: so
//! it can be discarded without a lock, beside the writing of T, and a crash at any point leaves
//! the last two txgs whole (tests: `the_txgs_before_the_last_are_whole_in_every_image`,
//! `a_planted_early_discard_is_found`). Small pieces are not worth a command; a later free nearby does not
//! bring them back either, which costs a device some room and nobody any data, until it is trimmed whole ([`crate::sweeps`]).
//!
//! A discard that fails is a hint not taken: it is noted in the program's log and forgotten.
//! (test: `with_autotrim_freed_room_goes_back_to_the_file_system`)

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use dsl::PropValue;
use env::{IoClass, in_class};
use futures::stream::{self, StreamExt};
use metaslab::Segment;
use sweep::{PIECE_MIN_BYTES, TrimCounters, TrimCounts, pieces};
use units::{Txg, VdevId, VdevOffset};

use crate::{Pool, PoolError};

/// The property's name.
pub(crate) const AUTOTRIM: &str = "autotrim";
/// Discards at the same time.
const AT_ONCE: usize = 4;

/// What trims came to since the pool was opened.
#[derive(Default)]
pub(crate) struct Trims {
    /// By `zpool trim`.
    pub(crate) asked: Arc<TrimCounters>,
    /// By the property.
    pub(crate) auto: TrimCounters,
}

impl Pool {
    /// Returns what `zpool trim` and `autotrim` have discarded since the pool was opened.
    #[must_use]
    pub fn trim_counts(&self) -> (TrimCounts, TrimCounts) {
        (self.trims.asked.counts(), self.trims.auto.counts())
    }

    /// Whether room that is freed is discarded.
    #[must_use]
    pub fn autotrim(&self) -> bool {
        self.autotrim.load(Relaxed)
    }

    /// Takes over what the pool says.
    pub(crate) async fn load_autotrim(&self) -> Result<(), PoolError> {
        self.note_autotrim(self.pool_props().await?.get(AUTOTRIM));
        Ok(())
    }

    /// Takes over a value of the property.
    pub(crate) fn note_autotrim(&self, value: Option<&PropValue>) {
        self.autotrim.store(value.and_then(PropValue::number) == Some(1), Relaxed);
    }

    /// Discards what is free again once `txg` is stable.
    pub(crate) async fn trim(&self, txg: Txg) {
        if !self.autotrim() {
            return;
        }
        let rested = self.zio.with_allocator(|allocator| allocator.rested_by(txg));
        let cut = |(vdev, run): (VdevId, Segment)| {
            if run.len() < PIECE_MIN_BYTES {
                self.trims.auto.skipped(run.len());
            }
            pieces(run).map(move |(start, len)| (vdev, start, len))
        };
        let pieces = rested.into_iter().flat_map(cut);
        let discards = stream::iter(pieces)
            .for_each_concurrent(AT_ONCE, |(vdev, start, len)| self.discard(vdev, start, len));
        in_class(IoClass::Scrub, discards).await;
    }

    async fn discard(&self, vdev: VdevId, start: u64, len: u64) {
        let done = self.vdevs.discard(vdev, VdevOffset::new(start), len).await;
        self.trims.auto.ended(len, done.is_ok());
        if let Err(error) = done {
            tracing::warn!(%vdev, start, len, %error, "room could not be discarded");
        }
    }
}
