//! `sawmill bench device`: how long one device takes for what the engine asks of it, as a model for simulations.
//!
//! ```text
//!  lone      one stable write after another, small           ─► stable_write
//!  batch     two blocks of 128 KiB at once, then a flush      ─► write, flush
//!  crowd     many blocks of 128 KiB at once                   ─► bytes a second, unless two at once pass faster
//!  reads     one small read after another, at random          ─► read
//!  engine    a pool on it, one writer and then 32              ─► what a write takes of processors
//! ```
//! A lone writer's write takes what it waits for beyond the device. With 32 of them processors are what is short: a write
//! takes all the time of processors that there was for each, waking writers and syncing txgs with it.
//!
//! Writes of a batch are given at once, and the batch is done with the last. A simulation draws the time of each by itself, so
//! what is kept of a batch is the distribution of which two draws have the maximum that was measured.

mod model;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::device::RealEnv;
use env::{BufSlice, Device, Durability, Env, IoBuf, OpenMode, Part};
use futures::future::try_join_all;
use units::LeafOffset;

pub use model::{ModelError, ModelFile};

use crate::dice::Dice;
use crate::latencies::Latencies;
use crate::zil::{self, Writers};
use crate::{Refusal, failed};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The file or disk. Its first [`SPAN_BYTES`] are overwritten; a file that is not there is made, and removed after.
    pub path: PathBuf,
    /// For how long, all together.
    pub time: Duration,
    /// It may be overwritten.
    pub force: bool,
}

/// Bytes of the device that are written to.
pub const SPAN_BYTES: u64 = 2 << 30;

/// Like a log block of one small write.
const LONE_BYTES: usize = 12 << 10;
const BLOCK_BYTES: usize = 128 << 10;
const BLOCKS_OF_A_BATCH: usize = 2;
const CROWD: usize = 16;
const READ_BYTES: usize = 8 << 10;
/// What the engine's writers write, and how many they are.
const WRITE_BYTES: usize = 8 << 10;
const WRITERS: usize = 32;
const CACHE_BYTES: u64 = 1 << 30;
/// Requests under way at once, at most, in the model: what more there are wait in the engine's own queue.
const PARALLEL: usize = 32;

/// What was measured, in microseconds, and what follows.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// The device.
    pub path: PathBuf,
    /// Stable writes of 12 KiB one after another.
    pub lone: Spread,
    /// Two blocks of 128 KiB at once, until both are written.
    pub batch_write: Spread,
    /// The flush after them.
    pub batch_flush: Spread,
    /// Reads of 8 KiB at random.
    pub read: Spread,
    /// Writes of a lone writer to a pool on it.
    pub lone_writer: Spread,
    /// What a write of 32 writers takes of processors, in microseconds.
    pub crowd_processor_us: f64,
    /// The model.
    pub model: ModelFile,
}

/// How often something was measured, and how long it took, in microseconds.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Spread {
    /// How often.
    pub count: u64,
    /// Median.
    pub p50_us: f64,
    /// 99 %.
    pub p99_us: f64,
}

impl Spread {
    fn of(latencies: &Latencies) -> Self {
        Self { count: latencies.count(), p50_us: latencies.at_us(0.5), p99_us: latencies.at_us(0.99) }
    }
}

