//! `POOL/txgs`: the last transaction groups (OpenZFS: `module/zfs/spa_stats.c`).
//!
//! ```text
//!  txg   birth       state ndirty   nread nwritten reads writes otime       qtime  wtime stime
//!  4711  5214787391  C     131072   0     540672   0     38     5001234567  10234  0     38123456
//! ```
//! A txg is `O`pen, `Q`uiescing, `S`yncing or `C`ommitted. OpenZFS also has one that waits for the sync
//! of the txg before; here a txg is quiesced after that, so that none waits, and `wtime` is 0. `ndirty`
//! is not known before a txg is quiesced.

use crate::PoolSeen;
use crate::file::KstatFile;
use control::{TxgCounted, TxgState};
use std::fmt::Write as _;

/// The columns' widths.
const HEAD: [(&str, usize); 12] = [
    ("txg", 8),
    ("birth", 16),
    ("state", 5),
    ("ndirty", 12),
    ("nread", 12),
    ("nwritten", 12),
    ("reads", 8),
    ("writes", 8),
    ("otime", 12),
    ("qtime", 12),
    ("wtime", 12),
    ("stime", 12),
];

/// The file.
pub(crate) fn file(seen: &PoolSeen) -> KstatFile {
    let mut text = String::new();
    put(&mut text, HEAD.map(|(name, _)| name.to_owned()));
    for txg in &seen.counted.txgs {
        put(&mut text, cells(txg, seen.clock_start_nanos));
    }
    KstatFile::raw(&seen.counted.name, "txgs", text)
}

fn cells(txg: &TxgCounted, clock_start_nanos: u64) -> [String; 12] {
    let state = match txg.state {
        TxgState::Open => 'O',
        TxgState::Quiescing => 'Q',
        TxgState::Syncing => 'S',
        TxgState::Committed => 'C',
    };
    [
        txg.txg.to_string(),
        clock_start_nanos.saturating_add(txg.birth_nanos).to_string(),
        state.to_string(),
        txg.dirty_bytes.to_string(),
        txg.io.read_bytes.to_string(),
        txg.io.written_bytes.to_string(),
        txg.io.reads.to_string(),
        txg.io.writes.to_string(),
        txg.open_nanos.to_string(),
        txg.quiesce_nanos.to_string(),
        0.to_string(),
        txg.sync_nanos.to_string(),
    ]
}

fn put(text: &mut String, cells: [String; 12]) {
    for ((_, width), cell) in HEAD.iter().zip(cells) {
        // A string takes whatever it is given.
        _ = write!(text, "{cell:<width$} ");
    }
    text.pop();
    text.push('\n');
}
