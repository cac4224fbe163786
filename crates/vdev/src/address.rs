//! Where a block is: what a DVA says, and when it was written.

use ondisk::Dva;
use units::{Txg, VdevId, VdevOffset};

/// A place on a top-level vdev, and the txg in which what is there was written: a raidz that was widened since has
/// it dealt out in rows of its former width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Which vdev.
    pub vdev: VdevId,
    /// Where on it.
    pub offset: VdevOffset,
    /// In which txg it was written there (a block pointer's physical birth).
    pub born: Txg,
}

impl Address {
    /// Of a copy of a block that was written in that txg.
    #[must_use]
    pub const fn of(dva: &Dva, born: Txg) -> Self {
        Self { vdev: dva.vdev, offset: dva.offset, born }
    }

    /// Of what is written there now, or was just written.
    #[must_use]
    pub const fn now(vdev: VdevId, offset: VdevOffset) -> Self {
        Self { vdev, offset, born: Txg::new(u64::MAX) }
    }
}
