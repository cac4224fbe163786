//! Which log vdev a block should go to: the one that is expected to be done with it first.
//!
//! ```text
//!  expected = time of a write there × (1 + writes under way there + blocks of this batch meant for it)
//! ```
//! The time of a write is a moving mean of what writes and flushes took. It shrinks while nobody
//! looks, by half a second at a time, so that a vdev that was slow once is tried again. Vdevs that
//! nothing is known of come first.
//! (tests: `a_slow_vdev_is_left_alone_and_tried_again`, `a_slow_log_gets_few_blocks`)

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use units::VdevId;

/// The newest sample counts for one in so many.
const MEMORY: u32 = 8;
/// An estimate nobody confirmed is halved after this long.
const HALF_LIFE: Duration = Duration::from_millis(500);

/// What is known of log vdevs.
#[derive(Debug, Default)]
pub(crate) struct LogHomes(Mutex<BTreeMap<VdevId, Home>>);

#[derive(Clone, Copy, Debug, Default)]
struct Home {
    mean: Duration,
    sampled: Duration,
    under_way: u32,
}

impl Home {
    /// Time of a write as far as known, at the time `now`.
    fn estimate(&self, now: Duration) -> Duration {
        let age = now.saturating_sub(self.sampled);
        let halvings = (age.as_nanos() / HALF_LIFE.as_nanos()).min(31) as u32;
        self.mean / (1 << halvings)
    }

    fn expected(&self, now: Duration, planned: u32) -> Duration {
        self.estimate(now) * (1 + self.under_way + planned)
    }
}

impl LogHomes {
    /// The best of `vdevs` for one more block, `planned` being where others of the same batch go.
    pub fn choose(
        &self,
        vdevs: impl Iterator<Item = VdevId>,
        planned: &[VdevId],
        now: Duration,
    ) -> Option<VdevId> {
        let homes = self.0.lock();
        vdevs.min_by_key(|vdev| {
            let here = planned.iter().filter(|other| *other == vdev).count() as u32;
            let home = homes.get(vdev).copied().unwrap_or_default();
            (home.expected(now, here), here)
        })
    }

    /// Nothing is known of `vdev` any more: another takes its number.
    pub fn forget(&self, vdev: VdevId) {
        if let Some(home) = self.0.lock().get_mut(&vdev) {
            *home = Home { under_way: home.under_way, ..Home::default() };
        }
    }

    /// A write or flush of `vdev` begins.
    pub fn begin(self: &Arc<Self>, vdev: VdevId, now: Duration) -> UnderWay {
        self.0.lock().entry(vdev).or_default().under_way += 1;
        UnderWay { homes: Arc::clone(self), vdev, began: now }
    }
}

/// A write or flush under way, until it is dropped.
pub(crate) struct UnderWay {
    homes: Arc<LogHomes>,
    vdev: VdevId,
    began: Duration,
}

impl UnderWay {
    /// It took until `now`. One that failed, or was given up, says nothing: it is just dropped.
    pub fn succeeded(self, now: Duration) {
        let mut homes = self.homes.0.lock();
        let home = homes.entry(self.vdev).or_default();
        let (before, took) = (home.estimate(now), now.saturating_sub(self.began));
        home.mean = if before.is_zero() { took } else { (before * (MEMORY - 1) + took) / MEMORY };
        home.sampled = now;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(home) = self.homes.0.lock().get_mut(&self.vdev) {
            home.under_way -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: VdevId = VdevId::new(1);
    const SLOW: VdevId = VdevId::new(2);
    const MS: Duration = Duration::from_millis(1);

    fn write(homes: &Arc<LogHomes>, vdev: VdevId, took: Duration, now: Duration) {
        homes.begin(vdev, now).succeeded(now + took);
    }

    fn choose(homes: &LogHomes, planned: &[VdevId], now: Duration) -> VdevId {
        homes.choose([FAST, SLOW].into_iter(), planned, now).expect("there are two")
    }

    #[test]
    fn a_slow_vdev_is_left_alone_and_tried_again() {
        let homes = Arc::<LogHomes>::default();
        write(&homes, FAST, MS, MS);
        assert_eq!(choose(&homes, &[], MS), SLOW, "nothing is known of it");
        write(&homes, SLOW, MS * 20, MS * 2);
        let mut tries = 0;
        for now in 3..6000 {
            let chosen = choose(&homes, &[], MS * now);
            tries += u32::from(chosen == SLOW);
            write(&homes, chosen, if chosen == SLOW { MS * 20 } else { MS }, MS * now);
        }
        assert!((1..=4).contains(&tries), "{tries} tries in six seconds");
    }

    #[test]
    fn blocks_of_a_batch_are_spread_as_speeds_are() {
        let homes = Arc::<LogHomes>::default();
        write(&homes, FAST, MS, MS);
        write(&homes, SLOW, MS * 3, MS);
        let mut planned = Vec::new();
        for _ in 0..8 {
            planned.push(choose(&homes, &planned, MS));
        }
        assert_eq!(planned.iter().filter(|vdev| **vdev == FAST).count(), 6);
    }

    #[test]
    fn what_is_under_way_counts() {
        let homes = Arc::<LogHomes>::default();
        write(&homes, FAST, MS, MS);
        write(&homes, SLOW, MS * 2, MS);
        let under_way = [homes.begin(FAST, MS), homes.begin(FAST, MS)];
        assert_eq!(choose(&homes, &[], MS), SLOW);
        drop(under_way);
        assert_eq!(choose(&homes, &[], MS), FAST);
    }
}
