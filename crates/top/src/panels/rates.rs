//! Commits and bytes a second, over time.

use crate::Ink;
use crate::words::{bytes, rate};
use live::Point;
use ratatui::text::{Line, Span};

/// Columns before the first point, also of what is drawn below.
pub const LABEL: usize = 26;

/// Two lines: what there is now, the most that is drawn, and columns, the newest one last.
pub fn lines(ink: Ink, columns: &[Point], now: Option<&Point>, width: usize) -> Vec<Line<'static>> {
    let commits = |point: &Point| point.commits_per_second;
    let written = |point: &Point| point.written_bytes_per_second;
    let drawn = &columns[columns.len().saturating_sub(room(width))..];
    let line = |name: &str, of: &dyn Fn(&Point) -> f64, told: &dyn Fn(f64) -> String| {
        let figure = now.map_or_else(String::new, |now| told(of(now)));
        let values: Vec<f64> = drawn.iter().map(of).collect();
        let gap = " ".repeat(room(width) - values.len());
        let most = values.iter().copied().fold(0.0, f64::max);
        Line::from(vec![
            ink.title(format!("{name:9}")),
            Span::raw(format!("{figure:>6} max {:>5} {gap}", told(most))),
            ink.spark(&values),
        ])
    };
    vec![line("commits/s", &commits, &rate), line("log B/s", &written, &bytes)]
}

/// How many points are drawn at most.
pub fn room(width: usize) -> usize {
    width.saturating_sub(LABEL)
}
