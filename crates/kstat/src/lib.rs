//! What pools have counted, as the files that OpenZFS shows in `/proc/spl/kstat/zfs`: exporters read these.
//!
//! ```text
//!  Observed (what the daemon answers) ─► arcstats, zil, dmu_tx ... (all pools together) ─┐
//!                                     └► POOL/state, POOL/io, POOL/objset-0x36 ...       ─┴─► KstatFile ─► text
//! ```
//! Pure functions from answers to text: nothing is counted, kept or written here. Names, order, columns
//! and type numbers are those of OpenZFS 2.3 (`module/zfs/arc.c`, `zil.c`, `dataset_kstats.c`,
//! `dmu_tx.c`, `dmu_zfetch.c`, `spa_stats.c`, `module/os/linux/zfs/abd_os.c`; the layout of a file is
//! in [`format`]). `POOL/io` is OpenZFS 0.8's: old exporters want it.
//!
//! Invariants
//! - A name is there with its true value, or it is not there. Zero stands for an event that never
//!   happens here, or for a thing that does not exist here. (docs/watching.md lists names that are left
//!   out) (test: `what_is_not_known_is_left_out`)
//! - A figure of a file for all pools is the sum of the pools' figures. (test: `figures_of_pools_are_added`)
//! - No name of a pool or dataset makes another line or another path.
//!   (test: `names_make_no_lines_and_no_paths`)
#![forbid(unsafe_code)]

mod abdstats;
mod arcstats;
mod dmu_tx;
mod file;
mod format;
mod pool;
mod table;
mod txgs;
mod zfetchstats;
mod zil;

pub use file::{KstatFile, KstatPath};
pub use format::Stamp;

use control::PoolCounted;

/// What is known at one moment.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The memory of the daemon; none where the system does not report it.
    pub memory: Option<MemorySeen>,
    /// Open pools.
    pub pools: Vec<PoolSeen>,
    /// Names of pools that could not be opened again when the daemon started.
    pub absent: Vec<String>,
}

/// Memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemorySeen {
    /// The memory that the daemon can have: the machine's, or the limit of its control group.
    pub limit_bytes: u64,
    /// Of that, memory that is free or can be reclaimed.
    pub free_bytes: u64,
    /// The caches shrink when less than so much is free.
    pub to_stay_free_bytes: u64,
}

/// An open pool.
#[derive(Clone, Debug, Default)]
pub struct PoolSeen {
    /// What it has counted.
    pub counted: PoolCounted,
    /// The system's monotonic clock when the pool's clock was 0, in nanoseconds.
    pub clock_start_nanos: u64,
}

/// All files, those for all pools first.
#[must_use]
pub fn files(observed: &Observed) -> Vec<KstatFile> {
    let mut files = vec![
        arcstats::file(observed),
        zfetchstats::file(&observed.pools),
        dmu_tx::file(&observed.pools),
        zil::file(&observed.pools),
        abdstats::file(),
    ];
    let is_path = |name: &str| file::is_pool_path(name, &files[..5]);
    let mut of_pools = Vec::new();
    for pool in observed.pools.iter().filter(|pool| is_path(&pool.counted.name)) {
        pool::put_files(pool, &mut of_pools);
    }
    let absent = observed.absent.iter().filter(|name| is_path(name));
    of_pools.extend(absent.map(|name| pool::absent(name)));
    files.append(&mut of_pools);
    files
}

#[cfg(test)]
mod tests;
