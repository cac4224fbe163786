//! What a txg has written and no flush has made stable yet.
//!
//! ```text
//!   written   place ─► what was written there last           written again if a device may have lost it
//!   readable  block ─► what it was written as or made of     read from here and not from the disk
//! ```
//! A flush that fails says that some of the writes before it may be lost, not which, and a device that was
//! away may come back without what it had in its cache. So what a txg writes is kept until the txg is
//! stable. A block's bytes are mostly in memory anyway: as the cache has them, or the change that they
//! came from: of file data that was compressed only that is kept, and compressed once more where it
//! has to be written again. Before the flush that the uberblock needs, everything is written again whose
//! vdev has had a device opened anew since (see [`vdev::Top::reopened`]), at its old place: nothing else
//! can be there before the txg is stable.
//!
//! A later pass of a sync writes over blocks of an earlier one, at their places, while readers still go by the
//! tree that the earlier pass has left. So what such a block holds is known here by the block, not by
//! the place, until the txg is stable: metadata from the moment at which it is written, so that nobody reads
//! a place that is being written; file data, which hardly ever is, when it is written over.
//!
//! Invariants
//! - A txg that met failing devices is complete once they work again.
//!   (test: `a_txg_whose_devices_fail_at_any_request_is_complete_once_they_work`, in `pool`)
//! - A block that was written over in its own txg can be read until that txg is stable.
//!   (tests: `a_block_written_over_in_its_own_txg_can_be_read_until_that_is_stable`,
//!   `datasets_made_while_groups_are_synced_are_read_rightly` in `pool`)

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use env::{BufSlice, Durability, IoBuf, boxed};
use futures::stream::{self, StreamExt, TryStreamExt};
use ondisk::{Blkptr, Dva};
use parking_lot::Mutex;
use units::{VdevId, VdevOffset};
use vdev::{Address, VdevError};

use crate::Zio;
use crate::cache::Key;
use crate::pack::{PackJob, Ready};

/// Blocks written again at a time.
const AT_ONCE: usize = 64;

type Place = (VdevId, VdevOffset);

/// The bytes of a block.
#[derive(Clone)]
pub(crate) enum Kept {
    /// As they are stored.
    Stored(Arc<IoBuf>),
    /// What they are made of, which is in memory anyway.
    Source(Arc<PackJob>),
}

impl Kept {
    /// As they are stored.
    fn stored(&self) -> Arc<IoBuf> {
        match self {
            Self::Stored(bytes) => Arc::clone(bytes),
            Self::Source(job) => match job.run() {
                Ok(Ready::Packed(packed, _)) => packed.bytes,
                _ => unreachable!("the same block is packed the same way"),
            },
        }
    }
}

#[derive(Clone)]
struct Written {
    kept: Kept,
    /// As stored.
    len: usize,
    /// How often the vdev's devices had been opened anew when the write began.
    reopened: u64,
}

impl Written {
    fn end(&self, place: Place) -> u64 {
        place.1.get() + self.len as u64
    }
}

/// The blocks that the txg being synced has written.
#[derive(Default)]
pub(crate) struct Unstable {
    written: Mutex<BTreeMap<Place, Written>>,
    readable: Mutex<HashMap<Key, Kept>>,
}

impl Unstable {
    /// Notes a write. What was written before to any of its bytes is nobody's any more.
    fn note(&self, place: Place, written: Written) {
        let mut all = self.written.lock();
        let end = written.end(place);
        let before = all.range(..place).next_back().filter(|(at, _)| at.0 == place.0);
        let gone = before.filter(|(at, old)| old.end(**at) > place.1.get()).map(|(at, _)| *at);
        let within = all.range(place..(place.0, VdevOffset::new(end))).map(|(at, _)| *at);
        for at in within.chain(gone).collect::<Vec<_>>() {
            all.remove(&at);
        }
        all.insert(place, written);
    }

    /// The place is given back: somebody else's bytes may go there.
    pub(crate) fn forget(&self, dva: &Dva) {
        self.written.lock().remove(&(dva.vdev, dva.offset));
    }

