//! When a disk's next request is done: its queue, its arm, its cache.
//!
//! A platter is not drawn by lot but turned: a write that follows the last one on the
//! track, but a moment too late, waits almost a whole turn, which is what makes a log on
//! such a disk slow. (test: `a_log_on_a_platter_waits_a_turn_for_each_write`)

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{DiskModel, Platter};
use crate::rng::Rng;

/// A request as its timing sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Job {
    Read { offset: u64, len: u64 },
    Write { offset: u64, len: u64, stable: bool },
    Flush,
    Discard,
}

/// The moving parts of one disk.
pub(crate) struct Mechanics {
    model: DiskModel,
    disk_bytes: u64,
    /// When each of the busy channels is free again.
    busy: Vec<Duration>,
    /// When the bytes of all requests so far have passed through the interface.
    interface_free: Duration,
    arm: Arm,
}

impl Mechanics {
    pub(crate) fn new(model: DiskModel, disk_bytes: u64) -> Self {
        Self { model, disk_bytes, busy: Vec::new(), interface_free: Duration::ZERO, arm: Arm::default() }
    }

    /// Takes a request at `now`; when it is done.
    pub(crate) fn take(&mut self, job: Job, now: Duration, rng: &mut Rng) -> Duration {
        if matches!(job, Job::Flush) && !self.model.has_volatile_cache {
            // There is nothing to write out, and so nothing to wait for.
            return now + self.model.flush.draw(rng);
        }
        let begin = self.claim_channel(now);
        let end = match self.model.platter {
            None => self.electronics(job, begin, rng),
            Some(platter) => self.turn(&platter, job, begin, rng),
        };
        self.busy.push(end);
        end
    }

    /// The earliest time at which one of the parallel channels is free, claimed.
    fn claim_channel(&mut self, now: Duration) -> Duration {
        self.busy.retain(|&until| until > now);
        if self.busy.len() < self.model.parallel {
            return now;
        }
        let first = (0..self.busy.len()).min_by_key(|&n| self.busy[n]).expect("some are busy");
        self.busy.swap_remove(first)
    }

    /// What its electronics take from `begin` on: the bytes pass through the interface one request after another, the
    /// rest of the work is done side by side.
    fn electronics(&mut self, job: Job, begin: Duration, rng: &mut Rng) -> Duration {
        let (work, len) = match job {
            Job::Read { len, .. } => (self.model.read, len),
            Job::Write { len, stable: false, .. } => (self.model.write, len),
            Job::Write { len, stable: true, .. } => (self.model.stable_write, len),
            Job::Flush => (self.model.flush, 0),
            Job::Discard => (self.model.write, 0),
        };
        if len == 0 {
            return begin + work.draw(rng);
        }
        self.interface_free = begin.max(self.interface_free) + self.model.transfer(len);
        self.interface_free + work.draw(rng)
    }

    /// What is in a cache that outlives a power cut is stable, and is written out when there is time.
    fn turn(&mut self, platter: &Platter, job: Job, begin: Duration, rng: &mut Rng) -> Duration {
        let is_safe = !self.model.has_volatile_cache;
        let geometry = Geometry { platter, disk_bytes: self.disk_bytes };
        self.arm.write_back_until(begin, &geometry);
        let ready = self.electronics(job, begin, rng);
        match job {
            Job::Read { offset, len } if self.arm.caches(offset, len) => ready,
            Job::Read { offset, len } => self.arm.access(offset, len, ready, &geometry),
            Job::Write { offset, len, stable: true } if !is_safe => {
                self.arm.access(offset, len, ready, &geometry)
            }
            Job::Write { offset, len, .. } => {
                // The arm goes on while the bytes arrive: else it would come too late for what it was about to write.
                self.arm.write_back_until(ready, &geometry);
                let ready = self.arm.make_room(len, ready, &geometry);
                self.arm.cache(offset, len);
                ready
            }
            Job::Flush => self.arm.write_back_all(ready, &geometry),
            Job::Discard => ready,
        }
    }
}

struct Geometry<'a> {
    platter: &'a Platter,
    disk_bytes: u64,
}

