//! `sawmill bench stream`: one large file written, made stable, and read again from the disk; then
//! small reads at random, from the disk and from memory. In process, on a pool made for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use device::RealEnv;
use dsl::PropValue;
use pool::{Pool, PoolError, Tuning};
use units::ObjectId;
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use crate::dice::Dice;
use crate::latencies::Latencies;
use crate::usage::{Usage, peak_bytes};
use crate::world::{self, POOL, Shape};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Devices, striped.
    pub main: Vec<PathBuf>,
    /// Bytes of the file.
    pub size: u64,
    /// Record size, and bytes of each call.
    pub record: usize,
    /// The compression property, as it was given.
    pub compression: String,
    /// And its number.
    pub compression_number: u64,
    /// Half of each record's bytes are zeros; otherwise nothing compresses.
    pub compressible: bool,
    /// Memory for the cache.
    pub cache: u64,
    /// How long to read at random.
    pub time: Duration,
    /// A cache device, if reads from one are to be measured.
    pub second: Option<PathBuf>,
}

/// Bytes moved, and what that took.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Flow {
    /// MiB a second.
    pub mib_per_second: f64,
    /// CPU seconds of the process for each GiB.
    pub cpu_seconds_per_gib: f64,
}

/// Small reads at random.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Random {
    /// Reads a second, by one thread.
    pub reads_per_second: f64,
    /// Microseconds, median.
    pub latency_p50_us: f64,
    /// Microseconds, 99 %.
    pub latency_p99_us: f64,
}

/// Small reads at random of a file that memory has no room for, and a cache device has.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Second {
    /// From the disk, before there was a cache device.
    pub disk: Random,
    /// With it.
    pub device: Random,
    /// Part of what was not in memory and came from it, in percent.
    pub hit_percent: f64,
    /// Seconds until it had most of the file.
    pub fill_seconds: f64,
}

/// What was measured.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// Devices striped.
    pub devices: usize,
    /// The compression property.
    pub compression: String,
    /// Writing, until stable.
    pub write: Flow,
    /// Reading from the disk, in order.
    pub read: Flow,
    /// 8 KiB at random, from the disk.
    pub random_disk: Random,
    /// 8 KiB at random, from memory.
    pub random_cache: Random,
    /// With a cache device.
    pub second: Option<Second>,
    /// Most memory that the process had, in MiB.
    pub peak_mib: f64,
    /// Memory for the cache, in MiB.
    pub cache_mib: f64,
}

const SMALL: usize = 8 << 10;
const GIB: f64 = (1 << 30) as f64;
const MIB: f64 = (1 << 20) as f64;

/// Runs it.
///
/// # Errors
/// When the pool cannot be made, written or read.
pub fn run(env: &Arc<RealEnv>, plan: &Plan) -> Result<Report, PoolError> {
    let tuning = Tuning { cache_bytes: plan.cache, ..Tuning::default() };
    let pool = world::make(env, &shape(plan), tuning.clone())?;
    let data = records(plan);
    let (file, write) = write(env, &pool, plan, &data)?;
    env.block_on(pool.close(PoolState::Exported))?;
    drop(pool);
    // Opened anew, so that nothing is in memory.
    let pool = world::import(env, &plan.main, tuning.clone())?;
    let zfs = Arc::clone(&env.block_on(pool.filesystem(POOL))?.zfs);
    let read = read(env, &zfs, file, plan)?;
    let span = plan.size;
    drop(zfs);
    env.block_on(pool.close(PoolState::Exported))?;
    drop(pool);
    let pool = world::import(env, &plan.main, tuning)?;
    let zfs = Arc::clone(&env.block_on(pool.filesystem(POOL))?.zfs);
    let random_disk = random(env, &zfs, file, span, plan.time)?;
    let hot = (plan.cache / 4).min(span);
    warm(env, &zfs, file, hot)?;
    let random_cache = random(env, &zfs, file, hot, plan.time)?;
    let second = plan.second.as_ref().map(|path| second(env, &pool, file, plan, path)).transpose()?;
    drop(zfs);
    env.block_on(pool.close(PoolState::Destroyed))?;
    Ok(Report {
        devices: plan.main.len(),
        compression: plan.compression.clone(),
        write,
        read,
        random_disk,
        random_cache,
        second,
        peak_mib: peak_bytes() as f64 / MIB,
        cache_mib: plan.cache as f64 / MIB,
    })
}

fn shape(plan: &Plan) -> Shape {
    let compression = ("compression".to_owned(), PropValue::Number(plan.compression_number));
    Shape {
        main: plan.main.clone(),
        record: plan.record as u64,
        props: vec![compression],
        ..Shape::default()
    }
}

/// A few records to write in turn.
fn records(plan: &Plan) -> Vec<Vec<u8>> {
    let mut dice = Dice::new(1);
    let one = |_| {
        let mut record = dice.noise(plan.record);
        if plan.compressible {
            record.chunks_mut(1024).for_each(|chunk| chunk[512..].fill(0));
        }
        record
    };
    (0..16).map(one).collect()
}

