//! Which log vdev a block should go to: the one that is expected to be done with it first.
//!
//! ```text
//!  expected = time of a write there × (1 + writes under way there + blocks of this batch meant for it)
//! ```
//! The time of a write is a moving mean of what writes and flushes took. Vdevs that nothing is known of come first.
//!
//! A vdev that was slow is left alone, and whether it still is, is no commit's business to find out: while others
//! are in use, it is *asked* once a second, with a write that nobody waits for
//! ([`crate::log::store::PoolLogStore::ask`]), until it is as quick as they are. What nobody has confirmed for long is
//! believed less and less.
//! (tests: `a_slow_vdev_is_left_alone_and_asked_until_it_is_quick`, `a_slow_log_gets_few_blocks`,
//! `a_log_that_turns_slow_gets_nothing_until_it_is_quick_again`)

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use units::VdevId;

/// The newest sample counts for one in so many.
const MEMORY: u32 = 8;
/// An estimate nobody confirmed is halved after this long.
const HALF_LIFE: Duration = Duration::from_secs(60);
/// A vdev that nothing was heard of for so long is asked.
const ASK_AFTER: Duration = Duration::from_secs(1);

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

    /// Those of `vdevs` that are left alone for being slow, and that nothing was heard of lately, while others are in use.
    pub fn to_ask(&self, vdevs: impl Iterator<Item = VdevId>, now: Duration) -> Vec<VdevId> {
        let homes = self.0.lock();
        let is_recent = |home: &Home| now.saturating_sub(home.sampled) < ASK_AFTER * 2;
        let known: Vec<_> = vdevs.filter_map(|vdev| Some((vdev, homes.get(&vdev)?))).collect();
        let quickest =
            known.iter().filter(|(_, home)| is_recent(home)).map(|(_, home)| home.estimate(now)).min();
        let Some(quickest) = quickest else { return Vec::new() };
        let is_due = |home: &Home| {
            let is_silent = home.under_way == 0 && now.saturating_sub(home.sampled) >= ASK_AFTER;
            is_silent && home.estimate(now) > quickest
        };
        known.into_iter().filter(|(_, home)| is_due(home)).map(|(vdev, _)| vdev).collect()
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
        let took = now.saturating_sub(self.began);
        self.took(took, now);
    }

    /// It has ended by `now`, and of the time since it began, so much says how quick the vdev is.
    pub fn took(self, took: Duration, now: Duration) {
        let mut homes = self.homes.0.lock();
        let home = homes.entry(self.vdev).or_default();
        let before = home.estimate(now);
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
    fn a_slow_vdev_is_left_alone_and_asked_until_it_is_quick() {
        let homes = Arc::<LogHomes>::default();
        let ask = |now| homes.to_ask([FAST, SLOW].into_iter(), now);
        write(&homes, FAST, MS, MS);
        assert_eq!(choose(&homes, &[], MS), SLOW, "nothing is known of it");
        write(&homes, SLOW, MS * 20, MS * 2);
        let (mut asked, mut back_at) = (0, None);
        for now in 3..60_000 {
            assert_eq!(choose(&homes, &[], MS * now), FAST);
            if choose(&homes, &[FAST], MS * now) == SLOW {
                back_at.get_or_insert(now);
            }
            write(&homes, FAST, MS, MS * now);
            // It is quick again after six seconds.
            let slow = if now < 6000 { MS * 20 } else { MS };
            for vdev in ask(MS * now) {
                assert_eq!(vdev, SLOW, "the other is in use");
                asked += u32::from(now < 6000);
                homes.begin(vdev, MS * now).took(slow, MS * now);
            }
        }
        assert!((4..=6).contains(&asked), "asked {asked} times in six seconds");
        let back_at = back_at.expect("the second block of a batch goes there again");
        assert!((6000..40_000).contains(&back_at), "after {back_at} ms");
        assert!(ask(MS * 200_000).is_empty(), "nobody commits any more");
    }

    #[test]
    fn who_is_as_quick_or_is_being_asked_is_not_asked() {
        let homes = Arc::<LogHomes>::default();
        let later = ASK_AFTER + MS * 50;
        write(&homes, SLOW, MS, MS);
        write(&homes, FAST, MS, later);
        let ask = || homes.to_ask([FAST, SLOW].into_iter(), later + MS);
        assert!(ask().is_empty());
        homes.forget(SLOW);
        write(&homes, SLOW, MS * 20, MS);
        assert_eq!(ask(), [SLOW]);
        let asking = homes.begin(SLOW, later);
        assert!(ask().is_empty(), "it is being asked");
        drop(asking);
        assert_eq!(ask(), [SLOW], "it said nothing");
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
