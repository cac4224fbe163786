//! Free space by size of run: what a space map records, and what fragmentation is.
//!
//! OpenZFS keeps 32 counters in each space map: counter `i` says how many free runs are at
//! least `2^(shift+i)` and less than `2^(shift+i+1)` bytes long, `shift` being the vdev's
//! ashift; a longer run counts in the last as many times as it holds that many bytes.
//! It uses them to weigh metaslabs it has not loaded, and (in debug builds, `zdb` too) takes it
//! amiss if they promise longer runs than there are: so ours never do.
//! (test: `the_histogram_never_promises_a_run_that_is_not_there`)

use crate::segment::Segment;

/// Counters in a space map's histogram.
pub const HISTOGRAM_BUCKETS: usize = 32;

/// Percent by which a run of 512 bytes, 1 KiB, 2 KiB, … counts as fragmented. These are
/// OpenZFS's numbers: `zpool list` shows the result, and it should say the same there and here.
const FRAGMENTED_PERCENT: [u8; 21] =
    [100, 99, 97, 93, 88, 83, 77, 71, 64, 57, 50, 43, 36, 29, 23, 17, 12, 7, 3, 1, 0];

/// Base-2 logarithm of the run size that [`FRAGMENTED_PERCENT`] starts with.
const FRAGMENTED_FIRST_SHIFT: usize = 9;

/// Numbers of runs by power of two of their size in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64; 64]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; 64]) }
    }
}

impl Histogram {
    /// Counts a run.
    pub(crate) fn add(&mut self, run: Segment) {
        self.counts[run.len().ilog2() as usize] += 1;
    }

    /// Uncounts a run.
    ///
    /// # Panics
    /// If none of this size was counted.
    pub(crate) fn remove(&mut self, run: Segment) {
        let count = &mut self.counts[run.len().ilog2() as usize];
        assert!(*count > 0, "uncounting {run:?}, which was never counted");
        *count -= 1;
    }

    /// As a space map of a vdev with this ashift records it.
    #[must_use]
    pub fn on_disk(&self, ashift: units::Ashift) -> [u64; HISTOGRAM_BUCKETS] {
        let shift = usize::from(ashift.get());
        let mut buckets = [0; HISTOGRAM_BUCKETS];
        for (power, &count) in self.counts.iter().enumerate().skip(shift) {
            let index = (power - shift).min(HISTOGRAM_BUCKETS - 1);
            buckets[index] += count << (power - shift - index);
        }
        buckets
    }

    /// How scattered the free space is, in percent: 0 when all lies in runs of 512 MiB or more (or
    /// when there is none), 100 when all lies in single 512-byte sectors.
    #[must_use]
    pub fn fragmentation_percent(&self) -> u8 {
        let (mut total, mut weighted) = (0u128, 0u128);
        for (power, &count) in self.counts.iter().enumerate() {
            let index = power.saturating_sub(FRAGMENTED_FIRST_SHIFT).min(FRAGMENTED_PERCENT.len() - 1);
            let bytes = u128::from(count) << power;
            total += bytes;
            weighted += bytes * u128::from(FRAGMENTED_PERCENT[index]);
        }
        weighted.checked_div(total).map_or(0, |percent| percent as u8)
    }
}
