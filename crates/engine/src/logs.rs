//! What the intent log of each dataset had to do, as commands see it.

use crate::Holder;
use control::{Counts, DatasetLogs, Failure, LogBlocks, LogInfo, LogWrites};
use pool::{CountedLog, Pool};
use units::VdevId;
use zil::ZilStats;

impl Holder {
    /// What the logs of one pool's datasets, or of all pools', had to do.
    pub(super) fn dataset_logs(&self, call: &DatasetLogs) -> Result<Vec<LogInfo>, Failure> {
        let pools = match &call.pool {
            Some(name) => vec![self.pool(name)?],
            None => self.all(),
        };
        let mut logs: Vec<LogInfo> = pools.iter().flat_map(|held| logs_of(&held.pool)).collect();
        logs.sort_by(|a, b| a.dataset.cmp(&b.dataset));
        Ok(logs)
    }
}

fn logs_of(pool: &Pool) -> Vec<LogInfo> {
    let is_slog = log_vdevs(pool);
    pool.dataset_logs().into_iter().map(|log| log_info(log, &is_slog)).collect()
}

/// Tells the vdevs of logs from other vdevs. A hole is the place of a log vdev that was removed, because only the
/// removal of a log leaves a hole at once.
pub(crate) fn log_vdevs(pool: &Pool) -> impl Fn(VdevId) -> bool {
    let tops = pool.vdevs().all_tops();
    move |id: VdevId| {
        let top = tops.iter().find(|top| top.id() == id);
        top.is_none_or(|top| top.is_log() || matches!(top.node(), vdev::Node::Hole))
    }
}

pub(crate) fn log_info(log: CountedLog, is_slog: &dyn Fn(VdevId) -> bool) -> LogInfo {
    let CountedLog { name, objset, stats } = log;
    let writes = |records, bytes| LogWrites { records, bytes };
    let times = &stats.stages;
    LogInfo {
        dataset: name,
        objset: objset.get(),
        commits: stats.commits,
        commits_empty: stats.commits_empty,
        writes: stats.batches,
        fallbacks: stats.fallbacks,
        no_space: stats.no_space,
        records: stats.itxs,
        copied: writes(stats.copied, stats.copied_bytes),
        needcopy: writes(stats.fetched, stats.fetched_bytes),
        indirect: writes(stats.indirect, stats.indirect_bytes),
        normal: blocks(&stats, |id| !is_slog(id)),
        slog: blocks(&stats, is_slog),
        failed_writes: stats.errors.saturating_sub(stats.flush_errors),
        failed_flushes: stats.flush_errors,
        latency: Counts::new(&stats.latency.counts),
        queue: Counts::new(&times.queue.counts),
        assemble: Counts::new(&times.assemble.counts),
        write: Counts::new(&times.write.counts),
        flush: Counts::new(&times.flush.counts),
        wake: Counts::new(&times.wake.counts),
    }
}

/// The blocks that went to these vdevs.
fn blocks(stats: &ZilStats, is_meant: impl Fn(VdevId) -> bool) -> LogBlocks {
    let mut sum = LogBlocks::default();
    for (_, home) in stats.homes.iter().filter(|(id, _)| is_meant(**id)) {
        sum += LogBlocks {
            count: home.blocks,
            used_bytes: home.used_bytes,
            written_bytes: home.bytes,
            allocated_bytes: home.allocated_bytes,
        };
    }
    sum
}
