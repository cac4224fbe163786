//! `sawmill bench slog`: the classic table of what separate log devices bring: rows are logs, columns are data disks, cells
//! are megabytes a second of many threads that write a little each at random places, every write stable before it returns.
//!
//! ```text
//!  Plan ─► Setup, one for each cell ─┬─► simulated: the engine itself on modelled disks and a virtual clock ─┬─► Cell ─► Report
//!                                    └─► real: a pool made on the devices that were named                   ─┘
//! ```
//! A table is made twice: with caches that have to be flushed, and with caches that need no flush because they outlive a
//! power cut. The table that made separate logs known in 2007 is printed beside it ([`original`]).
//!
//! Invariants
//! - One seed, one table: simulated cells share nothing, and how many threads work on them changes nothing.
//!   (test: `one_seed_gives_one_table`)

mod csv;
mod html;
mod original;
mod real;
mod simulated;
mod text;

use std::time::Duration;

pub use original::Original;
pub use real::Devices;
pub use simulated::{Hardware, Processors};

/// What is written.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Load {
    /// Writers, each of which waits for its write.
    pub threads: usize,
    /// Bytes of each write.
    pub size_bytes: usize,
    /// Bytes of the file that is written to.
    pub span_bytes: u64,
    /// Not measured, before measuring begins.
    pub ramp: Duration,
    /// How long each cell is measured.
    pub time: Duration,
}

/// Logs of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Logs {
    /// So many separate logs of the same kind as the data disks; without any the log is in the main pool.
    Disks(usize),
    /// One log that is much faster.
    Fast,
}

impl Logs {
    /// Rows of the classic table, from none to the fastest.
    pub const CLASSIC: [Self; 6] =
        [Self::Disks(0), Self::Disks(1), Self::Disks(2), Self::Disks(4), Self::Disks(8), Self::Fast];

    /// What the row is called, where a fast log is called so.
    fn name(self, fast: &str) -> String {
        match self {
            Self::Disks(0) => "no log".to_owned(),
            Self::Disks(1) => "1 log".to_owned(),
            Self::Disks(count) => format!("{count} logs"),
            Self::Fast => fast.to_owned(),
        }
    }
}

/// Data disks of the classic table's columns.
pub const CLASSIC_COLUMNS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// One pool to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Data disks, striped.
    pub main: usize,
    /// Logs.
    pub logs: Logs,
    /// Caches have to be flushed.
    pub with_flushes: bool,
}

/// What was measured of one pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Cell {
    /// Megabytes (10^6) a second that the writers wrote.
    pub mb_per_second: f64,
    /// Writes a second.
    pub commits_per_second: f64,
    /// Microseconds of a write from call to return: mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 99 %.
    pub p99_us: f64,
    /// Writes that were measured.
    pub commits: u64,
}

impl Cell {
    /// Of latencies that were measured in so much time.
    fn of(latencies: crate::latencies::Latencies, time: Duration, size_bytes: usize) -> Self {
        let latencies = latencies.sorted();
        let commits_per_second = latencies.count() as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE);
        Self {
            mb_per_second: commits_per_second * size_bytes as f64 / 1e6,
            commits_per_second,
            mean_us: latencies.mean_us(),
            p50_us: latencies.at_us(0.5),
            p99_us: latencies.at_us(0.99),
            commits: latencies.count(),
        }
    }
}

/// What the cells are measured on.
#[derive(Clone, Debug)]
pub enum Ground {
    /// Modelled disks.
    Simulated(Box<Hardware>),
    /// Devices that are there.
    Real(Devices),
}

impl Ground {
    /// In words, for a heading.
    fn told(&self, threads: usize) -> String {
        match self {
            Self::Simulated(hardware) => hardware.told(threads),
            Self::Real(devices) => devices.told(),
        }
    }

    fn fast_name(&self) -> &str {
        match self {
            Self::Simulated(hardware) => &hardware.fast_name,
            Self::Real(_) => "fast log",
        }
    }

    fn measure(
        &self,
        load: &Load,
        setups: &[Setup],
        done: &CellDone<'_>,
    ) -> Result<Vec<Cell>, crate::Refusal> {
        match self {
            Self::Simulated(hardware) => hardware.measure(load, setups, done),
            Self::Real(devices) => devices.measure(load, setups, done),
        }
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is written.
    pub load: Load,
    /// Data disks of each column.
    pub columns: Vec<usize>,
    /// Logs of each row.
    pub rows: Vec<Logs>,
    /// A table each: whether caches have to be flushed.
    pub flushes: Vec<bool>,
    /// On what.
    pub ground: Ground,
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Row {
    /// What it is called.
    pub name: String,
    /// Its logs.
    pub logs: Logs,
    /// What was measured, by column.
    pub cells: Vec<Cell>,
    /// What was measured in 2007, in MB/s, as far as it is known.
    pub original: Vec<Option<Original>>,
}

/// One table.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Table {
    /// Caches were flushed.
    pub with_flushes: bool,
    /// Data disks of each column.
    pub columns: Vec<usize>,
    /// Rows.
    pub rows: Vec<Row>,
}

/// All that was measured.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// On what, in words.
    pub ground: String,
    /// What was written.
    pub load: Load,
    /// The tables.
    pub tables: Vec<Table>,
}

/// Is called when a cell was measured, on any thread.
pub type CellDone<'a> = dyn Fn() + Sync + 'a;

impl Plan {
    /// Returns how many cells are measured.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.rows.len() * self.columns.len() * self.flushes.len()
    }
}

/// Measures every cell, and calls `done` after each.
///
/// # Errors
/// When a pool cannot be made or written to.
pub fn run(plan: &Plan, done: &CellDone<'_>) -> Result<Report, crate::Refusal> {
    let setup = |with_flushes, logs, main| Setup { main, logs, with_flushes };
    let rows = |with_flushes| {
        plan.rows
            .iter()
            .flat_map(move |&logs| plan.columns.iter().map(move |&main| setup(with_flushes, logs, main)))
    };
    let setups: Vec<Setup> = plan.flushes.iter().flat_map(|&with_flushes| rows(with_flushes)).collect();
    let mut cells = plan.ground.measure(&plan.load, &setups, done)?.into_iter();
    let mut table = |with_flushes| Table {
        with_flushes,
        columns: plan.columns.clone(),
        rows: plan.rows.iter().map(|&logs| row(plan, with_flushes, logs, &mut cells)).collect(),
    };
    let tables = plan.flushes.iter().map(|&with_flushes| table(with_flushes)).collect();
    Ok(Report { ground: plan.ground.told(plan.load.threads), load: plan.load, tables })
}

fn row(plan: &Plan, with_flushes: bool, logs: Logs, cells: &mut impl Iterator<Item = Cell>) -> Row {
    Row {
        name: logs.name(plan.ground.fast_name()),
        logs,
        cells: cells.take(plan.columns.len()).collect(),
        original: plan.columns.iter().map(|&main| original::of(with_flushes, logs, main)).collect(),
    }
}

impl Report {
    /// For people: tables, and bars below.
    #[must_use]
    pub fn text(&self) -> String {
        text::report(self)
    }

    /// One line for each cell, after a line of names.
    #[must_use]
    pub fn csv(&self) -> String {
        csv::report(self)
    }

    /// One page with tables and charts, which needs nothing else.
    #[must_use]
    pub fn html(&self) -> String {
        html::page(self)
    }
}

#[cfg(test)]
mod tests;
