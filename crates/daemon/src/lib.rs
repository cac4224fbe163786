//! The daemon: what holds pools open between commands, as a kernel module would. It is a process around an
//! [`engine::Engine`], with a socket.
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

#![forbid(unsafe_code)]

mod kstat_tree;
pub mod kstats;
mod log;
pub mod memory;
mod panics;
mod parameters;
mod pool_process;
mod run;
mod start;
mod systemd;
mod threads;
pub mod web_page;

use control::RunPaths;
use device::{RealEnv, RealMachine};
use engine::{CacheFileJoin, CacheFileTable, CacheFiles, Engine, Ground, Options, PoolCache};
use front_fuse::Fuse;
use pool::{Heartbeats, Host, Tuning};
use run::{Doors, run};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use supervisor::{ProcessStarter, Supervisor, SupervisorGround};
use threads::OwnThreads;

pub use log::init as init_log;
pub use pool_process::serve_pool;
pub use run::DaemonError;
pub use start::{StartError, start, start_with};
pub use supervisor::{PoolGroups, PoolProgram};
pub use systemd::show_journal;

/// What whoever starts a daemon decides.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// It takes so much memory.
    pub memory_bytes: u64,
    /// It shows its page at this loopback address; at none unless somebody asked.
    pub web: Option<SocketAddr>,
    /// It renews kstat files at this interval; it has none without one.
    pub kstats: Option<Duration>,
    /// Each pool is held by a process of its own, which this program becomes. Without a program the daemon holds
    /// all pools itself.
    pub pool_program: Option<PoolProgram>,
}

/// Returns the program that becomes the process of a pool: this very program, called with these words. The
/// process is of the same version also when another version has taken the place of the file on disk.
#[must_use]
pub fn pool_program(words: &[&str]) -> PoolProgram {
    let words = words.iter().map(Into::into).collect();
    let (path, name) = (PathBuf::from("/proc/self/exe"), "sawmill".into());
    PoolProgram { path, name, words, number: pool_process::NUMBER, memory: memory::VARIABLE, groups: None }
}

/// The daemon with the real engine.
///
/// # Errors
/// Why it cannot run; nothing was served then.
pub fn serve(paths: &RunPaths, wanted: Wanted) -> Result<(), DaemonError> {
    let options = device::Options::from_process_environment().map_err(DaemonError::Delays)?;
    serve_over(paths, RealEnv::new(options), wanted)
}

/// The daemon with the real engine over `env`, until it is stopped. It takes the process for its own: a panic of any
/// thread ends it.
///
/// # Errors
/// Why it cannot run; nothing was served then.
pub fn serve_over(paths: &RunPaths, env: Arc<RealEnv>, wanted: Wanted) -> Result<(), DaemonError> {
    let last_words = PoolCache::last_words_of(&paths.pool_cache());
    panics::end_the_process(move |words| std::fs::write(&last_words, words));
    let Wanted { memory_bytes, web, kstats, pool_program } = wanted;
    let doors = Doors::OfDaemon { paths: paths.clone(), web, kstats };
    let host = sawmill::this_host();
    let machine: Arc<dyn env::Machine> = Arc::new(RealMachine::default());
    match pool_program {
        None => run(doors, || {
            // The daemon has the lock by now.
            if let Err(error) = supervisor::join_lists(&machine, paths) {
                tracing::error!(%error, "pools that had processes of their own are not brought back");
            }
            let join = CacheFileJoin::Engine(CacheFileTable::new(machine));
            let cache_files = CacheFiles { default: default_cache_file(paths), join };
            let files = EngineFiles { list: Some(paths.pool_cache()), cache_files: Some(cache_files) };
            Ok(Arc::new(engine_of(ground_of(env), files, memory_bytes, host)))
        }),
        Some(program) => run(doors, || {
            let beginning = pool_process::beginning_of(&host, default_cache_file(paths));
            let files = EngineFiles { list: None, cache_files: None };
            let blank = engine_of(ground_of(Arc::clone(&env)), files, BLANK_MEMORY_BYTES, host);
            let (paths, starter) = (paths.clone(), ProcessStarter::new(program)?);
            let cache_files = Arc::new(CacheFileTable::new(Arc::clone(&machine)));
            let ground =
                SupervisorGround { env, machine, paths, starter, beginning, cache_files, memory_bytes };
            Ok(Arc::new(Supervisor::new(ground, Arc::new(blank))))
        }),
    }
}

