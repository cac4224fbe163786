//! `sawmill bench destroy`: a large clone, and the file system that it is of, destroyed while somebody writes.
//!
//! ```text
//!  writer   ── a stable write at a random place each millisecond ────────────────────────────────────►
//!  alone    │ a file system is filled │ cloned, a part of it written anew │ clone destroyed │ file system destroyed │
//! ```
//! What is filled in takes little room on the device: records that compress well, as many as there are of that size.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use device::RealEnv;
use dsl::PropValue;
use pool::{Pool, PoolError, Tuning};
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use crate::paced::{Commits, Paced, WRITE_BYTES};
use crate::world::{self, POOL, Shape};

/// Bytes of a record of what is destroyed.
const RECORD_BYTES: u64 = 128 << 10;
/// Of every so many records the clone has one of its own: so few that it keeps its livelist.
const REWRITTEN: u64 = 8;
/// Bytes of the file that the writer writes to.
const SPAN: u64 = 64 << 20;
/// How long the writer is measured alone.
const ALONE: Duration = Duration::from_secs(2);

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Devices of the pool, striped.
    pub main: Vec<PathBuf>,
    /// Log devices.
    pub log: Vec<PathBuf>,
    /// Bytes of the file system, before compression.
    pub size: u64,
    /// Memory for the cache.
    pub cache: u64,
}

/// One dataset destroyed.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Destroyed {
    /// Milliseconds until its name is gone, stably.
    pub gone_ms: f64,
    /// Milliseconds more until all that it had is free.
    pub free_ms: f64,
    /// Stable writes meanwhile.
    pub commits: Commits,
}

/// What was measured.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// Bytes of the file system, before compression.
    pub size: u64,
    /// Stable writes while nothing else is done.
    pub alone: Commits,
    /// The clone, of which an eighth is its own.
    pub clone: Destroyed,
    /// The file system.
    pub filesystem: Destroyed,
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
    let writer = Paced::start(env, &pool, SPAN)?;
    let report = env.block_on(measure(&pool, &writer, plan.size));
    writer.end()?;
    env.block_on(pool.close(PoolState::Destroyed))?;
    report
}

async fn measure(pool: &Arc<Pool>, writer: &Paced, size: u64) -> Result<Report, PoolError> {
    writer.commits();
    pool.env().sleep(ALONE).await;
    let alone = writer.commits();
    let [filesystem, snapshot, clone] = ["large", "large@now", "clone"].map(|name| format!("{POOL}/{name}"));
    let props = vec![("recordsize".to_owned(), PropValue::Number(RECORD_BYTES))];
    pool.create_filesystem(&filesystem, props.clone()).await?;
    let zfs = Arc::clone(&pool.filesystem(&filesystem).await?.zfs);
    write(&zfs, size, 1).await?;
    pool.snapshot(vec![snapshot.clone()], Vec::new()).await?;
    pool.clone_snapshot(snapshot.clone(), clone.clone(), props).await?;
    let zfs = Arc::clone(&pool.filesystem(&clone).await?.zfs);
    write(&zfs, size, REWRITTEN).await?;
    let clone = destroy(pool, writer, &clone, None).await?;
    let filesystem = destroy(pool, writer, &filesystem, Some(snapshot)).await?;
    Ok(Report { size, alone, clone, filesystem })
}

/// Writes the first of every so many records of the file `large`.
async fn write(zfs: &Arc<Zfs>, size: u64, every: u64) -> Result<(), PoolError> {
    let file = match zfs.lookup(zfs.root(), b"large").await {
        Ok(found) => found.object,
        Err(_) => zfs.create(zfs.root(), b"large", NewNode::File, 0o600, Cred::default()).await?.object,
    };
    let data = vec![every as u8; RECORD_BYTES as usize];
    for at in (0..size).step_by((RECORD_BYTES * every) as usize) {
        zfs.write(file, at, &data, WriteFlags::default()).await?;
    }
    Ok(())
}

async fn destroy(
    pool: &Arc<Pool>,
    writer: &Paced,
    name: &str,
    snapshot: Option<String>,
) -> Result<Destroyed, PoolError> {
    pool.sync_now().await?;
    writer.commits();
    let begun = Instant::now();
    if let Some(snapshot) = snapshot {
        pool.destroy_snapshots(vec![snapshot], false).await?;
    }
    pool.destroy_filesystem(name).await?;
    let gone = begun.elapsed();
    while pool.dsl().has_destroyed().await? {
        pool.sync_now().await?;
    }
    let ms = |span: Duration| span.as_secs_f64() * 1e3;
    let free = begun.elapsed() - gone;
    Ok(Destroyed { gone_ms: ms(gone), free_ms: ms(free), commits: writer.commits() })
}

impl Report {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let destroyed = |what: &str, one: &Destroyed| {
            format!(
                "{what} gone in {:.0} ms, all free {:.0} ms later\n{}",
                one.gone_ms,
                one.free_ms,
                one.commits.text("meanwhile")
            )
        };
        let gib = self.size as f64 / f64::from(1 << 30);
        [
            self.alone.text("alone"),
            destroyed(&format!("clone of {gib:.1} GiB, an eighth of it its own:"), &self.clone),
            destroyed("its origin:", &self.filesystem),
        ]
        .join("\n")
    }
}
