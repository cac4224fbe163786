//! `sawmill bench create`: many small files made, the pool exported, and imported again.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use device::RealEnv;
use pool::{Pool, PoolError, Tuning};
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags};

use crate::usage::{Usage, peak_bytes};
use crate::world::{self, POOL, Shape};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Devices, striped.
    pub main: Vec<PathBuf>,
    /// How many files; may be none.
    pub files: usize,
    /// Bytes of each.
    pub size: usize,
    /// Memory for the cache.
    pub cache: u64,
}

/// What was measured.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// Devices striped.
    pub devices: usize,
    /// Files made.
    pub files: usize,
    /// Files a second, until all are stable.
    pub files_per_second: f64,
    /// CPU microseconds for each file.
    pub cpu_us_per_file: f64,
    /// Milliseconds that the export took.
    pub export_ms: f64,
    /// Milliseconds until the pool was imported.
    pub import_ms: f64,
    /// Milliseconds of CPU that took.
    pub import_cpu_ms: f64,
    /// Milliseconds more until the first directory was read.
    pub first_list_ms: f64,
    /// Most memory that the process had, in MiB.
    pub peak_mib: f64,
}

/// Files of one directory.
const FILES_PER_DIRECTORY: usize = 10_000;

/// Runs it.
///
/// # Errors
/// When the pool cannot be made, written, or imported.
pub fn run(env: &Arc<RealEnv>, plan: &Plan) -> Result<Report, PoolError> {
    let tuning = Tuning { cache_bytes: plan.cache, ..Tuning::default() };
    let shape = Shape { main: plan.main.clone(), record: 128 << 10, ..Shape::default() };
    let pool = world::make(env, &shape, tuning.clone())?;
    let creating = Usage::now();
    env.block_on(make_files(&pool, plan))?;
    env.block_on(pool.sync_now())?;
    let (wall, cpu) = creating.since();
    let exporting = Usage::now();
    env.block_on(pool.close(PoolState::Exported))?;
    drop(pool);
    let export = exporting.since().0;
    let importing = Usage::now();
    let pool = world::import(env, &plan.main, tuning)?;
    let (import, import_cpu) = importing.since();
    let listing = Usage::now();
    env.block_on(first_list(&pool))?;
    let first_list = listing.since().0;
    env.block_on(pool.close(PoolState::Destroyed))?;
    let ms = |span: Duration| span.as_secs_f64() * 1e3;
    Ok(Report {
        devices: plan.main.len(),
        files: plan.files,
        files_per_second: plan.files as f64 / wall.as_secs_f64(),
        cpu_us_per_file: cpu.as_secs_f64() * 1e6 / plan.files.max(1) as f64,
        export_ms: ms(export),
        import_ms: ms(import),
        import_cpu_ms: ms(import_cpu),
        first_list_ms: ms(first_list),
        peak_mib: peak_bytes() as f64 / (1 << 20) as f64,
    })
}

async fn make_files(pool: &Arc<Pool>, plan: &Plan) -> Result<(), PoolError> {
    let zfs = Arc::clone(&pool.filesystem(POOL).await?.zfs);
    let data = vec![7; plan.size];
    let mut dir = zfs.root();
    for n in 0..plan.files {
        if n % FILES_PER_DIRECTORY == 0 {
            let name = format!("d{n}");
            let new = zfs.create(zfs.root(), name.as_bytes(), NewNode::Directory, 0o700, Cred::default());
            dir = new.await?.object;
        }
        let name = format!("file{n}");
        let file = zfs.create(dir, name.as_bytes(), NewNode::File, 0o600, Cred::default()).await?.object;
        zfs.write(file, 0, &data, WriteFlags::default()).await?;
    }
    Ok(())
}

async fn first_list(pool: &Arc<Pool>) -> Result<(), PoolError> {
    let zfs = Arc::clone(&pool.filesystem(POOL).await?.zfs);
    zfs.list(zfs.root(), 0, 100).await?;
    Ok(())
}

impl Report {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let made = format!(
            "{} devices, {} files: {:.0} files/s, {:.1} µs CPU each; ",
            self.devices, self.files, self.files_per_second, self.cpu_us_per_file
        );
        format!(
            "{}export {:.0} ms, import {:.0} ms ({:.0} ms CPU), first listing {:.1} ms; peak memory {:.0} MiB",
            if self.files == 0 { format!("{} devices: ", self.devices) } else { made },
            self.export_ms,
            self.import_ms,
            self.import_cpu_ms,
            self.first_list_ms,
            self.peak_mib,
        )
    }
}
