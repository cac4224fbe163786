//! Which devices lack something, recorded where a restart of this host finds it.
//!
//! ```text
//!   a leaf fails, misses a write, or is whole again ──► AbsenceWatch::changed ──► the engine's list of pools
//!                                                                                   │ written
//!   commits, txgs: stable on the other leaves ── wait ◄──── Pool::absences_recorded ┘
//! ```
//! After a crash the device that is up to date may be missing. The device that is left must not speak for the pool then: what
//! was acknowledged without it would be gone, and nothing would say so. The record is outside of the pool, because the device
//! that is left cannot have it.
//!
//! Invariants
//! - While somebody watches, nothing is acknowledged that a leaf lacks before the watch has recorded the leaf, or a second has
//!   passed: whoever cannot write the record says so in its log.
//!   (test: `nothing_is_acknowledged_before_it_is_recorded_which_leaf_lacks_it`)

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use env::Env;
use event_listener::Event;
use futures::future::select;
use parking_lot::Mutex;
use units::Guid;

use crate::Pool;

/// Nobody waits longer for the record.
const RECORDED_WITHIN: Duration = Duration::from_secs(1);

/// Records which leaves lack something.
pub trait AbsenceWatch: Send + Sync {
    /// Other leaves lack something than before. Does not wait; calls [`Pool::absences_recorded`] once the record is stable.
    fn changed(&self);
}

/// What is known to the watch.
#[derive(Default)]
pub(crate) struct Absences {
    watch: OnceLock<Box<dyn AbsenceWatch>>,
    told: Mutex<BTreeSet<Guid>>,
    is_unrecorded: AtomicBool,
    recorded: Event,
}

impl Absences {
    pub(crate) fn is_unrecorded(&self) -> bool {
        self.is_unrecorded.load(Ordering::Acquire)
    }

    /// Until the record is stable, or it has taken too long.
    pub(crate) async fn until_recorded(&self, env: &dyn Env) {
        let recorded = self.recorded.listen();
        if self.is_unrecorded() {
            select(recorded, env.sleep(RECORDED_WITHIN)).await;
        }
        if self.is_unrecorded.swap(false, Ordering::AcqRel) {
            tracing::error!("it is not recorded in time which devices lack something");
            self.recorded.notify(usize::MAX);
        }
    }
}

impl Pool {
    /// Has `watch` record which leaves lack something, from now on. Once it is said, it stays so.
    pub fn watch_absences(&self, watch: Box<dyn AbsenceWatch>) {
        *self.absences.told.lock() = self.vdevs.lacking();
        _ = self.absences.watch.set(watch);
    }

    /// It is recorded where a restart finds it which leaves lack something ([`crate::Left::behind`]).
    pub fn absences_recorded(&self) {
        self.absences.is_unrecorded.store(false, Ordering::Release);
        self.absences.recorded.notify(usize::MAX);
    }

    /// Tells the watch if other leaves lack something than it was told last.
    pub(crate) fn look_for_absences(&self) {
        let Some(watch) = self.absences.watch.get() else { return };
        let behind = self.vdevs.lacking();
        {
            let mut told = self.absences.told.lock();
            if *told == behind {
                return;
            }
            let is_more = !behind.is_subset(&told);
            *told = behind;
            // That a leaf is whole again is worth no waiting.
            self.absences.is_unrecorded.fetch_or(is_more, Ordering::AcqRel);
            if is_more {
                // The leaves that go on have a state then that the other leaves do not have.
                self.gate.hurry(self.gate.open_txg());
            }
        }
        watch.changed();
    }
}
