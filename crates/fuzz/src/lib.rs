//! Bytes that nobody ever wrote, for every decoder.
//!
//! ```text
//!  golden pools ─► corpus, by kind ─► mutated from a seed ─► target ─► no panic, no hang,
//!                                                                      no memory without bound
//! ```
//! A target is a decoder and everything that its result is good for: what decodes must also
//! encode, print and be walked. What it answers does not matter; that it answers does. The corpus
//! is what OpenZFS wrote, so that mutants get past magic numbers into the corners behind them.
//!
//! A short run of each target is part of the tests; `cargo run --release -p sawmill-fuzz -- TARGET
//! SECONDS` goes on for longer. A failure names seed and target, and the bytes are kept in a file.
#![forbid(unsafe_code)]

mod corpus;
mod mutate;
mod run;
mod targets;

pub use corpus::{Corpus, Kind};
pub use mutate::Mutator;
pub use run::{Failure, busy_time, run};
pub use targets::{TARGETS, Target};
