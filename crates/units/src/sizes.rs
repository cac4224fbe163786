//! How large something is: counts by powers of two of bytes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Buckets of a [`Sizes`]: bucket `i` counts sizes from 2^(9 + i) bytes to below twice that. The first (512 bytes)
/// has smaller ones, too, and the last one (16 MiB) has no end.
pub const SIZE_BUCKETS: usize = 16;

/// What the first bucket begins with, as a power of two.
const FIRST_SHIFT: u32 = 9;

/// Counts that grow: one relaxed addition for each size noted.
#[derive(Debug)]
pub struct SizeHistogram([AtomicU64; SIZE_BUCKETS]);

impl Default for SizeHistogram {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl SizeHistogram {
    /// Something had so many bytes.
    pub fn note(&self, bytes: u64) {
        self.0[bucket(bytes)].fetch_add(1, Relaxed);
    }

    /// The counts at this moment.
    #[must_use]
    pub fn snapshot(&self) -> Sizes {
        Sizes { counts: self.0.each_ref().map(|count| count.load(Relaxed)) }
    }
}

fn bucket(bytes: u64) -> usize {
    let shift = bytes.checked_ilog2().unwrap_or(0).max(FIRST_SHIFT);
    ((shift - FIRST_SHIFT) as usize).min(SIZE_BUCKETS - 1)
}

/// How often something had which size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// By bucket: see [`SIZE_BUCKETS`].
    pub counts: [u64; SIZE_BUCKETS],
}

impl Sizes {
    /// What a bucket begins with, in bytes.
    #[must_use]
    pub const fn start_bytes(bucket: usize) -> u64 {
        1 << (FIRST_SHIFT as usize + bucket)
    }

    /// How many there were.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fall_into_powers_of_two_from_a_sector_on() {
        let histogram = SizeHistogram::default();
        for bytes in [0, 1, 512, 1023, 1024, 8192, 8193, 16 << 20, 1 << 40, u64::MAX] {
            histogram.note(bytes);
        }
        let sizes = histogram.snapshot();
        let filled = sizes.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let filled: Vec<_> = filled.map(|(bucket, count)| (Sizes::start_bytes(bucket), *count)).collect();
        assert_eq!(filled, [(512, 4), (1024, 1), (8192, 2), (16 << 20, 3)]);
    }
}
