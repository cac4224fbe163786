//! What the process of a pool gives up before it reads a byte of a device.
//!
//! ```text
//!  supervisor (root) ── starts ──► process of a pool (root, one thread)
//!                                    │ confine
//!    network       a network namespace without an interface
//!    capabilities  the bounding set is empty
//!    core files    none
//!    user          a user of its own, no groups
//!    capabilities  none
//!    privileges    no program gives any back
//!    files         Landlock: nothing opens but /proc and /sys, for reading
//!    calls         seccomp: a list of system calls, EPERM for the others
//!                                    ▼
//!  supervisor ── descriptors: devices, mounts, listener ──► threads, rings, decoders of what is on disk
//! ```
//! The order is fixed: each step needs a right or a system call that a later step gives up. A
//! process that is taken over by a hostile image has the descriptors that it was given, and a
//! processor.
//!
//! # What each wall is for
//! A mistake in the kernel or in one wall must not be enough. Modes and owners alone would let the
//! process read what everybody may read, and Landlock does not let it. Landlock alone would leave
//! it `ptrace` among its own kind and the whole of the kernel's calls.
//!
//! Seccomp does not see the operations of io_uring: with a ring, the process opens files and makes
//! and connects sockets without the system calls for that. Landlock, the user and the network
//! namespace bind these operations as they bind system calls. This is why they are here, and why
//! seccomp comes last and not alone.
//!
//! # What stays reachable
//! - Descriptors: what the supervisor hands over, with all that their drivers do on `read`, `write`
//!   and the `ioctl`s of the list in `calls.rs`.
//! - Unix sockets with a path and a mode that lets everybody connect, by `IORING_OP_SOCKET` and
//!   `IORING_OP_CONNECT` (or a datagram), before Landlock's ninth version, which Linux 6.18 does
//!   not have. The service at the other end sees the user of the process.
//!   (test: `what_stays_reachable_is_what_the_documentation_names`)
//! - Names and metadata of files in directories that everybody may search: `stat`, `readlink`.
//! - `/proc` and `/sys` as everybody reads them: names, arguments and figures of other processes,
//!   hardware. `/proc/PID/{mem,environ,maps,fd}` of other processes are closed.
//! - Processor time and memory, within the control group of the process.
//!
//! # The process of an ordinary user's daemon
//! The process keeps its user, and has the network of the host where its user may not leave it. Landlock closes
//! files, TCP, abstract sockets, and signals and `ptrace` to other processes of the user. Seccomp has the same list.
//! (test: `the_process_of_an_ordinary_user_keeps_its_user_and_nothing_else`)
//!
//! # Core files and tracers
//! After a change of user the kernel marks a process as not dumpable: its `/proc/self` belongs to
//! root, and the process cannot read `fdinfo` or `maps` there. So the process is marked dumpable
//! again. That lets processes of the same user trace this one, and there are none: the user is its
//! own.
//!
//! Core files would hold data of the pool. `RLIMIT_CORE` prevents them. A limit of 0 prevents files
//! alone, and a program that collects core files gets them nevertheless (core(5)). A limit of 1
//! prevents both: the kernel has that as the mark of a process of which it makes none
//! (`fs/coredump.c`).
//!
//! # The end of the parent
//! The kernel kills the process when the thread that has started the process ends, so that a process that was taken over
//! does not outlive the daemon. The daemon needs CAP_KILL for this signal, because the process is another user's.
//!
//! Invariants
//! - Confinement begins with one thread, because the ids of a user, capabilities and Landlock's
//!   rules are each thread's own. (test: `a_process_with_two_threads_is_refused`)
//! - What is given up cannot be taken back.
//!   (test: `a_confined_process_reaches_nothing_but_its_descriptors`)
//! - What the engine needs is left. (test: `a_confined_process_still_has_what_an_engine_needs`)
//! - A step that fails is an error, but for what a container may lack: namespaces, Landlock and an
//!   empty bounding set. [`Confined`] reports the first two. (test:
//!   `a_process_that_lacks_rights_is_confined_and_reports_that`)
#![forbid(unsafe_code)]

mod calls;
mod capabilities;
mod files;
mod network;
mod user;

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, set_dumpable_behavior, set_parent_process_death_signal,
    setrlimit,
};
use rustix::thread::set_no_new_privs;

pub use files::FileWall;
pub use network::NetworkWall;
pub use user::PoolUser;

/// The most threads that a process may have when it is confined.
const THREADS: usize = 1;

/// What is left to a process.
#[derive(Clone, Debug)]
pub struct Confinement {
    /// The user that the process becomes; the change needs root's rights. `None`: the process keeps its user, as under
    /// the daemon of an ordinary user.
    pub user: Option<PoolUser>,
    /// Files and directories that may be opened for reading, with what is below: `/proc` and
    /// `/sys`. With the process's own program among them, backtraces have names.
    pub readable: Vec<PathBuf>,
}