/// Measures it.
///
/// # Errors
/// When it holds something and may not be overwritten, or fails.
pub fn run(env: &Arc<RealEnv>, plan: &Plan) -> Result<Report, Refusal> {
    let _made = Made::ready(plan)?;
    let device = env.block_on(env.open(&plan.path, OpenMode::ReadWrite)).map_err(failed)?;
    let probe = Probe { device, span: SPAN_BYTES };
    env.block_on(probe.fill()).map_err(failed)?;
    let share = plan.time / 6;
    let lone = env.block_on(probe.lone(share)).map_err(failed)?.sorted();
    let (batch_write, batch_flush) = env.block_on(probe.batches(share)).map_err(failed)?;
    let (batch_write, batch_flush) = (batch_write.sorted(), batch_flush.sorted());
    let crowd = env.block_on(probe.crowd(share)).map_err(failed)?;
    let of_a_batch = (BLOCKS_OF_A_BATCH * BLOCK_BYTES) as f64 * 1e6 / batch_write.at_us(0.5).max(1.0);
    let bytes_per_second = crowd.max(of_a_batch);
    let read = env.block_on(probe.reads(share)).map_err(failed)?.sorted();
    let (lone_writer, crowd_us) = engine(env, &probe, share)?;
    let lone_us = (lone_writer.p50_us - lone.at_us(0.5)).clamp(1.0, crowd_us.max(1.0));
    let transfer = |bytes: usize| bytes as f64 * 1e6 / bytes_per_second;
    let model = ModelFile {
        read_us: quantiles(&read, 1, transfer(READ_BYTES)),
        write_us: quantiles(&batch_write, BLOCKS_OF_A_BATCH, transfer(BLOCK_BYTES * BLOCKS_OF_A_BATCH)),
        stable_write_us: quantiles(&lone, 1, transfer(LONE_BYTES)),
        flush_us: quantiles(&batch_flush, 1, 0.0),
        bytes_per_second: bytes_per_second as u64,
        parallel: PARALLEL,
        has_volatile_cache: probe.device.info().has_volatile_cache,
        processor_us: to_the_nanosecond(crowd_us),
        lone_us: to_the_nanosecond(lone_us),
        processors: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    };
    Ok(Report {
        path: plan.path.clone(),
        lone: Spread::of(&lone),
        batch_write: Spread::of(&batch_write),
        batch_flush: Spread::of(&batch_flush),
        read: Spread::of(&read),
        lone_writer,
        crowd_processor_us: crowd_us,
        model,
    })
}

/// Quantiles of one of `draws`, of which the slowest took these times, each without `transfer_us`.
fn quantiles(times: &Latencies, draws: usize, transfer_us: f64) -> [f64; 5] {
    let at = |part: f64| to_the_nanosecond((times.at_us(part.powi(draws as i32)) - transfer_us).max(0.0));
    [0.0, 0.5, 0.9, 0.99, 1.0].map(at)
}

/// What clocks tell, and what is the same when it is read back from a file.
fn to_the_nanosecond(us: f64) -> f64 {
    (us * 1e3).round() / 1e3
}

/// A file that was made for this.
struct Made<'a>(Option<&'a Path>);

impl<'a> Made<'a> {
    fn ready(plan: &'a Plan) -> Result<Self, Refusal> {
        match std::fs::metadata(&plan.path) {
            Err(_) => {
                std::fs::File::create_new(&plan.path)
                    .and_then(|file| file.set_len(SPAN_BYTES))
                    .map_err(failed)?;
                Ok(Self(Some(&plan.path)))
            }
            Ok(_) if !plan.force => Err(Refusal::Failed(format!(
                "'{}' is there already, and would be overwritten: use '--force' to have that done",
                plan.path.display()
            ))),
            Ok(about) if about.is_file() && about.len() < SPAN_BYTES => {
                Err(Refusal::Failed(format!("'{}' is smaller than {SPAN_BYTES} bytes", plan.path.display())))
            }
            Ok(_) => Ok(Self(None)),
        }
    }
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.0 {
            let _nobody_else_knows_it = std::fs::remove_file(path);
        }
    }
}

/// A device that is being measured.
struct Probe {
    device: Arc<dyn Device>,
    span: u64,
}

impl Probe {
    async fn write(&self, at: u64, bytes: usize, durability: Durability) -> Result<(), env::DeviceError> {
        let mut block = IoBuf::zeroed(bytes);
        block[..8].copy_from_slice(&at.to_le_bytes());
        self.device.write(LeafOffset::new(at), vec![BufSlice::from(block)], durability).await
    }

    /// Everything is written once: a first write to a place of a file costs more than later ones.
    async fn fill(&self) -> Result<(), env::DeviceError> {
        for at in (0..self.span).step_by(CROWD * BLOCK_BYTES) {
            self.several(at, CROWD).await?;
        }
        self.device.flush().await
    }

    async fn several(&self, at: u64, count: usize) -> Result<(), env::DeviceError> {
        let each =
            (0..count).map(|n| self.write(at + (n * BLOCK_BYTES) as u64, BLOCK_BYTES, Durability::Cached));
        try_join_all(each).await.map(drop)
    }

    /// Places one after another, each so many bytes, for so long.
    fn places(&self, bytes: usize, time: Duration) -> impl Iterator<Item = u64> {
        let (begun, bytes, span) = (Instant::now(), bytes as u64, self.span);
        (0..span / bytes).cycle().map(move |n| n * bytes).take_while(move |_| begun.elapsed() < time)
    }

