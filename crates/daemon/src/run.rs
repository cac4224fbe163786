//! The daemon itself.

use crate::kstats::{self, Kstats};
use crate::parameters;
use crate::web_page;
use async_trait::async_trait;
use control::{Client, RunPaths, ServeError, Server, Service};
use engine::Engine;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use supervisor::Supervisor;
use tokio::signal::unix::{SignalKind, signal};
use web::ServiceSource;

/// Why the daemon cannot run.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// A file or directory of its own.
    #[error("cannot use {}", path.display())]
    Files {
        /// What.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The run-time directory is not this user's alone.
    #[error("cannot use the run-time directory")]
    Untrusted(#[from] control::UntrustedDir),
    /// The process of a pool was not started by a daemon.
    #[error("only the daemon starts the process of a pool")]
    NoNumber,
    /// The process of a pool kept rights that it should not have.
    #[error("the process of a pool is not confined")]
    Confine(#[from] confine::ConfineError),
    /// There is one already.
    #[error("another daemon holds {}", lock.display())]
    Another {
        /// Its lock.
        lock: PathBuf,
    },
    /// No runtime, or no signals.
    #[error("cannot set up")]
    Setup(#[source] io::Error),
    /// `SAWMILL_DELAY` makes no sense.
    #[error("SAWMILL_DELAY")]
    Delays(#[source] device::DelaysError),
    /// Listening or serving failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// A service with a beginning and an end.
#[async_trait]
pub(crate) trait Lasting: Service {
    /// Brings back the pools of the last run. In the process of a pool, nothing is mounted: the daemon has all file
    /// systems mounted in one order.
    async fn restore(&self, is_of_pool: bool);
    /// Ends what waits for pools whose devices fail.
    async fn stop_waiting(&self);
    /// Syncs all pools.
    async fn settle(&self);
}

#[async_trait]
impl Lasting for Engine {
    async fn restore(&self, is_of_pool: bool) {
        match is_of_pool {
            false => Self::restore(self).await,
            true => self.restore_unmounted().await,
        }
    }

    async fn stop_waiting(&self) {
        Self::stop_waiting(self).await;
    }

    async fn settle(&self) {
        Self::settle(self).await;
    }
}

#[async_trait]
impl Lasting for Supervisor {
    async fn restore(&self, _is_of_pool: bool) {
        Self::restore(self).await;
    }

    async fn stop_waiting(&self) {
        Self::stop_waiting(self).await;
    }

    async fn settle(&self) {
        Self::settle(self).await;
    }
}

/// Where requests come from.
pub(crate) enum Doors {
    /// The daemon's own user; root's daemon also shows its pools to every user. There is a page at an address.
    OfDaemon {
        /// The files of the daemon.
        paths: RunPaths,
        /// The address.
        web: Option<SocketAddr>,
        /// How often kstat files are renewed, if there are any.
        kstats: Option<Duration>,
    },
    /// The daemon alone, which mounts the file systems of all pools in one order. The daemon has opened the socket and
    /// the lock file.
    OfPool {
        /// The socket.
        listener: UnixListener,
        /// The lock file.
        lock: File,
    },
}

impl Doors {
    fn are_of_pool(&self) -> bool {
        matches!(self, Self::OfPool { .. })
    }

    /// How often kstat files are renewed, if there are any.
    fn kstats(&self) -> Option<Duration> {
        match self {
            Self::OfDaemon { kstats, .. } => *kstats,
            Self::OfPool { .. } => None,
        }
    }
}

/// Runs until stopped: locks, brings pools back, listens, answers.
///
/// # Errors
/// Why it cannot run; nothing was served then.
pub(crate) fn run(
    doors: Doors,
    service: impl FnOnce() -> io::Result<Arc<dyn Lasting>>,
) -> Result<(), DaemonError> {
    let (doors, _lock) = lock(doors)?;
    if let Doors::OfDaemon { paths, .. } = &doors {
        web_page::forget(paths);
        kstats::forget(paths);
    }
    raise_descriptors();
    if !doors.are_of_pool() {
        keep_data_out_of_core_files();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("control")
        .enable_all()
        .build()
        .map_err(DaemonError::Setup)?;
    runtime.block_on(async {
        let lasting = service().map_err(DaemonError::Setup)?;
        let service: Arc<dyn Service> = Arc::clone(&lasting) as _;
        let mut terminate = signal(SignalKind::terminate()).map_err(DaemonError::Setup)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(DaemonError::Setup)?;
        lasting.restore(doors.are_of_pool()).await;
        let renewed_every = doors.kstats();
        let (server, paths) = listen(doors, &service).await?;
        let (stopper, stopped) = (server.stopper(), Arc::clone(&lasting));
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            stopped.stop_waiting().await;
            stopper.notify_one();
        });
        tracing::info!(pid = std::process::id(), "ready");
        if paths.is_some() {
            super::systemd::notify_ready();
            parameters::follow(&service);
        }
        let kstats = paths.as_ref().zip(renewed_every);
        let kstats = kstats.map(|(paths, every)| Kstats::show(paths, every, &service));
        let served = server.serve(Arc::clone(&service)).await;
        if let Some(paths) = paths {
            // Gone before the last sync: the next command starts a new daemon, which waits
            // for our lock.
            _ = fs::remove_file(paths.socket());
            _ = fs::remove_file(paths.public_socket());
            web_page::forget(&paths);
        }
        if let Some(kstats) = kstats {
            kstats.end().await;
        }
        lasting.settle().await;
        tracing::info!("stopped");
        Ok(served?)
    })
}

/// Opens the doors. Root's daemon shows its pools to every user. Returns the files of a daemon.
async fn listen(doors: Doors, service: &Arc<dyn Service>) -> Result<(Server, Option<RunPaths>), ServeError> {
    let source = Arc::new(ServiceSource(Arc::clone(service)));
    let (paths, web) = match doors {
        Doors::OfPool { listener, .. } => {
            return Ok((Server::on(listener)?.showing(web::metrics_routes(&source)), None));
        }
        Doors::OfDaemon { paths, web, .. } => (paths, web),
    };
    let mut server = Server::bind(&paths.socket())?.showing(web::metrics_routes(&source));
    if rustix::process::geteuid().is_root() {
        server = server.and_public(&paths.public_socket(), |socket| device::peer_groups(socket))?;
    }
    // Before anybody is answered: who started this daemon asks then where the page is.
    web_page::show(&paths, web, service).await;
    tracing::info!(socket = %paths.socket().display(), "listens");
    Ok((server, Some(paths)))
}

/// Keeps the memory of this process, which may hold what users have stored, out of a core file. The same is true of
/// the processes that this process starts. The process of a pool has no core file at all. The backtrace of a panic is
/// in the log.
fn keep_data_out_of_core_files() {
    if let Err(error) = fs::write("/proc/self/coredump_filter", "0") {
        tracing::warn!(%error, "a core file may have data of users");
    }
}

/// As many descriptors as the system allows: the soft limit of 1024 that most processes start with is for
/// programs that use `select(2)`.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, ?limit, "the limit of open files stays");
    }
}

/// Takes the lock that makes this the only process behind its doors, held until the process ends.
fn lock(doors: Doors) -> Result<(Doors, File), DaemonError> {
    let (path, file) = match &doors {
        Doors::OfDaemon { paths, .. } => (paths.daemon_lock(), lock_of_daemon(paths)?),
        Doors::OfPool { lock, .. } => {
            let path = PathBuf::from("the lock of a pool");
            let taken = lock.try_clone().and_then(|file| file.lock().map(|()| file));
            (path.clone(), taken.map_err(|source| DaemonError::Files { path, source })?)
        }
    };
    let mut written = &file;
    let written = file.set_len(0).and_then(|()| writeln!(written, "{}", std::process::id()));
    written.map_err(|source| DaemonError::Files { path, source })?;
    Ok((doors, file))
}

/// Waits for a daemon that is about to end, by a stop or a kill: it answers no more.
fn lock_of_daemon(paths: &RunPaths) -> Result<File, DaemonError> {
    let path = paths.daemon_lock();
    let failed = |source| DaemonError::Files { path: path.clone(), source };
    paths.make_run_dir().map_err(failed)?;
    paths.check()?;
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(failed)?;
    let client = Client::new(paths.socket());
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if client.answers() => {
                return Err(DaemonError::Another { lock: path });
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_POLL),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
    }
}

const LOCK_POLL: Duration = Duration::from_millis(5);
