//! Space that was to be freed and cannot be found, because the block that leads to it is damaged.
//!
//! ```text
//!   rm, destroy, truncate ─► damaged indirect block or gang header ─► what lies below stays allocated, and nobody's
//!                                    └─► Leak ─► the txg being synced: `leaked` of the pool, its error list, its log
//! ```
//! (test: `a_gang_whose_header_is_damaged_is_freed_without_its_members`)

use parking_lot::Mutex;
use units::Txg;

use crate::{Bookmark, Zio};

/// What a damaged block led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leak {
    /// The damaged block; none if nobody knows whose block it was.
    pub bookmark: Option<Bookmark>,
    /// When the damaged block was written.
    pub birth: Txg,
    /// What is leaked, as datasets are charged for it, if that is to be counted now.
    pub bytes: u64,
}

/// Leaks that no txg has taken in yet.
#[derive(Default)]
pub(crate) struct Leaks(Mutex<Vec<Leak>>);

impl Zio {
    /// Notes a leak; the txg being synced takes it in.
    pub fn note_leak(&self, leak: Leak) {
        self.leaks.0.lock().push(leak);
    }

    /// The leaks since this was last asked.
    #[must_use]
    pub fn take_leaks(&self) -> Vec<Leak> {
        std::mem::take(&mut self.leaks.0.lock())
    }
}
