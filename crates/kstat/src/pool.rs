//! The files of a pool (OpenZFS: `module/zfs/spa_stats.c`, `module/zfs/dataset_kstats.c`).

use crate::file::KstatFile;
use crate::format::Data;
use crate::{PoolSeen, txgs, zil};
use control::{DatasetCounted, IoCounters, PoolCounted, PoolHealth, TrimsCounted};

/// All of them.
pub(crate) fn put_files(seen: &PoolSeen, files: &mut Vec<KstatFile>) {
    let pool = &seen.counted;
    if let Some(health) = pool.health {
        files.push(state(&pool.name, health));
    }
    files.push(KstatFile::raw(&pool.name, "guid", format!("{}\n", pool.guid)));
    files.push(io(pool));
    files.push(iostats(pool));
    files.push(txgs::file(seen));
    files.extend(pool.datasets.iter().map(|dataset| objset(&pool.name, dataset)));
}

/// The file of a pool that could not be opened again: its devices are not there, or not enough of them.
pub(crate) fn absent(name: &str) -> KstatFile {
    state(name, PoolHealth::Unavail)
}

fn state(name: &str, health: PoolHealth) -> KstatFile {
    KstatFile::raw(name, "state", format!("{}\n", health.word()))
}

/// What the devices did. Nothing measures for how long any of them was busy, or had a queue: these
/// columns cannot be left out, because a reader counts columns, and are 0.
fn io(pool: &PoolCounted) -> KstatFile {
    let columns = [
        ("nread", pool.io.read_bytes),
        ("nwritten", pool.io.written_bytes),
        ("reads", pool.io.reads),
        ("writes", pool.io.writes),
        ("wtime", 0),
        ("wlentime", 0),
        ("wupdate", 0),
        ("rtime", 0),
        ("rlentime", pool.busy.active_nanos),
        ("rupdate", 0),
        ("wcnt", pool.busy.waiting),
        ("rcnt", pool.busy.active),
    ];
    KstatFile::io(&pool.name, "io", &columns)
}

/// Returns the counts of trims, and of blocks between the cache and the devices. No read or write
/// bypasses the cache, and no cache device is trimmed as a whole: the figures of both are 0.
fn iostats(pool: &PoolCounted) -> KstatFile {
    let mut lines = Vec::new();
    let kinds =
        [("trim", pool.trims), ("autotrim", pool.auto_trims), ("simple_trim", TrimsCounted::default())];
    for (kind, trims) in kinds {
        lines.extend([
            (format!("{kind}_extents_written"), trims.discarded),
            (format!("{kind}_bytes_written"), trims.discarded_bytes),
            (format!("{kind}_extents_skipped"), trims.skipped),
            (format!("{kind}_bytes_skipped"), trims.skipped_bytes),
            (format!("{kind}_extents_failed"), trims.failed),
            (format!("{kind}_bytes_failed"), trims.failed_bytes),
        ]);
    }
    let ways = [("arc", pool.blocks), ("direct", IoCounters::default())];
    for (way, io) in ways {
        lines.extend([
            (format!("{way}_read_count"), io.reads),
            (format!("{way}_read_bytes"), io.read_bytes),
            (format!("{way}_write_count"), io.writes),
            (format!("{way}_write_bytes"), io.written_bytes),
        ]);
    }
    let lines: Vec<_> = lines.iter().map(|(name, number)| (name.as_str(), Data::Number(*number))).collect();
    KstatFile::named(Some(&pool.name), "iostats", &lines)
}

/// A dataset that is open.
fn objset(pool: &str, dataset: &DatasetCounted) -> KstatFile {
    let uses = &dataset.uses;
    let mut lines = vec![
        ("dataset_name", Data::Text(dataset.name.clone())),
        ("writes", Data::Number(uses.writes)),
        ("nwritten", Data::Number(uses.written_bytes)),
        ("reads", Data::Number(uses.reads)),
        ("nread", Data::Number(uses.read_bytes)),
        ("nunlinks", Data::Number(uses.unlinks)),
        ("nunlinked", Data::Number(uses.unlinked)),
    ];
    lines.append(&mut zil::lines(&[&dataset.log]));
    KstatFile::named(Some(pool), format!("objset-0x{:x}", dataset.objset), &lines)
}
