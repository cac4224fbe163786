//! Disks that do something else than they say.

use std::sync::Arc;
use std::time::Duration;

use crate::rng::Rng;

/// What may silently go wrong with one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mischief {
    /// One bit arrives flipped.
    FlipBit,
    /// The write is acknowledged and never happens.
    Forget,
    /// The data lands somewhere else: that many bytes further on, wrapping at the end.
    Misdirect {
        /// How far, in bytes; whole sectors.
        by: u64,
    },
}

/// Some writes and flushes take so many times as long, which of them by lot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slowness {
    /// Of so many, one is slow; 1 for all of them.
    pub one_in: u64,
    /// What it takes, as a multiple of what it would.
    pub times: u32,
}

/// What really happens to a write.
pub(crate) struct Twisted {
    pub(crate) offset: u64,
    pub(crate) data: Arc<[u8]>,
}

#[derive(Default)]
pub(crate) struct Quirks {
    pub(crate) lies: bool,
    /// Added to the time of each request.
    pub(crate) delay: Duration,
    /// Added to the time of the requests from a count on.
    straggler: Option<(u64, Duration)>,
    /// How writes and flushes are slow.
    slowness: Option<Slowness>,
    /// The count from which on requests are not answered.
    hangs_from: Option<u64>,
    requests: u64,
    writes: u64,
    orders: Vec<(u64, Mischief)>,
}

impl Quirks {
    pub(crate) fn order(&mut self, nth: u64, mischief: Mischief) {
        assert!(nth > 0, "writes are counted from 1");
        self.orders.push((self.writes + nth, mischief));
    }

    /// Orders that requests take longer from the `nth` on from now.
    pub(crate) fn straggle(&mut self, nth: u64, delay: Duration) {
        assert!(nth > 0, "requests are counted from 1");
        self.straggler = Some((self.requests + nth, delay));
    }

    /// Orders that requests are not answered from the `nth` on from now.
    pub(crate) fn hang(&mut self, nth: u64) {
        assert!(nth > 0, "requests are counted from 1");
        self.hangs_from = Some(self.requests + nth);
    }

    pub(crate) fn answer(&mut self) {
        (self.hangs_from, self.straggler) = (None, None);
    }

    /// Orders how writes and flushes are slow from now on.
    pub(crate) fn slow_down(&mut self, slowness: Option<Slowness>) {
        self.slowness = slowness;
    }

    /// How much longer a write or flush takes that would take `took`. No lot is drawn where none is slow.
    pub(crate) fn dawdle(&self, took: Duration, rng: &mut Rng) -> Duration {
        let drawn = self.slowness.filter(|slowness| rng.below(slowness.one_in) == 0);
        drawn.map_or(Duration::ZERO, |slowness| took * slowness.times.saturating_sub(1))
    }

    /// Counts a request; how much longer it takes, nothing if it is not answered.
    pub(crate) fn next_request(&mut self) -> Option<Duration> {
        self.requests += 1;
        let now = self.requests;
        let late = self.straggler.filter(|(from, _)| *from <= now).map_or(Duration::ZERO, |(_, delay)| delay);
        self.hangs_from.is_none_or(|from| now < from).then_some(self.delay + late)
    }

    /// Counts a write and applies what was ordered for it. One that fails does nothing,
    /// all, or any number of its first sectors.
    pub(crate) fn twist(
        &mut self,
        offset: u64,
        mut data: Vec<u8>,
        fails: bool,
        sector: u64,
        disk_bytes: u64,
        rng: &mut Rng,
    ) -> Twisted {
        self.writes += 1;
        let mut place = offset;
        let now = self.writes;
        let orders: Vec<_> = self.orders.extract_if(.., |(nth, _)| *nth == now).collect();
        for (_, mischief) in orders {
            match mischief {
                Mischief::FlipBit if !data.is_empty() => {
                    let byte = rng.index(data.len());
                    data[byte] ^= 1 << rng.below(8);
                }
                Mischief::FlipBit => {}
                Mischief::Forget => data.clear(),
                Mischief::Misdirect { by } => {
                    let room = disk_bytes - data.len() as u64 + sector;
                    place = (offset + by) % room;
                }
            }
        }
        if fails {
            let sectors = rng.below(data.len() as u64 / sector + 1);
            let kept = [0, data.len(), (sectors * sector) as usize][rng.index(3)];
            data.truncate(kept);
        }
        Twisted { offset: place, data: data.into() }
    }
}
