//! Eight programs run `zpool`, `zfs` and file calls at once on a slow disk, and the daemon is killed beneath them.
//!
//! ```text
//!  six owners ── files, snapshots, clones, promotions, streams, … of a family of their own ─┐
//!  operator ──── scrubs, logs, mirrors, recursive snapshots of the whole pool ──────────────┼─► one pool
//!  observer ──── lists, properties, accounts, streams and differences of everything ────────┘     │
//!       ▲                                                                                    kill -9
//!       └── each owner's model is compared with all data sets, snapshots and files ◄── restart ───┘
//! ```
//! An owner has a [`family::Family`] as its model: what it was promised, what may have been lost, and the one step
//! that was under way. Everything that is found after a restart has to be explained by these three. Only owners
//! change what their model describes, so a step that fails while the daemon lives is a defect; a data set may be
//! busy for a while because of the operator and the observer. No command may take longer than [`run::LIMIT`].
//!
//! `SAWMILL_STORM_SECONDS` makes a longer storm, `SAWMILL_STORM_SEED` another one: `cargo xtask storm 600`.
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
