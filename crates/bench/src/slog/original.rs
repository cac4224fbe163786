//! The table of 2007: the measurements with which separate intent logs were announced. 32 threads, `O_DSYNC` writes of 8 KB at
//! random over a file of 400 MB, SATA disks of that year, and a card of battery-backed memory.
//!
//! Of some rows only the ends are known, and of some one figure for the whole row.

use super::{CLASSIC_COLUMNS, Logs};

/// MB/s in 2007.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Original {
    /// The figure; of a cell between two that are known, the larger of those.
    pub mb_per_second: u32,
    /// It is of this very cell. Else the cell's own figure is not known, and this one is of its row.
    pub is_exact: bool,
}

enum Known {
    Each([u32; 6]),
    Ends(u32, u32),
    Row(u32),
}

/// The figure of a cell; none where the table had no such cell.
pub(super) fn of(with_flushes: bool, logs: Logs, main: usize) -> Option<Original> {
    let column = CLASSIC_COLUMNS.iter().position(|&disks| disks == main)?;
    let last = CLASSIC_COLUMNS.len() - 1;
    let (mb_per_second, is_exact) = match known(with_flushes, logs)? {
        Known::Each(figures) => (figures[column], true),
        Known::Ends(first, _) if column == 0 => (first, true),
        Known::Ends(_, end) if column == last => (end, true),
        Known::Ends(first, end) => (first.max(end), false),
        Known::Row(figure) => (figure, false),
    };
    Some(Original { mb_per_second, is_exact })
}

fn known(with_flushes: bool, logs: Logs) -> Option<Known> {
    Some(match (with_flushes, logs) {
        (true, Logs::Disks(0)) => Known::Each([11, 14, 17, 15, 16, 13]),
        (true, Logs::Disks(1)) => Known::Ends(12, 11),
        (true, Logs::Disks(2 | 4)) => Known::Ends(17, 16),
        (true, Logs::Disks(8)) => Known::Ends(18, 18),
        (true, Logs::Fast) => Known::Row(218),
        (false, Logs::Disks(0)) => Known::Each([33, 83, 123, 136, 142, 143]),
        (false, Logs::Disks(1)) => Known::Row(45),
        (false, Logs::Disks(2)) => Known::Row(97),
        (false, Logs::Disks(4)) => Known::Row(125),
        (false, Logs::Disks(8)) => Known::Row(137),
        (false, Logs::Fast) => Known::Row(226),
        (_, Logs::Disks(_)) => return None,
    })
}
