//! `sawmill bench zil`: synchronous writes in process, without a daemon or a mount.
//!
//! A pool is made on the files given, one file of `--span` bytes written in it, and then every
//! thread writes `--size` bytes at random places of it, each write stable before the next.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use device::RealEnv;
use pool::{Pool, PoolError, Tuning};
use units::ObjectId;
use vdev::PoolState;
use zpl::{Cred, NewNode, Zfs};

use crate::beside::{self, Beside};
use crate::dice::Dice;
use crate::latencies::Latencies;
use crate::usage::cpu_time;
use crate::world::{self, POOL, STABLE, Shape};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Writers.
    pub threads: usize,
    /// Bytes of each write.
    pub size: usize,
    /// Bytes of the file that is written to.
    pub span: u64,
    /// How long they write before measuring begins: until what is written, synced and freed again
    /// goes round in memory that the process has already.
    pub ramp: Duration,
    /// How long it is measured.
    pub time: Duration,
    /// Memory for the cache.
    pub cache: u64,
    /// Devices of the pool.
    pub main: Vec<PathBuf>,
    /// Log devices.
    pub log: Vec<PathBuf>,
    /// The log devices are one mirror.
    pub log_mirror: bool,
    /// Datasets open beside the one that is written to, each with a log that was used once.
    pub idle_datasets: usize,
}

/// What was measured.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// Writers.
    pub threads: usize,
    /// Bytes of each write.
    pub size_bytes: usize,
    /// Writes that became stable.
    pub commits: u64,
    /// Seconds measured.
    pub seconds: f64,
    /// Stable writes a second.
    pub commits_per_second: f64,
    /// Bytes written by the writers, in MB a second.
    pub mb_per_second: f64,
    /// Microseconds from call to return, mean.
    pub latency_mean_us: f64,
    /// The same, median.
    pub latency_p50_us: f64,
    /// 99 %.
    pub latency_p99_us: f64,
    /// 99.9 %.
    pub latency_p999_us: f64,
    /// CPU seconds of the process for each 1,000 commits, the txg syncs included.
    pub cpu_seconds_per_1000: f64,
    /// Writes to log vdevs (or, without any, to the pool) for each commit.
    pub device_writes_per_commit: f64,
    /// Flushes of the same vdevs for each commit.
    pub flushes_per_commit: f64,
    /// Where the time of commits went, the first one's included.
    pub stages: Vec<Stage>,
    /// Datasets open beside.
    pub idle_datasets: usize,
    /// What they cost.
    pub beside: Beside,
}

/// A stage of commits.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Stage {
    /// What it is called.
    pub name: &'static str,
    /// How often it was passed.
    pub count: u64,
    /// Microseconds that half of them stay below: a power of two of nanoseconds.
    pub p50_below_us: f64,
    /// The same of 99 %.
    pub p99_below_us: f64,
}

impl Stage {
    fn all(stages: &zil::StageLatencies) -> Vec<Self> {
        let each = [
            ("queue", &stages.queue),
            ("assemble", &stages.assemble),
            ("write", &stages.write),
            ("flush", &stages.flush),
            ("wake", &stages.wake),
        ];
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let stage = |(name, latencies): (&'static str, &zil::Latencies)| Self {
            name,
            count: latencies.total(),
            p50_below_us: micros(latencies.percentile(50.0)),
            p99_below_us: micros(latencies.percentile(99.0)),
        };
        each.map(stage).into()
    }
}

/// File data is written so much at a time when the file is made.
const FILL_BYTES: usize = 1 << 20;

/// Runs it.
///
/// # Errors
/// When the pool cannot be made or written to.
pub fn run(env: &Arc<RealEnv>, plan: &Plan) -> Result<Report, PoolError> {
    let tuning = Tuning { cache_bytes: plan.cache, ..Tuning::default() };
    let pool = world::make(env, &shape(plan), tuning.clone())?;
    let fs = env.block_on(pool.filesystem(POOL))?;
    let zfs = Arc::clone(&fs.zfs);
    let file = env.block_on(fill(&zfs, plan.span))?;
    env.block_on(pool.sync_now())?;
    // The first commit makes the log's chain; it is not what is measured.
    env.block_on(zfs.write(file, 0, &vec![1; plan.size], STABLE))?;
    let mut beside = env.block_on(beside::open(&pool, plan.idle_datasets))?;
    beside.sync_ms = env.block_on(beside::time_of_sync(&pool, &zfs, file))?;
    let report = measure(env, &pool, &zfs, file, plan)?;
    let stages = fs.log.as_ref().map(|log| Stage::all(&log.stats().stages)).unwrap_or_default();
    drop((zfs, fs));
    if plan.idle_datasets == 0 {
        env.block_on(pool.close(PoolState::Destroyed))?;
        return Ok(Report { stages, beside, ..report });
    }
    env.block_on(pool.close(PoolState::Exported))?;
    drop(pool);
    let paths: Vec<PathBuf> = plan.main.iter().chain(&plan.log).cloned().collect();
    let begun = Instant::now();
    let pool = world::import(env, &paths, tuning)?;
    beside.import_ms = begun.elapsed().as_secs_f64() * 1e3;
    env.block_on(pool.close(PoolState::Destroyed))?;
    Ok(Report { stages, beside, ..report })
}

