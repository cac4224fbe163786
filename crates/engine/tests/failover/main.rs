//! The engine under the simulator: pools made, imported, brought back after a crash, and handed from one host to
//! another that reaches the same disks, over many seeds.
//!
//! ```text
//!  host a: make, write ──dies or loses power──► back: restores what its list of pools says
//!  host b:     refused ──by force──► reads, writes ──────────► goes on, exports, or dies and is back
//! ```
//! What is promised: a host that comes back finds the pool as it left it, or leaves it alone; with `multihost=on` also one that
//! was only paused. What is not promised without that is near the end of [`hosts`]. `SAWMILL_SEEDS=5000` tries more seeds; a failure names its own.
#![forbid(unsafe_code)]
#![recursion_limit = "256"]

mod alone;
mod clients;
mod copies;
mod front;
mod hosts;
mod node;

use std::fmt::Display;

/// Seeds of each story, unless the environment says otherwise.
const SEEDS: u64 = 24;

/// Runs a story for many seeds, and prints how many; what it gives back is counted.
fn over_seeds<E: Display>(what: &str, story: impl Fn(u64) -> Result<u64, E>) {
    let seeds = std::env::var("SAWMILL_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    let mut files = 0;
    for seed in 1..=seeds {
        match story(seed) {
            Ok(kept) => files += kept,
            Err(broken) => panic!("seed {seed}: {broken}"),
        }
    }
    assert!(files > seeds, "hardly a file was written");
    println!("{what}: {seeds} seeds, {files} acknowledged files read back");
}
