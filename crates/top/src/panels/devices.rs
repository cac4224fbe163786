//! Log vdevs and their devices.

use super::fit;
use crate::Ink;
use crate::words::{bytes, cut, micros_or_none, rate, years};
use control::VdevState;
use live::{Interval, LogDevice, LogVdev};
use ratatui::text::{Line, Span};

/// Columns of the figures.
const FIGURES: usize = 57;

/// A title, and a line for each vdev and device, in so many lines at most.
pub fn lines(ink: Ink, now: Option<&Interval>, width: usize, rows: usize) -> Vec<Line<'static>> {
    let logs = now.map_or(&[][..], |now| &now.logs);
    let has_none = now.is_some() && !logs.iter().any(|log| log.is_log);
    let name = if has_none { "no log device" } else { "log device" };
    let heads = ["writes/s", "B/s", "mean", "p99 <", "flush <", "queue", "fill", "wear"].map(str::to_owned);
    let mut lines = vec![Line::from(ink.title(row(name, &heads, width)))];
    let each = logs.iter().flat_map(|log| vdev(ink, log, width)).collect();
    lines.extend(fit(each, rows.saturating_sub(1)));
    lines
}

/// How many lines there are to show all.
pub fn wanted(now: Option<&Interval>) -> usize {
    let logs = now.map_or(&[][..], |now| &now.logs);
    1 + logs.iter().map(|log| if is_single(log) { 1 } else { 1 + log.devices.len() }).sum::<usize>()
}

fn is_single(log: &LogVdev) -> bool {
    log.devices.len() == 1
}

/// One device is shown with its vdev, several below it.
fn vdev(ink: Ink, log: &LogVdev, width: usize) -> Vec<Line<'static>> {
    let name = match log.devices.as_slice() {
        [one] => one.path.clone(),
        _ => format!("{}-{}", log.kind.word(), log.id),
    };
    let figures = [
        rate(log.writes_per_second),
        bytes(log.bytes_per_second),
        micros_or_none(log.write.map(|times| times.mean_us)),
        micros_or_none(log.write.map(|times| times.p99_below_us)),
        micros_or_none(log.flush.map(|times| times.p99_below_us)),
        format!("{:.2}", log.in_flight),
        format!("{:.0}%", log.fill_percent()),
        log.devices.first().filter(|_| is_single(log)).map_or_else(String::new, wear),
    ];
    let mut lines = vec![line(ink, &name, &figures, log.state, width)];
    if !is_single(log) {
        lines.extend(log.devices.iter().map(|device| device_line(ink, device, width)));
    }
    lines
}

fn device_line(ink: Ink, device: &LogDevice, width: usize) -> Line<'static> {
    let figures = [
        rate(device.writes_per_second),
        bytes(device.bytes_per_second),
        micros_or_none(device.write_mean_us),
        String::new(),
        micros_or_none(device.flush.map(|times| times.p99_below_us)),
        format!("{:.2}", device.in_flight),
        String::new(),
        wear(device),
    ];
    line(ink, &format!("  {}", device.path), &figures, device.state, width)
}

fn line(ink: Ink, name: &str, figures: &[String; 8], state: VdevState, width: usize) -> Line<'static> {
    if state == VdevState::Online {
        return Line::raw(row(name, figures, width));
    }
    // How it is stands in place of figures that it cannot have.
    let room = width.saturating_sub(FIGURES);
    Line::from(vec![Span::raw(format!("{:room$} ", cut(name, room, true))), ink.alarm(state.raw_word())])
}

fn row(name: &str, figures: &[String; 8], width: usize) -> String {
    let room = width.saturating_sub(FIGURES);
    let [writes, bytes, mean, p99, flush, queue, fill, wear] = figures;
    let name = cut(name, room, true);
    format!(
        "{name:room$} {writes:>8} {bytes:>6} {mean:>6} {p99:>6} {flush:>7} {queue:>6} {fill:>4} {wear:>6}"
    )
}

fn wear(device: &LogDevice) -> String {
    device.life.map_or_else(|| "-".to_owned(), |life| years(life.years))
}
