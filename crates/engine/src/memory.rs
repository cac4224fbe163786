//! How much memory the daemon takes: one budget for all pools.
//!
//! ```text
//!  machine, control groups ─► limit ─► budget ─┬─► pool a: cache, dirty data, what is read ahead
//!  SAWMILL_MEMORY, --memory ───────────►│      └─► pool b
//!                                       ▲
//!          what is in use, stalls ──────┘  smaller under pressure, back again after it
//! ```
//! OpenZFS has `zfs_arc_max` in this place. A machine's memory is mostly others': an eighth of it is the
//! daemon's. A control group's is perhaps the daemon's alone, so that nearly half of it is; the rest
//! is for what is not counted: the program, its threads' stacks and the kernel's share of them, blocks on
//! their way to disks, and what lies beside them in the allocator's arenas (a fifth of the budget, see
//! `docs/decisions/2026-11-22-allocator.md`).
//!
//! Invariants
//! - The smallest limit counts, of the machine and of every group on the way up.
//!   (test of `device`: `every_group_on_the_way_up_is_asked`)
//! - The pools' shares are never more than the budget. (test: `shares_follow_who_asks_for_blocks`)

mod keeper;

use env::{Env, Machine};
use parking_lot::Mutex;
use pool::Pool;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Part of the machine's memory that is the daemon's.
const MACHINE_FRACTION: u64 = 8;
/// No less than this, if that leaves others as much.
const MACHINE_MIN_BYTES: u64 = 256 << 20;
/// Of half of a limit, so much is for the program itself.
const PROGRAM_BYTES: u64 = 40 << 20;
/// With less nothing works well, whatever limits say.
const BUDGET_MIN_BYTES: u64 = 32 << 20;
/// The part of the budget that pools have, whether anybody asks them for anything or not.
const EQUAL_FRACTION: u64 = 4;
/// What is left of old demand after each look.
const DEMAND_KEPT_PERCENT: u64 = 95;

/// Of a machine's memory and the smallest limit on it, in bytes, the daemon's part.
#[must_use]
pub fn part(machine: u64, limit: u64) -> u64 {
    let of_machine = (machine / MACHINE_FRACTION).max(MACHINE_MIN_BYTES);
    of_machine.min((limit / 2).saturating_sub(PROGRAM_BYTES)).max(BUDGET_MIN_BYTES)
}

/// `400m`, `8k`, `512`: binary multiples.
#[must_use]
pub fn bytes(word: &str) -> Option<u64> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match word[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Of memory that a process can have, so many bytes are to stay free: with less, the budget shrinks.
#[must_use]
pub fn to_stay_free(limit: u64) -> u64 {
    limit / keeper::SPARE_FRACTION
}

/// The daemon's memory, and the pools that share it.
pub(crate) struct Budget {
    /// What it is without pressure.
    full_bytes: AtomicU64,
    now_bytes: AtomicU64,
    pools: Mutex<BTreeMap<u64, Sharer>>,
}

struct Sharer {
    pool: Weak<Pool>,
    /// Blocks that were not in the cache when it was looked at last.
    misses: u64,
    /// And lately, older ones counting less.
    demand: u64,
}

impl Budget {
    /// So many bytes, no pool yet.
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            full_bytes: AtomicU64::new(bytes),
            now_bytes: AtomicU64::new(bytes),
            pools: Mutex::default(),
        })
    }

    /// What a pool gets that is about to be opened.
    pub(crate) fn share_of_one_more(&self) -> u64 {
        self.now_bytes.load(Ordering::Relaxed) / (self.pools.lock().len() as u64 + 1)
    }

    /// Makes these the pools that share it.
    pub(crate) fn share_among(&self, pools: impl IntoIterator<Item = Arc<Pool>>) {
        let mut sharers = self.pools.lock();
        let mut before = std::mem::take(&mut *sharers);
        for pool in pools {
            let guid = pool.guid().get();
            let pool = Arc::downgrade(&pool);
            let known = before.remove(&guid).filter(|known| known.pool.ptr_eq(&pool));
            sharers.insert(guid, known.unwrap_or(Sharer { pool, misses: 0, demand: 0 }));
        }
        self.share_out(&sharers);
    }

    fn share_out(&self, sharers: &BTreeMap<u64, Sharer>) {
        let demands: Vec<u64> = sharers.values().map(|sharer| sharer.demand).collect();
        for (sharer, share) in sharers.values().zip(shares(self.now_bytes.load(Ordering::Relaxed), &demands))
        {
            if let Some(pool) = sharer.pool.upgrade() {
                pool.set_memory(share);
            }
        }
    }

    /// Sets what it is without pressure, and has the pools follow at once.
    pub(crate) fn set_full(&self, bytes: u64) {
        let bytes = bytes.max(BUDGET_MIN_BYTES);
        let before = self.full_bytes.swap(bytes, Ordering::Relaxed);
        let now = self.now_bytes.load(Ordering::Relaxed);
        // Under pressure it stays small, and grows when there is room again.
        self.set_now(if now == before { bytes } else { now.min(bytes) });
    }

    /// Sets what it is now, and has the pools follow that and what was asked of them.
    fn set_now(&self, bytes: u64) {
        self.now_bytes.store(bytes, Ordering::Relaxed);
        let mut sharers = self.pools.lock();
        for sharer in sharers.values_mut() {
            let Some(pool) = sharer.pool.upgrade() else { continue };
            let misses = pool.zio().cache_stats().misses;
            sharer.demand = sharer.demand / 100 * DEMAND_KEPT_PERCENT + misses.saturating_sub(sharer.misses);
            sharer.misses = misses;
        }
        self.share_out(&sharers);
    }

    /// Of a pool whose share is `share` now, the least and the most that it would be.
    pub(crate) fn bounds_of(&self, share: u64) -> (u64, u64) {
        let (now, full) = (self.now_bytes.load(Ordering::Relaxed), self.full_bytes.load(Ordering::Relaxed));
        let of = |bytes: u64| u128::from(share) * u128::from(bytes) / u128::from(now.max(1));
        let bound = |bytes| u64::try_from(of(bytes)).unwrap_or(u64::MAX);
        (bound(BUDGET_MIN_BYTES.min(full)), bound(full))
    }

    /// Starts to watch for pressure, for as long as it lives.
    pub(crate) fn keep(self: &Arc<Self>, env: &Arc<dyn Env>, machine: Arc<dyn Machine>) {
        env.spawn("memory", Box::pin(keeper::keep(Arc::downgrade(self), Arc::downgrade(env), machine)));
    }
}

