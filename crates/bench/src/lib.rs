//! What `sawmill bench` runs: measuring pools in process, and files of any mounted file system.
//!
//! Each way of measuring has a `Plan`, a `run` and a `Report`; who reads words and prints is the command.
#![forbid(unsafe_code)]

mod beside;
pub mod create;
pub mod destroy;
pub mod device;
mod dice;
pub mod file;
pub mod files;
pub mod gain;
mod latencies;
pub mod names;
pub mod oltp;
mod pace;
mod paced;
pub mod replay;
pub mod slog;
pub mod snapshots;
mod spread;
pub mod stream;
mod unflushed;
mod usage;
pub mod what_if;
mod world;
pub mod zil;

/// Why a bench did not run.
pub enum Refusal {
    /// The words make no sense.
    Usage(String),
    /// Something went wrong.
    Failed(String),
}

/// Something went wrong.
pub fn failed(error: impl std::error::Error) -> Refusal {
    Refusal::Failed(in_words(error))
}

/// An error and its causes, in one line.
pub fn in_words(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
