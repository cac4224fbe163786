//! How values are written.

use super::{Kind, PropDef, Value};
use crate::nice;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// How numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// For people, pools: `1.50K`, `0`, `7%`, `1.00x`.
    Pool,
    /// For people, datasets: as pools, but `0B`.
    Dataset,
    /// For programs: exact, without units.
    Exact,
}

impl PropDef {
    /// The value as a table shows it.
    pub fn show(&self, value: &Value, style: Style) -> String {
        match value {
            Value::Absent => "-".to_owned(),
            Value::Text(text) if text.is_empty() => "-".to_owned(),
            Value::Text(text) => text.clone(),
            Value::Number(number) => self.show_number(*number, style),
        }
    }

    fn show_number(&self, number: u64, style: Style) -> String {
        let exact = style == Style::Exact;
        match self.kind {
            Kind::Choice { words, .. } => {
                let word = words.iter().find(|(_, n)| *n == number).map(|(word, _)| *word);
                word.map_or_else(|| number.to_string(), str::to_owned)
            }
            Kind::Count if number == u64::MAX => "none".to_owned(),
            Kind::Size { none_is_zero: true } if number == 0 && !exact => "none".to_owned(),
            Kind::Ratio if exact => format!("{}.{:02}", number / 100, number % 100),
            Kind::Ratio => format!("{}.{:02}x", number / 100, number % 100),
            Kind::Percent if !exact => format!("{number}%"),
            Kind::Time if !exact => local_minute(number),
            Kind::Moment if !exact => ctime(number),
            Kind::Amount if !exact => nice::number(number),
            Kind::Size { .. } if style == Style::Pool => nice::number(number),
            Kind::Size { .. } if style == Style::Dataset => nice::bytes(number),
            _ => number.to_string(),
        }
    }

    /// Numbers, and the health of a pool, stand at the right of their column.
    pub fn is_right_aligned(&self) -> bool {
        !matches!(self.kind, Kind::Text | Kind::Mountpoint | Kind::Choice { .. }) || self.name == "health"
    }

    /// How wide its column is before any value is seen.
    pub fn column_width(&self) -> usize {
        let widest = match self.kind {
            Kind::Choice { words, .. } => words.iter().map(|(word, _)| word.len()).max().unwrap_or(0),
            _ if self.name == "health" => 8,
            _ if self.is_right_aligned() => 5,
            _ => 0,
        };
        widest.max(self.column.len())
    }

    /// Whether values never widen the column: nice numbers and the words of a choice fit.
    pub fn is_fixed_width(&self) -> bool {
        !matches!(self.kind, Kind::Text | Kind::Mountpoint | Kind::Id | Kind::Time | Kind::Moment)
            || self.name == "health"
    }
}

/// `Sat Nov 21 18:55 2026`, as the `creation` property shows it, in the system's time zone.
fn local_minute(secs: u64) -> String {
    written(secs, "%a %b %e %k:%M %Y", TimeZone::system())
}

/// `Sat Nov 21 08:55 2026`, as holds are shown, in the system's time zone.
pub fn minute(secs: u64) -> String {
    written(secs, "%a %b %e %H:%M %Y", TimeZone::system())
}

/// `Sat Nov 21 19:18:24 2026`, as ctime(3) writes it, in the system's time zone.
pub fn ctime(secs: u64) -> String {
    written(secs, "%a %b %e %H:%M:%S %Y", TimeZone::system())
}

/// The time of day: `19:18:24`, in the system's time zone.
pub fn clock(secs: u64) -> String {
    written(secs, "%T", TimeZone::system())
}

/// A moment as the history of a pool has it, in local time.
pub fn moment(secs: u64) -> String {
    written(secs, "%F.%T", TimeZone::system())
}

/// The same as an event has it: `Nov 21 2026 19:18:24`.
pub fn event_time(secs: u64) -> String {
    written(secs, "%b %e %Y %T", TimeZone::system())
}

/// The same with the offset of the zone from UTC: `2026-11-21 19:18:24+0000`.
pub fn zoned_time(secs: u64) -> String {
    written(secs, "%Y-%m-%d %H:%M:%S%z", TimeZone::system())
}

fn written(secs: u64, format: &str, zone: TimeZone) -> String {
    let moment = i64::try_from(secs).ok().and_then(|secs| Timestamp::from_second(secs).ok());
    moment.map_or_else(|| secs.to_string(), |m| m.to_zoned(zone).strftime(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_as_ctime_writes_them() {
        let ctime = |secs| written(secs, "%a %b %e %H:%M:%S %Y", TimeZone::UTC);
        assert_eq!(ctime(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(ctime(951_782_400), "Tue Feb 29 00:00:00 2000");
        assert_eq!(ctime(1_795_288_704), "Sat Nov 21 19:18:24 2026");
        assert_eq!(ctime(u64::MAX), u64::MAX.to_string());
        let minute = |secs| written(secs, "%a %b %e %k:%M %Y", TimeZone::UTC);
        assert_eq!(minute(1_795_287_300), "Sat Nov 21 18:55 2026");
    }
}