impl Geometry<'_> {
    /// Where on its turn the platter is when `offset` passes the head.
    fn angle(&self, offset: u64) -> u64 {
        let turn = self.platter.turn.as_nanos() as u64;
        let track = self.platter.track_bytes;
        (u128::from(offset % track) * u128::from(turn) / u128::from(track)) as u64
    }

    fn seek(&self, from: u64, to: u64) -> Duration {
        let (from, to) = (from / self.platter.track_bytes, to / self.platter.track_bytes);
        if from == to {
            return Duration::ZERO;
        }
        // Half of a seek is speeding up and half slowing down: time goes with the root of the way.
        let tracks = (self.disk_bytes / self.platter.track_bytes).max(1);
        let root = (from.abs_diff(to) * 1_000_000 / tracks).isqrt();
        let range = self.platter.seek_max.saturating_sub(self.platter.seek_min);
        self.platter.seek_min + range * root.min(1000) as u32 / 1000
    }

    fn transfer(&self, len: u64) -> Duration {
        let nanos = u128::from(len) * self.platter.turn.as_nanos() / u128::from(self.platter.track_bytes);
        Duration::from_nanos(nanos as u64)
    }
}

/// So much is written out at a time: room for new writes comes free little by little.
const WRITE_BACK_BYTES: u64 = 256 << 10;

#[derive(Default)]
struct Arm {
    /// Where the head is.
    at: u64,
    /// Until when it is at work.
    busy_until: Duration,
    /// What waits in the cache to be written: offset to length.
    cached: BTreeMap<u64, u64>,
    cached_bytes: u64,
}

impl Arm {
    /// Goes to `offset` and moves `len` bytes, from `now` on; when it is done.
    fn access(&mut self, offset: u64, len: u64, now: Duration, geometry: &Geometry<'_>) -> Duration {
        let turn = geometry.platter.turn.as_nanos() as u64;
        let there = now.max(self.busy_until) + geometry.seek(self.at, offset);
        let angle = (there.as_nanos() as u64) % turn;
        let wait = (geometry.angle(offset) + turn - angle) % turn;
        self.at = offset + len;
        self.busy_until = there + Duration::from_nanos(wait) + geometry.transfer(len);
        self.busy_until
    }

    fn caches(&self, offset: u64, len: u64) -> bool {
        self.cached
            .range(..=offset)
            .next_back()
            .is_some_and(|(&start, &cached)| start + cached >= offset + len)
    }

    fn cache(&mut self, offset: u64, len: u64) {
        let (mut start, mut end) = (offset, offset + len);
        let touching =
            |(&from, &length): (&u64, &u64)| (from <= end && from + length >= start).then_some(from);
        let touched: Vec<u64> = self.cached.range(..=end).rev().map_while(touching).collect();
        for from in touched {
            let length = self.cached.remove(&from).expect("just found");
            self.cached_bytes -= length;
            (start, end) = (start.min(from), end.max(from + length));
        }
        self.cached.insert(start, end - start);
        self.cached_bytes += end - start;
    }

    /// Writes out some of what comes next on the way across the disk; when it is done.
    fn write_back_one(&mut self, now: Duration, geometry: &Geometry<'_>) -> Option<Duration> {
        let next = self.cached.range(self.at..).next().or_else(|| self.cached.iter().next());
        let (&offset, &cached) = next?;
        self.cached.remove(&offset);
        let len = cached.min(WRITE_BACK_BYTES);
        if len < cached {
            self.cached.insert(offset + len, cached - len);
        }
        self.cached_bytes -= len;
        Some(self.access(offset, len, now, geometry))
    }

    /// Writes out the cache as far as an idle arm comes until `now`.
    fn write_back_until(&mut self, now: Duration, geometry: &Geometry<'_>) {
        while self.busy_until < now && !self.cached.is_empty() {
            self.write_back_one(self.busy_until, geometry);
        }
    }

    fn write_back_all(&mut self, now: Duration, geometry: &Geometry<'_>) -> Duration {
        let mut end = now.max(self.busy_until);
        while let Some(done) = self.write_back_one(now, geometry) {
            end = done;
        }
        end
    }

    fn make_room(&mut self, len: u64, now: Duration, geometry: &Geometry<'_>) -> Duration {
        let mut ready = now;
        while self.cached_bytes + len > geometry.platter.cache_bytes {
            match self.write_back_one(now, geometry) {
                Some(done) => ready = ready.max(done),
                None => break,
            }
        }
        ready
    }
}
