//! Intent logs.

use crate::PoolLook;
use crate::family::{Family, Known, one, seconds, sizes, times, write as write_all};
use crate::name::Name;
use crate::text::{Text, Unit};
use control::{LogFacts, LogVdevInfo, VdevClass};

const FAMILIES: &[Family<LogFacts>] = &[
    Family::counter(
        "sawmill_log_commits",
        Unit::None,
        "Commits: fsync and its like, and each write of whoever writes synchronously.",
        |log| one(log.commits),
    ),
    Family::counter(
        "sawmill_log_commits_empty",
        Unit::None,
        "Of the commits, those that found everything stable.",
        |log| one(log.commits_empty),
    ),
    Family::counter(
        "sawmill_log_batches",
        Unit::None,
        "Writes to logs, each of one or more blocks; fewer than commits where commits merge.",
        |log| one(log.batches),
    ),
    Family::counter("sawmill_log_records", Unit::None, "Records written to logs.", |log| one(log.records)),
    Family::counter("sawmill_log_data", Unit::Bytes, "Data of writes in those records.", |log| {
        one(log.data_bytes)
    }),
    Family::counter(
        "sawmill_log_beside",
        Unit::Bytes,
        "Data of writes that lie beside the log, because there was no log device to take them.",
        |log| one(log.beside_bytes),
    ),
    Family::counter("sawmill_log_record", Unit::Bytes, "Records with their data.", |log| {
        one(log.record_bytes)
    }),
    Family::counter(
        "sawmill_log_written",
        Unit::Bytes,
        "Log blocks as they were written: records, what ties blocks together, padding.",
        |log| one(log.written_bytes),
    ),
    Family::counter("sawmill_log_allocated", Unit::Bytes, "Space allocated to log blocks.", |log| {
        one(log.allocated_bytes)
    }),
    Family::counter("sawmill_log_errors", Unit::None, "Writes and flushes of logs that failed.", |log| {
        one(log.errors)
    }),
    Family::counter(
        "sawmill_log_fallbacks",
        Unit::None,
        "Commits that waited for a transaction group, because no log could take them.",
        |log| one(log.fallbacks),
    ),
    Family::counter(
        "sawmill_log_hurried_txgs",
        Unit::None,
        "Transaction groups that were synced early, because their log blocks had taken their share of the log devices.",
        |log| one(log.hurried_txgs),
    ),
    Family::counter(
        "sawmill_log_blocks_past_logs",
        Unit::None,
        "Log blocks that went to data vdevs though there are log vdevs.",
        |log| one(log.blocks_past_logs),
    ),
    Family::histogram(
        "sawmill_log_commit",
        Unit::Seconds,
        "How long commits took, from call to return.",
        |log| one(times(&log.latency)),
    ),
    Family::histogram(
        "sawmill_log_stage",
        Unit::Seconds,
        "Where the time of commits goes: queue and wake are a commit's, the others a write of the log's, which answers one or several.",
        |log: &LogFacts| {
            vec![
                ("queue", times(&log.queue)),
                ("assemble", times(&log.assemble)),
                ("write", times(&log.write)),
                ("flush", times(&log.flush)),
                ("wake", times(&log.wake)),
            ]
        },
    )
    .by("stage"),
    Family::counter(
        "sawmill_log_commit_part",
        Unit::Seconds,
        "What commits waited for, added up over all of them: the parts add up to the time of commits. txg is all of commits that no write of the log ended.",
        |log: &LogFacts| {
            let names = ["queue", "assemble", "write", "flush", "wake", "txg"];
            names.into_iter().zip(log.parts_nanos.iter().map(|&nanos| seconds(nanos))).collect()
        },
    )
    .by("part"),
    Family::histogram(
        "sawmill_log_block",
        Unit::Bytes,
        "Sizes of log blocks, as they were written.",
        |log| one(sizes(&log.block_sizes, log.written_bytes)),
    ),
    Family::gauge("sawmill_log_space", Unit::Bytes, "Allocatable space of all log vdevs.", |log| {
        one(logs(log).map(|vdev| vdev.space_bytes).sum::<u64>())
    }),
    Family::gauge("sawmill_log_held", Unit::Bytes, "Space of the log vdevs that log blocks hold, what rests until it may be used again included.", |log| {
        one(logs(log).map(|vdev| vdev.held_bytes).sum::<u64>())
    }),
    Family::gauge(
        "sawmill_log_held_peak",
        Unit::Bytes,
        "The most that log blocks held since the pool was opened.",
        |log| one(log.peak.held_bytes),
    ),
    Family::gauge(
        "sawmill_log_txg_peak",
        Unit::Bytes,
        "The most that one transaction group had in the log since the pool was opened.",
        |log| one(log.peak.txg_bytes),
    ),
];

const VDEVS: &[Family<LogVdevInfo>] = &[
    Family::counter("sawmill_log_vdev_blocks", Unit::None, "Log blocks written to the vdev.", |vdev| {
        one(vdev.blocks)
    }),
    Family::counter("sawmill_log_vdev_written", Unit::Bytes, "Bytes of those.", |vdev| one(vdev.block_bytes)),
    Family::histogram(
        "sawmill_log_vdev_write",
        Unit::Seconds,
        "How long writes of log blocks to the vdev took.",
        |vdev| one(times(&vdev.writes)),
    ),
    Family::histogram(
        "sawmill_log_vdev_flush",
        Unit::Seconds,
        "How long flushes of the vdev took after them.",
        |vdev| one(times(&vdev.flushes)),
    ),
];

fn logs(log: &LogFacts) -> impl Iterator<Item = &LogVdevInfo> {
    log.vdevs.iter().filter(|vdev| vdev.class == VdevClass::Log)
}

pub(crate) fn write(text: &mut Text, pools: &[PoolLook]) {
    let known = pools.iter().filter_map(|look| {
        Some(Known { labels: vec![("pool", look.pool.name.as_str())], thing: look.logs.as_ref()? })
    });
    write_all(text, FAMILIES, &known.collect::<Vec<_>>());
    let all: Vec<_> = pools.iter().flat_map(tops).collect();
    let known = all.iter().map(|(name, thing)| Known { labels: name.labels(), thing: *thing });
    write_all(text, VDEVS, &known.collect::<Vec<_>>());
}

/// Data and log vdevs.
fn tops(look: &PoolLook) -> Vec<(Name<'_>, &LogVdevInfo)> {
    let all = look.logs.iter().flat_map(|logs| &logs.vdevs);
    let named = |top: &'_ LogVdevInfo| look.pool.root.children.iter().find(|vdev| vdev.id == top.id);
    all.filter_map(|top| Some((Name::of(&look.pool.name, named(top)?), top))).collect()
}