/// Shares of so many bytes for pools that were asked so much: a part is equal, the rest goes after that.
fn shares(bytes: u64, demands: &[u64]) -> Vec<u64> {
    let Some(count) = u64::try_from(demands.len()).ok().filter(|&count| count > 0) else { return Vec::new() };
    let equal = bytes / EQUAL_FRACTION / count;
    let rest = bytes - equal * count;
    // One more each, so that without any demand all are equal.
    let all: u128 = demands.iter().map(|&demand| u128::from(demand) + 1).sum();
    let of_rest = |demand: u64| u128::from(rest) * (u128::from(demand) + 1) / all;
    demands.iter().map(|&demand| equal + u64::try_from(of_rest(demand)).unwrap_or(rest)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_leaves_room_for_the_program() {
        let mib = |machine: u64, limit: u64| part(machine << 20, limit << 20) >> 20;
        assert_eq!(mib(24 << 10, 24 << 10), 3 << 10, "a machine's memory is mostly others'");
        assert_eq!(mib(1024, 1024), 256);
        assert_eq!(mib(512, 512), 216);
        assert_eq!(mib(24 << 10, 256), 88, "a group's is perhaps ours alone");
        assert_eq!(mib(24 << 10, 4 << 10), 2008);
        assert_eq!(mib(24 << 10, 20), 32);
        assert_eq!(part(64 << 30, u64::MAX), 8 << 30);
    }

    #[test]
    fn the_bounds_of_a_share_are_those_of_the_budget() {
        let budget = Budget::new(400 << 20);
        assert_eq!(budget.bounds_of(100 << 20), (8 << 20, 100 << 20));
        budget.now_bytes.store(100 << 20, Ordering::Relaxed);
        assert_eq!(budget.bounds_of(50 << 20), (16 << 20, 200 << 20), "memory is short now");
    }

    #[test]
    fn sizes_are_in_binary_multiples() {
        assert_eq!((bytes("400m"), bytes("512"), bytes("8k")), (Some(400 << 20), Some(512), Some(8192)));
        assert_eq!((bytes("x"), bytes("much")), (None, None));
    }

    #[test]
    fn shares_follow_who_asks_for_blocks() {
        assert_eq!(shares(1000, &[]), [0; 0]);
        assert_eq!(shares(1000, &[0]), [1000]);
        assert_eq!(shares(1000, &[0, 0, 0, 0]), [250; 4]);
        let uneven = shares(1000, &[1_000_000, 0]);
        assert!(uneven[0] > 850 && uneven[1] >= 125, "{uneven:?}");
        for demands in [[7, 0, 9_000], [u64::MAX, u64::MAX, 0], [1, 2, 3]] {
            let shared = shares(1 << 40, &demands);
            assert!(shared.iter().sum::<u64>() <= 1 << 40, "{shared:?}");
        }
    }
}
