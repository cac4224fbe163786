//! What is watched.

use crate::Ink;
use crate::watching::Watching;
use crate::words::{bytes, cut, rate};
use control::PoolHealth;
use live::Interval;
use ratatui::text::{Line, Span};

/// Keys, each with the rest of what it does.
const KEYS: [(&str, &str); 4] = [("q", "uit "), ("p", "ause "), ("z", "oom "), ("o", "ther pool")];

/// One line: the pool, how it is, and the keys.
pub fn line(ink: Ink, watching: &Watching, width: usize) -> Line<'static> {
    let mut spans = vec![ink.title("sawmill top  ")];
    spans.extend(pool(ink, watching));
    if watching.points_each() > 1 {
        spans.push(Span::raw(format!("{} looks a column ", watching.points_each())));
    }
    if watching.is_paused() {
        spans.push(ink.alarm(" paused "));
    }
    let keys = KEYS.iter().flat_map(|(key, rest)| [ink.key(*key), Span::raw(*rest)]);
    let keys: Vec<Span<'static>> = keys.collect();
    let count = |spans: &[Span<'_>]| spans.iter().map(|span| span.content.chars().count()).sum::<usize>();
    let gap = width.saturating_sub(count(&spans) + count(&keys));
    spans.push(Span::raw(" ".repeat(gap)));
    spans.extend(keys);
    Line::from(spans)
}

fn pool(ink: Ink, watching: &Watching) -> Vec<Span<'static>> {
    if let Some(error) = watching.error() {
        return vec![ink.alarm(cut(error, 40, false))];
    }
    let Some(look) = watching.last() else { return vec![Span::raw("looking for pools")] };
    let name = ink.title(cut(&look.pool.name, 20, false));
    let health = look.pool.health.word();
    let state = if look.pool.health == PoolHealth::Online { Span::raw(health) } else { ink.alarm(health) };
    vec![name, Span::raw(" "), state, Span::raw(" ")]
}

/// What was measured of which pool, in words.
pub fn once(interval: &Interval) -> Vec<Line<'static>> {
    let load = &interval.load;
    let pool = format!("pool '{}' {}, {:.1} s", interval.pool, interval.health.word(), interval.seconds);
    let commits = format!(
        "{} commits/s, {}/s made stable, {}/s of log blocks",
        rate(load.commits_per_second),
        bytes(load.data_bytes_per_second),
        bytes(load.written_bytes_per_second)
    );
    let together = format!(
        "{:.2} commits under way at a time, {:.2} for each write of the log",
        load.under_way, load.commits_per_batch
    );
    let bad = format!("{} commits had to wait for a txg, {} errors", load.waited_for_txg, load.errors);
    [pool, commits, together, bad].map(Line::raw).to_vec()
}
