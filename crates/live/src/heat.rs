//! Latency over time, as a map of counts.

use crate::Point;
use serde::Serialize;
use units::LATENCY_BUCKETS;

/// How often commits took how long at what time: each column is a stretch of time, each row a range of latencies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HeatMap {
    /// The rows, the quickest first.
    pub rows: Vec<HeatRow>,
    /// The highest count of a cell.
    pub most: u64,
}

/// Latencies below a limit, and not below that of the row before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HeatRow {
    /// The limit, in nanoseconds: a power of two.
    pub below_nanos: u64,
    /// One count for each column, oldest first.
    pub counts: Vec<u64>,
}

impl HeatMap {
    /// Of columns of a series ([`crate::Series::columns`]), in so many rows at most. The rows are those between the
    /// quickest and the slowest commit that are drawn; where these are too many, several ranges share a row.
    #[must_use]
    pub fn of(columns: &[Point], rows: usize) -> Self {
        let is_used = |bucket: &usize| columns.iter().any(|column| column.latency.counts[*bucket] > 0);
        let Some(first) = (0..LATENCY_BUCKETS).find(is_used) else { return Self::default() };
        let last = (0..LATENCY_BUCKETS).rfind(is_used).unwrap_or(first);
        let together = together(first, last, rows);
        // Rows end at the same limits whatever the quickest commit was.
        let rows = (first / together * together..=last).step_by(together);
        let rows: Vec<HeatRow> = rows.map(|from| row(columns, from..from + together)).collect();
        let most = rows.iter().flat_map(|row| &row.counts).copied().max().unwrap_or(0);
        Self { rows, most }
    }
}

/// How many ranges share a row, so that there are no more than so many.
fn together(first: usize, last: usize, rows: usize) -> usize {
    let fits = |together: &usize| last / together - first / together < rows.max(1);
    (1..=LATENCY_BUCKETS).find(fits).unwrap_or(LATENCY_BUCKETS)
}

fn row(columns: &[Point], buckets: std::ops::Range<usize>) -> HeatRow {
    let end = buckets.end.min(LATENCY_BUCKETS);
    let count = |column: &Point| column.latency.counts[buckets.start..end].iter().sum();
    HeatRow { below_nanos: 1 << (end - 1), counts: columns.iter().map(count).collect() }
}

/// How dense a cell with `count` is drawn where the fullest has `most`: 0 for none, else 1 to `levels`. By
/// logarithms, so that a single slow commit among thousands of quick ones is seen.
#[must_use]
pub fn density(count: u64, most: u64, levels: usize) -> usize {
    if count == 0 || levels == 0 {
        return 0;
    }
    let share = if most > 1 { (count as f64).ln() / (most as f64).ln() } else { 1.0 };
    1 + ((levels - 1) as f64 * share.clamp(0.0, 1.0)).round() as usize
}