/// Why a process is not confined. It must end then: some of the steps are done.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// Steps bind the thread that makes them, and other threads would stay as they are.
    #[error("the process has {threads} threads, and only one can be confined")]
    Threads {
        /// The number of threads.
        threads: usize,
    },
    /// A file of `/proc` that a step needs.
    #[error("{path} cannot be read")]
    Proc {
        /// The file.
        path: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// All ids of the user namespace are taken.
    #[error("this user namespace has no user for the process {number}")]
    NoUser {
        /// The number of the process.
        number: u64,
    },
    /// A step that needs a right which the process does not have.
    #[error("{step} cannot be given up")]
    Step {
        /// What was to be given up.
        step: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// A path that is to stay readable.
    #[error("{} cannot be opened", path.display())]
    Readable {
        /// The path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Landlock.
    #[error("files cannot be given up")]
    Files(#[source] landlock::RulesetError),
    /// Seccomp.
    #[error("system calls cannot be given up")]
    Calls(#[source] seccompiler::Error),
}

/// A process that is confined, as far as the kernel could.
#[derive(Clone, Debug)]
pub struct Confined {
    /// The user that the process became.
    pub user: Option<PoolUser>,
    /// Its sockets.
    pub network: NetworkWall,
    /// Its files.
    pub files: FileWall,
    /// How long each step took.
    pub took: Vec<(&'static str, Duration)>,
}

impl fmt::Display for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.user {
            Some(user) => write!(f, "confined as user {}", user.id())?,
            None => write!(f, "confined as the user of the daemon")?,
        }
        match self.network {
            NetworkWall::Own => write!(f, ", without a network")?,
            NetworkWall::Refused(error) => write!(f, ", with the network of the host ({error})")?,
        }
        match self.files {
            FileWall::All => write!(f, ", without files"),
            FileWall::Some => write!(f, ", without files as far as this kernel's Landlock goes"),
            FileWall::Absent => {
                write!(f, ", with files that everybody may open (the kernel has no Landlock)")
            }
        }
    }
}

/// Gives up what the process of a pool does not need. To be called at the start of the process, before there is a
/// second thread, a ring or a runtime.
///
/// # Errors
/// See [`ConfineError`]. The process must end then.
pub fn confine(confinement: &Confinement) -> Result<Confined, ConfineError> {
    check_threads()?;
    let mut steps = Steps::default();
    let network = steps.time("network", || Ok(network::leave_network()))?;
    steps.give_up("bounding set", capabilities::empty_bounding_set)?;
    steps.give_up("core files", give_up_core_files)?;
    steps.give_up("user", || confinement.user.map_or(Ok(()), PoolUser::become_user))?;
    steps.give_up("capabilities", capabilities::drop_all)?;
    steps.give_up("privileges", give_up_privileges)?;
    let files = steps.time("files", || files::close_files(&confinement.readable))?;
    steps.time("calls", calls::close_calls)?;
    Ok(Confined { user: confinement.user, network, files, took: steps.took })
}

fn check_threads() -> Result<(), ConfineError> {
    let path = "/proc/self/task";
    let threads = fs::read_dir(path).map_err(|source| ConfineError::Proc { path, source })?.count();
    match threads {
        THREADS => Ok(()),
        threads => Err(ConfineError::Threads { threads }),
    }
}

/// See "Core files and tracers" above. A process that may not raise a limit of 0 keeps that.
fn give_up_core_files() -> Result<(), Errno> {
    let limit = |bytes| Rlimit { current: Some(bytes), maximum: Some(bytes) };
    setrlimit(Resource::Core, limit(1)).or_else(|_| setrlimit(Resource::Core, limit(0)))
}

/// See "Core files and tracers" and "The end of the parent" above. Landlock and seccomp need what `set_no_new_privs`
/// does. The kernel forgets the signal when the ids of a process change, so that this step comes after that.
fn give_up_privileges() -> Result<(), Errno> {
    set_no_new_privs(true)?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    set_dumpable_behavior(DumpableBehavior::Dumpable)
}

/// The steps that are done, and their times.
#[derive(Default)]
struct Steps {
    took: Vec<(&'static str, Duration)>,
}

impl Steps {
    fn time<T>(
        &mut self,
        step: &'static str,
        work: impl FnOnce() -> Result<T, ConfineError>,
    ) -> Result<T, ConfineError> {
        let begun = Instant::now();
        let done = work()?;
        self.took.push((step, begun.elapsed()));
        Ok(done)
    }

    fn give_up(
        &mut self,
        step: &'static str,
        work: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), ConfineError> {
        self.time(step, || work().map_err(|error| ConfineError::Step { step, source: error.into() }))
    }
}
