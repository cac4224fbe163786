//! How long commits take: over time, and of one interval.

use super::rates::{LABEL, room};
use super::{Row, histogram as rows_of};
use crate::Ink;
use crate::words::micros;
use live::{HeatMap, HeatRow, Interval, Point, Quantiles};
use ratatui::text::{Line, Span};

/// A title with the latency now, and a map of time by latency of so many rows in all, the slowest first.
pub fn heat(
    ink: Ink,
    columns: &[Point],
    now: Option<&Interval>,
    width: usize,
    rows: usize,
) -> Vec<Line<'static>> {
    let room = room(width);
    let drawn = &columns[columns.len().saturating_sub(room)..];
    let map = HeatMap::of(drawn, rows.saturating_sub(1));
    let mut lines = vec![title(ink, now)];
    let blank = rows.saturating_sub(1 + map.rows.len());
    lines.extend((0..blank).map(|_| Line::default()));
    lines.extend(map.rows.iter().rev().map(|row| heat_row(ink, row, map.most, room)));
    lines
}

fn title(ink: Ink, now: Option<&Interval>) -> Line<'static> {
    let told = now.and_then(|now| now.quantiles).map_or_else(|| "no commits".to_owned(), quantiles);
    let together = now.filter(|now| now.load.commits > 0).map_or_else(String::new, |now| {
        format!("   {:.2} at a time, {:.2} a write", now.load.under_way, now.load.commits_per_batch)
    });
    Line::from(vec![ink.title("latency  "), Span::raw(told + &together)])
}

/// Limits that half, 99 of 100 and all commits stay below.
fn quantiles(of: Quantiles) -> String {
    let Quantiles { p50_below_us, p99_below_us, max_below_us } = of;
    format!("p50 <{}  p99 <{}  max <{}", micros(p50_below_us), micros(p99_below_us), micros(max_below_us))
}

fn heat_row(ink: Ink, row: &HeatRow, most: u64, room: usize) -> Line<'static> {
    let label = format!("{:>width$} ", below(row.below_nanos), width = LABEL - 1);
    let gap = " ".repeat(room - row.counts.len());
    let mut spans = vec![Span::raw(label + &gap)];
    spans.extend(row.counts.iter().map(|count| ink.heat(*count, most)));
    Line::from(spans)
}

fn below(nanos: u64) -> String {
    format!("<{}", micros(nanos as f64 / 1e3))
}

/// Of one interval: a row for each power of two, the quickest first.
pub fn histogram(ink: Ink, now: &Interval, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::from(vec![
        ink.title("latency of commits  "),
        Span::raw(now.quantiles.map_or_else(|| "no commits".to_owned(), quantiles)),
    ])];
    let rows = HeatMap::of(&[now.point()], usize::MAX).rows;
    let rows: Vec<Row> = rows
        .iter()
        .map(|row| Row { label: below(row.below_nanos), count: row.counts.iter().sum() })
        .collect();
    lines.extend(rows_of(ink, &rows, width));
    lines
}