fn shape(plan: &Plan) -> Shape {
    let record = plan.size.next_power_of_two().clamp(4096, 128 << 10) as u64;
    let (main, log, log_mirror) = (plan.main.clone(), plan.log.clone(), plan.log_mirror);
    Shape { main, log, log_mirror, record, props: Vec::new() }
}

async fn fill(zfs: &Zfs, span: u64) -> Result<ObjectId, PoolError> {
    let file = zfs.create(zfs.root(), b"data", NewNode::File, 0o600, Cred::default()).await?.object;
    let mut dice = Dice::new(span);
    let mut offset = 0;
    while offset < span {
        let len = FILL_BYTES.min((span - offset) as usize);
        zfs.write(file, offset, &dice.noise(len), zpl::WriteFlags::default()).await?;
        offset += len as u64;
    }
    Ok(file)
}

/// What writers look at between writes.
const RAMP: u8 = 0;
const MEASURE: u8 = 1;
const STOP: u8 = 2;

/// Every thread writes until the time is up.
fn measure(
    env: &Arc<RealEnv>,
    pool: &Pool,
    zfs: &Arc<Zfs>,
    file: ObjectId,
    plan: &Plan,
) -> Result<Report, PoolError> {
    let phase = AtomicU8::new(RAMP);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..plan.threads)
            .map(|thread| {
                let phase = &phase;
                scope.spawn(move || write_until(env, zfs, file, plan, phase, thread as u64))
            })
            .collect();
        std::thread::sleep(plan.ramp);
        let before = Meter::read(pool);
        let begun = Instant::now();
        phase.store(MEASURE, Ordering::Relaxed);
        std::thread::sleep(plan.time);
        phase.store(STOP, Ordering::Relaxed);
        let mut latencies = Latencies::default();
        for writer in writers {
            latencies.append(writer.join().expect("a writer does not panic")?);
        }
        Ok(Meter::read(pool).report(&before, begun.elapsed(), latencies.sorted(), plan))
    })
}

/// Latencies of the writes that began while it was measured, in nanoseconds.
fn write_until(
    env: &RealEnv,
    zfs: &Zfs,
    file: ObjectId,
    plan: &Plan,
    phase: &AtomicU8,
    thread: u64,
) -> Result<Latencies, PoolError> {
    let mut dice = Dice::new(thread);
    let data = dice.noise(plan.size);
    let places = (plan.span / plan.size as u64).max(1);
    let mut latencies = Latencies::default();
    loop {
        let now = phase.load(Ordering::Relaxed);
        if now == STOP {
            return Ok(latencies);
        }
        let offset = dice.roll() % places * plan.size as u64;
        let begun = Instant::now();
        env.block_on(zfs.write(file, offset, &data, STABLE))?;
        if now == MEASURE {
            latencies.push(begun.elapsed());
        }
    }
}

/// Counters at one moment.
struct Meter {
    cpu: Duration,
    writes: u64,
    flushes: u64,
}

impl Meter {
    fn read(pool: &Pool) -> Self {
        let tops = pool.vdevs().tops();
        let has_log = tops.iter().any(|top| top.is_log());
        let (mut writes, mut flushes) = (0, 0);
        for top in tops.iter().filter(|top| top.is_log() == has_log) {
            let stats = top.stats().snapshot();
            writes += stats.write.ops;
            flushes += stats.flush.ops;
        }
        Self { cpu: cpu_time(), writes, flushes }
    }

    fn report(&self, before: &Self, span: Duration, latencies: Latencies, plan: &Plan) -> Report {
        let commits = latencies.count();
        let per_commit = |n: u64| n as f64 / commits.max(1) as f64;
        let seconds = span.as_secs_f64();
        let cpu = (self.cpu - before.cpu).as_secs_f64();
        Report {
            threads: plan.threads,
            size_bytes: plan.size,
            commits,
            seconds,
            commits_per_second: commits as f64 / seconds,
            mb_per_second: commits as f64 * plan.size as f64 / seconds / 1e6,
            latency_mean_us: latencies.mean_us(),
            latency_p50_us: latencies.at_us(0.5),
            latency_p99_us: latencies.at_us(0.99),
            latency_p999_us: latencies.at_us(0.999),
            cpu_seconds_per_1000: cpu * 1000.0 / commits.max(1) as f64,
            device_writes_per_commit: per_commit(self.writes - before.writes),
            flushes_per_commit: per_commit(self.flushes - before.flushes),
            stages: Vec::new(),
            idle_datasets: plan.idle_datasets,
            beside: Beside::default(),
        }
    }
}

impl Report {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let passed = self.stages.iter().filter(|stage| stage.count > 0);
        let stages =
            passed.map(|stage| format!("{} {:.1}/{:.1}", stage.name, stage.p50_below_us, stage.p99_below_us));
        let stages: Vec<String> = stages.collect();
        format!(
            "{} threads, {} B: {:.0} commits/s, {:.1} MB/s, latency mean {:.1} p50 {:.1} p99 {:.1} p99.9 {:.1} µs, \
             {:.1} µs CPU/commit, {:.2} writes and {:.2} flushes per commit; p50/p99 below, µs: {}; {}",
            self.threads,
            self.size_bytes,
            self.commits_per_second,
            self.mb_per_second,
            self.latency_mean_us,
            self.latency_p50_us,
            self.latency_p99_us,
            self.latency_p999_us,
            self.cpu_seconds_per_1000 * 1e3,
            self.device_writes_per_commit,
            self.flushes_per_commit,
            stages.join(", "),
            self.beside.text(self.idle_datasets),
        )
    }
}
