//! `sawmill bench zil`: synchronous writes in process, without a daemon or a mount.
//!
//! A pool is made on the files given, one file of `--span` bytes written in it, and then every
//! writer writes `--size` bytes at random places of it, each write stable before the next.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use device::RealEnv;
use env::Env;
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
    pub writers: Writers,
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
    /// Devices are flushed as they have to be. Else never, to see what that would bring.
    pub with_flushes: bool,
    /// Datasets open beside the one that is written to, each with a log that was used once.
    pub idle_datasets: usize,
}

/// Who writes.
#[derive(Clone, Copy, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Writers {
    /// So many threads, each of which waits for its own write.
    Threads(usize),
    /// So many tasks of the environment's own threads.
    Tasks(usize),
}

impl Writers {
    /// How many.
    #[must_use]
    pub fn count(self) -> usize {
        let (Self::Threads(count) | Self::Tasks(count)) = self;
        count
    }

    fn name(self) -> &'static str {
        match self {
            Self::Threads(_) => "threads",
            Self::Tasks(_) => "tasks",
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// Writers.
    #[serde(flatten)]
    pub writers: Writers,
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
    let (main, log, log_mirror) = (plan.main.clone(), plan.log.clone(), plan.log_mirror);
    let (record, unflushed) = (world::record_of(plan.size), !plan.with_flushes);
    Shape { main, log, log_mirror, unflushed, record, props: Vec::new() }
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

/// Every writer writes until the time is up.
fn measure(
    env: &Arc<RealEnv>,
    pool: &Pool,
    zfs: &Arc<Zfs>,
    file: ObjectId,
    plan: &Plan,
) -> Result<Report, PoolError> {
    let phase = Arc::new(AtomicU8::new(RAMP));
    let (sender, results) = mpsc::channel();
    for number in 0..plan.writers.count() {
        let writer = Writer {
            zfs: Arc::clone(zfs),
            file,
            size: plan.size,
            span: plan.span,
            number: number as u64,
            phase: Arc::clone(&phase),
        };
        let sender = sender.clone();
        // Nobody listens any more once another has failed.
        let write = async move { drop(sender.send(writer.write_until().await)) };
        match plan.writers {
            Writers::Tasks(_) => env.spawn("writer", Box::pin(write)),
            Writers::Threads(_) => {
                let env = Arc::clone(env);
                _ = thread::spawn(move || env.block_on(write));
            }
        }
    }
    drop(sender);
    thread::sleep(plan.ramp);
    let before = Meter::read(pool);
    let begun = Instant::now();
    phase.store(MEASURE, Ordering::Relaxed);
    thread::sleep(plan.time);
    phase.store(STOP, Ordering::Relaxed);
    let (mut latencies, mut ended) = (Latencies::default(), 0);
    for of_one in results {
        latencies.append(of_one?);
        ended += 1;
    }
    assert_eq!(ended, plan.writers.count(), "a writer does not panic");
    Ok(Meter::read(pool).report(&before, begun.elapsed(), latencies.sorted(), plan))
}

/// Who writes at random places, one write after the other.
struct Writer {
    zfs: Arc<Zfs>,
    file: ObjectId,
    size: usize,
    span: u64,
    number: u64,
    phase: Arc<AtomicU8>,
}

impl Writer {
    /// Latencies of the writes that began while it was measured, in nanoseconds.
    async fn write_until(self) -> Result<Latencies, PoolError> {
        let mut dice = Dice::new(self.number);
        let data = dice.noise(self.size);
        let places = (self.span / self.size as u64).max(1);
        let mut latencies = Latencies::default();
        loop {
            let now = self.phase.load(Ordering::Relaxed);
            if now == STOP {
                return Ok(latencies);
            }
            let offset = dice.roll() % places * self.size as u64;
            let begun = Instant::now();
            self.zfs.write(self.file, offset, &data, STABLE).await?;
            if now == MEASURE {
                latencies.push(begun.elapsed());
            }
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
            writers: plan.writers,
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
            "{} {}, {} B: {:.0} commits/s, {:.1} MB/s, latency mean {:.1} p50 {:.1} p99 {:.1} p99.9 {:.1} µs, \
             {:.1} µs CPU/commit, {:.2} writes and {:.2} flushes per commit; p50/p99 below, µs: {}; {}",
            self.writers.count(),
            self.writers.name(),
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
