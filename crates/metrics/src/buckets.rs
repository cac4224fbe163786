//! Histograms: counts of what was so much or less.

use units::Latencies;

/// The first bucket of times that is shown ends at 2^10 ns, about a microsecond. Those below it are added to it.
const FIRST: usize = 10;
/// The last one ends at 2^34 ns, about 17 seconds. Those above are in `+Inf`.
const LAST: usize = 34;

/// Counts that add up.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    /// Up to each end, how many were no more; the last end is `+Inf`.
    pub(crate) below: Vec<(String, u64)>,
    /// How many there were.
    pub(crate) count: u64,
    /// What all of them come to, where it is known.
    pub(crate) sum: Option<u64>,
}

impl Buckets {
    /// Of times, in seconds. What took just as long as a bucket's end is counted with the next one.
    pub(crate) fn of_times(counts: &[u64]) -> Self {
        let times = Latencies::from_counts(counts);
        let mut count = 0;
        let mut below = Vec::new();
        for (bucket, more) in times.counts.iter().enumerate() {
            count += more;
            if (FIRST..=LAST).contains(&bucket) {
                below.push((((1_u64 << bucket) as f64 / 1e9).to_string(), count));
            }
        }
        Self { below, count, sum: None }.ended()
    }

    /// Of sizes in bytes, of which number `i` counts those of `(i + 1) * step`; all of them come to `sum`.
    pub(crate) fn of_sizes(counts: &[u64], step: u64, sum: u64) -> Self {
        let mut count = 0;
        let mut below = Vec::new();
        for (place, more) in (1_u64..).zip(counts) {
            count += more;
            below.push(((place * step).to_string(), count));
        }
        Self { below, count, sum: Some(sum) }.ended()
    }

    fn ended(mut self) -> Self {
        self.below.push(("+Inf".to_owned(), self.count));
        self
    }
}
