//! What a pool has counted, as commands see it.

use crate::log_facts::nanos;
use crate::logs::{log_info, log_vdevs};
use crate::memory::Budget;
use crate::{Holder, info, vdevs};
use control::{
    AheadCounted, AheadHits, BusyInfo, BytesByKind, CacheCounted, CacheDevicesCounted, ChangesCounted,
    DatasetCounted, Failure, IoCounters, LogCounted, LookupsCounted, PoolCounted, PoolCounts, TrimsCounted,
    TxgCounted, TxgState, UsesCounted,
};
use dmu::{ChangeStats, UseCounts};
use pool::{
    AheadStats, BlockTraffic, CacheDeviceStats, CachedBytes, CountedDataset, CountedLog, DeviceTotals,
    Lookups, Pool, TxgRecord, TxgStage, cache_part, sweep::TrimCounts,
};
use units::VdevId;

impl Holder {
    /// What a pool has counted.
    pub(super) fn counts(&self, call: &PoolCounts) -> Result<PoolCounted, Failure> {
        let held = self.pool(&call.pool)?;
        Ok(counted(&held.pool, &self.memory))
    }
}

fn counted(pool: &Pool, memory: &Budget) -> PoolCounted {
    let is_slog = log_vdevs(pool);
    PoolCounted {
        name: pool.name(),
        guid: pool.guid().get(),
        health: Some(info::health(pool, &vdevs::root(pool))),
        now_nanos: nanos(pool.env().now()),
        io: io(pool.device_totals()),
        busy: busy(pool),
        cache: cache(pool, memory),
        cache_devices: cache_devices(pool),
        blocks: blocks(pool.zio().block_traffic()),
        trims: trims(pool.trim_counts().0),
        auto_trims: trims(pool.trim_counts().1),
        ahead: ahead(pool.zio().ahead_stats()),
        changes: changes(pool.txgs().change_stats()),
        txgs: pool.txg_records().iter().map(txg).collect(),
        datasets: pool.counted_datasets().into_iter().map(|one| dataset(one, &is_slog)).collect(),
    }
}

fn io(totals: DeviceTotals) -> IoCounters {
    let DeviceTotals { reads, read_bytes, writes, written_bytes } = totals;
    IoCounters { reads, writes, read_bytes, written_bytes }
}

fn blocks(traffic: BlockTraffic) -> IoCounters {
    let BlockTraffic { reads, read_bytes, writes, written_bytes } = traffic;
    IoCounters { reads, writes, read_bytes, written_bytes }
}

fn trims(counts: TrimCounts) -> TrimsCounted {
    let TrimCounts { discarded, skipped, failed } = counts;
    TrimsCounted {
        discarded: discarded.count,
        discarded_bytes: discarded.bytes,
        skipped: skipped.count,
        skipped_bytes: skipped.bytes,
        failed: failed.count,
        failed_bytes: failed.bytes,
    }
}

fn busy(pool: &Pool) -> BusyInfo {
    let mut busy = BusyInfo::default();
    for leaf in pool.vdevs().leaves() {
        let (reads, writes) = leaf.stats().reads_and_writes();
        busy.active_nanos += reads.nanos + writes.nanos;
        for queue in leaf.queue_now() {
            busy.waiting += queue.pending;
            busy.active += queue.active;
        }
    }
    busy
}

