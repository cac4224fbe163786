//! How long batches are under way, and so how many at once are worth while.
//!
//! A second batch needs a second thread. Where a device has done the first one before that thread could
//! be woken, records gather meanwhile and the next batch is larger: one lane does more commits then, with
//! less work for each, than several.

use std::time::Duration;

/// About what it takes until a thread that sleeps runs again (docs/decisions, executor).
const WAKE: Duration = Duration::from_micros(20);
/// Of the mean, so much is the newest batch: one that was late changes nothing for long.
const NEWEST_ONE_IN: u32 = 8;

/// The mean time from sending a batch off until it is stable.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    mean: Option<Duration>,
}

impl Pace {
    /// A batch took so long; none at all is what a clock that stands still says.
    pub fn note(&mut self, took: Duration) {
        if took.is_zero() {
            return;
        }
        let mean = self.mean.unwrap_or(took);
        self.mean = Some((mean * (NEWEST_ONE_IN - 1) + took) / NEWEST_ONE_IN);
    }

    /// How many batches to have under way where there could be `most`.
    pub fn lanes(self, most: usize) -> usize {
        let is_quick = self.mean.is_some_and(|mean| mean < WAKE);
        if is_quick { most.min(1) } else { most }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_micros(6);
    const SLOW: Duration = Duration::from_micros(90);

    #[test]
    fn quick_devices_need_one_lane_and_slow_ones_all() {
        let mut pace = Pace::default();
        pace.note(Duration::ZERO);
        assert_eq!(pace.lanes(4), 4, "nothing is known");
        pace.note(QUICK);
        assert_eq!(pace.lanes(4), 1);
        pace.note(SLOW);
        assert_eq!(pace.lanes(4), 1, "one that was late");
        (0..8).for_each(|_| pace.note(SLOW));
        assert_eq!(pace.lanes(4), 4);
        (0..32).for_each(|_| pace.note(QUICK));
        assert_eq!(pace.lanes(4), 1);
        assert_eq!(pace.lanes(0), 0);
    }
}
