//! `sawmill daemon`: what holds pools open between commands, as a kernel module would.
//!
//! ```text
//!  first command ─► start: lock, run `sawmill daemon run` ─► waits for the socket
//!                                   │ own session, no tty, log file; or has systemd start its unit
//!                                   ▼
//!             daemon lock ─► pools of the cache file ─► socket ─► requests … ─► stop: sync
//! ```
//!
//! Crash-only: it may be killed at any instant. Pools it held are in the cache file, and
//! the next start brings them back before it answers anything.
//! That holds for its own mistakes, too: a panic of any thread ends the process ([`panics`]).
//!
//! Invariants
//! - There is one daemon for a run-time directory: it holds `daemon.lock` while it lives
//!   (test: `two_first_commands_start_one_daemon`).
//! - A command's pipes are never held open by the daemon it started
//!   (test: `a_pipe_behind_the_first_command_ends`).

mod commands;
mod log;
mod panics;
mod run;
mod start;
mod systemd;

use crate::program::{Kind, Program};
use control::RunPaths;
use device::{Options, RealEnv};
use engine::Engine;
use std::sync::Arc;

pub use run::DaemonError;
use run::run;
pub use start::{StartError, start, start_with};

/// The commands.
pub const PROGRAM: Program = Program {
    name: "daemon",
    about: "the process that holds pools open between commands",
    kind: Kind::Own,
    commands: &[commands::START, commands::RUN, commands::STATUS, commands::STOP, commands::LOGS],
};

/// The daemon with the real engine, which takes so much memory.
fn serve(paths: &RunPaths, memory_bytes: u64) -> Result<(), DaemonError> {
    let options = Options::from_process_environment().map_err(DaemonError::Delays)?;
    serve_over(paths, RealEnv::new(options), memory_bytes)
}

/// The daemon with the real engine over `env`, which takes so much memory, until it is stopped. It takes the process for its own: a panic of any
/// thread ends it.
///
/// # Errors
/// Why it cannot run; nothing was served then.
pub fn serve_over(paths: &RunPaths, env: Arc<RealEnv>, memory_bytes: u64) -> Result<(), DaemonError> {
    panics::end_the_process();
    run(paths, |cache| Engine::new(env, cache, memory_bytes))
}
