//! The tables for people: figures, and bars below them.

use std::fmt::Write;

use super::{Cell, Report, Row, Table};

/// Room of a row's name, and of a cell.
const NAME: usize = 8;
const CELL: usize = 12;
/// The longest bar, so that a line with it has 80 columns.
const BAR: f64 = 52.0;

pub(super) fn report(report: &Report) -> String {
    let load = &report.load;
    let mut text = format!(
        "MB/s of {} threads that write {} each at random over {}, stable before they return\n{}\nin parentheses: measured in 2007, ~ where only its row's figure is known\n",
        load.threads,
        bytes(load.size_bytes as u64),
        bytes(load.span_bytes),
        report.ground
    );
    report.tables.iter().for_each(|table| figures(&mut text, table));
    report.tables.iter().for_each(|table| bars(&mut text, table));
    text.trim_end().to_owned()
}

pub(super) fn title(table: &Table) -> &'static str {
    if table.with_flushes { "caches are flushed" } else { "caches need no flush" }
}

pub(super) fn bytes(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// Three digits that matter.
pub(super) fn megabytes(cell: &Cell) -> String {
    let rate = cell.mb_per_second;
    if rate < 99.95 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

fn figures(text: &mut String, table: &Table) {
    _ = write!(text, "\n{}; data disks:\n{:NAME$}", title(table), "");
    table.columns.iter().for_each(|main| _ = write!(text, "{main:>CELL$}"));
    text.push('\n');
    for row in &table.rows {
        _ = write!(text, "{:NAME$}", row.name);
        row.cells.iter().zip(&row.original).for_each(|(cell, original)| {
            let original = original.map(|original| {
                format!(" ({}{})", if original.is_exact { "" } else { "~" }, original.mb_per_second)
            });
            _ = write!(text, "{:>CELL$}", megabytes(cell) + &original.unwrap_or_default());
        });
        text.push('\n');
    }
}

/// Of the first and the last column, drawn to the scale of the table's largest figure.
fn bars(text: &mut String, table: &Table) {
    let ends: Vec<usize> = match table.columns.len() {
        0 => Vec::new(),
        1 => vec![0],
        count => vec![0, count - 1],
    };
    let most =
        table.rows.iter().flat_map(|row| &row.cells).map(|cell| cell.mb_per_second).fold(0.0, f64::max);
    for column in ends {
        _ = writeln!(text, "\n{}, {}", title(table), disks(table.columns[column]));
        table.rows.iter().for_each(|row| bar(text, row, column, most));
    }
}

fn disks(count: usize) -> String {
    format!("{count} data disk{}", if count == 1 { "" } else { "s" })
}

fn bar(text: &mut String, row: &Row, column: usize, most: f64) {
    let Some(cell) = row.cells.get(column) else { return };
    let length = (cell.mb_per_second / most.max(f64::MIN_POSITIVE) * BAR).round() as usize;
    _ = writeln!(text, "{:NAME$} {:#<length$} {}", row.name, "", megabytes(cell));
}
