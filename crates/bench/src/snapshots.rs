//! `sawmill bench snapshots`: many snapshots of a file system that is being written, listed, and destroyed at once.
//!
//! ```text
//!  writer   ── a stable write at a random place each millisecond ──────────────────────────────────────────►
//!  alone    │ snapshots, one after the other: the first and the last of them │ all listed │ all destroyed │
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use device::RealEnv;
use pool::{Pool, PoolError, Tuning};
use vdev::PoolState;

use crate::latencies::Latencies;
use crate::paced::{Commits, Paced, WRITE_BYTES};
use crate::world::{self, POOL, Shape};

/// Snapshots at the beginning, and at the end, that are told of by themselves.
const FEW: usize = 100;
/// How long the writer is measured alone.
const ALONE: Duration = Duration::from_secs(2);

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Devices of the pool, striped.
    pub main: Vec<PathBuf>,
    /// Log devices.
    pub log: Vec<PathBuf>,
    /// How many snapshots; above 0.
    pub snapshots: usize,
    /// Bytes of the file that is written.
    pub span: u64,
    /// Memory for the cache.
    pub cache: u64,
}

/// What was measured.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// Snapshots made.
    pub snapshots: usize,
    /// Milliseconds of a snapshot, median of the first hundred.
    pub first_p50_ms: f64,
    /// The same of the last hundred.
    pub last_p50_ms: f64,
    /// 99 % of all.
    pub p99_ms: f64,
    /// Milliseconds to list all with their figures.
    pub list_ms: f64,
    /// Milliseconds to destroy all, until that is stable.
    pub destroy_ms: f64,
    /// Milliseconds more until all that they had is free.
    pub free_ms: f64,
    /// Stable writes while nothing else is done.
    pub alone: Commits,
    /// While snapshots are made.
    pub while_made: Commits,
    /// While they are destroyed.
    pub while_destroyed: Commits,
}

/// Runs it.
///
/// # Errors
/// When the pool cannot be made or written.
pub fn run(env: &Arc<RealEnv>, plan: &Plan) -> Result<Report, PoolError> {
    let tuning = Tuning { cache_bytes: plan.cache, ..Tuning::default() };
    let (main, log) = (plan.main.clone(), plan.log.clone());
    let shape = Shape { main, log, record: WRITE_BYTES as u64, ..Shape::default() };
    let pool = world::make(env, &shape, tuning)?;
    let writer = Paced::start(env, &pool, plan.span)?;
    let report = env.block_on(measure(&pool, &writer, plan));
    writer.end()?;
    env.block_on(pool.close(PoolState::Destroyed))?;
    report
}

async fn measure(pool: &Arc<Pool>, writer: &Paced, plan: &Plan) -> Result<Report, PoolError> {
    writer.commits();
    pool.env().sleep(ALONE).await;
    let alone = writer.commits();
    let mut times = Vec::with_capacity(plan.snapshots);
    for number in 0..plan.snapshots {
        let begun = Instant::now();
        pool.snapshot(vec![format!("{POOL}@s{number}")], Vec::new()).await?;
        times.push(begun.elapsed());
    }
    let while_made = writer.commits();
    let begun = Instant::now();
    let names = list(pool).await?;
    let listed = begun.elapsed();
    writer.commits();
    let begun = Instant::now();
    pool.destroy_snapshots(names, false).await?;
    let destroyed = begun.elapsed();
    while pool.dsl().has_destroyed().await? {
        pool.sync_now().await?;
    }
    let freed = begun.elapsed() - destroyed;
    let while_destroyed = writer.commits();
    let few = times.len().min(FEW);
    let ms = |span: Duration| span.as_secs_f64() * 1e3;
    Ok(Report {
        snapshots: times.len(),
        first_p50_ms: part(&times[..few], 0.5),
        last_p50_ms: part(&times[times.len() - few..], 0.5),
        p99_ms: part(&times, 0.99),
        list_ms: ms(listed),
        destroy_ms: ms(destroyed),
        free_ms: ms(freed),
        alone,
        while_made,
        while_destroyed,
    })
}

/// The time below which that part of all lies, in milliseconds.
fn part(times: &[Duration], part: f64) -> f64 {
    let mut latencies = Latencies::default();
    times.iter().for_each(|time| latencies.push(*time));
    latencies.sorted().at_us(part) / 1e3
}

/// Names of all snapshots, each with its figures read.
async fn list(pool: &Pool) -> Result<Vec<String>, PoolError> {
    let mut names = Vec::new();
    for snapshot in pool.dsl().snapshots(&pool.dsl().resolve(POOL).await?).await? {
        let phys = pool.dsl().dataset(snapshot.dataset).await?;
        pool.dsl().written(&phys).await?;
        names.push(snapshot.name);
    }
    Ok(names)
}

impl Report {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        [
            format!(
                "{} snapshots: {:.2} ms each at first, {:.2} ms at last, p99 {:.2}",
                self.snapshots, self.first_p50_ms, self.last_p50_ms, self.p99_ms
            ),
            format!(
                "listed in {:.0} ms, destroyed in {:.0} ms, all free {:.0} ms later",
                self.list_ms, self.destroy_ms, self.free_ms
            ),
            self.alone.text("alone"),
            self.while_made.text("while snapshots are made"),
            self.while_destroyed.text("while they are destroyed"),
        ]
        .join("\n")
    }
}
