//! The tables as one page with charts, which needs no network and no script.
//!
//! Rates go over two orders of magnitude, so charts have a logarithmic scale and lines with points, never bars: a bar says
//! something by its length that only a scale from zero can mean.

use std::fmt::Write;

use super::text::{bytes, megabytes, title};
use super::{Report, Row, Table};

const STYLE: &str = include_str!("page.css");

pub(super) fn page(report: &Report) -> String {
    let load = &report.load;
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>What log devices bring</title>\n<style>\n{STYLE}</style>\n<main>\n<h1>What log devices bring</h1>\n\
         <p class=\"lede\">{} threads write {} each at random over {}, every write stable before it returns. Megabytes a second.</p>\n\
         <p>{}</p>\n",
        load.threads,
        bytes(load.size_bytes as u64),
        bytes(load.span_bytes),
        escaped(&report.ground)
    );
    for table in &report.tables {
        _ = write!(page, "<section>\n<h2>{}</h2>\n", capital(title(table)));
        chart(&mut page, table);
        figures(&mut page, table);
        page.push_str("</section>\n");
    }
    page + "<p>In grey: measured in 2007 by those who made separate logs; with ~ only the row's figure is known.</p>\n</main>\n</html>\n"
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn figures(page: &mut String, table: &Table) {
    page.push_str("<div class=\"wide\"><table>\n<tr><th scope=\"col\">data disks</th>");
    table.columns.iter().for_each(|main| _ = write!(page, "<th scope=\"col\">{main}</th>"));
    page.push_str("</tr>\n");
    for row in &table.rows {
        _ = write!(page, "<tr><th scope=\"row\">{}</th>", escaped(&row.name));
        for (cell, original) in row.cells.iter().zip(&row.original) {
            let told = format!(
                "{:.0} writes a second, median {:.0} µs, 99 % {:.0} µs",
                cell.commits_per_second, cell.p50_us, cell.p99_us
            );
            _ = write!(page, "<td title=\"{told}\">{}", megabytes(cell));
            if let Some(original) = original {
                let about = if original.is_exact { "" } else { "~" };
                _ = write!(page, " <small>{about}{}</small>", original.mb_per_second);
            }
            page.push_str("</td>");
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
}

/// Where the chart's lines are, in its own units.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 530.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 268.0;
/// Names at the ends of lines keep so far apart.
const APART: f64 = 15.0;

/// From a rate to a height: powers of ten around all rates.
struct Scale {
    from: i32,
    to: i32,
}

impl Scale {
    fn of(table: &Table) -> Self {
        let rates =
            || table.rows.iter().flat_map(|row| &row.cells).map(|cell| cell.mb_per_second.max(0.01).log10());
        let (low, high) = (rates().fold(f64::MAX, f64::min), rates().fold(f64::MIN, f64::max));
        let from = low.floor() as i32;
        Self { from, to: (high.ceil() as i32).max(from + 1) }
    }

    fn y(&self, rate: f64) -> f64 {
        let part = (rate.max(0.01).log10() - f64::from(self.from)) / f64::from(self.to - self.from);
        BOTTOM - part * (BOTTOM - TOP)
    }
}

fn x(table: &Table, column: usize) -> f64 {
    let steps = table.columns.len().saturating_sub(1).max(1);
    LEFT + (RIGHT - LEFT) * column as f64 / steps as f64
}

fn chart(page: &mut String, table: &Table) {
    let scale = Scale::of(table);
    _ = writeln!(
        page,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"MB/s by data disks: {}\">",
        title(table)
    );
    for power in scale.from..=scale.to {
        let y = scale.y(10_f64.powi(power));
        _ = writeln!(
            page,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/><text class=\"end\" x=\"{}\" y=\"{:.1}\">{}</text>",
            LEFT - 8.0,
            y + 4.0,
            10_f64.powi(power)
        );
    }
    for (column, main) in table.columns.iter().enumerate() {
        _ = writeln!(
            page,
            "<text class=\"mid\" x=\"{:.1}\" y=\"{}\">{main}</text>",
            x(table, column),
            BOTTOM + 20.0
        );
    }
    let places = name_places(table, &scale);
    for (number, (row, place)) in table.rows.iter().zip(places).enumerate() {
        line(page, table, &scale, number, row, place);
    }
    page.push_str("</svg>\n");
}

fn line(page: &mut String, table: &Table, scale: &Scale, number: usize, row: &Row, place: f64) {
    let points =
        row.cells.iter().enumerate().map(|(column, cell)| (x(table, column), scale.y(cell.mb_per_second)));
    let path: Vec<String> = points.clone().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    _ = write!(page, "<g class=\"s{number}\"><path d=\"M{}\"/>", path.join("L"));
    points.for_each(|(x, y)| _ = write!(page, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>"));
    _ = writeln!(
        page,
        "<text x=\"{}\" y=\"{:.1}\">{}</text></g>",
        RIGHT + 12.0,
        place + 4.0,
        escaped(&row.name)
    );
}

/// Heights of the lines' names: at the lines' ends, but none upon another.
fn name_places(table: &Table, scale: &Scale) -> Vec<f64> {
    let end = |row: &Row| row.cells.last().map_or(BOTTOM, |cell| scale.y(cell.mb_per_second));
    let mut places: Vec<(usize, f64)> = table.rows.iter().map(end).enumerate().collect();
    // From the bottom up: each at least so far above the one before.
    places.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    for at in 1..places.len() {
        places[at].1 = places[at].1.min(places[at - 1].1 - APART);
    }
    places.sort_by_key(|(row, _)| *row);
    places.into_iter().map(|(_, place)| place).collect()
}
