//! Who keeps the log busy.

use super::fit;
use crate::Ink;
use crate::words::{bytes, cut, micros, micros_or_none, rate};
use live::{DatasetUse, Interval, ProcessUse};
use ratatui::text::Line;

/// A title, and the datasets with the most commits, in so many lines at most.
pub fn datasets(ink: Ink, now: Option<&Interval>, width: usize, rows: usize) -> Vec<Line<'static>> {
    const FIGURES: usize = 25;
    let name = width.saturating_sub(FIGURES);
    let title = format!("{:name$} {:>9} {:>6} {:>7}", "dataset", "commits/s", "B/s", "p99 <");
    let row = |one: &DatasetUse| {
        let p99 = micros_or_none(one.quantiles.map(|quantiles| quantiles.p99_below_us));
        let (commits, written) = (rate(one.commits_per_second), bytes(one.written_bytes_per_second));
        Line::raw(format!("{:name$} {commits:>9} {written:>6} {p99:>7}", cut(&one.name, name, true)))
    };
    let all = now.map_or(&[][..], |now| &now.datasets).iter().map(row).collect();
    titled(ink, title, all, rows)
}

/// A title, and the processes that asked most often for something to be stable, in so many lines at most.
pub fn processes(ink: Ink, now: Option<&Interval>, width: usize, rows: usize) -> Vec<Line<'static>> {
    const FIGURES: usize = 25;
    let name = width.saturating_sub(FIGURES);
    let title = format!("{:name$} {:>8} {:>7} {:>7}", "process", "pid", "syncs/s", "mean");
    let row = |one: &ProcessUse| {
        let command = one.command.as_deref().unwrap_or("(gone)");
        let text = format!("{command} on {}", one.dataset);
        // A command without its dataset tells more than half of both.
        let text = if text.chars().count() <= name { text } else { cut(command, name, false) };
        let (syncs, mean) = (rate(one.syncs_per_second), micros(one.mean_us));
        Line::raw(format!("{text:name$} {:>8} {syncs:>7} {mean:>7}", one.process))
    };
    let all = now.map_or(&[][..], |now| &now.processes).iter().map(row).collect();
    titled(ink, title, all, rows)
}

fn titled(ink: Ink, title: String, all: Vec<Line<'static>>, rows: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::from(ink.title(title))];
    lines.extend(fit(all, rows.saturating_sub(1)));
    lines
}
