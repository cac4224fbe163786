//! Records which leaves lack data, in a place where a restart of this host finds the record.
//!
//! ```text
//!   a leaf fails, misses a write, or is whole ──► AbsenceWatch::changed ──► engine's list of pools
//!                                                                                   │ written
//!   commits, txgs: stable on the other leaves ── wait ◄──── Pool::absences_recorded ┘
//! ```
//! After a crash, the device that is up to date may be missing. Then the remaining device must not
//! speak for the pool, because acknowledged writes that it missed would be lost silently. The
//! record is kept outside of the pool, because the remaining device cannot hold a record of its own
//! absence.
//!
//! Invariants
//! - While a watch is registered, a write that a leaf lacks is acknowledged only after the watch
//!   has recorded that leaf, or after a second. If the watch cannot write the record, the log has
//!   an error.
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

/// The longest time that a write waits for the record.
const RECORDED_WITHIN: Duration = Duration::from_secs(1);

/// Records which leaves lack data.
pub trait AbsenceWatch: Send + Sync {
    /// The set of leaves that lack data has changed. This function does not wait. The watch calls
    /// [`Pool::absences_recorded`] once the record is stable.
    fn changed(&self);
}

/// The registered watch, and the leaves that it knows.
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

    /// Waits until the record is stable, or until [`RECORDED_WITHIN`] has passed.
    pub(crate) async fn until_recorded(&self, env: &dyn Env) {
        let recorded = self.recorded.listen();
        if self.is_unrecorded() {
            select(recorded, env.sleep(RECORDED_WITHIN)).await;
        }
        if self.is_unrecorded.swap(false, Ordering::AcqRel) {
            tracing::error!("the record of devices that lack data was not written in time");
            self.recorded.notify(usize::MAX);
        }
    }
}

impl Pool {
    /// Registers `watch`, which from now on records the leaves that lack data. The first
    /// registration stays.
    pub fn watch_absences(&self, watch: Box<dyn AbsenceWatch>) {
        *self.absences.told.lock() = self.vdevs.lacking();
        _ = self.absences.watch.set(watch);
    }

    /// The watch has recorded, where a restart finds it, which leaves lack data
    /// ([`crate::Left::behind`]).
    pub fn absences_recorded(&self) {
        self.absences.is_unrecorded.store(false, Ordering::Release);
        self.absences.recorded.notify(usize::MAX);
    }

    /// Notifies the watch if the set of leaves that lack data has changed.
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
            // Writes need not wait for the record that a leaf is whole again.
            self.absences.is_unrecorded.fetch_or(is_more, Ordering::AcqRel);
            if is_more {
                // The next txg gives the other leaves a state that the failed leaf does not have.
                self.gate.hurry(self.gate.open_txg());
            }
        }
        watch.changed();
    }
}