    /// Keeps what a block is made of, which is in memory as long as the txg is not stable, in place of how it
    /// is stored.
    pub(crate) fn keep_source(&self, bp: &Blkptr, stored: &Arc<IoBuf>, source: PackJob) {
        let kept = Kept::Source(Arc::new(source));
        let mut all = self.written.lock();
        for dva in bp.dvas() {
            if let Some(written) = all.get_mut(&(dva.vdev, dva.offset))
                && matches!(&written.kept, Kept::Stored(bytes) if Arc::ptr_eq(bytes, stored))
            {
                written.kept = kept.clone();
            }
        }
    }

    /// A block is found by its pointer from now on, whatever is written at its place.
    pub(crate) fn keep_readable(&self, bp: &Blkptr, stored: &Arc<IoBuf>) {
        self.readable.lock().insert(Key::of(bp), Kept::Stored(Arc::clone(stored)));
    }

    /// The same for one that is about to be written over, if it is not found so yet.
    pub(crate) fn keep_replaced(&self, bp: &Blkptr) {
        let dva = bp.dva(0);
        let written = self.written.lock().get(&(dva.vdev, dva.offset)).map(|written| written.kept.clone());
        if let Some(kept) = written {
            self.readable.lock().entry(Key::of(bp)).or_insert(kept);
        }
    }

    /// What a block of this txg holds.
    pub(crate) fn find(&self, bp: &Blkptr) -> Option<Kept> {
        self.readable.lock().get(&Key::of(bp)).cloned()
    }

    /// Whether a block is one of this txg's.
    pub(crate) fn has(&self, bp: &Blkptr) -> bool {
        self.readable.lock().contains_key(&Key::of(bp))
    }

    fn all(&self) -> Vec<(Place, Written)> {
        self.written.lock().iter().map(|(place, written)| (*place, written.clone())).collect()
    }
}

impl Zio {
    /// Writes bytes of the txg being synced to a place, and keeps them until it is stable.
    pub(crate) async fn write_unstable(&self, dva: Dva, bytes: &Arc<IoBuf>) -> Result<(), VdevError> {
        let kept = Kept::Stored(Arc::clone(bytes));
        self.write_kept(dva, kept, bytes).await
    }

    async fn write_kept(&self, dva: Dva, kept: Kept, bytes: &Arc<IoBuf>) -> Result<(), VdevError> {
        let written = Written { kept, len: bytes.len(), reopened: self.reopened(dva.vdev) };
        let slices = vec![BufSlice::from(Arc::clone(bytes))];
        let result = self.vdevs.write(Address::now(dva.vdev, dva.offset), slices, Durability::Cached).await;
        self.note_unflushed(dva.vdev);
        match &result {
            Ok(()) => self.unstable.note((dva.vdev, dva.offset), written),
            Err(error) => self.note_failed_write(dva, error),
        }
        result
    }

    /// Writes again what the txg being synced has written to vdevs whose devices were opened anew since.
    ///
    /// # Errors
    /// The first vdev's that could not.
    #[boxed]
    pub async fn write_lost_again(&self) -> Result<(), VdevError> {
        let is_lost = |(place, written): &(Place, Written)| self.reopened(place.0) != written.reopened;
        let lost = self.unstable.all().into_iter().filter(is_lost);
        stream::iter(lost)
            .map(|((vdev, offset), written)| async move {
                let dva = Dva { vdev, offset, ..Dva::EMPTY };
                let bytes = written.kept.stored();
                self.write_kept(dva, written.kept, &bytes).await
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        self.copy_lost_again().await
    }

    /// The txg is stable: what it wrote need not be kept any more.
    pub fn forget_unstable(&self) {
        self.unstable.written.lock().clear();
        self.unstable.readable.lock().clear();
        self.copies.forget();
    }

    pub(crate) fn reopened(&self, vdev: VdevId) -> u64 {
        self.vdevs.top(vdev).map_or(0, |top| top.reopened())
    }
}
