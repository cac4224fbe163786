//! Disks that lose their cache while the system keeps running.
//!
//! ```text
//!   cached writes ──loss──┬─ forgotten at once: reads find the earlier contents
//!                         └─ left: reads find them, but no later flush makes them stable
//! ```
//! A disk reports each loss, but may report it late. Two kinds of loss can be ordered:
//!
//! | order | requests that fail |
//! |---|---|
//! | [`SimDisk::lose_cache_at`] | the chosen request, and each flush under way during the loss |
//! | [`SimDisk::reset_at`] | all requests under way, and the next flush or stable write |
//!
//! With the first kind, the seed decides whether the cache is lost when the request begins or when
//! it ends. In between, the disk carries out other requests, and a flush among them finds nothing
//! to make stable. The disk's own seed decides which writes are forgotten, so the seed of the world
//! replays everything.
//! (test: `one_seed_gives_one_history_of_losses`)

use env::{DeviceError, FaultOp};
use units::LeafOffset;

use super::{Drive, Inner, SimDisk};
use crate::history::Event;

/// The ordered losses and the counts of past losses.
#[derive(Default)]
pub(super) struct CacheLosses {
    requests: u64,
    syncs: u64,
    /// The number of the flush or stable write at which the cache is lost.
    loses_at: Option<u64>,
    /// The number of the request at which the disk is reset.
    resets_at: Option<u64>,
    /// True if the next flush or stable write must report a reset.
    owes_report: bool,
    /// The number of losses so far, including resets.
    count: u64,
    resets: u64,
    forgotten: u64,
}

/// How the losses affect a request.
#[derive(Clone, Copy)]
pub(super) struct Doom {
    /// True if the request must fail: it is the chosen flush or stable write, or it reports a
    /// reset.
    pub(super) fails: bool,
    loses_at_end: bool,
    losses_before: u64,
    resets_before: u64,
}

impl CacheLosses {
    /// Counts a request. Returns true if the disk is reset at this request.
    pub(super) fn next_request(&mut self) -> bool {
        self.requests += 1;
        self.resets_at.take_if(|at| *at == self.requests).is_some()
    }

    /// Counts a flush or stable write. Returns true if the cache is lost at this request.
    fn next_sync(&mut self) -> bool {
        self.syncs += 1;
        self.loses_at.take_if(|at| *at == self.syncs).is_some()
    }
}

impl SimDisk {
    /// Makes the `nth` flush or stable write from now on fail (1 is the next). It takes with it
    /// some or all of the writes that are done but not stable; the seed decides which. Reads find
    /// the earlier contents at once.
    pub fn lose_cache_at(&self, nth: u64) {
        assert!(nth > 0, "flushes and stable writes are counted from 1");
        let losses = &mut self.0.inner.lock().losses;
        losses.loses_at = Some(losses.syncs + nth);
    }

    /// Resets the disk at its `nth` request of any kind from now on (1 is the next). Writes that
    /// are done but not stable are lost as by [`Self::lose_cache_at`]. Every request under way
    /// fails, and so does the next flush or stable write that begins.
    pub fn reset_at(&self, nth: u64) {
        assert!(nth > 0, "requests are counted from 1");
        let losses = &mut self.0.inner.lock().losses;
        losses.resets_at = Some(losses.requests + nth);
    }

    /// Cancels the ordered losses. A reset that was not reported yet is still reported.
    pub fn keep_cache(&self) {
        let losses = &mut self.0.inner.lock().losses;
        (losses.loses_at, losses.resets_at) = (None, None);
    }

    /// Returns how often the cache was lost so far.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.0.inner.lock().losses.count
    }

    /// Returns how many completed writes were forgotten in these losses.
    #[must_use]
    pub fn forgotten_writes(&self) -> u64 {
        self.0.inner.lock().losses.forgotten
    }
}

impl Drive {
    /// Registers the beginning of a request, before the disk processes it.
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

    /// Returns the error of a request that ends, according to the losses since it began.
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
