//! The engine: pools held open, and every request done to them.
//!
//! ```text
//!  Service method ─► its pool's turn ─► Runner: a thread of its own ─► Holder: pools, mounts, cache file
//!                    (changes only)                                      │             │        │
//!                                                                        ▼             ▼        ▼
//!                                                                  pool::Pool       Front    Machine
//! ```
//! The engine is the same in the daemon, in a program that has it as a library, and in simulations: what
//! differs comes in as a [`Ground`]. It starts no thread, opens no file and reads no clock.
//!
//! Looking at pools never waits for a change that is under way, nor does changing another pool.
//!
//! Invariants
//! - A pool, its datasets and its mounts are changed by one request at a time: see [`turns`].
//! - A device is taken by one request at a time, from the look at whose it is until it is held.
//! - The cache file names a pool before the command that made or imported it has its answer
//!   (test: `a_killed_daemon_brings_its_pools_back`).
#![forbid(unsafe_code)]

mod absences;
pub mod absent;
pub mod accounts;
pub mod admit;
mod align;
mod attach;
pub mod bookmarks;
mod by_guid;
mod cache;
mod cache_table;
mod cachefile;
mod candidates;
mod choice;
pub mod clones;
pub mod compat;
mod counted;
mod create;
mod ctldir;
mod datasets;
pub mod delegation;
mod destroy;
pub mod destruction;
mod diff;
mod embed;
mod encryption;
mod events;
mod features;
mod find;
pub mod foreign;
mod foreign_files;
mod front;
mod gather;
mod head_sends;
mod held;
pub mod holds;
mod identity;
mod import;
mod in_place;
mod info;
mod inject;
mod io;
mod labelclear;
pub mod lineage;
mod listing;
mod log_facts;
mod log_recording;
mod log_users;
mod logs;
pub mod memory;
mod mount_options;
mod mounting;
mod mounts;
pub mod names;
pub mod nice;
mod notable;
mod obstacle;
mod opening;
mod package;
mod placing;
mod presence;
mod probe;
mod prop_change;
pub mod props;
pub mod receive;
mod redact;
pub mod refusal;
mod remove;
mod rename;
mod repair;
mod replay;
mod restore;
mod returning;
pub mod rollback;
mod runner;
mod saved;
pub mod send;
mod service;
mod settings;
mod siblings;
pub mod snapshots;
mod snapspec;
pub mod spec;
mod split;
mod storage;
mod streams;
mod support;
mod sweep;
mod taken;
mod turns;
mod upgrade;
mod vdev_props;
mod vdevs;
mod volumes;

pub use cache::{CacheError, CachedPool, PoolCache};
pub use cache_table::CacheFileTable;
pub use cachefile::{CacheFileJoin, CacheFiles};
pub use candidates::paths;
pub use front::{
    AccessTimes, Front, LetGo, ListedSnapshot, MountError, MountFlags, MountOptions, Mounted, OrphanMount,
    Peer, PlaceChoice, Short, Shown, Snapdir, SnapshotError, SnapshotId, SnapshotSummary, Snapshots,
    Suspended, SyncingThread, UnmountReach, UserIds,
};
pub use import::rewind_lines;
pub use opening::Opening;
pub use runner::{OnTheSpot, Runner};

use cachefile::CacheFileState;
use control::Failure;
use env::{Env, Machine};
use held::Held;
use inject::Handlers;
use memory::Budget;
use mounts::MountTable;
use notable::Notable;
use parking_lot::{Mutex, RwLock};
use pool::{Host, Tuning};
use restore::Absent;
use returning::Returning;
use siblings::Siblings;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;
use streams::Streams;
use turns::Turns;

/// What an engine stands on.
pub struct Ground {
    /// Time, tasks, randomness, devices.
    pub env: Arc<dyn Env>,
    /// Small files, and what devices there are.
    pub machine: Arc<dyn Machine>,
    /// What shows file systems to programs; without one nothing is ever mounted.
    pub front: Option<Arc<dyn Front>>,
    /// Where the work of requests is done.
    pub runner: Arc<dyn Runner>,
}

/// How an engine works.
pub struct Options {
    /// The file that remembers which pools are open; nothing does where there is none.
    pub cache: Option<PathBuf>,
    /// Cache files in the format of OpenZFS; without a default file if nothing is said.
    pub cache_files: Option<CacheFiles>,
    /// Memory that all pools share.
    pub memory_bytes: u64,
    /// For every pool; its part of the memory is the engine's to say.
    pub tuning: Tuning,
    /// The process's number, to be told.
    pub pid: u32,
}

/// Pools that are open, and what is mounted of them. Clones are the same engine.
#[derive(Clone)]
pub struct Engine(Arc<Holder>);

