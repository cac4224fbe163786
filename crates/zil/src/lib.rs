//! The intent log: what lets fsync(2) return before the txg has synced.
//!
//! ```text
//!  write(2) ─► itx, kept per txg ──fsync(2)──► log block ─► log vdev, or the main pool
//!                    │ txg synced                  │ power cut
//!                    ▼                             ▼
//!                 dropped                import: claim ─► mount: replay
//! ```
//! Each dataset has a log of its own: a chain of blocks, each naming the next, found from a header
//! in its objset. Records of operations wait in memory ([`IntentLog::assign`]); a commit writes
//! those that somebody waits for; a txg that syncs makes them needless, in memory and on disk.
//!
//! The layer below is a trait, [`LogStore`], so that the log can be tested over memory; the layer
//! above is another, [`Replay`].
//!
//! Homes for blocks, in this order: log vdevs, the rest of the pool, and when neither has room or
//! works, the txg itself: a commit then waits for it to sync.
//!
//! Invariants
//! - A commit returns only when its blocks and all before them are stable, or its txg has synced
//!   (`writer`; test: `random_histories_with_failures_keep_their_promises`).
//! - Claim runs before the first txg of an import allocates anything
//!   (`found`; test: `claimed_log_blocks_are_never_handed_out_again`).
//! - No block is leaked or freed twice
//!   (`sync`; test: `random_histories_keep_their_promises_and_leak_nothing`).
#![forbid(unsafe_code)]

mod chain;
mod claim;
mod commit;
mod error;
mod itx;
mod live;
mod log;
mod replay;
mod stats;
mod store;
mod sync;
mod trace;

pub use chain::leave::Leaving;
pub use chain::loss::{LogLoss, loss_behind};
pub use chain::scan::{FoundBlock, ReadRange, scan};
pub use chain::walk::{LogWalk, WalkedBlock, WalkedRecord};
pub use claim::{Claimed, Found};
pub use error::ZilError;
pub use itx::data_place::{DataBlock, DataPlace};
pub use itx::{Fetched, Itx, LoggedWrite, Record, Scope, WriteData, WriteSource};
pub use live::{IntentLog, Live, LogHandle};
pub use replay::meter::{ReplayProgress, ReplayWatch};
pub use replay::{Applied, Replay, ReplayBlock, ReplayCtx, ReplayRecord, ReplayReport, ReplayStopped};
pub use stats::{CommitParts, HomeStats, LogBytes, SIZE_BUCKETS, StageLatencies, ZilStats};
pub use store::{LogEvent, LogStore, Placement};
pub use trace::{ActiveRecording, BatchTrace, CommitTrace, IoTrace, Recorder, Recording, WaitedFor};
pub use units::{LATENCY_BUCKETS, Latencies};

#[cfg(test)]
mod tests;
