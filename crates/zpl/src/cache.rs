//! The znodes in memory: at most one for each object.
//!
//! A znode stays in memory while it is in use or open, or while its access time is not stored yet.
//! If many znodes stay only for their access times, these are stored early. Other znodes stay as
//! long as there is room: a sixteenth of the limit of the block cache. Eviction walks in a circle
//! over the object numbers, because a front with a cache of its own hides the recency of accesses.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use dmu::Objset;
use parking_lot::Mutex;
use units::ObjectId;

use crate::error::Result;
use crate::znode::{Life, Znode};

const SHARDS: usize = 64;
/// Unused znodes that a shard keeps at most, and at least.
const UNUSED_MAX: u64 = 512;
const UNUSED_MIN: u64 = 16;
/// What a znode takes with its dnode, about.
const ZNODE_BYTES: u64 = 2 << 10;
/// The part of the memory for blocks that unused znodes take beside it.
const MEMORY_FRACTION: u64 = 16;
/// When a shard has more than this many times the znodes that it has room for, access times are
/// stored early, of [`STORED_AT_ONCE`] znodes at a time.
const CROWDED: usize = 2;
const STORED_AT_ONCE: usize = 8;
/// Znodes looked at when one comes in and the shard is full.
const SWEEP: usize = 4;

#[derive(Default)]
struct Shard {
    /// Held while a znode is being read, so that an object is read once.
    loading: async_lock::Mutex<()>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    znodes: BTreeMap<ObjectId, Arc<Znode>>,
    /// Where the last sweep ended.
    hand: ObjectId,
    /// The object number where the last search for access times ended.
    atime_hand: ObjectId,
}

/// See the module. Shards are made when they are used first: most file systems that are open have few
/// files in use.
pub struct ZnodeCache {
    os: Arc<Objset>,
    shards: Box<[OnceLock<Box<Shard>>]>,
}

impl ZnodeCache {
    /// Of a file system's objects.
    pub fn new(os: Arc<Objset>) -> Self {
        Self { os, shards: std::iter::repeat_with(OnceLock::new).take(SHARDS).collect() }
    }

    /// Unused znodes that a shard keeps now.
    fn room(&self) -> usize {
        let memory = self.os.zio().cache_limit_bytes() / MEMORY_FRACTION;
        (memory / ZNODE_BYTES / SHARDS as u64).clamp(UNUSED_MIN, UNUSED_MAX) as usize
    }

    fn shard(&self, object: ObjectId) -> &Shard {
        self.shards[object.get() as usize % SHARDS].get_or_init(Box::default)
    }

    /// The znode of `object`, made by `load` when it is not in memory.
    ///
    /// # Errors
    /// Those of `load`.
    pub async fn get<F>(&self, object: ObjectId, load: impl FnOnce() -> F) -> Result<Arc<Znode>>
    where
        F: Future<Output = Result<Arc<Znode>>>,
    {
        let shard = self.shard(object);
        if let Some(znode) = shard.known.lock().znodes.get(&object) {
            return Ok(Arc::clone(znode));
        }
        let _loading = shard.loading.lock().await;
        if let Some(znode) = shard.known.lock().znodes.get(&object) {
            return Ok(Arc::clone(znode));
        }
        let znode = load().await?;
        shard.known.lock().insert(Arc::clone(&znode), self.room());
        Ok(znode)
    }

    /// Takes up a znode that has just been made.
    pub fn insert(&self, znode: Arc<Znode>) {
        self.shard(znode.object()).known.lock().insert(znode, self.room());
    }

    /// Forgets an object that has been freed.
    pub fn remove(&self, object: ObjectId) {
        self.shard(object).known.lock().znodes.remove(&object);
    }

    /// Returns some znodes of the shard of `object` that stay in memory only because their access
    /// times are not stored, if the shard has many more znodes than it has room for.
    /// (test: `files_that_were_read_once_do_not_stay_in_memory`)
    pub fn crowding(&self, object: ObjectId) -> Vec<Arc<Znode>> {
        let mut known = self.shard(object).known.lock();
        if known.znodes.len() <= CROWDED * self.room() {
            return Vec::new();
        }
        let mut seen = known.next_in_circle(STORED_AT_ONCE);
        seen.retain(|znode| znode.atime_dirty() && !znode.is_open());
        seen
    }

    /// Returns the number of znodes in memory.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.shards.iter().filter_map(OnceLock::get).map(|shard| shard.known.lock().znodes.len()).sum()
    }

    /// Every znode whose access time is not stored yet.
    pub fn with_dirty_atime(&self) -> Vec<Arc<Znode>> {
        let dirty = |shard: &Shard| -> Vec<_> {
            shard.known.lock().znodes.values().filter(|znode| znode.atime_dirty()).cloned().collect()
        };
        self.shards.iter().filter_map(OnceLock::get).map(|shard| &**shard).flat_map(dirty).collect()
    }
}

fn is_unused(znode: &Arc<Znode>) -> bool {
    // New references are made only under the lock that the caller holds.
    Arc::strong_count(znode) == 1 && !znode.is_open() && !znode.atime_dirty() && znode.life() == Life::Linked
}

impl Known {
    fn insert(&mut self, znode: Arc<Znode>, room: usize) {
        if self.znodes.len() >= room {
            self.sweep();
        }
        self.znodes.insert(znode.object(), znode);
    }

    /// Returns the znodes after those that the previous call returned.
    fn next_in_circle(&mut self, count: usize) -> Vec<Arc<Znode>> {
        let after = (Bound::Excluded(self.atime_hand), Bound::Unbounded);
        let seen: Vec<Arc<Znode>> =
            self.znodes.range(after).map(|(_, znode)| znode).take(count).cloned().collect();
        self.atime_hand = seen.get(count - 1).map(|last| last.object()).unwrap_or_default();
        seen
    }

    fn sweep(&mut self) {
        let after = (Bound::Excluded(self.hand), Bound::Unbounded);
        let seen: Vec<ObjectId> = self.znodes.range(after).map(|(&object, _)| object).take(SWEEP).collect();
        self.hand = if seen.len() < SWEEP { ObjectId::default() } else { seen[SWEEP - 1] };
        for object in seen {
            if self.znodes.get(&object).is_some_and(is_unused) {
                self.znodes.remove(&object);
            }
        }
    }
}
