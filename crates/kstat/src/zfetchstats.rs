//! `zfetchstats`: reading ahead (OpenZFS: `module/zfs/dmu_zfetch.c`).

use crate::PoolSeen;
use crate::file::KstatFile;
use crate::table::{RowOf, lines_of};
use control::PoolCounted;

const ROWS: &[RowOf<PoolCounted>] = &[
    ("hits", |p| p.ahead.streams_continued),
    // A read before or behind the place where a stream goes on begins a stream: that is a miss.
    ("future", |_| 0),
    ("stride", |_| 0),
    ("past", |_| 0),
    ("misses", |p| p.ahead.streams_begun),
    // A new stream takes the place of the one that is longest unused: none is refused.
    ("max_streams", |_| 0),
    ("io_issued", |p| p.ahead.issued),
    ("io_active", |p| p.ahead.active),
];

/// The file.
pub(crate) fn file(pools: &[PoolSeen]) -> KstatFile {
    KstatFile::named(None, "zfetchstats", &lines_of(ROWS, pools))
}
