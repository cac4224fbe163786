//! Watching for pressure on memory.
//!
//! Each second it looks at what cannot be reclaimed of the memory that the process can have, and for how
//! long tasks have waited for memory. When little is left or much was waited for, the budget shrinks;
//! when there is room again, it grows back slowly.
//! (tests: `the_budget_shrinks_by_what_is_missing`, `the_budget_comes_back_slowly`)

use super::{BUDGET_MIN_BYTES, Budget};
use env::{Env, Machine, MemoryNow};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(1);
/// This part of the memory is to stay free.
pub(super) const SPARE_FRACTION: u64 = 8;
/// Waiting for so much of the time makes the budget smaller.
const STALLED_PERCENT: u64 = 10;
/// By this part.
const SHRINK_FRACTION: u64 = 8;
/// What it grows by in an interval, as a part of the full budget.
const GROW_FRACTION: u64 = 32;

/// What was seen in an interval.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Memory that the process can have.
    limit: u64,
    /// Of that, what is in use and cannot be reclaimed.
    pinned: u64,
    /// Share of the time that some task waited for memory.
    stalled_percent: u64,
}

impl Seen {
    /// Between two looks, an interval apart.
    fn between(before: MemoryNow, now: MemoryNow) -> Self {
        let micros = now.stalled_micros.saturating_sub(before.stalled_micros);
        let stalled_percent = micros * 100 / INTERVAL.as_micros() as u64;
        Self { limit: now.limit_bytes, pinned: now.pinned_bytes, stalled_percent }
    }

    /// The budget after this, of `full` bytes without pressure.
    fn budget(&self, now: u64, full: u64) -> u64 {
        let wanted = super::to_stay_free(self.limit);
        let spare = self.limit.saturating_sub(self.pinned);
        let next = if spare < wanted {
            now.saturating_sub(wanted - spare)
        } else if self.stalled_percent >= STALLED_PERCENT {
            now - now / SHRINK_FRACTION
        } else if spare > wanted * 2 && self.stalled_percent == 0 {
            now + full / GROW_FRACTION
        } else {
            now
        };
        next.clamp(BUDGET_MIN_BYTES.min(full), full)
    }
}

/// Watches for as long as the budget lives, on a machine that tells of its memory.
pub(super) async fn keep(budget: Weak<Budget>, env: Weak<dyn Env>, machine: Arc<dyn Machine>) {
    let Some(mut before) = machine.memory() else { return };
    while let Some(pause) = env.upgrade().map(|env| env.sleep(INTERVAL)) {
        pause.await;
        let Some(budget) = budget.upgrade() else { return };
        let Some(seen) = machine.memory() else { return };
        let (now, full) =
            (budget.now_bytes.load(Ordering::Relaxed), budget.full_bytes.load(Ordering::Relaxed));
        let next = Seen::between(before, seen).budget(now, full);
        before = seen;
        if next < now {
            tracing::debug!(bytes = next, "memory is short");
        }
        budget.set_now(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const FULL: u64 = 104 * MIB;

    fn seen(pinned_mib: u64, stalled_percent: u64) -> Seen {
        Seen { limit: 256 * MIB, pinned: pinned_mib * MIB, stalled_percent }
    }

    #[test]
    fn the_budget_shrinks_by_what_is_missing() {
        assert_eq!(seen(200, 0).budget(FULL, FULL), FULL);
        assert_eq!(seen(234, 0).budget(FULL, FULL), FULL - 10 * MIB);
        assert_eq!(seen(300, 0).budget(FULL, FULL), FULL - 32 * MIB);
        assert_eq!(seen(300, 0).budget(40 * MIB, FULL), BUDGET_MIN_BYTES);
        assert_eq!(seen(100, 50).budget(FULL, FULL), FULL - FULL / 8, "others wait for memory");
        assert_eq!(seen(300, 0).budget(8 * MIB, 8 * MIB), 8 * MIB, "who was told so little has so little");
    }

    #[test]
    fn the_budget_comes_back_slowly() {
        assert_eq!(seen(100, 0).budget(FULL / 2, FULL), FULL / 2 + FULL / 32);
        assert_eq!(seen(100, 0).budget(FULL, FULL), FULL);
        assert_eq!(seen(210, 0).budget(FULL / 2, FULL), FULL / 2, "not while little is left");
        assert_eq!(seen(100, 3).budget(FULL / 2, FULL), FULL / 2, "not while somebody waits");
    }
}
