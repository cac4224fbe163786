//! `zpool iostat`: capacity, operations and bandwidth.

use super::names::{NameStyle, vdev_name};
use super::scripts::ScriptColumns;
use super::sections::{all_rows, flatten, heading, sections};
use control::{IoCounters, PoolInfo, VdevClass, VdevInfo};
use engine::nice;
use std::collections::BTreeMap;
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
    /// Only these vdevs, by name; all where empty.
    pub only: Vec<String>,
    /// How vdevs are named.
    pub names: NameStyle,
    /// What scripts say of leaves.
    pub scripts: Option<ScriptColumns>,
}

/// One look at a pool's counters: when, and each vdev's by guid.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    nanos: u64,
    counters: BTreeMap<u64, IoCounters>,
}

impl Sample {
    /// Of a pool as it is now.
    pub fn of(pool: &PoolInfo) -> Self {
        let all = pool.root.walk().chain(&pool.caches).chain(&pool.spares);
        Self { nanos: pool.open_nanos, counters: all.map(|v| (v.guid, v.stats.io)).collect() }
    }
}

const NAME_MIN: usize = 10;
const TOP: [&str; 3] = ["capacity", "operations", "bandwidth"];
const BOTTOM: [&str; 6] = ["alloc", "free", "read", "write", "read", "write"];

impl IostatStyle {
    fn column(&self) -> usize {
        if self.exact { 15 } else { 5 }
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
        let column = self.column();
        let title = if self.only.is_empty() { "pool" } else { "vdev" };
        let mut text = format!("{:width$}", "");
        for label in TOP {
            // Centred over two columns and the gap between them.
            let whole = 2 * column + 2;
            let before = (whole / 2).saturating_sub(label.len() / 2);
            let after = whole.saturating_sub(before + label.len());
            _ = write!(text, "  {:before$}{label}{:after$}", "", "");
        }
        _ = write!(text, "\n{title:width$}");
        for label in BOTTOM {
            _ = write!(text, "  {label:>column$}");
        }
        text.push_str(&self.scripts.as_ref().map_or_else(String::new, ScriptColumns::heading));
        text.push('\n');
        text + &self.separator(width)
    }

    /// The dashed line.
    pub fn separator(&self, width: usize) -> String {
        let column = "-".repeat(self.column());
        let mut text = "-".repeat(width);
        for _ in BOTTOM {
            _ = write!(text, "  {column}");
        }
        text.push_str(&self.scripts.as_ref().map_or_else(String::new, ScriptColumns::dashes));
        text.push('\n');
        text
    }

    /// The rows of one pool. Figures are averages since `earlier`, or since it was opened.
    pub fn pool(&self, pool: &PoolInfo, earlier: Option<&Sample>, width: usize) -> String {
        let rates = Rates::new(pool, earlier);
        let mut text = String::new();
        if self.only.is_empty() {
            self.row(&mut text, 0, &pool.name, &pool.root, &rates, width);
        }
        if !self.verbose {
            return text;
        }
        for vdev in pool.tops(VdevClass::Normal) {
            self.tree(&mut text, vdev, &rates, width);
        }
        for section in sections(pool).into_iter().filter(|s| s.class != VdevClass::Spare) {
            self.heading(&mut text, heading(section.class), width);
            for vdev in section.vdevs {
                self.tree(&mut text, vdev, &rates, width);
            }
        }
        if !self.scripted {
            text.push_str(&self.separator(width));
        }
        text
    }

    /// A row of dashes; an empty line where programs read, or single vdevs were asked for.
    fn heading(&self, text: &mut String, title: &str, width: usize) {
        if !self.scripted && self.only.is_empty() {
            _ = write!(text, "{title:width$}");
            for _ in BOTTOM {
                _ = write!(text, "  {:>1$}", "-", self.column());
            }
        }
        text.push('\n');
    }

    fn tree(&self, text: &mut String, vdev: &VdevInfo, rates: &Rates<'_>, width: usize) {
        for (depth, vdev) in flatten(vdev, 1) {
            let name = vdev_name(vdev, self.names);
            match self.only.contains(&name) {
                true => self.row(text, 0, &name, vdev, rates, width),
                false if self.only.is_empty() => self.row(text, depth, &name, vdev, rates, width),
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
        rates: &Rates<'_>,
        width: usize,
    ) {
        let io = rates.of(vdev);
        let mut cells = self.capacity(vdev).to_vec();
        cells.extend([io.reads, io.writes, io.read_bytes, io.written_bytes].map(|n| self.number(n)));
        if self.scripted {
            _ = writeln!(text, "{name}\t{}{}", cells.join("\t"), self.said(rates.pool, vdev));
            return;
        }
        let indent = 2 * depth;
        _ = write!(text, "{:indent$}{name:rest$}", "", rest = width.saturating_sub(indent));
        for cell in cells {
            _ = write!(text, "  {cell:>0$}", self.column());
        }
        text.push_str(&self.said(rates.pool, vdev));
        text.push('\n');
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

/// Counters per second.
struct Rates<'a> {
    earlier: Option<&'a Sample>,
    seconds: f64,
    pool: &'a str,
}

impl<'a> Rates<'a> {
    fn new(pool: &'a PoolInfo, earlier: Option<&'a Sample>) -> Self {
        let since = earlier.map_or(0, |s| s.nanos);
        let nanos = pool.open_nanos.saturating_sub(since);
        Self { earlier, seconds: if nanos == 0 { 1.0 } else { nanos as f64 / 1e9 }, pool: &pool.name }
    }

    fn of(&self, vdev: &VdevInfo) -> IoCounters {
        let before = self.earlier.and_then(|s| s.counters.get(&vdev.guid)).copied().unwrap_or_default();
        let io = vdev.stats.io.since(before);
        let rate = |count: u64| (count as f64 / self.seconds) as u64;
        IoCounters {
            reads: rate(io.reads),
            writes: rate(io.writes),
            read_bytes: rate(io.read_bytes),
            written_bytes: rate(io.written_bytes),
        }
    }
}

#[cfg(test)]
mod tests;
