//! What many calls took.

use std::time::Duration;

/// Times from call to return.
#[derive(Default)]
pub(crate) struct Latencies(Vec<u64>);

impl Latencies {
    pub fn push(&mut self, time: Duration) {
        self.0.push(time.as_nanos() as u64);
    }

    pub fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub fn sorted(mut self) -> Self {
        self.0.sort_unstable();
        self
    }

    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    pub fn mean_us(&self) -> f64 {
        self.0.iter().sum::<u64>() as f64 / self.count().max(1) as f64 / 1e3
    }

    /// The time below which that part of all lies; they must be sorted.
    pub fn at_us(&self, part: f64) -> f64 {
        let index = ((self.count() as f64 * part) as usize).min(self.0.len().saturating_sub(1));
        self.0.get(index).map_or(0.0, |&nanos| nanos as f64 / 1e3)
    }
}
