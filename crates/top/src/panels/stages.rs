//! Where the time of commits goes.

use crate::Ink;
use crate::words::micros;
use live::{Interval, Stages};
use ratatui::text::{Line, Span};

/// A line for each part of the mean commit, its share as a bar; below them a whole commit. The means add up to that of the
/// commit.
pub fn lines(ink: Ink, now: Option<&Interval>, width: usize) -> Vec<Line<'static>> {
    const TEXT: usize = 26;
    let parts = now.map(|now| now.mean).unwrap_or_default().each();
    let whole: f64 = parts.iter().map(|(_, mean)| mean).sum();
    let title = format!("{:9} {:>7} {:>7}", "stage", "mean", "p99 <");
    let mut lines = vec![Line::from(ink.title(title))];
    lines.extend(parts.map(|(name, mean)| {
        let share = if whole > 0.0 { mean / whole } else { 0.0 };
        let most = now.and_then(|now| p99_below_us(&now.stages, name));
        let mean = (whole > 0.0).then_some(mean);
        Line::from(vec![Span::raw(figures(name, mean, most)), ink.bar(share, width.saturating_sub(TEXT))])
    }));
    if let Some(now) = now {
        let latency = now.load.latency;
        let (mean, most) = (latency.map(|times| times.mean_us), latency.map(|times| times.p99_below_us));
        lines.push(Line::raw(figures("commit", mean, most)));
    }
    lines
}

fn p99_below_us(stages: &Stages, name: &str) -> Option<f64> {
    stages.each().into_iter().find(|(stage, _)| *stage == name)?.1.map(|times| times.p99_below_us)
}

fn figures(name: &str, mean: Option<f64>, most: Option<f64>) -> String {
    let shown = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), micros);
    format!("{name:9} {:>7} {:>7} ", shown(mean), shown(most))
}