    async fn lone(&self, time: Duration) -> Result<Latencies, env::DeviceError> {
        let mut latencies = Latencies::default();
        for at in self.places(LONE_BYTES, time) {
            let begun = Instant::now();
            self.write(at, LONE_BYTES, Durability::Stable).await?;
            latencies.push(begun.elapsed());
        }
        Ok(latencies)
    }

    async fn batches(&self, time: Duration) -> Result<(Latencies, Latencies), env::DeviceError> {
        let (mut writes, mut flushes) = (Latencies::default(), Latencies::default());
        for at in self.places(BLOCKS_OF_A_BATCH * BLOCK_BYTES, time) {
            let begun = Instant::now();
            self.several(at, BLOCKS_OF_A_BATCH).await?;
            writes.push(begun.elapsed());
            let begun = Instant::now();
            self.device.flush().await?;
            flushes.push(begun.elapsed());
        }
        Ok((writes, flushes))
    }

    /// Bytes a second.
    async fn crowd(&self, time: Duration) -> Result<f64, env::DeviceError> {
        let (begun, mut bytes) = (Instant::now(), 0);
        for at in self.places(CROWD * BLOCK_BYTES, time) {
            self.several(at, CROWD).await?;
            bytes += CROWD * BLOCK_BYTES;
        }
        self.device.flush().await?;
        Ok(bytes as f64 / begun.elapsed().as_secs_f64())
    }

    async fn reads(&self, time: Duration) -> Result<Latencies, env::DeviceError> {
        let (mut latencies, mut dice, begun) = (Latencies::default(), Dice::new(1), Instant::now());
        while begun.elapsed() < time {
            let at = dice.roll() % (self.span / READ_BYTES as u64) * READ_BYTES as u64;
            let asked = Instant::now();
            self.device.read(LeafOffset::new(at), READ_BYTES).await?;
            latencies.push(asked.elapsed());
        }
        Ok(latencies)
    }
}

/// The engine on it: what a lone writer's writes take, and the microseconds of a processor for each write of several.
fn engine(env: &Arc<RealEnv>, probe: &Probe, time: Duration) -> Result<(Spread, f64), Refusal> {
    let path = PathBuf::from("/sawmill-bench-part");
    let part = Part::new(Arc::clone(&probe.device), 0..probe.span);
    env.register(&path, Arc::new(part.ok_or_else(|| Refusal::Failed("the device has odd sectors".into()))?));
    let measure = |threads| {
        let plan = zil::Plan {
            writers: Writers::Threads(threads),
            size: WRITE_BYTES,
            span: probe.span / 5,
            ramp: time / 3,
            time,
            cache: CACHE_BYTES,
            main: vec![path.clone()],
            log: Vec::new(),
            log_mirror: false,
            with_flushes: true,
            idle_datasets: 0,
        };
        zil::run(env, &plan).map_err(failed)
    };
    let (lone, crowd) = (measure(1)?, measure(WRITERS)?);
    let lone = Spread { count: lone.commits, p50_us: lone.latency_p50_us, p99_us: lone.latency_p99_us };
    Ok((lone, crowd.cpu_seconds_per_1000 * 1e3))
}

impl Report {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let row = |name: &str, spread: &Spread| {
            format!("{name:<44} {:>9.1} {:>9.1} {:>9}\n", spread.p50_us, spread.p99_us, spread.count)
        };
        format!(
            "{}\n{:<44} {:>9} {:>9} {:>9}\n{}{}{}{}{}{:<44} {:>9.0} MB/s\n{:<44} {:>9.1} µs of a processor each\nas a model for simulations: --json",
            self.path.display(),
            "µs",
            "p50",
            "p99",
            "measured",
            row("stable write of 12 KiB, one after another", &self.lone),
            row("two writes of 128 KiB at once", &self.batch_write),
            row("flush after them", &self.batch_flush),
            row("read of 8 KiB at random", &self.read),
            row("stable write of 8 KiB to a pool on it", &self.lone_writer),
            "writes of 128 KiB, sixteen at once",
            self.model.bytes_per_second as f64 / 1e6,
            "the same of 32 writers at once",
            self.crowd_processor_us,
        )
    }
}

#[cfg(test)]
mod tests;
