//! The engine: pools held open, and every request done to them.
//!
//! ```text
//!  Service method ─► its pool's turn ─► a thread of its own ─► Env::block_on ─► Holder: pools, mounts, cache
//!                    (changes only)                                             │
//!                                                                               ▼
//!                                                             pool::Pool        front_fuse::Mounted
//! ```
//! Requests run on blocking threads, so that I/O is polled by the thread that asked for it;
//! looking at pools never waits for a change that is under way, nor does changing another pool.
//!
//! Invariants
//! - A pool, its datasets and its mounts are changed by one request at a time: see [`turns`].
//! - A device is taken by one request at a time, from the look at whose it is until it is held.
//! - The cache file names a pool before the command that made or imported it has its answer
//!   (test: `a_killed_daemon_brings_its_pools_back`).
#![forbid(unsafe_code)]

mod cache;
mod cachefile;
mod candidates;
mod choice;
mod create;
mod datasets;
mod destroy;
mod features;
mod held;
mod host;
mod import;
mod info;
mod labelclear;
pub mod memory;
mod mount_options;
mod mounting;
mod mounts;
mod obstacle;
mod probe;
pub mod refusal;
mod rename;
mod repair;
mod replay;
mod restore;
mod service;
mod settings;
mod support;
mod turns;
mod upgrade;
mod vdevs;

pub use cache::{CacheError, CachedPool, PoolCache};
pub use candidates::paths;
pub use host::this_host;

use control::Failure;
use device::{Env, RealEnv};
use held::Held;
use memory::Budget;
use mounts::MountTable;
use parking_lot::{Mutex, RwLock};
use pool::{Host, Tuning};
use restore::Absent;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use turns::Turns;

/// Pools that are open, and what is mounted of them.
pub struct Engine(Arc<Holder>);

struct Holder {
    real: Arc<RealEnv>,
    env: Arc<dyn Env>,
    cache: PoolCache,
    memory: Arc<Budget>,
    host: Host,
    started: Instant,
    pools: RwLock<BTreeMap<String, Arc<Held>>>,
    /// Pools of the cache file that were not opened again.
    absent: Mutex<Vec<Absent>>,
    /// Cache files of users that have pools of ours.
    cache_files: Mutex<BTreeSet<PathBuf>>,
    mounts: MountTable,
    /// Who may change which pool.
    turns: Turns,
    /// Held while devices are taken: for new pools, for new vdevs, to be wiped.
    taking: async_lock::Mutex<()>,
    /// Held while what depends on the set of open pools follows it.
    following: Mutex<()>,
}

impl Engine {
    /// Without pools yet; those to come share so much memory.
    pub fn new(env: Arc<RealEnv>, cache: PoolCache, memory_bytes: u64) -> Self {
        let memory = Budget::new(memory_bytes);
        memory.keep(&(Arc::clone(&env) as Arc<dyn Env>));
        Self(Arc::new(Holder {
            env: Arc::clone(&env) as Arc<dyn Env>,
            mounts: MountTable::new(Arc::clone(&env)),
            real: env,
            cache,
            host: this_host(),
            memory,
            started: Instant::now(),
            pools: RwLock::default(),
            absent: Mutex::default(),
            cache_files: Mutex::default(),
            turns: Turns::default(),
            taking: async_lock::Mutex::new(()),
            following: Mutex::default(),
        }))
    }
}

impl Holder {
    fn tuning(&self) -> Tuning {
        let default = Tuning {
            host: self.host.clone(),
            memory_bytes: Some(self.memory.share_of_one_more()),
            end_program: || std::process::abort(),
            ..Tuning::default()
        };
        match std::env::var("SAWMILL_TXG_TIMEOUT").ok().and_then(|secs| secs.parse::<f64>().ok()) {
            Some(secs) if secs > 0.0 => {
                Tuning { txg_timeout: Duration::from_secs_f64(secs.min(3600.0)), ..default }
            }
            _ => default,
        }
    }

    fn pool(&self, name: &str) -> Result<Arc<Held>, Failure> {
        self.pools.read().get(name).cloned().ok_or_else(|| self.no_such_pool(name))
    }

    fn all(&self) -> Vec<Arc<Held>> {
        self.pools.read().values().cloned().collect()
    }

    /// The pool a dataset is in.
    fn pool_of(&self, dataset: &str) -> Result<Arc<Held>, Failure> {
        let found = self.pools.read().get(control::names::pool_of(dataset)).cloned();
        found.ok_or_else(|| Failure::no_such_dataset(dataset))
    }

    /// Takes in a pool that was made or imported.
    fn take_in(&self, held: Held) -> Arc<Held> {
        let held = Arc::new(held);
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
        let pools: Vec<CachedPool> = open.chain(absent).collect();
        if let Err(error) = self.cache.store(&pools) {
            tracing::error!(error = %refusal::chain(&error), "pools will not be brought back after a restart");
        }
    }
}
