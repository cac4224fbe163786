//! What is shown, part by part: functions from what was seen to lines of so many columns.

pub mod devices;
pub mod head;
pub mod latency;
pub mod pools;
pub mod rates;
pub mod sizes;
pub mod stages;
pub mod users;

use crate::Ink;
use crate::words::rate;
use ratatui::text::{Line, Span};

/// The characters of a line.
pub fn text(line: &Line<'_>) -> String {
    line.spans.iter().map(|span| span.content.as_ref()).collect()
}

/// A row of a histogram.
pub struct Row {
    pub label: String,
    pub count: u64,
}

/// Rows of a label, a bar and a count, the longest bar for the highest count.
pub fn histogram(ink: Ink, rows: &[Row], width: usize) -> Vec<Line<'static>> {
    const LABEL: usize = 8;
    const COUNT: usize = 7;
    let most = rows.iter().map(|row| row.count).max().unwrap_or(0).max(1);
    let room = width.saturating_sub(LABEL + COUNT + 2);
    let each = rows.iter().map(|row| {
        let label = Span::raw(format!("{:>LABEL$} ", row.label));
        let bar = ink.bar(row.count as f64 / most as f64, room);
        let gap = room - bar.content.chars().count();
        Line::from(vec![label, bar, Span::raw(format!("{:gap$} {:>COUNT$}", "", count(row.count)))])
    });
    each.collect()
}

/// All digits of what is small.
fn count(count: u64) -> String {
    if count < 10_000 { count.to_string() } else { rate(count as f64) }
}

/// The first rows of many, as far as there is room; what is left out is said in the last if there are more than two.
pub fn fit(mut lines: Vec<Line<'static>>, rows: usize) -> Vec<Line<'static>> {
    if lines.len() > rows && rows > 2 {
        let left_out = lines.len() - (rows - 1);
        lines.truncate(rows - 1);
        lines.push(Line::raw(format!("  and {left_out} more")));
    }
    lines.truncate(rows);
    lines
}
