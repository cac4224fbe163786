//! Eight programs run `zpool`, `zfs` and file calls at once on a slow disk, and the daemon is
//! killed while they run.
//!
//! ```text
//!  six owners ── files, snapshots, clones, promotions, streams, … of their own family ─┐
//!  operator ──── scrubs, logs, mirrors, recursive snapshots of the whole pool ─────────┼─► pool
//!  observer ──── lists, properties, accounts, streams and differences of everything ───┘     │
//!       ▲                                                                               kill -9
//!       └── each owner's model is compared with all datasets and files ◄── restart ──────────┘
//! ```
//! The model of an owner is a [`family::DatasetFamily`]: the changes that are stable, the changes
//! that may be lost, and the one step that was under way. They must explain everything that is
//! found after a restart. Only owners change what their model describes, so a step that fails while
//! the daemon lives is a defect. The operator and the observer may keep a dataset busy for a while.
//! No command may need longer than [`run::LIMIT`].
//!
//! `SAWMILL_STORM_SECONDS` sets the length of a storm and `SAWMILL_STORM_SEED` its seed:
//! `cargo xtask storm 600`.
#![forbid(unsafe_code)]

mod contents;
mod family;
mod judge;
#[path = "../mounted/mod.rs"]
mod mounted;
mod observer;
mod operator;
mod owner;
mod run;
mod storm;

#[test]
fn a_storm_of_commands_and_kills_leaves_what_was_promised() {
    storm::run("mirror a b log c");
}
