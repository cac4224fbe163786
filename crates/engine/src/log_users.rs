//! Who uses a pool's intent logs.

use crate::front::SyncingThread;
use crate::log_facts::counts;
use crate::{Holder, names};
use control::{Failure, LOG_DATASETS_MAX, LogDatasetInfo, LogThreadInfo, LogUsers, PoolLogUsers};
use pool::CountedLog;

impl Holder {
    /// Datasets and threads that use the logs of a pool.
    pub(super) fn log_users(&self, call: &PoolLogUsers) -> Result<LogUsers, Failure> {
        let held = self.pool(&call.pool)?;
        let mut all = held.pool.dataset_logs();
        all.retain(|one| one.stats.commits > 0);
        all.sort_by(|a, b| b.stats.commits.cmp(&a.stats.commits).then(a.objset.cmp(&b.objset)));
        let datasets_left_out = all.len().saturating_sub(LOG_DATASETS_MAX) as u64;
        let datasets = all.into_iter().take(LOG_DATASETS_MAX).map(dataset_info).collect();
        Ok(LogUsers { datasets, datasets_left_out, threads: self.syncing_threads(&call.pool) })
    }

    fn syncing_threads(&self, pool: &str) -> Vec<LogThreadInfo> {
        let mounted =
            self.mounts.entries().into_iter().filter(|entry| names::pool_of(&entry.dataset()) == pool);
        let of_mount = mounted.flat_map(|entry| {
            let (dataset, threads) = (entry.dataset(), entry.syncing_threads().into_iter());
            threads.map(|thread| thread_info(&dataset, thread)).collect::<Vec<_>>()
        });
        of_mount.collect()
    }
}

fn dataset_info(one: CountedLog) -> LogDatasetInfo {
    let CountedLog { objset, name, stats } = one;
    LogDatasetInfo {
        name,
        objset: objset.get(),
        commits: stats.commits,
        commits_empty: stats.commits_empty,
        data_bytes: stats.copied_bytes + stats.fetched_bytes + stats.indirect_bytes,
        written_bytes: stats.written_bytes,
        latency: counts(&stats.latency),
    }
}

fn thread_info(dataset: &str, one: SyncingThread) -> LogThreadInfo {
    let SyncingThread { thread, process, command, syncs, waited } = one;
    LogThreadInfo {
        dataset: dataset.to_owned(),
        thread: thread.into(),
        process: process.into(),
        command,
        syncs,
        nanos: u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX),
    }
}
