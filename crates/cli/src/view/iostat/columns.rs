//! The columns of `zpool iostat` in groups, as OpenZFS heads and spaces them.
//!
//! ```text
//!               capacity     operations     bandwidth    total_wait       labels over their columns
//! pool        alloc   free   read  write   read  write   read  write      one each
//! ----------  -----  -----  -----  -----  -----  -----  -----  -----
//! ```

use std::fmt::Write;

/// A label, and how many columns it stands over.
type Label = (&'static str, usize);

/// Columns that come and go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// What every table has: capacity, operations, bandwidth.
    Default,
    /// `-l`: average times.
    Latency,
    /// `-q`: what waits now, and what devices have.
    Queues,
    /// `-w`: times by powers of two.
    LatencyHistogram,
    /// `-r`: sizes by powers of two.
    SizeHistogram,
}

const WAITS: [Label; 4] = [("total_wait", 2), ("disk_wait", 2), ("syncq_wait", 2), ("asyncq_wait", 2)];
const READ_WRITE: [&str; 8] = ["read", "write", "read", "write", "read", "write", "read", "write"];

impl Group {
    /// The upper labels.
    fn top(self) -> Vec<Label> {
        match self {
            Self::Default => vec![("capacity", 2), ("operations", 2), ("bandwidth", 2)],
            Self::Latency => [&WAITS[..], &[("scrub", 1), ("trim", 1), ("rebuild", 1)]].concat(),
            Self::LatencyHistogram => WAITS.to_vec(),
            Self::Queues => vec![
                ("syncq_read", 2),
                ("syncq_write", 2),
                ("asyncq_read", 2),
                ("asyncq_write", 2),
                ("scrubq_read", 2),
                ("trimq_write", 2),
                ("rebuildq_write", 2),
            ],
            Self::SizeHistogram => vec![
                ("sync_read", 2),
                ("sync_write", 2),
                ("async_read", 2),
                ("async_write", 2),
                ("scrub", 2),
                ("trim", 2),
                ("rebuild", 2),
            ],
        }
    }

    /// The label of each column.
    fn bottom(self) -> Vec<&'static str> {
        match self {
            Self::Default => vec!["alloc", "free", "read", "write", "read", "write"],
            Self::Latency => [&READ_WRITE[..], &["wait"; 3]].concat(),
            Self::LatencyHistogram => [&READ_WRITE[..], &["scrub", "trim", "rebuild"]].concat(),
            Self::Queues => ["pend", "activ"].repeat(7),
            Self::SizeHistogram => ["ind", "agg"].repeat(7),
        }
    }

    /// How wide its columns are; exact numbers need more room.
    fn width(self, exact: bool) -> usize {
        match self {
            _ if !exact => 5,
            Self::Default => 15,
            Self::Latency | Self::LatencyHistogram => 10,
            Self::Queues | Self::SizeHistogram => 6,
        }
    }
}

/// The columns of one table.
#[derive(Clone, Debug)]
pub struct Columns(Vec<(Group, usize)>);

impl Columns {
    /// Of these groups, for numbers as people read them or for exact ones.
    pub fn new(groups: &[Group], exact: bool) -> Self {
        Self(groups.iter().map(|group| (*group, group.width(exact))).collect())
    }

    /// Of one group, each column so wide.
    pub fn wide(group: Group, width: usize) -> Self {
        Self(vec![(group, width)])
    }

    /// The upper labels, each centred over its columns.
    pub fn top(&self) -> String {
        let mut text = String::new();
        for (group, width) in &self.0 {
            for (label, columns) in group.top() {
                let whole = width * columns + 2 * (columns - 1);
                let before = (whole / columns).saturating_sub(label.len() / columns);
                let after = whole.saturating_sub(before + label.len());
                _ = write!(text, "  {:before$}{label}{:after$}", "", "");
            }
        }
        text
    }

    /// The label of each column.
    pub fn bottom(&self) -> String {
        self.each(|group, width| {
            let labels = group.bottom();
            labels.iter().map(|label| format!("  {label:>width$}")).collect()
        })
    }

    /// Dashes as wide as the columns.
    pub fn dashes(&self) -> String {
        self.each(|group, width| format!("  {}", "-".repeat(width)).repeat(group.bottom().len()))
    }

    /// One dash in each column.
    pub fn blanks(&self) -> String {
        self.each(|group, width| format!("  {:>width$}", "-").repeat(group.bottom().len()))
    }

    fn each(&self, group: impl Fn(Group, usize) -> String) -> String {
        self.0.iter().map(|(each, width)| group(*each, *width)).collect()
    }

    /// Cells in their columns.
    pub fn cells(&self, cells: &[String]) -> String {
        let widths = self.0.iter().flat_map(|(group, width)| vec![*width; group.bottom().len()]);
        cells.iter().zip(widths).map(|(cell, width)| format!("  {cell:>width$}")).collect()
    }

    /// How wide all of them are together.
    pub fn total_width(&self) -> usize {
        self.0.iter().map(|(group, width)| (width + 2) * group.bottom().len()).sum()
    }
}
