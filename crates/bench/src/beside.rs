//! Open datasets that are not in use, beside the one that is measured: what they cost.

use std::sync::Arc;
use std::time::Instant;

use futures::future::try_join_all;
use pool::{Pool, PoolError};
use units::ObjectId;
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use crate::latencies::Latencies;
use crate::usage::resident_bytes;
use crate::world::{POOL, STABLE};

/// What many open datasets cost.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Beside {
    /// Seconds that making them all took, each with a file and a commit.
    pub making_seconds: f64,
    /// KiB of memory that each of them has, the file in it and its blocks in the cache included.
    pub kib_each: f64,
    /// The same without the cache.
    pub kib_each_beside_cache: f64,
    /// Milliseconds until one small change in one dataset is stable by a group's sync, median.
    pub sync_ms: f64,
    /// Milliseconds of the pool's import with all of them, once it was exported.
    pub import_ms: f64,
}

impl Beside {
    /// For people; there are `count` of them.
    pub(crate) fn text(&self, count: usize) -> String {
        let sync = format!("a group's sync {:.1} ms", self.sync_ms);
        if count == 0 {
            return sync;
        }
        format!(
            "{sync}; {count} datasets beside, made in {:.1} s, {:.1} KiB each, {:.1} without the cache, imported in {:.0} ms",
            self.making_seconds, self.kib_each, self.kib_each_beside_cache, self.import_ms,
        )
    }
}

/// Datasets made at a time: their transaction groups are shared.
const MADE_AT_ONCE: usize = 256;

/// Groups that logs take to come to rest.
const GROUPS_TO_REST: usize = 6;

/// Makes so many datasets, opens each and writes to it once, stably. What they took.
pub(crate) async fn open(pool: &Arc<Pool>, count: usize) -> Result<Beside, PoolError> {
    let cached = || pool.zio().cache_stats().bytes;
    let (before, cached_before, begun) = (resident_bytes(), cached(), Instant::now());
    let numbers: Vec<usize> = (0..count).collect();
    for some in numbers.chunks(MADE_AT_ONCE) {
        try_join_all(some.iter().map(|&number| open_other(pool, number))).await?;
    }
    let making_seconds = begun.elapsed().as_secs_f64();
    for _ in 0..GROUPS_TO_REST {
        pool.sync_now().await?;
    }
    let grown = resident_bytes().saturating_sub(before);
    let in_cache = cached().saturating_sub(cached_before);
    let kib_each = |bytes: u64| bytes as f64 / 1024.0 / count.max(1) as f64;
    Ok(Beside {
        making_seconds,
        kib_each: kib_each(grown),
        kib_each_beside_cache: kib_each(grown.saturating_sub(in_cache)),
        ..Beside::default()
    })
}

async fn open_other(pool: &Arc<Pool>, number: usize) -> Result<(), PoolError> {
    let name = format!("{POOL}/idle{number}");
    pool.create_filesystem(&name, Vec::new()).await?;
    let zfs = Arc::clone(&pool.filesystem(&name).await?.zfs);
    let file = zfs.create(zfs.root(), b"data", NewNode::File, 0o600, Cred::default()).await?.object;
    zfs.write(file, 0, b"written once", STABLE).await?;
    Ok(())
}

/// Groups measured.
const SYNCS: usize = 21;

/// Milliseconds from a small change until a group's sync has made it stable, median.
pub(crate) async fn time_of_sync(pool: &Arc<Pool>, zfs: &Zfs, file: ObjectId) -> Result<f64, PoolError> {
    let mut times = Latencies::default();
    for n in 0..SYNCS {
        zfs.write(file, 0, &[n as u8], WriteFlags::default()).await?;
        let begun = Instant::now();
        pool.sync_now().await?;
        times.push(begun.elapsed());
    }
    Ok(times.sorted().at_us(0.5) / 1e3)
}
