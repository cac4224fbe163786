//! Where the time of commits goes.

use crate::Ink;
use crate::words::micros;
use live::Interval;
use ratatui::text::{Line, Span};

/// A line for each stage, its mean as a bar; below them a whole commit.
pub fn lines(ink: Ink, now: Option<&Interval>, width: usize) -> Vec<Line<'static>> {
    const TEXT: usize = 26;
    let stages = now.map(|now| now.stages.each()).unwrap_or_default();
    let mean = |times: Option<advise::Times>| times.map_or(0.0, |times| times.mean_us);
    let longest = stages.iter().map(|(_, times)| mean(*times)).fold(0.0, f64::max);
    let title = format!("{:9} {:>7} {:>7}", "stage", "mean", "p99 <");
    let mut lines = vec![Line::from(ink.title(title))];
    let named = stages.into_iter().filter(|(name, _)| !name.is_empty());
    lines.extend(named.map(|(name, times)| {
        let share = if longest > 0.0 { mean(times) / longest } else { 0.0 };
        Line::from(vec![Span::raw(figures(name, times)), ink.bar(share, width.saturating_sub(TEXT))])
    }));
    if let Some(now) = now {
        lines.push(Line::raw(figures("commit", now.load.latency)));
    }
    lines
}

fn figures(name: &str, times: Option<advise::Times>) -> String {
    match times {
        None => format!("{name:9} {:>7} {:>7} ", "-", "-"),
        Some(times) => format!("{name:9} {:>7} {:>7} ", micros(times.mean_us), micros(times.p99_below_us)),
    }
}
