//! Disks that lose their cache while the world goes on.
//!
//! ```text
//!   cached writes ──loss──┬─ forgotten at once: reads find what was there before
//!                         └─ left: reads find them, and no later flush makes them stable
//! ```
//! A disk reports each loss, and may do so late. Two kinds can be ordered:
//!
//! | order | what fails |
//! |---|---|
//! | [`SimDisk::lose_cache_at`] | that flush or stable write, and each flush that is under way during the loss |
//! | [`SimDisk::reset_at`] | every request under way, and the next flush or stable write that begins |
//!
//! The loss of the first kind strikes when that request begins or when it ends, by lot: between the two the disk
//! carries out other requests, and a flush among them has nothing left to make stable.
//! The disk's own seed decides which writes are forgotten, so that the world's seed replays all of it.
//! (test: `one_seed_gives_one_history_of_losses`)

use env::{DeviceError, FaultOp};
use units::LeafOffset;

use super::{Drive, Inner, SimDisk};
use crate::history::Event;

/// The losses that are on order, and those that were.
#[derive(Default)]
pub(super) struct Losses {
    requests: u64,
    syncs: u64,
    /// The count of flushes and stable writes at which the cache is lost.
    loses_at: Option<u64>,
    /// The count of requests at which the disk is reset.
    resets_at: Option<u64>,
    /// The next flush or stable write reports a reset.
    owes_report: bool,
    /// Losses so far, those by resets included.
    count: u64,
    resets: u64,
    forgotten: u64,
}

/// What is to become of a request that was begun.
#[derive(Clone, Copy)]
pub(super) struct Doom {
    /// It is a flush or stable write that was ordered to fail.
    pub(super) fails: bool,
    loses_at_end: bool,
    losses_before: u64,
    resets_before: u64,
}

impl Losses {
    /// Counts a request. True if the disk is reset at this one.
    pub(super) fn next_request(&mut self) -> bool {
        self.requests += 1;
        self.resets_at.take_if(|at| *at == self.requests).is_some()
    }

    /// Counts a flush or stable write. True if it loses the cache.
    fn next_sync(&mut self) -> bool {
        self.syncs += 1;
        self.loses_at.take_if(|at| *at == self.syncs).is_some()
    }
}

impl SimDisk {
    /// The `nth` flush or stable write from now on (1 is the next) fails and takes with it writes that were done and
    /// are not stable: all of them or some, by lot. Reads find at once what was there before.
    pub fn lose_cache_at(&self, nth: u64) {
        assert!(nth > 0, "flushes and stable writes are counted from 1");
        let losses = &mut self.0.inner.lock().losses;
        losses.loses_at = Some(losses.syncs + nth);
    }

    /// Resets the disk at its `nth` request from now on (1 is the next), of whatever kind. Writes that were done and are not
    /// stable are lost as by [`Self::lose_cache_at`]. Every request under way fails, and so does the next flush or stable
    /// write that begins.
    pub fn reset_at(&self, nth: u64) {
        assert!(nth > 0, "requests are counted from 1");
        let losses = &mut self.0.inner.lock().losses;
        losses.resets_at = Some(losses.requests + nth);
    }

    /// No loss is on order any more. A reset that was not reported still is to be.
    pub fn keep_cache(&self) {
        let losses = &mut self.0.inner.lock().losses;
        (losses.loses_at, losses.resets_at) = (None, None);
    }

    /// How often the cache was lost so far.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.0.inner.lock().losses.count
    }

    /// How many writes that were done were forgotten in those losses.
    #[must_use]
    pub fn forgotten_writes(&self) -> u64 {
        self.0.inner.lock().losses.forgotten
    }
}

impl Drive {
    /// Notes the beginning of a request, before the mechanics have it.
    pub(super) fn doom(&self, is_sync: bool) -> Doom {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let losses = &mut inner.losses;
        let (losses_before, resets_before) = (losses.count, losses.resets);
        let loses = is_sync && losses.next_sync();
        let fails = loses || (is_sync && std::mem::take(&mut losses.owes_report));
        let loses_at_end = loses && inner.rng_of_losses.one_in(2);
        if loses && !loses_at_end {
            self.lose(inner);
        }
        Doom { fails, loses_at_end, losses_before, resets_before }
    }

    /// The error that a request ends with because of what became of the cache since it was begun.
    pub(super) fn meet(&self, doom: Doom, op: FaultOp) -> Result<(), DeviceError> {
        let mut inner = self.inner.lock();
        if doom.loses_at_end {
            self.lose(&mut inner);
        }
        let lost = op == FaultOp::Flush && inner.losses.count != doom.losses_before;
        if doom.fails || lost || inner.losses.resets != doom.resets_before {
            return Err(DeviceError::Io { op: op.name(), offset: LeafOffset::new(0), len: 0, errno: 5 });
        }
        Ok(())
    }

    pub(super) fn reset(&self) {
        let mut inner = self.inner.lock();
        self.lose(&mut inner);
        inner.losses.resets += 1;
        inner.losses.owes_report = true;
    }

    fn lose(&self, inner: &mut Inner) {
        let mut writes = self.log.cached(self.id);
        let loses_all = inner.rng_of_losses.one_in(2);
        writes.retain(|_| loses_all || inner.rng_of_losses.one_in(2));
        inner.losses.count += 1;
        inner.losses.forgotten += writes.len() as u64;
        self.log.add(Event::CacheLost { disk: self.id, writes: writes.into() });
        inner.content = self.log.content(self.id);
    }
}