fn write(
    env: &Arc<RealEnv>,
    pool: &Arc<Pool>,
    plan: &Plan,
    data: &[Vec<u8>],
) -> Result<(ObjectId, Flow), PoolError> {
    let zfs = Arc::clone(&env.block_on(pool.filesystem(POOL))?.zfs);
    let new = zfs.create(zfs.root(), b"stream", NewNode::File, 0o600, Cred::default());
    let file = env.block_on(new)?.object;
    let begun = Usage::now();
    let mut records = data.iter().cycle();
    for offset in (0..plan.size).step_by(plan.record) {
        let record = records.next().expect("there are some");
        env.block_on(zfs.write(file, offset, record, WriteFlags::default()))?;
    }
    env.block_on(pool.sync_now())?;
    Ok((file, begun.flow(plan.size)))
}

fn read(env: &Arc<RealEnv>, zfs: &Zfs, file: ObjectId, plan: &Plan) -> Result<Flow, PoolError> {
    let begun = Usage::now();
    let mut buf = vec![0; plan.record];
    for offset in (0..plan.size).step_by(plan.record) {
        env.block_on(zfs.read(file, offset, &mut buf))?;
    }
    Ok(begun.flow(plan.size))
}

fn warm(env: &Arc<RealEnv>, zfs: &Zfs, file: ObjectId, span: u64) -> Result<(), PoolError> {
    let mut buf = vec![0; 128 << 10];
    // Twice: what is used again is kept.
    for _ in 0..2 {
        for offset in (0..span).step_by(buf.len()) {
            env.block_on(zfs.read(file, offset, &mut buf))?;
        }
    }
    Ok(())
}

/// Four times what memory has room for, or what there is.
const BEYOND_MEMORY: u64 = 4;
/// A cache device has most of what it is to have.
const FILLED_PERCENT: u64 = 80;
/// It takes no longer than this to fill one.
const FILL_MAX: Duration = Duration::from_secs(300);

fn second(
    env: &Arc<RealEnv>,
    pool: &Arc<Pool>,
    file: ObjectId,
    plan: &Plan,
    path: &Path,
) -> Result<Second, PoolError> {
    let zfs = Arc::clone(&env.block_on(pool.filesystem(POOL))?.zfs);
    let span = (BEYOND_MEMORY * plan.cache).min(plan.size);
    let disk = random(env, &zfs, file, span, plan.time)?;
    env.block_on(pool.add_caches(&[path.to_owned()], None))?;
    let begun = Instant::now();
    let missing = || span.saturating_sub(plan.cache) * FILLED_PERCENT / 100;
    while pool.cache_device_stats().bytes < missing() && begun.elapsed() < FILL_MAX {
        warm(env, &zfs, file, span)?;
    }
    let fill_seconds = begun.elapsed().as_secs_f64();
    let before = pool.cache_device_stats();
    let device = random(env, &zfs, file, span, plan.time)?;
    let after = pool.cache_device_stats();
    let (hits, misses) = (after.hits - before.hits, after.misses - before.misses);
    let hit_percent = 100.0 * hits as f64 / (hits + misses).max(1) as f64;
    Ok(Second { disk, device, hit_percent, fill_seconds })
}

fn random(
    env: &Arc<RealEnv>,
    zfs: &Zfs,
    file: ObjectId,
    span: u64,
    time: Duration,
) -> Result<Random, PoolError> {
    let mut dice = Dice::new(span);
    let mut buf = vec![0; SMALL];
    let mut latencies = Latencies::default();
    let end = Instant::now() + time;
    while Instant::now() < end {
        let offset = dice.roll() % (span / SMALL as u64).max(1) * SMALL as u64;
        let begun = Instant::now();
        env.block_on(zfs.read(file, offset, &mut buf))?;
        latencies.push(begun.elapsed());
    }
    let latencies = latencies.sorted();
    Ok(Random {
        reads_per_second: latencies.count() as f64 / time.as_secs_f64(),
        latency_p50_us: latencies.at_us(0.5),
        latency_p99_us: latencies.at_us(0.99),
    })
}

impl Usage {
    fn flow(&self, bytes: u64) -> Flow {
        let (wall, cpu) = self.since();
        Flow {
            mib_per_second: bytes as f64 / MIB / wall.as_secs_f64(),
            cpu_seconds_per_gib: cpu.as_secs_f64() / (bytes as f64 / GIB),
        }
    }
}

impl Report {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let flow = |flow: &Flow| {
            format!("{:.0} MiB/s ({:.2} CPU s/GiB)", flow.mib_per_second, flow.cpu_seconds_per_gib)
        };
        let random = |random: &Random| {
            format!(
                "{:.0}/s p50 {:.1} p99 {:.1} µs",
                random.reads_per_second, random.latency_p50_us, random.latency_p99_us
            )
        };
        let second = self.second.as_ref().map_or_else(String::new, |second| {
            format!(
                "; of more than memory holds, from disk {}, with a cache device {} ({:.0} % hits, filled in {:.0} s)",
                random(&second.disk),
                random(&second.device),
                second.hit_percent,
                second.fill_seconds
            )
        });
        format!(
            "{} devices, compression={}: write {}, read {}; 8 KiB at random from disk {}, from cache {}{second}; peak memory {:.0} MiB \
             with a cache of {:.0} MiB",
            self.devices,
            self.compression,
            flow(&self.write),
            flow(&self.read),
            random(&self.random_disk),
            random(&self.random_cache),
            self.peak_mib,
            self.cache_mib,
        )
    }
}
