//! A cell on devices that are there: a pool is made on them, whatever they held, and written to by threads.

use std::path::PathBuf;
use std::sync::Arc;

use device::RealEnv;

use super::{Cell, CellDone, Load, Logs, Setup};
use crate::zil::{self, Writers};
use crate::{Refusal, failed};

/// What the pools are made of.
#[derive(Clone)]
pub struct Devices {
    /// The world.
    pub env: Arc<RealEnv>,
    /// Data disks: a column takes the first of them.
    pub main: Vec<PathBuf>,
    /// Logs: a row takes the first of them.
    pub log: Vec<PathBuf>,
    /// The fast log, if there is one.
    pub fast: Option<PathBuf>,
    /// Memory for the cache, in bytes.
    pub cache: u64,
}

impl std::fmt::Debug for Devices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { main, log, fast, .. } = self;
        f.debug_struct("Devices")
            .field("main", main)
            .field("log", log)
            .field("fast", fast)
            .finish_non_exhaustive()
    }
}

impl Devices {
    /// Rows of the classic table for which there are devices.
    #[must_use]
    pub fn rows(&self) -> Vec<Logs> {
        let has = |logs: &Logs| match logs {
            Logs::Disks(count) => *count <= self.log.len(),
            Logs::Fast => self.fast.is_some(),
        };
        Logs::CLASSIC.into_iter().filter(has).collect()
    }

    /// Its columns likewise.
    #[must_use]
    pub fn columns(&self) -> Vec<usize> {
        super::CLASSIC_COLUMNS.into_iter().filter(|&count| count <= self.main.len()).collect()
    }

    pub(super) fn told(&self) -> String {
        let paths = |paths: &[PathBuf]| {
            paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
        };
        let fast =
            self.fast.as_ref().map(|path| format!("; fast log {}", path.display())).unwrap_or_default();
        let log = if self.log.is_empty() { String::new() } else { format!("; logs {}", paths(&self.log)) };
        format!("measured: data disks {}{log}{fast}", paths(&self.main))
    }

    /// One after another: they would be in each other's way.
    pub(super) fn measure(
        &self,
        load: &Load,
        setups: &[Setup],
        done: &CellDone<'_>,
    ) -> Result<Vec<Cell>, Refusal> {
        setups.iter().map(|setup| self.cell(load, *setup).inspect(|_| done())).collect()
    }

    fn cell(&self, load: &Load, setup: Setup) -> Result<Cell, Refusal> {
        let log = match setup.logs {
            Logs::Disks(count) => self.log[..count].to_vec(),
            Logs::Fast => self.fast.iter().cloned().collect(),
        };
        let plan = zil::Plan {
            writers: Writers::Threads(load.threads),
            size: load.size_bytes,
            span: load.span_bytes,
            ramp: load.ramp,
            time: load.time,
            cache: self.cache,
            main: self.main[..setup.main].to_vec(),
            log,
            log_mirror: false,
            with_flushes: setup.with_flushes,
            idle_datasets: 0,
        };
        let report = zil::run(&self.env, &plan).map_err(failed)?;
        Ok(Cell {
            mb_per_second: report.mb_per_second,
            commits_per_second: report.commits_per_second,
            mean_us: report.latency_mean_us,
            p50_us: report.latency_p50_us,
            p99_us: report.latency_p99_us,
            commits: report.commits,
        })
    }
}
