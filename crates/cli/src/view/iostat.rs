//! `zpool iostat`: capacity, operations and bandwidth, times and queues, or tables of powers of two.

mod cells;
mod columns;
mod histogram;
mod sample;

use super::names::{NameStyle, vdev_name};
use super::scripts::ScriptColumns;
use super::sections::{all_rows, flatten, heading, sections};
use columns::{Columns, Group};
use control::{PoolInfo, VdevClass, VdevInfo};
use engine::nice;
pub use histogram::Histogram;
pub use sample::Sample;
use sample::Span;
use std::fmt::Write;

/// What to show.
#[derive(Clone, Debug, Default)]
pub struct IostatStyle {
    /// No heading, tabs.
    pub scripted: bool,
    /// Exact numbers.
    pub exact: bool,
    /// Vdevs, too.
    pub verbose: bool,
    /// Average times, too.
    pub latency: bool,
    /// What is in queues, too.
    pub queues: bool,
    /// A table of powers of two instead.
    pub histogram: Option<Histogram>,
    /// Only these vdevs, by name; all where empty.
    pub only: Vec<String>,
    /// How vdevs are named.
    pub names: NameStyle,
    /// What scripts say of leaves.
    pub scripts: Option<ScriptColumns>,
}

const NAME_MIN: usize = 10;

impl IostatStyle {
    fn columns(&self) -> Columns {
        let more = [(self.latency, Group::Latency), (self.queues, Group::Queues)];
        let more = more.into_iter().filter_map(|(is_wanted, group)| is_wanted.then_some(group));
        Columns::new(&std::iter::once(Group::Default).chain(more).collect::<Vec<_>>(), self.exact)
    }

    /// Whether it shows what only the queues of devices know.
    pub fn needs_queues(&self) -> bool {
        self.latency || self.queues || self.histogram.is_some()
    }

    /// How wide the column of names must be.
    pub fn name_width(&self, pools: &[&PoolInfo]) -> usize {
        let row = |(depth, vdev): (usize, &VdevInfo)| 2 * depth + vdev_name(vdev, self.names).len();
        let wide = |pool: &&PoolInfo| {
            let rows = if self.verbose || !self.only.is_empty() { all_rows(pool) } else { Vec::new() };
            rows.into_iter().map(row).max().unwrap_or(0).max(pool.name.len())
        };
        pools.iter().map(wide).max().unwrap_or(0).max(NAME_MIN)
    }

    /// The three lines above the figures.
    pub fn header(&self, width: usize) -> String {
        let columns = self.columns();
        let title = if self.only.is_empty() { "pool" } else { "vdev" };
        let scripts = self.scripts.as_ref().map_or_else(String::new, ScriptColumns::heading);
        let mut text = format!("{:width$}{}\n", "", columns.top());
        _ = writeln!(text, "{title:width$}{}{scripts}", columns.bottom());
        text + &self.separator(width)
    }

    /// The dashed line.
    pub fn separator(&self, width: usize) -> String {
        let scripts = self.scripts.as_ref().map_or_else(String::new, ScriptColumns::dashes);
        format!("{}{}{scripts}\n", "-".repeat(width), self.columns().dashes())
    }

    /// The rows of one pool. Figures are those since `earlier`, or since it was opened.
    pub fn pool(&self, now: &Sample, earlier: Option<&Sample>, width: usize) -> String {
        let (pool, span) = (&now.pool, Span::new(now, earlier));
        let mut text = String::new();
        if self.only.is_empty() {
            self.row(&mut text, 0, &pool.name, &pool.root, &span, width);
        }
        if !self.verbose {
            return text;
        }
        for vdev in pool.tops(VdevClass::Normal) {
            self.tree(&mut text, vdev, &span, width);
        }
        for section in sections(pool).into_iter().filter(|s| s.class != VdevClass::Spare) {
            self.heading(&mut text, heading(section.class), width);
            for vdev in section.vdevs {
                self.tree(&mut text, vdev, &span, width);
            }
        }
        if !self.scripted && self.histogram.is_none() {
            text.push_str(&self.separator(width));
        }
        text
    }

    /// A row of dashes; an empty line where programs read, single vdevs were asked for, or each has a table.
    fn heading(&self, text: &mut String, title: &str, width: usize) {
        if !self.scripted && self.only.is_empty() && self.histogram.is_none() {
            _ = write!(text, "{title:width$}{}", self.columns().blanks());
        }
        text.push('\n');
    }

    fn tree(&self, text: &mut String, vdev: &VdevInfo, span: &Span<'_>, width: usize) {
        for (depth, vdev) in flatten(vdev, 1) {
            let name = vdev_name(vdev, self.names);
            match self.only.contains(&name) {
                true => self.row(text, 0, &name, vdev, span, width),
                false if self.only.is_empty() => self.row(text, depth, &name, vdev, span, width),
                false => {}
            }
        }
    }

    fn row(
        &self,
        text: &mut String,
        depth: usize,
        name: &str,
        vdev: &VdevInfo,
        span: &Span<'_>,
        width: usize,
    ) {
        if let Some(histogram) = self.histogram {
            text.push_str(&histogram.table(self, name, vdev, span, width));
            return;
        }
        let (cells, said) = (self.cells(vdev, span), self.said(&span.pool().name, vdev));
        if self.scripted {
            _ = writeln!(text, "{name}\t{}{said}", cells.join("\t"));
            return;
        }
        let indent = 2 * depth;
        let rest = width.saturating_sub(indent);
        _ = writeln!(text, "{:indent$}{name:rest$}{}{said}", "", self.columns().cells(&cells));
    }

    fn cells(&self, vdev: &VdevInfo, span: &Span<'_>) -> Vec<String> {
        let rates = span.rates(vdev);
        let mut cells = self.capacity(vdev).to_vec();
        let rates = [rates.reads, rates.writes, rates.read_bytes, rates.written_bytes];
        cells.extend(rates.map(|n| self.number(n)));
        if self.latency || self.queues {
            let io = span.io(vdev);
            cells.extend(self.latency.then(|| cells::averages(&io, self.exact)).into_iter().flatten());
            cells.extend(self.queues.then(|| cells::queues(&io, self.exact)).into_iter().flatten());
        }
        cells
    }

    /// What scripts say of a leaf.
    fn said(&self, pool: &str, vdev: &VdevInfo) -> String {
        match (&self.scripts, &vdev.path) {
            (Some(scripts), Some(path)) => scripts.row(pool, path),
            _ => String::new(),
        }
    }

    fn capacity(&self, vdev: &VdevInfo) -> [String; 2] {
        let (allocated, space) = (vdev.stats.allocated_bytes, vdev.stats.space_bytes);
        if space == 0 {
            let none = if self.exact { "0" } else { "-" };
            return [none.to_owned(), none.to_owned()];
        }
        [self.number(allocated), self.number(space.saturating_sub(allocated))]
    }

    fn number(&self, number: u64) -> String {
        if self.exact { number.to_string() } else { nice::number(number) }
    }
}

#[cfg(test)]
mod tests;