fn cache(pool: &Pool, memory: &Budget) -> CacheCounted {
    let stats = pool.zio().cache_stats();
    let census = stats.census;
    let limit = stats.limit_bytes;
    let bounds = pool.memory_bytes().map(|share| memory.bounds_of(share));
    let (least, most) = bounds.map_or((limit, limit), |(least, most)| (cache_part(least), cache_part(most)));
    let mut small = census.small;
    small += census.cold;
    let hits = |reads, hits, joined| AheadHits { reads, hits, joined };
    CacheCounted {
        data: lookups(stats.data),
        metadata: lookups(stats.metadata),
        data_ahead: lookups(stats.data_ahead),
        metadata_ahead: lookups(stats.metadata_ahead),
        predicted: hits(stats.predicted, census.predicted_hits, stats.predicted_joined),
        planned: hits(stats.planned, census.planned_hits, stats.planned_joined),
        small_hits: census.small_hits,
        main_hits: census.main_hits,
        ghost_hits: census.ghost_hits,
        evicted: census.evicted,
        evicted_small_bytes: census.evicted_small_bytes,
        evicted_main_bytes: census.evicted_main_bytes,
        evicted_barred_bytes: census.evicted_barred_bytes,
        blocks: census.blocks,
        blocks_most: stats.blocks_most,
        bytes: stats.bytes,
        beside_bytes: stats.beside_bytes,
        limit_bytes: limit,
        small_limit_bytes: stats.small_limit_bytes,
        limit_most_bytes: most.max(limit),
        limit_least_bytes: least.min(limit),
        small: by_kind(small),
        main: by_kind(census.main),
        ghosts: by_kind(census.ghosts),
        stored_bytes: census.stored_bytes,
        logical_bytes: census.logical_bytes,
        unpacked_bytes: census.unpacked_bytes,
        object_bytes: pool.object_bytes(),
    }
}

fn lookups(lookups: Lookups) -> LookupsCounted {
    let Lookups { hits, joined, misses } = lookups;
    LookupsCounted { hits, joined, misses }
}

fn by_kind(bytes: CachedBytes) -> BytesByKind {
    BytesByKind { data: bytes.data, metadata: bytes.metadata }
}

fn cache_devices(pool: &Pool) -> Option<CacheDevicesCounted> {
    if !pool.zio().second().has_devices() {
        return None;
    }
    let CacheDeviceStats {
        hits,
        misses,
        wrong_bytes: wrong_blocks,
        failed_reads,
        read_bytes,
        written_bytes,
        offered_again_bytes,
        rebuilt: rebuilt_blocks,
        bytes,
        memory_bytes,
        ..
    } = pool.cache_device_stats();
    Some(CacheDevicesCounted {
        hits,
        misses,
        read_bytes,
        written_bytes,
        wrong_blocks,
        failed_reads,
        bytes,
        memory_bytes,
        rebuilt_blocks,
        offered_again_bytes,
    })
}

fn ahead(stats: AheadStats) -> AheadCounted {
    let AheadStats { streams_continued, streams_begun, issued, active } = stats;
    AheadCounted { streams_continued, streams_begun, issued, active }
}

fn changes(stats: ChangeStats) -> ChangesCounted {
    let ChangeStats { joined, suspended, delayed, over_limit, frees_delayed, over_quota } = stats;
    ChangesCounted { joined, suspended, delayed, over_limit, frees_delayed, over_quota }
}

fn txg(record: &TxgRecord) -> TxgCounted {
    TxgCounted {
        txg: record.txg.get(),
        state: match record.stage {
            TxgStage::Open => TxgState::Open,
            TxgStage::Quiescing => TxgState::Quiescing,
            TxgStage::Syncing => TxgState::Syncing,
            TxgStage::Committed => TxgState::Committed,
        },
        birth_nanos: nanos(record.birth),
        dirty_bytes: record.dirty_bytes,
        io: io(record.devices),
        open_nanos: nanos(record.open),
        quiesce_nanos: nanos(record.quiesce),
        sync_nanos: nanos(record.sync),
    }
}

fn dataset(one: CountedDataset, is_slog: &dyn Fn(VdevId) -> bool) -> DatasetCounted {
    let CountedDataset { objset, name, uses, log } = one;
    let UseCounts { reads, read_bytes, writes, written_bytes, unlinks, unlinked } = uses;
    let log = log.map(|stats| log_info(CountedLog { objset, name: String::new(), stats }, is_slog));
    DatasetCounted {
        name,
        objset: objset.get(),
        uses: UsesCounted { reads, read_bytes, writes, written_bytes, unlinks, unlinked },
        log: log.as_ref().map(LogCounted::from).unwrap_or_default(),
    }
}
