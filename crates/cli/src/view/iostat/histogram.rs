//! `zpool iostat -w` and `-r`: a table for each pool or vdev.

use super::cells::{Row, size_rows, time_rows};
use super::columns::{Columns, Group};
use super::{IostatStyle, Span};
use control::VdevInfo;
use engine::nice;
use std::fmt::Write;

/// What is shown by powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Histogram {
    /// How long I/Os took and waited.
    Latency,
    /// How large they were.
    Size,
}

impl Histogram {
    fn group(self) -> Group {
        match self {
            Self::Latency => Group::LatencyHistogram,
            Self::Size => Group::SizeHistogram,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Size => "req_size",
        }
    }

    fn rows(self, span: &Span<'_>, vdev: &VdevInfo) -> Vec<Row> {
        let io = span.io(vdev);
        match self {
            Self::Latency => time_rows(&io),
            Self::Size => size_rows(&io),
        }
    }

    /// What a row is called.
    fn label(self, style: &IostatStyle, number: u64) -> String {
        match self {
            _ if style.scripted => number.to_string(),
            Self::Latency => nice::time(number),
            Self::Size => nice::number(number),
        }
    }

    /// The table of one vdev, led by an empty line.
    pub fn table(
        self,
        style: &IostatStyle,
        name: &str,
        vdev: &VdevInfo,
        span: &Span<'_>,
        width: usize,
    ) -> String {
        let rows = self.rows(span, vdev);
        let most = rows.iter().flat_map(|row| &row.counts).max().copied().unwrap_or(0);
        // Exact numbers get columns as wide as the longest.
        let column = if style.exact { most.to_string().len().max(5) } else { 5 };
        let columns = Columns::wide(self.group(), column);
        let mut text = String::from("\n");
        if style.scripted {
            _ = writeln!(text, "{name}");
        } else {
            let head = width.max(name.len());
            _ = writeln!(text, "{name:head$}{}", columns.top());
            _ = writeln!(text, "{:head$}{}", self.title(), columns.bottom());
            _ = writeln!(text, "{}{}", "-".repeat(width), columns.dashes());
        }
        let scale = span.histogram_scale();
        for row in rows {
            let numbers = row.counts.iter().map(|count| style.number((*count as f64 * scale) as u64));
            let (label, cells) = (self.label(style, row.label), numbers.collect::<Vec<_>>());
            _ = match style.scripted {
                true => writeln!(text, "{label}\t{}", cells.join("\t")),
                false => writeln!(text, "{label:width$}{}", columns.cells(&cells)),
            };
        }
        if !style.scripted {
            _ = writeln!(text, "{}", "-".repeat(width + columns.total_width()));
        }
        text
    }
}
