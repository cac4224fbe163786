//! Back-pressure: the nearer the limit of what may be dirty, the longer a change waits to begin.
//!
//! Writers are faster than disks. Held up at the limit only, they would run at the speed of memory until
//! there, and then stand still for as long as a whole txg takes to sync. Slowed down on the way
//! they settle where as much becomes stable as is written.
//!
//! ```text
//!  wait for     100 ms ┤                  ╭  at most
//!  128 KiB             │                 ╱
//!              0.75 ms ┤            ╭───╯
//!              0.25 ms ┤       ╭────╯
//!                    0 ┼───────╯
//!                      0      60 %  80 %  100 % of the limit
//! ```
//! The wait is `0.25 ms × over / left`, of what is above 60 % and what is left to the limit, and in
//! proportion to the bytes to be written. What the txg being synced has on its disks already does not
//! count: held up for it, writers would leave the disks idle at the end of each txg. Changes wait one
//! behind the other, so that what all writers do together is slowed down, however many there are.
//! (tests: `nobody_waits_below_sixty_percent`, `the_wait_grows_smoothly_up_to_its_bound`,
//! `writers_wait_one_behind_the_other`)

use std::time::Duration;

use parking_lot::Mutex;

/// Part of the limit, in percent, up to which nobody waits.
const FREE_PERCENT: u64 = 60;
/// What [`UNIT_BYTES`] wait where as much is above the free part as is left to the limit.
const MIDWAY: Duration = Duration::from_micros(250);
/// The size of write that the figures are about.
const UNIT_BYTES: u64 = 128 << 10;
/// Changes that write less, or names only, change blocks all the same.
const BYTES_MIN: u64 = 16 << 10;
/// No change waits longer than this for its own sake.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// How long a change of so many bytes waits when so much is dirty.
pub(super) fn wait(dirty: u64, limit: u64, bytes: u64) -> Duration {
    let free = limit / 100 * FREE_PERCENT;
    let over = dirty.saturating_sub(free);
    if over == 0 {
        return Duration::ZERO;
    }
    let left = limit.saturating_sub(dirty).max(1);
    let bytes = u128::from(bytes.max(BYTES_MIN));
    let weight = u128::from(over).saturating_mul(bytes).saturating_mul(MIDWAY.as_nanos());
    let nanos = weight / (u128::from(left) * u128::from(UNIT_BYTES));
    u64::try_from(nanos).map_or(WAIT_MAX, Duration::from_nanos).min(WAIT_MAX)
}

/// Where changes that have to wait stand in line.
#[derive(Default)]
pub(super) struct Line {
    /// When the last of them may begin.
    last: Mutex<Duration>,
}

impl Line {
    /// Joins the line at `now` with a wait of one's own; says how long it is until one's turn.
    pub fn join(&self, now: Duration, wait: Duration) -> Duration {
        if wait.is_zero() {
            return wait;
        }
        let mut last = self.last.lock();
        *last = (*last).max(now) + wait;
        *last - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 512 << 20;

    fn at(percent: u64) -> Duration {
        wait(LIMIT / 100 * percent, LIMIT, UNIT_BYTES)
    }

    #[test]
    fn nobody_waits_below_sixty_percent() {
        for percent in 0..=FREE_PERCENT {
            assert_eq!(at(percent), Duration::ZERO, "{percent} %");
        }
        assert!(at(FREE_PERCENT + 1) > Duration::ZERO);
        assert_eq!(wait(0, 0, UNIT_BYTES), Duration::ZERO);
    }

    #[test]
    fn the_wait_grows_smoothly_up_to_its_bound() {
        let steps = (600..=1000).map(|permille| wait(LIMIT / 1000 * permille, LIMIT, UNIT_BYTES));
        let steps: Vec<_> = steps.collect();
        assert!(steps.is_sorted());
        // No step of a thousandth more than doubles the wait, but for the first and the last few.
        for (index, pair) in steps.windows(2).enumerate().skip(2).take(390) {
            assert!(pair[1] <= pair[0] * 2, "step {index}: {pair:?}");
        }
        let midway = at(80).as_micros();
        assert!((245..=255).contains(&midway), "{midway} µs");
        assert_eq!(wait(LIMIT, LIMIT, UNIT_BYTES), WAIT_MAX);
        assert_eq!(wait(u64::MAX, LIMIT, u64::MAX), WAIT_MAX);
        assert!(wait(LIMIT / 10 * 8, LIMIT, 4096) < at(80), "small changes wait less");
    }

    #[test]
    fn writers_wait_one_behind_the_other() {
        let (line, ms) = (Line::default(), Duration::from_millis);
        assert_eq!(line.join(ms(10), Duration::ZERO), Duration::ZERO);
        assert_eq!(line.join(ms(10), ms(2)), ms(2));
        assert_eq!(line.join(ms(11), ms(2)), ms(3));
        assert_eq!(line.join(ms(11), Duration::ZERO), Duration::ZERO);
        assert_eq!(line.join(ms(50), ms(1)), ms(1), "nobody is in line any more");
    }
}
