//! The last intervals, of each what is drawn over time.

use crate::interval::{Quantiles, counts};
use serde::Serialize;
use std::collections::VecDeque;
use units::Latencies;

/// What is kept of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// When it ended: how long the pool had been open, in seconds.
    pub at_seconds: f64,
    /// How long it was, in seconds.
    pub seconds: f64,
    /// Commits that had something to do, a second.
    pub commits_per_second: f64,
    /// Data that was made stable, in bytes a second.
    pub data_bytes_per_second: f64,
    /// Bytes of log blocks a second.
    pub written_bytes_per_second: f64,
    /// How long commits took; none without any.
    pub quantiles: Option<Quantiles>,
    /// The same by powers of two of nanoseconds.
    #[serde(serialize_with = "counts")]
    pub latency: Latencies,
}

impl Point {
    /// This and the next one as one.
    fn and(self, next: &Self) -> Self {
        let seconds = self.seconds + next.seconds;
        let mean = |first: f64, second: f64| {
            let sum = first * self.seconds + second * next.seconds;
            if seconds > 0.0 { sum / seconds } else { 0.0 }
        };
        let mut latency = self.latency;
        latency += next.latency;
        Self {
            at_seconds: next.at_seconds,
            seconds,
            commits_per_second: mean(self.commits_per_second, next.commits_per_second),
            data_bytes_per_second: mean(self.data_bytes_per_second, next.data_bytes_per_second),
            written_bytes_per_second: mean(self.written_bytes_per_second, next.written_bytes_per_second),
            quantiles: Quantiles::of(&latency),
            latency,
        }
    }
}

/// The last so many points, oldest first.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    points: VecDeque<Point>,
    /// How many came before those.
    forgotten: u64,
    #[serde(skip)]
    capacity: usize,
}

impl Series {
    /// An empty one, for so many points: about 400 bytes each.
    #[must_use]
    pub fn of(capacity: usize) -> Self {
        Self { points: VecDeque::new(), forgotten: 0, capacity: capacity.max(1) }
    }

    /// Another one; the oldest goes where there is no room.
    pub fn push(&mut self, point: Point) {
        if self.points.len() == self.capacity {
            self.points.pop_front();
            self.forgotten += 1;
        }
        self.points.push_back(point);
    }

    /// Those that are kept, oldest first.
    pub fn points(&self) -> impl DoubleEndedIterator<Item = &Point> + ExactSizeIterator + Clone {
        self.points.iter()
    }

    /// The last so many columns of what is drawn, oldest first, each of so many points one after another. Columns stay
    /// together as time goes on: a column has the same points until it is gone, and the newest may have fewer yet.
    #[must_use]
    pub fn columns(&self, most: usize, points_each: usize) -> Vec<Point> {
        let each = (points_each as u64).max(1);
        let mut columns: Vec<(u64, Point)> = Vec::new();
        for (number, point) in (self.forgotten..).zip(&self.points) {
            match columns.last_mut().filter(|(column, _)| *column == number / each) {
                Some((_, sum)) => *sum = sum.and(point),
                None => columns.push((number / each, *point)),
            }
        }
        let skipped = columns.len().saturating_sub(most);
        columns.into_iter().skip(skipped).map(|(_, column)| column).collect()
    }

    /// How many it has room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many came before those: the number of the oldest one that is kept.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }
}
