//! The process of one pool, which the daemon starts: an engine as in a daemon that holds all pools itself, with
//! directories of its own.
//!
//! ```text
//!  daemon (supervisor) ── standard input, open as long as the daemon lives ──► process of a pool
//!          └────────────── RUN/pools/N/socket: requests ────────────────────►      │
//!                          STATE/pools/N/pools.cache: its pool ◄───────────────────┘
//! ```

use std::io::Read;
use std::sync::Arc;

use control::RunPaths;
use device::RealEnv;
use engine::PoolCache;

use crate::run::{Doors, run};
use crate::{DaemonError, engine_of, panics};

/// The number of the process among those of its daemon.
pub(crate) const NUMBER: &str = "SAWMILL_POOL_NUMBER";

/// The process of a pool, until it is stopped or its daemon has ended. `paths` are those of the daemon. The
/// number of the process is in the environment, as [`supervisor::PoolProgram`] puts it there.
///
/// # Errors
/// Why it cannot run; nothing was served then.
pub fn serve_pool(paths: &RunPaths, env: Arc<RealEnv>, memory_bytes: u64) -> Result<(), DaemonError> {
    let number = std::env::var(NUMBER).ok().and_then(|number| number.parse().ok());
    let number: u64 = number.ok_or(DaemonError::NoNumber)?;
    let paths = paths.of_pool(number);
    panics::end_the_process(PoolCache::last_words_of(&paths.pool_cache()));
    end_with_the_daemon()?;
    let cache = paths.pool_cache();
    run(&paths, Doors::OfPool, || engine_of(env, Some(cache), memory_bytes))
}

/// Ends this process at once when standard input ends. The daemon holds the other end and writes nothing. The
/// kernel closes that end however the daemon ends.
fn end_with_the_daemon() -> Result<(), DaemonError> {
    let wait = || {
        let mut input = std::io::stdin().lock();
        while input.read(&mut [0]).is_ok_and(|read| read > 0) {}
        _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    };
    let thread = std::thread::Builder::new().name("lifeline".to_owned()).spawn(wait);
    thread.map(drop).map_err(DaemonError::Setup)
}