/// The memory of an engine that has no pool.
const BLANK_MEMORY_BYTES: u64 = 32 << 20;

/// What an engine with the rights of this process stands on.
fn ground_of(env: Arc<RealEnv>) -> Ground {
    ground_over(Arc::clone(&env), Arc::new(RealMachine::default()), Fuse::new(env))
}

fn ground_over(env: Arc<RealEnv>, machine: Arc<dyn env::Machine>, front: Fuse) -> Ground {
    Ground {
        machine,
        front: Some(Arc::new(front.over_rings(over_rings()))),
        runner: Arc::new(OwnThreads::new(Arc::clone(&env))),
        env,
    }
}

/// Where an engine says which pools it has open.
struct EngineFiles {
    /// The list of the pools that are opened again.
    list: Option<PathBuf>,
    cache_files: Option<CacheFiles>,
}

/// The real engine.
fn engine_of(ground: Ground, files: EngineFiles, memory_bytes: u64, host: Host) -> Engine {
    let tuning = Tuning { host, ..tuning() };
    let EngineFiles { list: cache, cache_files } = files;
    Engine::new(ground, Options { cache, cache_files, memory_bytes, tuning, pid: std::process::id() })
}

/// True if the module of the kernel for ZFS is loaded, as the kernel shows in `/sys`.
#[must_use]
pub fn has_kernel_module() -> bool {
    Path::new("/sys/module/zfs").exists()
}

/// Returns the default cache file, whose directory is made. There is none beside the kernel's module for ZFS: the module
/// has the same file, and imports all pools of the file at boot.
fn default_cache_file(paths: &RunPaths) -> Option<PathBuf> {
    let file = paths.zpool_cache();
    if has_kernel_module() {
        return None;
    }
    if let Some(Err(error)) = file.parent().map(std::fs::create_dir_all) {
        tracing::warn!(path = %file.display(), %error, "the directory of the cache file cannot be made");
    }
    Some(file)
}

/// Whether the mounts' requests are to come over io_uring.
fn over_rings() -> bool {
    std::env::var_os("SAWMILL_FUSE_URING").is_some_and(|value| value != "0")
}

fn tuning() -> Tuning {
    let default = Tuning::default();
    Tuning {
        txg_timeout: seconds("SAWMILL_TXG_TIMEOUT").unwrap_or(default.txg_timeout),
        log_deadman: seconds("SAWMILL_LOG_DEADMAN").unwrap_or(default.log_deadman),
        deadman: seconds("SAWMILL_DEADMAN").unwrap_or(default.deadman),
        all_features: std::env::var_os("SAWMILL_FEATURES").is_some_and(|value| value == "all"),
        heartbeats: heartbeats(),
        ..default
    }
}

fn heartbeats() -> Heartbeats {
    let default = Heartbeats::default();
    Heartbeats {
        interval: seconds("SAWMILL_MULTIHOST_INTERVAL").unwrap_or(default.interval),
        fail_intervals: number("SAWMILL_MULTIHOST_FAIL_INTERVALS").unwrap_or(default.fail_intervals),
        import_intervals: number("SAWMILL_MULTIHOST_IMPORT_INTERVALS").unwrap_or(default.import_intervals),
    }
}

fn number<T: std::str::FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok()?.parse().ok()
}

/// A time of up to an hour that the environment gives in seconds.
fn seconds(variable: &str) -> Option<Duration> {
    let secs: f64 = std::env::var(variable).ok()?.parse().ok()?;
    (secs > 0.0).then(|| Duration::from_secs_f64(secs.min(3600.0)))
}
