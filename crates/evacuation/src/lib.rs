//! Emptying a top-level vdev in use: what is copied, where to, and what is left of it on disk.
//!
//! ```text
//!   one txg's sync
//!   left on the vdev ─► spans ─► room on others ─► copied ─► mapping, births, state ─► … ─► labels, uberblock
//!   (metaslab)          (plan)   (this txg's)      (vdev)    (objects of the MOS)
//!                        └─── an error: the room is given back, nothing has changed ───┘
//!
//!   offset   0 ────────── end of the mapping ──────────────────────── end of the vdev
//!            copied: freed here and there     not copied: freed here, and never copied
//! ```
//! Nobody allocates on the vdev any more. All that is freed is freed in syncs, one after another, and so is all that is
//! copied. So there is no copy under way when something is freed: a byte lies before the mapping's end, and has two
//! places, or behind it and has one. The vdev's own space maps go on telling what is allocated there until it is gone:
//! a crash, an export, a cancel or another implementation finds what is left to do by the mapping's end and the maps.
//!
//! The room that a txg takes and the mapping that leads to it are of the same txg. A crash finds both or neither.
//!
//! Invariants
//! - What is copied is just what is allocated behind the mapping's end, in order, and no sector twice.
//!   (test: `spans_hold_every_byte_once_and_no_more_than_they_may`)
//! - A batch that fails leaves nothing allocated, and one that does not leaves just its live bytes.
//!   (tests: `an_error_while_a_vdev_is_emptied_ends_that_and_leaks_nothing`, in `pool`)
#![forbid(unsafe_code)]

mod copier;
mod error;
mod load;
mod objects;
mod plan;
mod state;

pub use copier::{Batch, BatchLimits, copy_some};
pub use error::EvacuationError;
pub use load::load;
pub use objects::{append, create, last_birth, remove};
pub use plan::{Plan, SPAN_MAX_BYTES, Span, mapping_bytes};
pub use state::{rewrite_directory, state, store};
