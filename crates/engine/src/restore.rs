//! When the daemon starts: the pools that it had open when it went down, opened again.
//!
//! ```text
//!  cache file ─► as this host left it? ─► opened, logs replayed, mounted
//!                     │ no                     │ fails
//!                     ▼                        ▼
//!                 absent: UNAVAIL in lists; the log and `daemon status` have the reason (see `absent`)
//! ```
//! A pool whose opening ended the last daemon is left out: see `opening`.
//!
//! Nobody asked for these pools, so nothing is forced: a pool that another host has had since is left
//! alone, see `pool`'s `owner`. One that was exported or destroyed elsewhere, or whose devices have
//! been away for a month, is not tried again.

use crate::absent::{Presence, presence};
use crate::cache::{CacheError, CachedPool, PoolCache};
use crate::cachefile::CacheFile;
use crate::held::Held;
use crate::opening::boot_of;
use crate::replay::ReplayTeller;
use crate::{Holder, refusal};
use control::{Failure, FailureKind};
use env::Machine;
use pool::{ImportSpec, Left, Pool, PoolError};
use std::path::PathBuf;
use std::sync::Arc;
use units::{Guid, Txg};

/// After this time without its devices a pool is forgotten.
const GONE_AFTER_SECS: u64 = 30 * 24 * 3600;

/// A pool of the cache file that was not opened again.
pub struct Absent {
    /// As the cache file has it.
    pub cached: CachedPool,
    /// Why, in the words of an import.
    pub why: Failure,
    /// The pool stays in the cache file. The daemon tries to open the pool again when other devices are there, and at the
    /// next start.
    pub is_tried_again: bool,
    /// What its paths led to at the last attempt.
    pub tried: Presence,
    /// What its paths led to at the last look.
    pub seen: Presence,
}

impl Absent {
    fn new(machine: &dyn Machine, cached: CachedPool, why: Failure, is_tried_again: bool) -> Self {
        let tried = presence(machine, &cached);
        Self { cached, why, is_tried_again, seen: tried.clone(), tried }
    }
}

/// What is done with the file systems of the pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtStart {
    /// They are mounted, as their properties say.
    Mount,
    /// They stay unmounted.
    LeaveUnmounted,
}

impl Holder {
    /// Opens the pools of the cache file again.
    pub(super) async fn restore_all(&self, at_start: AtStart) {
        let Some(cache) = &self.cache else { return };
        let last_words = cache.take_last_words();
        let mut cached = match cache.load() {
            Ok(cached) => cached,
            Err(error) => {
                tracing::error!(error = refusal::chain(&error), "no pools brought back");
                if matches!(error, CacheError::Damaged { .. }) {
                    put_list_aside(cache);
                }
                return;
            }
        };
        if cached.is_empty() {
            return;
        }
        let boot = boot_of(&*self.machine);
        cached.iter_mut().for_each(|pool| pool.judge(&boot, last_words.as_deref()));
        self.waiting.lock().clone_from(&cached);
        for pool in cached {
            match pool.why_left_out() {
                Some(why) => self.leave_out(pool, why),
                None => {
                    self.note_opening(&pool, &boot);
                    self.restore_one(pool, at_start).await;
                }
            }
        }
        self.remember();
        self.follow_absent();
    }

    /// Writes down that a pool is being opened, and that the opening of the pools before it has ended.
    fn note_opening(&self, pool: &CachedPool, boot: &str) {
        let mut waiting = self.waiting.lock();
        let found = waiting.iter_mut().filter(|waiting| waiting.guid == pool.guid);
        found.for_each(|waiting| waiting.begin_opening(boot));
        drop(waiting);
        self.remember();
    }

    fn leave_out(&self, cached: CachedPool, why: Failure) {
        tracing::error!(pool = cached.name, reason = %why, "left out");
        self.waiting.lock().retain(|waiting| waiting.guid != cached.guid);
        self.absent.lock().push(Absent::new(&*self.machine, cached, why, true));
    }

