//! How large log blocks are.

use super::{Row, histogram};
use crate::Ink;
use live::Interval;
use ratatui::text::{Line, Span};

/// Log blocks are counted by sizes so far apart, in KiB.
const STEP_KIB: usize = 4;

/// A title, and a row for each size between the smallest and the largest that was written, in so many lines at most:
/// where these are too many, sizes share rows up to powers of two.
pub fn lines(ink: Ink, now: Option<&Interval>, width: usize, rows: usize) -> Vec<Line<'static>> {
    let mean = now.filter(|now| now.load.block_bytes > 0.0).map_or_else(String::new, |now| {
        format!("  {:.1}K each, {:.0}% data", now.load.block_bytes / 1_024.0, now.load.data_percent)
    });
    let mut lines = vec![Line::from(vec![ink.title("log block up to"), Span::raw(mean)])];
    let sizes = now.map_or(&[][..], |now| &now.block_sizes);
    let room = rows.saturating_sub(1);
    let one_by_one = used(&by_step(sizes));
    let drawn = if one_by_one.len() <= room { one_by_one } else { used(&by_powers(sizes)) };
    let drawn: Vec<Row> =
        drawn.into_iter().map(|(kib, count)| Row { label: format!("{kib}K"), count }).collect();
    lines.extend(histogram(ink, &drawn[..drawn.len().min(room)], width));
    lines
}

fn by_step(sizes: &[u64]) -> Vec<(usize, u64)> {
    sizes.iter().enumerate().map(|(bucket, count)| ((bucket + 1) * STEP_KIB, *count)).collect()
}

fn by_powers(sizes: &[u64]) -> Vec<(usize, u64)> {
    let mut rows: Vec<(usize, u64)> = Vec::new();
    for (kib, count) in by_step(sizes) {
        let kib = kib.next_power_of_two();
        match rows.last_mut().filter(|(last, _)| *last == kib) {
            Some((_, sum)) => *sum += count,
            None => rows.push((kib, count)),
        }
    }
    rows
}

/// From the first to the last that is not zero.
fn used(rows: &[(usize, u64)]) -> Vec<(usize, u64)> {
    let is_used = |(_, count): &(usize, u64)| *count > 0;
    match (rows.iter().position(is_used), rows.iter().rposition(is_used)) {
        (Some(first), Some(last)) => rows[first..=last].to_vec(),
        _ => Vec::new(),
    }
}
