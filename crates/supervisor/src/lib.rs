//! A process for each pool, and a service that answers for all of them.
//!
//! ```text
//!  commands ─► doors of the daemon ─► Supervisor ─┬─ seat of "tank" ─► PoolProcess ─► engine, mounts, devices of tank
//!                                                 ├─ seat of "home" ─► PoolProcess ─► engine, mounts, devices of home
//!                                                 └─ a pool that is nowhere: the engine of the daemon, without pools
//! ```
//! A pool's process is the same program with an engine of its own. It has a run-time directory and a list of
//! pools to itself, so that its start brings back its pool as the start of a daemon brings back all pools.
//! It serves its mounts itself: a write and an `fsync` never come by the daemon.
//!
//! When a process ends, the requests under way to its pool fail, and the mounts answer `ENOTCONN`. A new process
//! opens the pool and mounts it again. Other pools do not notice. A pool whose processes end again and again
//! stays closed until somebody imports it.
//!
//! A new process looks for pools, makes them and imports them, so that the daemon parses no label, block or
//! stream. The daemon parses tokens of `zfs send -t`, and the events that processes hand on.
//!
//! Invariants
//! - A process does not outlive its daemon: it ends when its standard input does.
//!   (test: `no_process_of_a_pool_outlives_its_daemon`)
//! - A name of a pool has one seat. (test: `two_pools_of_one_name_are_not_open_at_once`)
//! - No acknowledgement leaves a process that has ended, and the next one opens the pool only when the lock of
//!   the process before it is free.
//!   (test: `a_pool_whose_process_ends_loses_nothing_and_no_other_pool_notices`)
#![forbid(unsafe_code)]

mod deaths;
mod founding;
mod granted;
mod groups;
mod injections;
mod lists;
mod mounts;
mod neighbours;
mod pool_process;
mod program;
mod seat;
mod seats;
mod service;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use broker::Beginning;
use control::{RunPaths, Service};
use engine::CacheFileTable;
use env::{Env, Machine};
use events::EventRing;

pub use groups::PoolGroups;
pub use lists::join_lists;
pub use program::{PoolProgram, ProcessStarter};

use founding::NameTurns;
use injections::InjectionNumbers;
use seats::PoolSeats;

/// What a supervisor stands on.
pub struct SupervisorGround {
    /// The time.
    pub env: Arc<dyn Env>,
    /// Small files.
    pub machine: Arc<dyn Machine>,
    /// The directories of the daemon.
    pub paths: RunPaths,
    /// What starts the process of a pool.
    pub starter: ProcessStarter,
    /// What each process is told when it begins.
    pub beginning: Beginning,
    /// The cache files that the processes share.
    pub cache_files: Arc<CacheFileTable>,
    /// The memory of all pools in bytes.
    pub memory_bytes: u64,
}

/// Pools that are open in processes of their own. Clones are the same supervisor. A service without
/// pools answers for pools that no process has, so that such a request is refused in the same words.
#[derive(Clone)]
pub struct Supervisor(Arc<Inner>);

struct Inner {
    ground: SupervisorGround,
    /// A service without pools.
    blank: Arc<dyn Service>,
    seats: PoolSeats,
    /// Who may make or import a pool of a name.
    turns: NameTurns,
    /// Events of all pools.
    events: EventRing,
    injections: InjectionNumbers,
    /// On the clock of the environment.
    started: Duration,
}

impl Supervisor {
    /// Has no process yet.
    pub fn new(ground: SupervisorGround, blank: Arc<dyn Service>) -> Self {
        let run = u64::try_from(ground.env.wall_clock().as_nanos()).unwrap_or(u64::MAX);
        let started = ground.env.now();
        Self(Arc::new(Inner {
            ground,
            blank,
            seats: PoolSeats::default(),
            turns: NameTurns::default(),
            events: EventRing::of_run(run.max(1)),
            injections: InjectionNumbers::default(),
            started,
        }))
    }

    /// Starts a process for each pool that was open when the last daemon ended, all at the same time, and
    /// mounts their file systems in the order of mount points.
    pub async fn restore(&self) {
        let inner = &self.0;
        if let Err(error) = lists::make_private(&inner.ground.paths.pools_run_dir()) {
            return tracing::error!(%error, "there is no directory for the processes of pools");
        }
        let numbers = match lists::split_list(&inner.ground.machine, &inner.ground.paths) {
            Ok(numbers) => numbers,
            Err(error) => {
                return tracing::error!(error = %engine::refusal::chain(&error), "no pools brought back");
            }
        };
        let count = numbers.len();
        let opened = numbers.into_iter().map(|number| inner.bring_back(number, count));
        futures::future::join_all(opened).await;
        if let Err(failure) = self.mount_all(control::Mount::default()).await {
            tracing::error!(%failure, "not all mounted");
        }
    }

    /// Ends what waits for pools whose devices fail: the daemon is about to end.
    pub async fn stop_waiting(&self) {
        self.0.seats.begin_ending();
        self.0.seats.all().iter().for_each(|seat| seat.terminate());
    }

    /// Waits until all processes have synced their pools and have ended.
    pub async fn settle(&self) {
        self.stop_waiting().await;
        futures::future::join_all(self.0.seats.all().iter().map(|seat| seat.until_closed())).await;
    }
}
