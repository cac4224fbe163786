//! Several users of one pool in simulated worlds: changes while an older txg is syncing, while a
//! stream is being received, and while others read; any of these may end in a power cut.
#![forbid(unsafe_code)]
#![recursion_limit = "256"]

mod actors;
mod busy;
#[path = "../crash/dice.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod dice;
mod history;
mod overlaps;
#[path = "../crash/owned.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod owned;
#[path = "../crash/shape.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod shape;
#[path = "../crash/space.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod space;
#[path = "../crash/story.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod story;
#[path = "../streams/mod.rs"]
mod streams;
mod visits;

use std::time::Duration;

use pool::Tuning;

/// No txg ends by itself.
fn quiet() -> Tuning {
    Tuning { txg_timeout: Duration::from_secs(100_000), ..shape::brisk() }
}
