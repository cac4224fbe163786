//! The tables for other programs: one line a cell.

use std::fmt::Write;

use super::{Report, Row, Table};

pub(super) fn report(report: &Report) -> String {
    let mut text = "flushes,logs,main_disks,mb_per_second,commits_per_second,mean_us,p50_us,p99_us,commits,mb_per_second_2007\n"
        .to_owned();
    for table in &report.tables {
        table.rows.iter().for_each(|row| cells(&mut text, table, row));
    }
    text
}

fn cells(text: &mut String, table: &Table, row: &Row) {
    let flushes = if table.with_flushes { "yes" } else { "no" };
    for ((main, cell), original) in table.columns.iter().zip(&row.cells).zip(&row.original) {
        let original = original.map(|original| original.mb_per_second.to_string()).unwrap_or_default();
        _ = writeln!(
            text,
            "{flushes},{},{main},{:.2},{:.1},{:.1},{:.1},{:.1},{},{original}",
            row.name.replace(',', " "),
            cell.mb_per_second,
            cell.commits_per_second,
            cell.mean_us,
            cell.p50_us,
            cell.p99_us,
            cell.commits,
        );
    }
}
