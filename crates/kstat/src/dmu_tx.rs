//! `dmu_tx`: what changes had to wait for (OpenZFS: `module/zfs/dmu_tx.c`). `dmu_tx_error` is left out:
//! nothing counts changes that fail before they join a txg.

use crate::PoolSeen;
use crate::file::KstatFile;
use crate::table::{RowOf, lines_of};
use control::PoolCounted;

const ROWS: &[RowOf<PoolCounted>] = &[
    ("dmu_tx_assigned", |p| p.changes.joined),
    // OpenZFS 2.3 counts nothing there either.
    ("dmu_tx_delay", |_| 0),
    ("dmu_tx_suspended", |p| p.changes.suspended),
    // A change joins whichever txg is open, and reserves no memory.
    ("dmu_tx_group", |_| 0),
    ("dmu_tx_memory_reserve", |_| 0),
    ("dmu_tx_memory_reclaim", |_| 0),
    ("dmu_tx_dirty_throttle", |_| 0),
    ("dmu_tx_dirty_delay", |p| p.changes.delayed),
    ("dmu_tx_dirty_over_max", |p| p.changes.over_limit),
    ("dmu_tx_dirty_frees_delay", |p| p.changes.frees_delayed),
    // No change is held up because of what is in the log.
    ("dmu_tx_wrlog_delay", |_| 0),
    ("dmu_tx_quota", |p| p.changes.over_quota),
];

/// The file.
pub(crate) fn file(pools: &[PoolSeen]) -> KstatFile {
    KstatFile::named(None, "dmu_tx", &lines_of(ROWS, pools))
}
