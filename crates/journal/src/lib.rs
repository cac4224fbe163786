//! What files and volumes share between their objects and the intent log: whoever writes bytes into an object
//! and promises that they are stable.
//!
//! ```text
//!  zpl (a file), a volume: `Target`
//!     │ lock a range ──────────────────► RangeLock
//!     │ plan ─► Stored::plan ──────────► dmu: blocks of the object
//!     │ apply ─► Journal::log_write ───► zil: a record, whose data are copied, held, read back or in place
//!     │ fsync ─► Journal::commit ──────► zil: records stable; or the txg, where the log does not know the change
//!     ▼ a commit asks for data
//!  WriteSource: the object's own block, written where it will stay (dmu_sync), or read back
//! ```
//! What only a file has (names, attributes, a size that changes) stays in `zpl`; this crate sees an object through
//! [`Target`], by static dispatch, for a lone commit passes through here.
//!
//! Invariants
//! - A change that the log does not know is stable only with its txg, and a commit waits for that txg.
//!   (zpl's test: `what_was_done_past_the_log_is_stable_after_an_fsync`)
//! - Two holders of overlapping ranges, one of them exclusive, never exist at once.
//!   (test: `disjoint_writers_run_side_by_side`)
#![forbid(unsafe_code)]

mod error;
mod journal;
mod log_data;
mod piece;
mod policy;
mod range_lock;
mod read_back;
mod replay;

pub use error::{JournalError, Result};
pub use journal::{Journal, Origin};
pub use log_data::{LogWrite, Target};
pub use piece::{Piece, Stored};
pub use policy::{DataPolicy, IMMEDIATE_WRITE_BYTES, LogBias, SyncPolicy};
pub use range_lock::{RangeGuard, RangeLock, Span};
pub use replay::{ClonedBlock, cloned_blocks, logged_bytes};
