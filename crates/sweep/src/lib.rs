//! Going over the free space of a leaf, in use and under load: `initialize` writes a pattern there, `trim` tells
//! the device to forget what is there.
//!
//! ```text
//!                 NONE ──start──► ACTIVE ────── all of it ─────► COMPLETE ──start──► ACTIVE …
//!                  ▲               │ ▲ └─cancel─► CANCELED ──start──►┘
//!           uninit │        suspend│ │start
//!                                  ▼ │
//!                              SUSPENDED
//!
//!   metaslabs, in order of place     hold a run of free bytes ─► this leaf's share of it: written, discarded ─► give it back
//!                                      └─ nobody is given them meanwhile          └─ rest, if others wait for the leaf
//! ```
//! How a leaf stands is in its ZAP, under OpenZFS's names ([`Record`]): either program goes on where the other one
//! stopped. The place is written with each txg that syncs while the walk goes on, and the txg flushes the device first; a
//! crash repeats at most one txg's work. That a place is behind the walk says that it was free and was swept, no more.
//!
//! Each leaf is swept for itself ([`Walk`]): the leaves of a mirror or raidz may stand at different places, and
//! be told different things. Where two of them want the same bytes one waits for a moment.
//!
//! Who starts and stops sweeps, and stores how they stand, is the pool.
//!
//! Invariants
//! - Only bytes are written or discarded that are free, and held until the device has done it: no block is ever there.
//!   (tests: `a_sweep_under_load_leaves_every_block_as_it_was`, in `pool`; `what_is_held_is_free_and_handed_out_to_nobody`, in
//!   `metaslab`)
//! - A request whose end is not known keeps its bytes held: it may still be carried out.
//!   (test: `a_device_that_does_not_answer_keeps_its_bytes`)
//! - Of what was free all the time nothing is left out, whatever is allocated and freed meanwhile.
//!   (test: `all_that_is_free_is_swept_and_nothing_else`)
#![forbid(unsafe_code)]

mod counters;
mod pieces;
mod record;
mod refusal;
mod run;
mod walk;

pub use counters::{Runs, TrimCounters, TrimCounts};
pub use pieces::{PIECE_MAX_BYTES, PIECE_MIN_BYTES, pieces};
pub use record::{Kind, Record, State};
pub use refusal::SweepRefusal;
pub use run::{Order, Report, Run, Sweep, can_trim};
pub use walk::{PATTERN, Step, Walk};
