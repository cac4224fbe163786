//! Space that was to be freed but cannot be found, because the block that leads to it is damaged.
//!
//! ```text
//!   rm, destroy, truncate ─► damaged indirect block or gang header ─► blocks below stay allocated
//!                              └─► Leak ─► the syncing txg: `leaked` of the pool, error list, log
//! ```
//! (test: `a_gang_whose_header_is_damaged_is_freed_without_its_members`)

use parking_lot::Mutex;
use units::Txg;

use crate::{Bookmark, Zio};

/// A damaged block and the space below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leak {
    /// The bookmark of the damaged block. `None` if its owner is unknown.
    pub bookmark: Option<Bookmark>,
    /// The birth txg of the damaged block.
    pub birth: Txg,
    /// The leaked space, as datasets are charged for it; 0 if it is counted elsewhere.
    pub bytes: u64,
}

/// Leaks that no txg has counted yet.
#[derive(Default)]
pub(crate) struct Leaks(Mutex<Vec<Leak>>);

impl Zio {
    /// Records a leak. The syncing txg counts it.
    pub fn note_leak(&self, leak: Leak) {
        self.leaks.0.lock().push(leak);
    }

    /// Returns the leaks since the last call.
    #[must_use]
    pub fn take_leaks(&self) -> Vec<Leak> {
        std::mem::take(&mut self.leaks.0.lock())
    }
}
