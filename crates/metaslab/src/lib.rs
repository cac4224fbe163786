//! Where the next block goes: range trees and allocation classes, free of I/O.
//!
//! ```text
//!  Allocator ─ classes Normal, Log, Special, Dedup, each a ring of top-level vdevs
//!     └─ vdev ─ cut into metaslabs of 2^ms_shift bytes (whole ones only)
//!           └─ metaslab
//!
//!              allocate, claim                 take_changes       (space map on disk)
//!       free ───────────────────► allocated ──────────────► "alloc"
//!        ▲  ◄──── unalloc ──────      │ free(txg)
//!        │                            ▼          take_changes
//!        └──── sync_done(txg + 2) ── resting ─────────────► "free"
//!
//!       and while the pool has a checkpoint, of a block that was born before it:
//!
//!       allocated ──free_or_keep──► kept ──release(txg)──► resting
//!                                    take_kept: "free" in the vdev's map of kept space, still "alloc" in its own
//! ```
//! Free bytes may be held for a moment by who writes or discards them for another reason than a block: see [`NextFree`].
//!
//! ZFS never overwrites, so every txg allocates afresh and frees what it replaced. What a txg
//! frees, the uberblocks of the txgs before it still point to: it rests until two more txgs
//! are stable, so that a pool whose newest uberblock is lost can be imported as of an older one.
//! The space map on disk says "free" at once; only memory knows about resting, and an import forgets.
//!
//! All of it is plain data and plain calls. Space maps are themselves stored in blocks that are
//! allocated here; that knot is tied in `pool`, which takes [`Changes`] and writes them, and asks
//! again, as often as writing them allocates.
//!
//! Invariants
//! - Every byte of a metaslab is in exactly one of: free, allocated, resting, kept; the sums agree, and
//!   nothing is handed out twice. (test: `any_history_keeps_space_in_exactly_one_place`)
//! - What a txg freed is not handed out before the second txg after it is done.
//!   (test: `freed_space_rests_until_two_more_txgs_are_done`)
//! - What a checkpoint needs is kept, and is not handed out before it was released and has rested.
//!   (tests: `any_history_keeps_space_in_exactly_one_place`, `what_a_checkpoint_needs_is_kept_until_it_is_released`)
//! - The changes taken, in order, describe exactly the allocations that remain.
//!   (test: `changes_taken_replay_to_what_is_allocated`)
//! - What a log of changes said comes out the same when it is summed up.
//!   (test: `unflushed_changes_say_what_all_logged_changes_said`)
//! - A claimed block is allocated like any other.
//!   (test: `claimed_log_blocks_are_never_handed_out_again`)
//! - A vdev that is being emptied tells just what is allocated there, whatever is freed meanwhile.
//!   (test: `what_is_left_on_a_vdev_is_told_run_by_run`)
//! - Copies of a block lie on different vdevs, or far apart.
//!   (tests: `copies_go_to_different_vdevs`, `copies_within_one_vdev_lie_far_apart`)
#![forbid(unsafe_code)]

mod allocator;
mod change;
mod error;
mod figures;
mod free_space;
mod held;
mod histogram;
mod kept;
mod leaving;
mod metaslab;
mod placement;
mod range_tree;
mod rest;
mod rotor;
mod segment;
mod unflushed;
mod vdev;

pub use allocator::{Allocator, Changes, Class, Hint, MAX_COPIES};
pub use change::{Change, ChangeKind, MetaslabId};
pub use error::{AllocError, SpaceError, VdevConfigError};
pub use figures::SpaceFigures;
pub use held::NextFree;
pub use histogram::{HISTOGRAM_BUCKETS, Histogram};
pub use metaslab::Metaslab;
pub use range_tree::RangeTree;
#[cfg(feature = "planted")]
pub use rest::plant_rests;
pub use segment::Segment;
pub use unflushed::Unflushed;
pub use vdev::VdevConfig;

#[cfg(test)]
mod tests;
