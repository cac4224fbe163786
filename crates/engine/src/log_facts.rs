//! What a pool's intent logs had to do, and what its devices are.

use crate::{Holder, storage, vdevs};
use control::{
    Failure, LeafOps, LogFacts, LogLeafInfo, LogPeakInfo, LogVdevInfo, PoolLogFacts, TxgLogInfo, VdevClass,
    VdevInfo,
};
use env::Machine;
use pool::{LIVE_TXGS, LogLoadReport, LogPeak, Pool, TxgLog};
use std::path::Path;
use std::time::Duration;
use units::{Latencies, VdevId};
use vdev::{IoTotals, Leaf};

impl Holder {
    /// What the logs of a pool had to do.
    pub(super) fn log_facts(&self, call: &PoolLogFacts) -> Result<LogFacts, Failure> {
        let held = self.pool(&call.pool)?;
        Ok(facts(&*self.machine, &held.pool))
    }
}

fn facts(machine: &dyn Machine, pool: &Pool) -> LogFacts {
    let load = pool.log_load();
    let root = vdevs::root(pool);
    let is_meant = |top: &&VdevInfo| matches!(top.class, VdevClass::Normal | VdevClass::Log);
    let tops = root.shown_children().filter(is_meant);
    let vdevs = tops.map(|top| vdev_info(machine, pool, &load, top)).collect();
    let stats = &load.stats;
    LogFacts {
        open_nanos: nanos(pool.open_for()),
        txg_timeout_nanos: nanos(load.txg_timeout),
        commits: stats.commits,
        commits_empty: stats.commits_empty,
        batches: stats.batches,
        records: stats.itxs,
        data_bytes: stats.copied_bytes + stats.fetched_bytes,
        beside_bytes: stats.indirect_bytes,
        record_bytes: stats.record_bytes,
        written_bytes: stats.written_bytes,
        allocated_bytes: stats.allocated_bytes,
        errors: stats.errors,
        fallbacks: stats.fallbacks,
        latency: counts(&stats.latency),
        queue: counts(&stats.stages.queue),
        assemble: counts(&stats.stages.assemble),
        write: counts(&stats.stages.write),
        flush: counts(&stats.stages.flush),
        wake: counts(&stats.stages.wake),
        parts_nanos: stats.parts.each().map(nanos).to_vec(),
        block_sizes: stats.block_sizes.to_vec(),
        live_txgs: LIVE_TXGS,
        share_percent: load.share_percent,
        txgs: load.txgs.iter().map(txg_info).collect(),
        open: txg_info(&load.open),
        peak: peak_info(&load.peak),
        hour: peak_info(&load.hour),
        hurried_txgs: load.hurried_txgs,
        blocks_past_logs: load.blocks_past_logs,
        vdevs,
    }
}

fn txg_info(log: &TxgLog) -> TxgLogInfo {
    let TxgLog { txg, at, bytes, held_bytes } = *log;
    TxgLogInfo { txg: txg.get(), at_nanos: nanos(at), bytes, held_bytes }
}

fn peak_info(peak: &LogPeak) -> LogPeakInfo {
    let LogPeak { txg_bytes, live_bytes, held_bytes } = *peak;
    LogPeakInfo { txg_bytes, live_bytes, held_bytes }
}

fn vdev_info(machine: &dyn Machine, pool: &Pool, load: &LogLoadReport, top: &VdevInfo) -> LogVdevInfo {
    let id = VdevId::new(u32::try_from(top.id).unwrap_or(u32::MAX));
    let home = load.stats.homes.get(&id).copied().unwrap_or_default();
    let space = pool.zio().with_allocator(|allocator| allocator.vdev_space(id));
    let leaves = pool.vdevs().leaves();
    let leaves = top.leaves().filter_map(|info| {
        let leaf = leaves.iter().find(|leaf| leaf.guid().get() == info.guid)?;
        Some(leaf_info(machine, leaf, info))
    });
    LogVdevInfo {
        id: top.id,
        class: top.class,
        kind: top.kind,
        state: top.state,
        space_bytes: top.stats.space_bytes,
        held_bytes: space.map_or(0, |figures| figures.taken().get()),
        blocks: home.blocks,
        block_bytes: home.bytes,
        writes: counts(&home.writes),
        flushes: counts(&home.flushes),
        leaves: leaves.collect(),
    }
}

fn leaf_info(machine: &dyn Machine, leaf: &Leaf, info: &VdevInfo) -> LogLeafInfo {
    let stats = leaf.stats().snapshot();
    let path = info.path.clone().unwrap_or_default();
    LogLeafInfo {
        guid: info.guid,
        kind: info.kind,
        state: info.state,
        size_bytes: info.stats.physical_bytes,
        reads: ops(&stats.read),
        writes: ops(&stats.write),
        flushes: ops(&stats.flush),
        flush_times: counts(&stats.flush_times),
        storage: storage::below(machine, Path::new(&path)),
        path,
    }
}

fn ops(totals: &IoTotals) -> LeafOps {
    LeafOps { ops: totals.ops, bytes: totals.bytes, nanos: totals.nanos }
}

pub(super) fn counts(latencies: &Latencies) -> Vec<u64> {
    latencies.counts.to_vec()
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