    pub(super) async fn restore_one(&self, cached: CachedPool, at_start: AtStart) {
        if self.pools.read().contains_key(&cached.name) {
            let reason = "another pool of that name is open";
            let why = Failure::cannot(FailureKind::Exists, "open", &cached.name, reason);
            return self.leave_out(cached, why);
        }
        let spec = ImportSpec {
            paths: cached.devices.iter().map(PathBuf::from).collect(),
            guid: Some(Guid::new(cached.guid)),
            new_name: Some(cached.name.clone()),
            is_name_temporary: cached.has_temporary_name,
            left: Some(Left {
                hostid: cached.hostid,
                txg: Txg::new(cached.txg),
                behind: cached.behind.iter().copied().map(Guid::new).collect(),
            }),
            read_only: cached.readonly,
            without_logs: self.lacks_only(&cached).await,
            replay_watch: Some(Arc::new(ReplayTeller::default())),
            ..ImportSpec::default()
        };
        let load_guid = self.env.random_u64();
        let mut found = Pool::import(Arc::clone(&self.env), &spec, self.tuning()).await;
        if let Err(PoolError::NoSuchPool) = found {
            // It got another guid, and the power went before that was noted here: it is what has its name on its devices.
            let named = ImportSpec { guid: None, name: Some(cached.name.clone()), ..spec.clone() };
            let other = Pool::import(Arc::clone(&self.env), &named, self.tuning()).await;
            found = if other.is_ok() { other } else { found };
        }
        match found {
            Ok(pool) => {
                let held = Held::new(pool, cached.altroot, CacheFile::Own, load_guid);
                self.restored(&cached.name, held, at_start).await;
            }
            Err(error) => self.absent_for(cached, &spec, &error).await,
        }
    }

    async fn restored(&self, name: &str, held: Held, at_start: AtStart) {
        let held = Arc::new(held);
        self.follow_absences(&held.pool);
        self.pools.write().insert(name.to_owned(), Arc::clone(&held));
        self.waiting.lock().retain(|waiting| waiting.guid != held.pool.guid().get() && waiting.name != name);
        self.share_memory();
        tracing::info!(pool = name, "brought back");
        if at_start == AtStart::Mount
            && let Err(failure) = self.mount_restored(&held).await
        {
            tracing::error!(pool = name, %failure, "not all mounted");
        }
    }

    async fn absent_for(&self, mut cached: CachedPool, spec: &ImportSpec, error: &PoolError) {
        let why = self.explain(&cached.name, spec, error).await;
        tracing::error!(pool = cached.name, reason = %why, "not brought back");
        let now_secs = self.env.wall_clock().as_secs();
        let is_tried_again = match error {
            PoolError::LeftAlone(why) => *why == pool::LeftAlone::Older,
            PoolError::NoSuchPool => {
                let since_secs = *cached.missing_since_secs.get_or_insert(now_secs);
                now_secs.saturating_sub(since_secs) < GONE_AFTER_SECS
            }
            _ => true,
        };
        if !is_tried_again {
            tracing::warn!(pool = cached.name, "is not tried again");
        }
        self.waiting.lock().retain(|waiting| waiting.guid != cached.guid);
        // Somebody has imported the pool meanwhile.
        if self.all().iter().any(|held| held.pool.guid().get() == cached.guid) {
            return;
        }
        // The attempt has ended.
        cached.opening = None;
        self.absent.lock().push(Absent::new(&*self.machine, cached, why, is_tried_again));
    }

    /// Whether no log is missing but those that were given up before.
    async fn lacks_only(&self, cached: &CachedPool) -> bool {
        if cached.lost_logs.is_empty() {
            return false;
        }
        let paths: Vec<PathBuf> = cached.devices.iter().map(PathBuf::from).collect();
        let missing = self.missing_logs(&paths, Guid::new(cached.guid)).await;
        missing.iter().all(|log| cached.lost_logs.contains(&log.guid))
    }

    /// Gives up a pool that was not opened again, as `zpool export` does with one that cannot be
    /// used; whether there was one of that name.
    pub(super) fn forget_absent(&self, name: &str) -> bool {
        if self.pools.read().contains_key(name) {
            return false;
        }
        let was_there = self.absent.lock().extract_if(.., |absent| absent.cached.name == name).count() > 0;
        if was_there {
            self.remember();
        }
        was_there
    }

    /// The refusal for a pool that is not open, with the reason if it should be.
    pub(super) fn no_such_pool(&self, name: &str) -> Failure {
        let failure = Failure::no_such_pool(name);
        let absent = self.absent.lock();
        let Some(found) = absent.iter().find(|absent| absent.cached.name == name) else { return failure };
        found.why.stderr.iter().fold(failure, |failure, line| failure.and(line))
    }
}

/// A damaged list of pools may still tell an administrator which they were.
fn put_list_aside(cache: &PoolCache) {
    match cache.put_aside() {
        Ok(aside) => tracing::error!(file = %aside.display(), "the damaged list of pools was put aside"),
        Err(error) => tracing::error!(error = refusal::chain(&error), "the damaged list stays"),
    }
}