struct Holder {
    /// For what outlives a request: mounts.
    own: Weak<Holder>,
    env: Arc<dyn Env>,
    machine: Arc<dyn Machine>,
    runner: Arc<dyn Runner>,
    cache: Option<PoolCache>,
    memory: Arc<Budget>,
    tuning: Tuning,
    pid: u32,
    /// On the clock of the environment.
    started: Duration,
    pools: RwLock<BTreeMap<String, Arc<Held>>>,
    /// Pools of the cache file that were not opened again.
    absent: Mutex<Vec<Absent>>,
    /// Pools of the cache file that are still to be opened.
    waiting: Mutex<Vec<CachedPool>>,
    cache_files: CacheFileState,
    mounts: MountTable,
    /// Faults on order.
    handlers: Mutex<Handlers>,
    /// Who may change which pool.
    turns: Turns,
    /// What histories may be told of others.
    notable: Notable,
    /// Streams that are sent and received.
    streams: Streams,
    /// Pools that other processes hold.
    siblings: Siblings,
    /// Pools that work without some of their devices.
    returning: Returning,
    /// Held while devices are taken: for new pools, for new vdevs, to be wiped.
    taking: async_lock::Mutex<()>,
    /// Held while what depends on the set of open pools follows it.
    following: Mutex<()>,
}

impl Engine {
    /// Without pools yet.
    #[must_use]
    pub fn new(ground: Ground, options: Options) -> Self {
        let Ground { env, machine, front, runner } = ground;
        let cache_files =
            options.cache_files.unwrap_or_else(|| CacheFiles::without_default(Arc::clone(&machine)));
        let memory = Budget::new(options.memory_bytes);
        memory.keep(&env, Arc::clone(&machine));
        let tuning = Tuning { events: events::ring(&env), ..options.tuning };
        Self(Arc::new_cyclic(|own| Holder {
            own: Weak::clone(own),
            cache: options.cache.map(|path| PoolCache::at(Arc::clone(&machine), path)),
            mounts: MountTable::new(front),
            handlers: Mutex::default(),
            started: env.now(),
            turns: Turns::new(Arc::clone(&env)),
            notable: Notable::default(),
            streams: Streams::default(),
            siblings: Siblings::default(),
            returning: Returning::default(),
            env,
            machine,
            runner,
            memory,
            tuning,
            pid: options.pid,
            pools: RwLock::default(),
            absent: Mutex::default(),
            waiting: Mutex::default(),
            cache_files: CacheFileState::new(cache_files),
            taking: async_lock::Mutex::new(()),
            following: Mutex::default(),
        }))
    }
}

impl Holder {
    fn tuning(&self) -> Tuning {
        Tuning { memory_bytes: Some(self.memory.share_of_one_more()), ..self.tuning.clone() }
    }

    fn host(&self) -> &Host {
        &self.tuning.host
    }

    fn pool(&self, name: &str) -> Result<Arc<Held>, Failure> {
        self.pools.read().get(name).cloned().ok_or_else(|| self.no_such_pool(name))
    }

    fn all(&self) -> Vec<Arc<Held>> {
        self.pools.read().values().cloned().collect()
    }

    /// The pool a dataset is in.
    fn pool_of(&self, dataset: &str) -> Result<Arc<Held>, Failure> {
        let found = self.pools.read().get(crate::names::pool_of(dataset)).cloned();
        found.ok_or_else(|| Failure::no_such_dataset(dataset))
    }

    /// Takes in a pool that was made or imported.
    fn take_in(&self, held: Held) -> Arc<Held> {
        let held = Arc::new(held);
        held.set_cache_file(self.cache_files.meant(held.cache_file()));
        self.follow_absences(&held.pool);
        self.absent.lock().retain(|absent| absent.cached.guid != held.pool.guid().get());
        self.pools.write().insert(held.pool.name(), Arc::clone(&held));
        self.follow_pools();
        held
    }

    /// Lets go of a pool that was closed.
    fn let_go(&self, name: &str) {
        self.pools.write().remove(name);
        self.follow_pools();
    }

    /// The set of open pools has changed.
    fn follow_pools(&self) {
        self.share_memory();
        self.remember();
    }

    /// The set of open pools has changed: each has its share of the memory from now on.
    fn share_memory(&self) {
        let _one = self.following.lock();
        self.memory.share_among(self.all().into_iter().map(|held| Arc::clone(&held.pool)));
    }

    /// Writes the cache files: pools that are open, and those to be tried again.
    fn remember(&self) {
        let _one = self.following.lock();
        self.write_cache_files();
        let absent: Vec<CachedPool> = {
            let absent = self.absent.lock();
            absent.iter().filter(|absent| absent.is_tried_again).map(|absent| absent.cached.clone()).collect()
        };
        let open = self.all().into_iter().filter_map(|held| held.cached());
        let waiting = self.waiting.lock().clone();
        let pools: Vec<CachedPool> = open.chain(absent).chain(waiting).collect();
        let stored = self.cache.as_ref().map_or(Ok(()), |cache| cache.store(&pools));
        if let Err(error) = stored {
            tracing::error!(error = %refusal::chain(&error), "pools will not be brought back after a restart");
        }
    }
}
