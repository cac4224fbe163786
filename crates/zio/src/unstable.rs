//! What a txg has written and no flush has made stable yet.
//!
//! A flush that fails says that some of the writes before it may be lost, not which, and a device that was
//! away may come back without what it had in its cache. So what a txg writes is kept until the txg is
//! stable. A block's bytes are mostly in memory anyway: as the cache has them, or the change that they
//! came from. Before the flush that the uberblock needs, everything is written again whose
//! vdev has had a device opened anew since (see [`vdev::Top::reopened`]), at its old place: nothing else
//! can be there before the txg is stable.
//! (test: `a_txg_whose_devices_fail_at_any_request_is_complete_once_they_work`, in `pool`)

use std::collections::BTreeMap;
use std::sync::Arc;

use device::{BufSlice, Durability, IoBuf};
use futures::stream::{self, StreamExt, TryStreamExt};
use ondisk::Dva;
use parking_lot::Mutex;
use units::{VdevId, VdevOffset};
use vdev::VdevError;

use crate::Zio;

/// Blocks written again at a time.
const AT_ONCE: usize = 64;

type Place = (VdevId, VdevOffset);

#[derive(Clone)]
struct Written {
    bytes: Arc<IoBuf>,
    /// How often the vdev's devices had been opened anew when the write began.
    reopened: u64,
}

impl Written {
    fn end(&self, place: Place) -> u64 {
        place.1.get() + self.bytes.len() as u64
    }
}

/// The blocks that the txg being synced has written, by place.
#[derive(Default)]
pub(crate) struct Unstable(Mutex<BTreeMap<Place, Written>>);

impl Unstable {
    /// Notes a write. What was written before to any of its bytes is nobody's any more.
    fn note(&self, place: Place, written: Written) {
        let mut all = self.0.lock();
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
        self.0.lock().remove(&(dva.vdev, dva.offset));
    }

    fn all(&self) -> Vec<(Place, Written)> {
        self.0.lock().iter().map(|(place, written)| (*place, written.clone())).collect()
    }
}

impl Zio {
    /// Writes bytes of the txg being synced to a place, and keeps them until it is stable.
    pub(crate) async fn write_unstable(&self, dva: Dva, bytes: &Arc<IoBuf>) -> Result<(), VdevError> {
        let written = Written { bytes: Arc::clone(bytes), reopened: self.reopened(dva.vdev) };
        let slices = vec![BufSlice::from(Arc::clone(bytes))];
        let result = self.vdevs.write(dva.vdev, dva.offset, slices, Durability::Cached).await;
        self.note_unflushed(dva.vdev);
        if result.is_ok() {
            self.unstable.note((dva.vdev, dva.offset), written);
        }
        result
    }

    /// Writes again what the txg being synced has written to vdevs whose devices were opened anew since.
    ///
    /// # Errors
    /// The first vdev's that could not.
    pub async fn write_lost_again(&self) -> Result<(), VdevError> {
        let is_lost = |(place, written): &(Place, Written)| self.reopened(place.0) != written.reopened;
        let lost = self.unstable.all().into_iter().filter(is_lost);
        stream::iter(lost)
            .map(|((vdev, offset), written)| async move {
                let dva = Dva { vdev, offset, ..Dva::EMPTY };
                self.write_unstable(dva, &written.bytes).await
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// The txg is stable: what it wrote need not be kept any more.
    pub fn forget_unstable(&self) {
        self.unstable.0.lock().clear();
    }

    fn reopened(&self, vdev: VdevId) -> u64 {
        self.vdevs.top(vdev).map_or(0, |top| top.reopened())
    }
}
