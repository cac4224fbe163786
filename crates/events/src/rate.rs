//! How often something of one kind is told: a device that fails all the time fills no ring.

use std::time::Duration;

const SPAN: Duration = Duration::from_secs(1);

/// So many in a second at most, the first ones.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    most: u32,
    since: Duration,
    told: u32,
}

impl Rate {
    /// `most` in a second.
    #[must_use]
    pub const fn new(most: u32) -> Self {
        Self { most, since: Duration::ZERO, told: 0 }
    }

    /// Whether one more may be told at `now`, on any clock that does not go back; counts it if so.
    pub fn allows(&mut self, now: Duration) -> bool {
        if self.told == 0 || now.saturating_sub(self.since) >= SPAN {
            (self.since, self.told) = (now, 0);
        }
        let may = self.told < self.most;
        self.told += u32::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_told_in_a_second_than_allowed() {
        let mut rate = Rate::new(20);
        let told = |rate: &mut Rate, from: u64| {
            (0..1000).filter(|millis| rate.allows(Duration::from_millis(from + millis))).count()
        };
        assert_eq!(told(&mut rate, 5000), 20);
        assert_eq!(told(&mut rate, 6000), 20);
    }
}
