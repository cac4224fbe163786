//! The pools to choose from.

use crate::Ink;
use crate::words::cut;
use control::PoolInfo;
use ratatui::text::Line;

/// A line for each, the chosen one marked, in so many lines at most.
pub fn lines(ink: Ink, pools: &[PoolInfo], chosen: usize, width: usize, rows: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::from(ink.title("pool: up and down, Enter; Esc for the one before"))];
    let room = rows.saturating_sub(1).max(1);
    // The chosen one is always there.
    let first = (chosen + 1).saturating_sub(room);
    let row = |(place, pool): (usize, &PoolInfo)| {
        let mark = if place == chosen { ">" } else { " " };
        let text = format!("{mark} {:20} {}", cut(&pool.name, 20, false), pool.health.word());
        let text = cut(&text, width, false);
        if place == chosen { Line::from(ink.chosen(text)) } else { Line::raw(text) }
    };
    lines.extend(pools.iter().enumerate().skip(first).take(room).map(row));
    lines
}
