//! The long form: `-rw-r--r-- 1 root root 4096 Nov 21 18:56 name`.

use super::Line;
use crate::visit::words::letter;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use std::collections::BTreeMap;

/// Bytes of a unit in which attributes count what is allocated.
const SECTOR_BYTES: u64 = 512;

/// Lines with their columns set out.
pub struct LongList<'a> {
    rows: Vec<Row<'a>>,
}

struct Row<'a> {
    cells: [String; 6],
    line: &'a Line,
}

/// Which cells stand at the left of their column: mode, links, owner, group, size, time.
const AT_LEFT: [bool; 6] = [true, false, true, true, false, true];

impl<'a> LongList<'a> {
    /// `human`: sizes with units; `numeric`: owners by number.
    pub fn new(lines: &'a [Line], human: bool, numeric: bool) -> Self {
        let users = if numeric { BTreeMap::new() } else { names("/etc/passwd") };
        let groups = if numeric { BTreeMap::new() } else { names("/etc/group") };
        let now = Timestamp::now();
        let cells = |line: &Line| {
            let at = &line.attributes;
            let size = match (at.kind.is_device(), human) {
                (true, _) => format!("{}, {}", at.device.major, at.device.minor),
                (false, true) => human_size(at.size),
                (false, false) => at.size.to_string(),
            };
            let name_of =
                |names: &BTreeMap<u32, String>, id| names.get(&id).cloned().unwrap_or_else(|| id.to_string());
            [
                format!("{}{}", letter(at.kind), mode(at.permissions)),
                at.links.to_string(),
                name_of(&users, at.uid),
                name_of(&groups, at.gid),
                size,
                time(at.mtime, now),
            ]
        };
        Self { rows: lines.iter().map(|line| Row { cells: cells(line), line }).collect() }
    }

    /// All lines.
    pub fn text(&self) -> Vec<u8> {
        let width = |cell: usize| self.rows.iter().map(|row| row.cells[cell].len()).max().unwrap_or(0);
        let widths: [usize; 6] = std::array::from_fn(width);
        let mut text = Vec::new();
        for row in &self.rows {
            for (cell, (width, left)) in row.cells.iter().zip(widths.into_iter().zip(AT_LEFT)) {
                let padded = if left { format!("{cell:width$} ") } else { format!("{cell:>width$} ") };
                text.extend_from_slice(padded.as_bytes());
            }
            text.extend_from_slice(&row.line.name);
            if let Some(target) = &row.line.target {
                text.extend_from_slice(&[b" -> ", target.as_slice()].concat());
            }
            text.push(b'\n');
        }
        text
    }
}

/// What is allocated, in KiB or with a unit.
pub fn blocks(sectors: u64, human: bool) -> String {
    let bytes = sectors.saturating_mul(SECTOR_BYTES);
    if human { human_size(bytes) } else { bytes.div_ceil(1024).to_string() }
}

/// `rwxr-xr-x`, with set-id and sticky bits.
fn mode(bits: u32) -> String {
    let special = [(0o4000, 's', 'S'), (0o2000, 's', 'S'), (0o1000, 't', 'T')];
    let mut text = String::with_capacity(9);
    for (class, (bit, with_x, without_x)) in special.into_iter().enumerate() {
        let rwx = bits >> (6 - 3 * class);
        text.push(if rwx & 4 != 0 { 'r' } else { '-' });
        text.push(if rwx & 2 != 0 { 'w' } else { '-' });
        text.push(match (rwx & 1 != 0, bits & bit != 0) {
            (true, true) => with_x,
            (false, true) => without_x,
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// As coreutils has it with `-h`: rounded up, one decimal below ten.
fn human_size(bytes: u64) -> String {
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut unit = 1_u128;
    for letter in ["K", "M", "G", "T", "P", "E"] {
        unit *= 1024;
        let tenths = (u128::from(bytes) * 10).div_ceil(unit);
        if tenths < 100 {
            return format!("{}.{}{letter}", tenths / 10, tenths % 10);
        }
        let whole = u128::from(bytes).div_ceil(unit);
        if whole < 1024 {
            return format!("{whole}{letter}");
        }
    }
    bytes.to_string()
}

/// With the time of day, or the year if that is more than half a year away.
fn time(at: zpl::Timestamp, now: Timestamp) -> String {
    let Ok(at) = Timestamp::from_second(at.secs) else { return at.secs.to_string() };
    let zoned = at.to_zoned(TimeZone::system());
    let half_a_year = (24 * 365 / 2).hours();
    let is_near = at <= now && now.checked_sub(half_a_year).is_ok_and(|past| at > past);
    zoned.strftime(if is_near { "%b %e %H:%M" } else { "%b %e  %Y" }).to_string()
}

/// Ids and names in a file like /etc/passwd.
pub fn names(path: &str) -> BTreeMap<u32, String> {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let name = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        Some((fields.nth(1)?.parse().ok()?, name))
    };
    text.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_read_as_ls_shows_them() {
        assert_eq!(mode(0o755), "rwxr-xr-x");
        assert_eq!(mode(0o6644), "rwSr-Sr--");
        assert_eq!(mode(0o1777), "rwxrwxrwt");
        assert_eq!(mode(0o7000), "--S--S--T");
    }

    #[test]
    fn sizes_are_rounded_up_as_coreutils_does() {
        for (bytes, shown) in
            [(0, "0"), (1023, "1023"), (1024, "1.0K"), (1025, "1.1K"), (10_240, "10K"), (10_241, "11K")]
        {
            assert_eq!(human_size(bytes), shown);
        }
        assert_eq!(human_size(1 << 40), "1.0T");
        assert_eq!(human_size(1_048_575), "1.0M");
        assert_eq!(human_size(u64::MAX), "16E");
    }

    #[test]
    fn far_times_show_the_year() {
        let now: Timestamp = "2026-11-21T18:00:00Z".parse().expect("a time");
        let shown = |secs| time(zpl::Timestamp { secs, nanos: 0 }, now);
        assert!(shown(now.as_second() - 60).contains(':'));
        assert!(shown(now.as_second() - 200 * 86_400).ends_with(" 2026"));
        assert!(shown(now.as_second() + 60).ends_with(" 2026"));
        assert_eq!(shown(i64::MIN), i64::MIN.to_string());
    }
}
