//! One interval as plain text, for scripts and for who only wants a look.

use crate::Ink;
use crate::panels::{self, devices, head, latency, sizes, stages, users};
use live::Interval;
use ratatui::text::Line;

/// Columns of what is printed.
const WIDTH: usize = 80;
/// Rows of what is ranked.
const RANKED: usize = 10;

/// What lies between two looks, in ASCII and lines of 80 columns at most.
#[must_use]
pub fn once(interval: &Interval) -> String {
    let (now, ink) = (Some(interval), Ink::PLAIN);
    let parts = [
        head::once(interval),
        latency::histogram(ink, interval, WIDTH),
        stages::lines(ink, now, WIDTH),
        sizes::lines(ink, now, WIDTH, usize::MAX),
        devices::lines(ink, now, WIDTH, usize::MAX),
        users::datasets(ink, now, WIDTH, RANKED + 1),
        users::processes(ink, now, WIDTH, RANKED + 1),
    ];
    let text = parts.map(|lines| lines.iter().map(plain).collect::<String>());
    text.join("\n")
}

fn plain(line: &Line<'_>) -> String {
    panels::text(line).trim_end().to_owned() + "\n"
}
