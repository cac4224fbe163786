//! Volumes over an objset: what their objects are, how they are made, read, written and given another size, and how their
//! logs are replayed.
//!
//! ```text
//!  objset of kind "volume" ─┬─ object 1   its bytes, in blocks of volblocksize
//!                           └─ object 2   ZAP: "size" ─► bytes
//! ```
//! A write goes the way of a file's ([`journal`]): range lock, plan, record, and a commit where its writer or the property
//! `sync` wants that. A volume that is only looked at has no log, and refuses changes.
//!
//! Invariants
//! - No record of the log leads past the end that the volume has on disk when it is replayed: a volume gets another size
//!   with nobody writing, after all that the log has is stable, and nobody writes before the size is.
//!   (pool's test: `a_power_cut_leaves_a_volume_with_all_that_was_promised`)
//! - What shrinking took away never comes back: what lies past the end is freed, if a crash left it, before the volume is
//!   used. (pool's test: `what_shrinking_took_away_does_not_come_back`)
#![forbid(unsafe_code)]

mod error;
mod format;
mod replay;
mod resize;
mod volume;
mod write;

pub use error::ZvolError;
pub use format::{VOLUME_BYTES_MAX, VolumeSpec};
pub use volume::{DATA, Volume, VolumeOptions};
