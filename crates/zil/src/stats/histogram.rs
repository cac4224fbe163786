//! How long something takes: counts by powers of two of nanoseconds.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Buckets of a [`Latencies`]: bucket `i` counts times below 2^i ns and not below 2^(i-1); the last
/// one (four minutes and more) has no end.
pub const LATENCY_BUCKETS: usize = 39;

/// Counts that grow.
#[derive(Debug)]
pub(crate) struct Histogram([AtomicU64; LATENCY_BUCKETS]);

impl Default for Histogram {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Histogram {
    pub fn note(&self, time: Duration) {
        self.0[bucket(time)].fetch_add(1, Relaxed);
    }

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
    pub(crate) fn note(&mut self, time: Duration) {
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
}
