//! Watching for pressure on memory.
//!
//! Each second it looks at what cannot be reclaimed of the memory that the process can have, and for how
//! long tasks have waited for memory. When little is left or much was waited for, the budget shrinks;
//! when there is room again, it grows back slowly.
//! (tests: `the_budget_shrinks_by_what_is_missing`, `the_budget_comes_back_slowly`)

use super::groups::{Group, stalled_micros};
use super::{BUDGET_MIN_BYTES, Budget, machine_bytes};
use device::Env;
use std::fs;
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(1);
/// This part of the memory is to stay free.
const SPARE_FRACTION: u64 = 8;
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
    /// The budget after this, of `full` bytes without pressure.
    fn budget(&self, now: u64, full: u64) -> u64 {
        let wanted = self.limit / SPARE_FRACTION;
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

/// Where pressure shows.
struct Watch {
    groups: Vec<Group>,
    stalled_micros: u64,
}

impl Watch {
    /// What the tightest of the groups, or the machine, tells.
    fn look(&mut self) -> Seen {
        let stalled = self.stalled();
        let micros = stalled.saturating_sub(self.stalled_micros);
        self.stalled_micros = stalled;
        let stalled_percent = micros * 100 / INTERVAL.as_micros() as u64;
        let groups = self.groups.iter().filter_map(|group| Some((group.limit()?, group.pinned()?)));
        let tightest = groups.chain(machine()).min_by_key(|(limit, pinned)| limit.saturating_sub(*pinned));
        let (limit, pinned) = tightest.unwrap_or((u64::MAX, 0));
        Seen { limit, pinned, stalled_percent }
    }

    /// Of its own group, where that tells; or of the machine.
    fn stalled(&self) -> u64 {
        let own = self.groups.iter().find_map(Group::stalled_micros);
        let machine = || stalled_micros(&fs::read_to_string("/proc/pressure/memory").ok()?);
        own.or_else(machine).unwrap_or(0)
    }
}

/// The machine's memory, and how much of it is not to be had.
fn machine() -> Option<(u64, u64)> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let available: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    let all = machine_bytes();
    Some((all, all.saturating_sub(available << 10)))
}

/// Watches for as long as the budget lives.
pub(super) async fn keep(budget: Weak<Budget>, env: Weak<dyn Env>) {
    let mut watch = Watch { groups: Group::all(), stalled_micros: 0 };
    watch.stalled_micros = watch.stalled();
    while let Some(pause) = env.upgrade().map(|env| env.sleep(INTERVAL)) {
        pause.await;
        let Some(budget) = budget.upgrade() else { return };
        let (now, full) = (budget.now_bytes.load(Ordering::Relaxed), budget.full_bytes);
        let next = watch.look().budget(now, full);
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

    #[test]
    fn this_machine_tells_how_much_is_left() {
        let (all, pinned) = machine().expect("there is /proc/meminfo");
        assert!(pinned < all, "{pinned} of {all}");
        let mut watch = Watch { groups: Group::all(), stalled_micros: 0 };
        assert!(watch.look().limit <= machine_bytes());
    }
}
