//! How long something takes: counts by powers of two of nanoseconds.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Buckets of a [`Latencies`]: bucket `i` counts times below 2^i ns and not below 2^(i-1); the last
/// one (four minutes and more) has no end.
pub const LATENCY_BUCKETS: usize = 39;

/// Counts that grow: one relaxed addition for each time noted.
#[derive(Debug)]
pub struct Histogram([AtomicU64; LATENCY_BUCKETS]);

impl Default for Histogram {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Histogram {
    /// Something took so long.
    pub fn note(&self, time: Duration) {
        self.0[bucket(time)].fetch_add(1, Relaxed);
    }

    /// The counts at this moment.
    #[must_use]
    pub fn snapshot(&self) -> Latencies {
        Latencies { counts: self.0.each_ref().map(|count| count.load(Relaxed)) }
    }
}

fn bucket(time: Duration) -> usize {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    ((u64::BITS - nanos.leading_zeros()) as usize).min(LATENCY_BUCKETS - 1)
}

/// How often something took how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// By bucket: see [`LATENCY_BUCKETS`].
    pub counts: [u64; LATENCY_BUCKETS],
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: [0; LATENCY_BUCKETS] }
    }
}

impl Latencies {
    /// From counts that came from elsewhere; what is missing is zero, what is too much is left out.
    #[must_use]
    pub fn from_counts(counts: &[u64]) -> Self {
        let mut own = Self::default();
        own.counts.iter_mut().zip(counts).for_each(|(own, count)| *own = *count);
        own
    }

    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(mut self, earlier: &Self) -> Self {
        let each = self.counts.iter_mut().zip(&earlier.counts);
        each.for_each(|(count, before)| *count = count.saturating_sub(*before));
        self
    }

    /// About the mean: each time counts as the middle of its bucket, so that this is at most half too much
    /// and a third too little. Zero when there are none.
    #[must_use]
    pub fn mean(&self) -> Duration {
        // The middle of a bucket is 3/4 of its end.
        let middles =
            self.counts.iter().zip(0_u32..).map(|(count, bucket)| (u128::from(*count) * 3) << bucket);
        let nanos = middles.sum::<u128>() / 4 / u128::from(self.total().max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Another one counted.
    pub fn note(&mut self, time: Duration) {
        self.counts[bucket(time)] += 1;
    }

    /// How many there were.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The end of the bucket that the given share of all lies below, in percent; zero when there are
    /// none. At most twice the true time.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Duration {
        let wanted = (self.total() as f64 * percent / 100.0).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted.max(1) {
                return Duration::from_nanos(1 << bucket);
            }
        }
        Duration::ZERO
    }
}

impl std::ops::AddAssign for Latencies {
    fn add_assign(&mut self, other: Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_powers_of_two() {
        let histogram = Histogram::default();
        for nanos in [0, 1, 2, 3, 4, 1_000, 1 << 37, u64::MAX] {
            histogram.note(Duration::from_nanos(nanos));
        }
        let latencies = histogram.snapshot();
        let filled: Vec<_> = latencies.counts.iter().enumerate().filter(|(_, count)| **count > 0).collect();
        assert_eq!(filled, [(0, &1), (1, &1), (2, &2), (3, &1), (10, &1), (38, &2)]);
        assert_eq!(latencies.total(), 8);
    }

    #[test]
    fn percentiles_are_ends_of_buckets() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentile(50.0), Duration::ZERO);
        (0..98).for_each(|_| latencies.note(Duration::from_nanos(700)));
        (0..2).for_each(|_| latencies.note(Duration::from_micros(900)));
        assert_eq!(latencies.percentile(50.0), Duration::from_nanos(1024));
        assert_eq!(latencies.percentile(98.0), Duration::from_nanos(1024));
        assert_eq!(latencies.percentile(99.0), Duration::from_nanos(1 << 20));
    }

    #[test]
    fn a_mean_is_made_of_the_middles_of_buckets() {
        assert_eq!(Latencies::default().mean(), Duration::ZERO);
        let mut latencies = Latencies::default();
        // Three times in the bucket that ends at 1,024 ns, one in that which ends at 4,096.
        for nanos in [600, 700, 1_000, 3_000] {
            latencies.note(Duration::from_nanos(nanos));
        }
        assert_eq!(latencies.mean(), Duration::from_nanos((3 * 768 + 3_072) / 4));
    }

    #[test]
    fn counts_are_added_and_taken_away() {
        let mut early = Latencies::from_counts(&[0, 2, 5]);
        let late = Latencies::from_counts(&[1, 4, 5]);
        assert_eq!(late.since(&early).counts[..4], [1, 2, 0, 0]);
        assert_eq!(early.since(&late).total(), 0, "counters that went back");
        early += late;
        assert_eq!(early.counts[..4], [1, 6, 10, 0]);
    }
}
