//! The process of one pool, which the daemon starts: an engine as in a daemon that holds all pools itself.
//!
//! ```text
//!  daemon (supervisor) ── standard input: a socket, open as long as the daemon lives ──► process of a pool
//!          │                         errands, and descriptors for the answers ◄────────────┘  (crate `broker`)
//!          └───────────── RUN/pools/N/socket: requests ─────────────────────────────────►
//! ```
//! The process has no rights (crate `confine`) by the time its first device is opened.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use broker::{Beginning, Broker, STOP};
use confine::{Confinement, PoolUser, confine};
use control::RunPaths;
use device::{FileOpener, RealEnv};
use engine::{CacheFileJoin, CacheFiles};
use front_fuse::Fuse;
use pool::Host;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::process::{Signal, getpid, kill_process};

use crate::run::{Doors, run};
use crate::{DaemonError, EngineFiles, engine_of, ground_over, panics};

/// The number of the process among those of its daemon.
pub(crate) const NUMBER: &str = "SAWMILL_POOL_NUMBER";

/// The process of a pool, until it is stopped or its daemon has ended. `paths` are those of the daemon. The
/// number of the process is in the environment, as [`supervisor::PoolProgram`] puts it there. `make_env` makes the
/// environment, whose devices are opened by the daemon. The program may have no other thread before.
///
/// # Errors
/// Why it cannot run; nothing was served then.
pub fn serve_pool(
    paths: &RunPaths,
    make_env: impl FnOnce(Arc<dyn FileOpener>) -> Arc<RealEnv>,
    memory_bytes: u64,
) -> Result<(), DaemonError> {
    let number = std::env::var(NUMBER).ok().and_then(|number| number.parse().ok());
    let number: u64 = number.ok_or(DaemonError::NoNumber)?;
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map_err(DaemonError::Setup)?;
    let broker = Broker::new(socket);
    let begun = broker.begin().map_err(DaemonError::Setup)?;
    give_up_rights(number)?;
    let telling = broker.clone();
    panics::end_the_process(move |words| telling.leave_last_words(words));
    end_with_the_daemon()?;
    let env = make_env(Arc::new(broker.clone()));
    let doors = Doors::OfPool { listener: begun.listener, lock: begun.lock };
    run(doors, || {
        let front = Fuse::over(Arc::clone(&env), Arc::new(broker.clone()));
        let ground = ground_over(env, Arc::new(broker.machine()), front);
        let cache_files =
            CacheFiles { default: begun.beginning.cache_file.clone(), join: CacheFileJoin::Machine };
        let files = EngineFiles { list: Some(list_of(paths, number)), cache_files: Some(cache_files) };
        Ok(Arc::new(engine_of(ground, files, memory_bytes, host_of(begun.beginning))))
    })
}

/// What a process of a pool may still read: what the kernel says, the time zone, and its own program for the names in
/// backtraces.
const READABLE: [&str; 5] = ["/proc", "/sys", "/etc/localtime", "/usr/share/zoneinfo", "/proc/self/exe"];

/// Confines this process. If the daemon is root's, the process also becomes a user of its own. If the daemon is an
/// ordinary user's, the process keeps running as that user.
fn give_up_rights(number: u64) -> Result<(), DaemonError> {
    let is_root = rustix::process::geteuid().is_root();
    let user = is_root.then(|| PoolUser::nth(number)).transpose()?;
    let readable = READABLE.iter().map(PathBuf::from).filter(|path| path.exists()).collect();
    let confined = confine(&Confinement { user, readable })?;
    tracing::info!(%confined, "the process of a pool");
    Ok(())
}

fn list_of(paths: &RunPaths, number: u64) -> PathBuf {
    paths.of_pool(number).pool_cache()
}

/// What the processes of pools are told.
pub(crate) fn beginning_of(host: &Host, cache_file: Option<PathBuf>) -> Beginning {
    let Host { id, name, uid, gid } = host.clone();
    Beginning { host_id: id, host_name: name, owner: (uid, gid), cache_file }
}

fn host_of(beginning: Beginning) -> Host {
    let Beginning { host_id: id, host_name: name, owner: (uid, gid), cache_file: _ } = beginning;
    Host { id, name, uid, gid }
}

/// Ends this process at once when the daemon closes its end of standard input, which the kernel does however the
/// daemon ends. Has this process sync its pool and end when the daemon says so.
fn end_with_the_daemon() -> Result<(), DaemonError> {
    let wait = || {
        let (stdin, mut word) = (std::io::stdin(), [0_u8; STOP.len()]);
        loop {
            match recv(&stdin, &mut word, RecvFlags::empty()) {
                Ok((_, len)) if len > 0 => send_to_itself(Signal::TERM),
                Err(Errno::INTR) => {}
                _ => return send_to_itself(Signal::KILL),
            }
        }
    };
    let thread = std::thread::Builder::new().name("lifeline".to_owned()).spawn(wait);
    thread.map(drop).map_err(DaemonError::Setup)
}

fn send_to_itself(signal: Signal) {
    _ = kill_process(getpid(), signal);
}
