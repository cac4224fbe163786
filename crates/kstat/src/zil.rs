//! `zil`, and the same figures of one dataset: intent logs (OpenZFS: `module/zfs/zil.c`,
//! `include/sys/zil.h`). They are those of `zilstat` (docs/watching.md says what each counts here).

use crate::PoolSeen;
use crate::file::KstatFile;
use crate::format::Data;
use crate::table::RowOf;
use control::LogCounted;

const ROWS: &[RowOf<LogCounted>] = &[
    ("zil_commit_count", |log| log.commits),
    ("zil_commit_writer_count", |log| log.writes),
    ("zil_commit_error_count", |log| log.fallbacks),
    ("zil_commit_stall_count", |log| log.no_space),
    // No log is suspended.
    ("zil_commit_suspend_count", |_| 0),
    ("zil_itx_count", |log| log.records),
    ("zil_itx_indirect_count", |log| log.indirect.records),
    ("zil_itx_indirect_bytes", |log| log.indirect.bytes),
    ("zil_itx_copied_count", |log| log.copied.records),
    ("zil_itx_copied_bytes", |log| log.copied.bytes),
    ("zil_itx_needcopy_count", |log| log.needcopy.records),
    ("zil_itx_needcopy_bytes", |log| log.needcopy.bytes),
    ("zil_itx_metaslab_normal_count", |log| log.normal.count),
    ("zil_itx_metaslab_normal_bytes", |log| log.normal.used_bytes),
    ("zil_itx_metaslab_normal_write", |log| log.normal.written_bytes),
    ("zil_itx_metaslab_normal_alloc", |log| log.normal.allocated_bytes),
    ("zil_itx_metaslab_slog_count", |log| log.slog.count),
    ("zil_itx_metaslab_slog_bytes", |log| log.slog.used_bytes),
    ("zil_itx_metaslab_slog_write", |log| log.slog.written_bytes),
    ("zil_itx_metaslab_slog_alloc", |log| log.slog.allocated_bytes),
];

/// The file: the logs of all open datasets together.
pub(crate) fn file(pools: &[PoolSeen]) -> KstatFile {
    let logs: Vec<&LogCounted> =
        pools.iter().flat_map(|pool| &pool.counted.datasets).map(|dataset| &dataset.log).collect();
    KstatFile::named(None, "zil", &lines(&logs))
}

/// The lines of some logs together.
pub(crate) fn lines(logs: &[&LogCounted]) -> Vec<(&'static str, Data)> {
    let sum = |figure: fn(&LogCounted) -> u64| logs.iter().map(|log| figure(log)).sum();
    ROWS.iter().map(|(name, figure)| (*name, Data::Number(sum(*figure)))).collect()
}
