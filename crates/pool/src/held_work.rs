//! Stops background work on demand, so that a test can look at unfinished work: OpenZFS's tunables
//! `zfs_scan_suspend_progress` and `zfs_removal_suspend_progress`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::Pool;

/// The time between two looks of stopped work at its switch.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Work of a pool that can be stopped on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundWork {
    /// Scrubs, error scrubs and resilvers.
    Scans,
    /// The copying of a vdev that is removed.
    Removals,
}

/// The switches of the work.
#[derive(Debug, Default)]
pub(crate) struct HeldWork {
    scans: AtomicBool,
    removals: AtomicBool,
}

impl HeldWork {
    fn of(&self, work: BackgroundWork) -> &AtomicBool {
        match work {
            BackgroundWork::Scans => &self.scans,
            BackgroundWork::Removals => &self.removals,
        }
    }
}

impl Pool {
    /// Stops work from now on, or lets the work go on.
    pub fn hold_work(&self, work: BackgroundWork, is_held: bool) {
        self.held_work.of(work).store(is_held, Ordering::Release);
    }

    /// Returns true, after a moment, if the work is to stand still.
    pub(crate) async fn is_held_back(&self, work: BackgroundWork) -> bool {
        let is_held = self.held_work.of(work).load(Ordering::Acquire);
        if is_held {
            self.env.sleep(LOOK_EVERY).await;
        }
        is_held
    }
}
