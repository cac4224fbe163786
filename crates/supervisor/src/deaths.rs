//! Processes of a pool that ended without having been told to.

use std::collections::VecDeque;
use std::time::Duration;

/// After so many ends in [`LATELY`] a pool stays closed.
const MOST: usize = 4;
const LATELY: Duration = Duration::from_secs(600);

/// The last ends, on the clock of the environment.
#[derive(Debug, Default)]
pub struct Deaths(VecDeque<Duration>);

impl Deaths {
    /// Notes an end. True if the process may be started again.
    pub fn may_start_again(&mut self, now: Duration) -> bool {
        self.0.push_back(now);
        self.0.retain(|death| now.saturating_sub(*death) < LATELY);
        self.0.len() < MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_stays_closed_after_four_ends_in_ten_minutes() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let mut often = Deaths::default();
        let starts = [0, 1, 2, 9].map(|minute| often.may_start_again(minutes(minute)));
        assert_eq!(starts, [true, true, true, false]);
        let mut seldom = Deaths::default();
        assert!((0..50).all(|death| seldom.may_start_again(minutes(4 * death))));
    }
}
