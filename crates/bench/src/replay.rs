//! `sawmill bench replay`: a log of many records, left behind by a process that was killed, and replayed.
//!
//! ```text
//!  another process: pool, files, records in the log ─► gone, with no group synced since
//!  this one:        the log's bytes, raw ─► import (the log is read, and claimed) ─► replay ─► sync
//! ```
//! Each record is a write of `--size` bytes to one of `--files` files, which have `--span` bytes together;
//! every `--batch` records are made stable at once. What is read raw is as many bytes of the log devices as
//! the log's blocks have, once, 1 MiB at a time, four at once: claim and replay each read that much.

mod make;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use device::RealEnv;
use env::{Device, Env, OpenMode};
use futures::stream::{self, StreamExt, TryStreamExt};
use pool::{PoolError, Tuning};
use units::LeafOffset;
use vdev::PoolState;

pub use make::{Made, make};

use crate::usage::{Usage, peak_bytes};
use crate::world::{self, POOL};
use crate::{Refusal, failed};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Records of the log.
    pub records: usize,
    /// Files that they write to.
    pub files: usize,
    /// Bytes of each write.
    pub size: usize,
    /// Bytes of all files.
    pub span: u64,
    /// Records of each commit.
    pub batch: usize,
    /// Devices of the pool.
    pub main: Vec<PathBuf>,
    /// Log devices.
    pub log: Vec<PathBuf>,
    /// Memory for the cache.
    pub cache: u64,
}

/// What was measured.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// Records replayed.
    pub records: u64,
    /// Bytes that the blocks of the log have, in MiB.
    pub log_mib: f64,
    /// Blocks of the log.
    pub log_blocks: u64,
    /// Seconds in which so many bytes were read from the log devices; none without log devices.
    pub raw_read_seconds: Option<f64>,
    /// Seconds until the pool was imported, its log claimed.
    pub import_seconds: f64,
    /// Seconds until all was replayed.
    pub replay_seconds: f64,
    /// Seconds more until that was stable.
    pub sync_seconds: f64,
    /// Seconds of CPU for import, replay and sync.
    pub cpu_seconds: f64,
    /// Records for each second of replay.
    pub records_per_second: f64,
    /// Import and replay, as a multiple of reading the log's bytes once.
    pub times_raw_read: Option<f64>,
    /// Most memory that this process had, in MiB.
    pub peak_mib: f64,
}

/// Bytes read at a time, raw.
const RAW_BYTES: usize = 1 << 20;
const RAW_AT_ONCE: usize = 4;

/// Has another process make the pool: `words` are those of this command.
fn make_elsewhere(words: &[String]) -> Result<Made, Refusal> {
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(["bench", "replay", "--make"]).args(words).stdout(Stdio::piped());
    let output = command.spawn().and_then(std::process::Child::wait_with_output).map_err(failed)?;
    if !output.status.success() {
        return Err(Refusal::Failed("no pool was made".into()));
    }
    serde_json::from_slice(&output.stdout).map_err(failed)
}

/// Runs it.
///
/// # Errors
/// When the pool cannot be made, or its log not replayed.
pub fn run(env: &Arc<RealEnv>, plan: &Plan, words: &[String]) -> Result<Report, Refusal> {
    let made = make_elsewhere(words)?;
    let raw = match plan.log.as_slice() {
        [] => None,
        logs => Some(read_raw(env, logs, made.bytes)?),
    };
    measure(env, plan, &made, raw).map_err(failed)
}

fn measure(env: &Arc<RealEnv>, plan: &Plan, made: &Made, raw: Option<Duration>) -> Result<Report, PoolError> {
    let tuning = Tuning { cache_bytes: plan.cache, ..Tuning::default() };
    let paths: Vec<PathBuf> = plan.main.iter().chain(&plan.log).cloned().collect();
    let all = Usage::now();
    let pool = world::import(env, &paths, tuning)?;
    let import = all.since().0;
    let replaying = Usage::now();
    env.block_on(pool.replay_logs())?;
    let replay = replaying.since().0;
    let syncing = Usage::now();
    env.block_on(pool.sync_now())?;
    let (sync, cpu) = (syncing.since().0, all.since().1);
    let fs = env.block_on(pool.filesystem(POOL))?;
    let records = fs.log.as_ref().map_or(0, |log| log.stats().replayed);
    drop(fs);
    env.block_on(pool.close(PoolState::Destroyed))?;
    let seconds = |span: Duration| span.as_secs_f64();
    Ok(Report {
        records,
        log_mib: made.bytes as f64 / (1 << 20) as f64,
        log_blocks: made.blocks,
        raw_read_seconds: raw.map(seconds),
        import_seconds: seconds(import),
        replay_seconds: seconds(replay),
        sync_seconds: seconds(sync),
        cpu_seconds: seconds(cpu),
        records_per_second: records as f64 / seconds(replay),
        times_raw_read: raw.map(|raw| seconds(import + replay) / seconds(raw)),
        peak_mib: peak_bytes() as f64 / (1 << 20) as f64,
    })
}

/// How long it takes to read `bytes` of these devices together.
fn read_raw(env: &Arc<RealEnv>, logs: &[PathBuf], bytes: u64) -> Result<Duration, Refusal> {
    let reading = Usage::now();
    let share = bytes / logs.len() as u64;
    for path in logs {
        let device = env.block_on(env.open(path, OpenMode::ReadOnly)).map_err(failed)?;
        env.block_on(read_device(&device, share)).map_err(failed)?;
    }
    Ok(reading.since().0)
}

async fn read_device(device: &Arc<dyn Device>, bytes: u64) -> Result<(), env::DeviceError> {
    let end = bytes.min(device.info().size_bytes);
    let places = (0..end / RAW_BYTES as u64).map(|n| LeafOffset::new(n * RAW_BYTES as u64));
    let reads = stream::iter(places).map(|place| device.read(place, RAW_BYTES));
    reads.buffer_unordered(RAW_AT_ONCE).try_for_each(|_| std::future::ready(Ok(()))).await
}

impl Report {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let raw = match (self.raw_read_seconds, self.times_raw_read) {
            (Some(raw), Some(times)) => format!(" (raw {raw:.2} s, import and replay {times:.1} times that)"),
            _ => String::new(),
        };
        format!(
            "{} records, {:.0} MiB of log in {} blocks{raw}: import {:.2} s, replay {:.2} s ({:.0} records/s), sync \
             {:.2} s; {:.2} s CPU; peak memory {:.0} MiB",
            self.records,
            self.log_mib,
            self.log_blocks,
            self.import_seconds,
            self.replay_seconds,
            self.records_per_second,
            self.sync_seconds,
            self.cpu_seconds,
            self.peak_mib,
        )
    }
}
