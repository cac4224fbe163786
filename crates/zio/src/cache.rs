//! Blocks kept in memory, as readers see them: verified and decompressed.
//!
//! ```text
//!   insert ─► probation ──hit──► protected
//!                │  ▲               │
//!         evicted│  └──overflow─────┘ (more than four fifths of the room)
//!                ▼
//! ```
//! A block enters on probation; a second use protects it. What falls out of protection gets
//! another round of probation. So one pass over much data cannot drive out what is used again
//! and again. Each shard does this by itself, under its own short lock.
//!
//! Invariants
//! - The bytes held never exceed the limit. (test: `the_cache_stays_within_its_bytes`)
//! - A freed or rewritten block is never found again: places are used anew, so a key also has
//!   birth and checksum. (test: `a_place_used_again_is_another_block`)
//! - A scan does not evict what is used often. (test: `a_scan_leaves_hot_blocks_in_place`)

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use device::IoBuf;
use ondisk::Blkptr;
use parking_lot::Mutex;

#[cfg(test)]
mod tests;

const SHARDS: usize = 16;
/// Share of a shard's room that protected blocks may take, in fifths.
const PROTECTED_FIFTHS: usize = 4;

/// What tells one block from any other that ever was or will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    vdev: u32,
    offset: u64,
    birth: u64,
    checksum: [u64; 4],
}

impl Key {
    fn of(bp: &Blkptr) -> Self {
        let dva = bp.dva(0);
        Self {
            vdev: dva.vdev.get(),
            offset: dva.offset.get(),
            birth: bp.physical_birth().get(),
            checksum: bp.checksum(),
        }
    }

    /// Neighbouring blocks go to different shards.
    fn shard(&self) -> usize {
        let mixed = (self.offset >> 9).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(self.vdev);
        (mixed >> 32) as usize % SHARDS
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segment {
    Probation,
    Protected,
}

struct Entry {
    buf: Arc<IoBuf>,
    segment: Segment,
    /// Place in the segment's order: the greater, the more recent.
    tick: u64,
}

/// Order of use within one segment.
#[derive(Default)]
struct Order {
    keys: BTreeMap<u64, Key>,
    bytes: usize,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<Key, Entry>,
    probation: Order,
    protected: Order,
    ticks: u64,
}

impl Shard {
    fn order(&mut self, segment: Segment) -> &mut Order {
        match segment {
            Segment::Probation => &mut self.probation,
            Segment::Protected => &mut self.protected,
        }
    }

    fn place(&mut self, key: Key, buf: Arc<IoBuf>, segment: Segment) {
        self.ticks += 1;
        let tick = self.ticks;
        let order = self.order(segment);
        order.bytes += buf.len();
        order.keys.insert(tick, key);
        self.entries.insert(key, Entry { buf, segment, tick });
    }

    fn take(&mut self, key: &Key) -> Option<Arc<IoBuf>> {
        let entry = self.entries.remove(key)?;
        let order = self.order(entry.segment);
        order.keys.remove(&entry.tick);
        order.bytes -= entry.buf.len();
        Some(entry.buf)
    }

    fn oldest(&mut self, segment: Segment) -> Option<Key> {
        self.order(segment).keys.first_key_value().map(|(_, key)| *key)
    }

    fn hit(&mut self, key: &Key, room: usize) -> Option<Arc<IoBuf>> {
        let buf = self.take(key)?;
        self.place(*key, buf.clone(), Segment::Protected);
        while self.protected.bytes > room / 5 * PROTECTED_FIFTHS {
            let Some(oldest) = self.oldest(Segment::Protected) else { break };
            if let Some(demoted) = self.take(&oldest) {
                self.place(oldest, demoted, Segment::Probation);
            }
        }
        Some(buf)
    }

    fn shrink_to(&mut self, room: usize) {
        while self.probation.bytes + self.protected.bytes > room {
            let oldest = self.oldest(Segment::Probation).or_else(|| self.oldest(Segment::Protected));
            let Some(oldest) = oldest else { return };
            self.take(&oldest);
        }
    }
}

/// What the cache did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Blocks that were found.
    pub hits: u64,
    /// Blocks that were not.
    pub misses: u64,
    /// Bytes held now.
    pub bytes: u64,
    /// Most bytes that may be held.
    pub limit_bytes: u64,
}

/// The cache.
pub(crate) struct Cache {
    shards: [Mutex<Shard>; SHARDS],
    limit_bytes: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Cache {
    /// An empty cache for at most `limit_bytes`.
    pub(crate) fn new(limit_bytes: u64) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            limit_bytes: AtomicU64::new(limit_bytes),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    fn room(&self) -> usize {
        usize::try_from(self.limit_bytes.load(Relaxed)).unwrap_or(usize::MAX) / SHARDS
    }

    /// The block, if it is there.
    pub(crate) fn get(&self, bp: &Blkptr) -> Option<Arc<IoBuf>> {
        let key = Key::of(bp);
        let found = self.shards[key.shard()].lock().hit(&key, self.room());
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Relaxed);
        found
    }

    /// Keeps a block; one larger than a shard is not kept.
    pub(crate) fn insert(&self, bp: &Blkptr, buf: &Arc<IoBuf>) {
        let key = Key::of(bp);
        let room = self.room();
        if buf.len() > room {
            return;
        }
        let mut shard = self.shards[key.shard()].lock();
        let segment = shard.entries.get(&key).map_or(Segment::Probation, |entry| entry.segment);
        shard.take(&key);
        shard.place(key, buf.clone(), segment);
        shard.shrink_to(room);
    }

    /// Forgets a block.
    pub(crate) fn forget(&self, bp: &Blkptr) {
        let key = Key::of(bp);
        self.shards[key.shard()].lock().take(&key);
    }

    /// Sets another limit, and evicts down to it.
    pub(crate) fn set_limit(&self, limit_bytes: u64) {
        self.limit_bytes.store(limit_bytes, Relaxed);
        let room = self.room();
        for shard in &self.shards {
            shard.lock().shrink_to(room);
        }
    }

    /// What it did so far.
    pub(crate) fn stats(&self) -> CacheStats {
        let bytes = self.shards.iter().map(|shard| {
            let shard = shard.lock();
            (shard.probation.bytes + shard.protected.bytes) as u64
        });
        CacheStats {
            bytes: bytes.sum(),
            hits: self.hits.load(Relaxed),
            misses: self.misses.load(Relaxed),
            limit_bytes: self.limit_bytes.load(Relaxed),
        }
    }
}
