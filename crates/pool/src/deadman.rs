//! Devices that do not answer: given up in time, and taken back when they do.
//!
//! ```text
//!   ONLINE ──no answer within log_deadman or deadman──► FAULTED: others have the data, or
//!      ▲                                             UNAVAIL: nobody has; all its requests end
//!      │                                                   │
//!      └── opened anew, resilvered ◄── has answered all ◄──┘ tried after retry_after, and ever later
//! ```
//! What ends a request is told in [`vdev::VdevTree::give_up_overdue`]. Of what was asked of the device, a commit
//! goes by the next txg and later ones to another log, or to the main pool; a write of a txg is on the other side of the
//! mirror, or the pool is suspended until the device answers.
//!
//! A thread that the kernel holds inside one request cannot be called back, and its own caller waits with it.
//! Nobody else does: the batch that it was writing is given up under its hands ([`zil::LogHandle::give_up`]).
//!
//! Invariants
//! - No commit is later than the time that a device has, and a txg. (test: `any_request_of_a_log_may_fail`)

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use units::Guid;

use crate::Pool;

/// How often a time limit is looked at while it runs: it is kept to within this part.
const LOOKS: u32 = 4;
/// The wait before a device is tried again doubles so many times at most.
const DOUBLINGS_MAX: u32 = 8;

/// Devices that were given up.
#[derive(Default)]
pub(crate) struct GivenUp {
    leaves: BTreeMap<Guid, Trial>,
}

/// When a device that was given up is tried again.
struct Trial {
    due: Duration,
    /// How often it was given up.
    times: u32,
}

impl GivenUp {
    fn add(&mut self, leaf: Guid, now: Duration, retry_after: Duration) {
        let trial = self.leaves.entry(leaf).or_insert(Trial { due: now, times: 0 });
        trial.due = now + retry_after * 2_u32.pow(trial.times.min(DOUBLINGS_MAX));
        trial.times += 1;
    }

    fn due(&self, now: Duration) -> Vec<Guid> {
        self.leaves.iter().filter(|(_, trial)| trial.due <= now).map(|(leaf, _)| *leaf).collect()
    }
}

impl Pool {
    /// Looks after the devices for as long as the pool is there.
    pub(crate) fn watch_devices(self: &Arc<Self>) {
        let span = self.tuning.log_deadman.min(self.tuning.deadman) / LOOKS;
        let (env, pool) = (Arc::clone(&self.env), Arc::downgrade(self));
        let watch = async move {
            loop {
                env.sleep(span).await;
                let Some(pool) = Weak::upgrade(&pool) else { return };
                pool.give_up_overdue();
                pool.try_those_due();
                pool.ask_slow_logs();
            }
        };
        self.env.spawn("deadman", Box::pin(watch));
    }

    fn give_up_overdue(&self) {
        let now = self.env.now();
        let tuning = &self.tuning;
        let lost = self.vdevs.give_up_overdue(now, |top| match top.is_log() {
            true => tuning.log_deadman,
            false => tuning.deadman,
        });
        for cache in self.give_up_overdue_caches() {
            self.given_up.lock().add(cache, now, tuning.retry_after);
        }
        for leaf in lost {
            self.given_up.lock().add(leaf.guid(), now, tuning.retry_after);
            if self.vdevs.top(leaf.vdev()).is_ok_and(|top| !top.state().0.is_usable()) {
                self.open_datasets().iter().for_each(|open| open.give_up_with_log(leaf.vdev()));
            }
        }
    }

    /// Asks log vdevs that blocks stay away from for being slow whether they still are.
    fn ask_slow_logs(&self) {
        if self.read_only || self.suspended().is_some() {
            return;
        }
        for vdev in self.log_store.to_ask() {
            let logs = Arc::clone(&self.log_store);
            self.env.spawn("log_ask", Box::pin(async move { logs.ask(vdev).await }));
        }
    }

    /// Tries those again that are due, one attempt at a time. A suspended pool tries what it needs by itself.
    fn try_those_due(self: &Arc<Self>) {
        let due = self.given_up.lock().due(self.env.now());
        if due.is_empty() || self.read_only || self.suspended().is_some() {
            return;
        }
        if self.taking_back.swap(true, Ordering::AcqRel) {
            return;
        }
        let pool = Arc::clone(self);
        let work = async move {
            for leaf in due {
                pool.try_given_up(leaf).await;
            }
            pool.taking_back.store(false, Ordering::Release);
        };
        self.env.spawn("device_return", Box::pin(work));
    }

    async fn try_given_up(self: &Arc<Self>, guid: Guid) {
        let leaf = self.vdevs.leaf(guid).ok().or_else(|| self.cache_leaf(guid));
        if !leaf.is_some_and(|leaf| leaf.has_failed_by_itself()) {
            // It is back, or the administrator took it out.
            self.given_up.lock().leaves.remove(&guid);
            return;
        }
        match self.bring_online(guid).await {
            Ok(state) if state.is_usable() => tracing::info!(guid = guid.get(), "answers again"),
            Ok(_) => {}
            Err(error) => tracing::warn!(guid = guid.get(), %error, "not taken back"),
        }
        self.given_up.lock().add(guid, self.env.now(), self.tuning.retry_after);
    }
}
