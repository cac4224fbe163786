//! `kill -9` of the daemon while sixteen programs write, over and over.
//!
//! ```text
//!  clients write ─► kill -9 ─┬─► devices copied ─► zdb: no leak, no bad block, log records
//!    │ what returned         └─► `zpool status` ─► new daemon ─► claim, replay, mount
//!    ▼ is noted                                                            │
//!  model ◄───────────────────── compared ──────────────────────────────────┘ and on to the next
//! ```
//! What was acknowledged is there afterwards, or what its writer was about to put in its place;
//! and what was seen after one kill is there after the next. The kernel's cache of the devices
//! outlives the daemon: what a power cut takes beside is for the simulated crashes.
//!
//! A failure prints seed and round. `SAWMILL_KILL_ROUNDS` makes a longer lane of it (rounds in
//! all, over five shapes of pool), `SAWMILL_KILL_SEED` another one.
#![forbid(unsafe_code)]

mod appends;
mod client;
mod dice;
mod loops;
#[path = "../mounted/mod.rs"]
mod mounted;
mod names;
mod rounds;
mod slots;

use rounds::run;

#[test]
fn kills_lose_nothing_without_a_log_device() {
    run(1, "a");
}

#[test]
fn kills_lose_nothing_with_a_log_device() {
    run(2, "a log b");
}

#[test]
fn kills_lose_nothing_with_two_log_devices() {
    run(3, "a log b c");
}

#[test]
fn kills_lose_nothing_with_a_mirrored_log() {
    run(4, "a log mirror b c");
}

#[test]
fn kills_lose_nothing_on_a_mirror() {
    run(5, "mirror a b");
}
