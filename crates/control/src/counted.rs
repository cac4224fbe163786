//! What a pool has counted since it was opened, beside the times of its logs and queues: what kstat
//! files are made of.
//!
//! One request brings all of it, so that it can be asked for often. Of counters that are zero nothing
//! is sent.

use crate::call::{Call, calls};
use crate::{IoCounters, LogBlocks, LogInfo, LogWrites, PoolHealth};
use serde::{Deserialize, Serialize};

calls! {
    /// What a pool has counted.
    show PoolCounts at "/v1/pool/counted" gives PoolCounted {
        /// Pool.
        pool: String,
    }
}

/// What a pool has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolCounted {
    /// Its name.
    pub name: String,
    /// Its lasting name.
    pub guid: u64,
    /// Health of the whole; none of a pool that no answer is known of.
    pub health: Option<PoolHealth>,
    /// The pool's clock now, in nanoseconds.
    pub now_nanos: u64,
    /// What its devices did; cache devices left out.
    pub io: IoCounters,
    /// The same in time.
    pub busy: BusyInfo,
    /// Its cache in memory.
    pub cache: CacheCounted,
    /// Its cache devices; none where it has none.
    pub cache_devices: Option<CacheDevicesCounted>,
    /// Blocks that passed between its cache and its devices; scrubs and logs are left out. A block counts once, with
    /// its bytes as they are stored.
    pub blocks: IoCounters,
    /// What `zpool trim` came to.
    pub trims: TrimsCounted,
    /// What `autotrim` came to.
    pub auto_trims: TrimsCounted,
    /// What was read ahead.
    pub ahead: AheadCounted,
    /// What changes had to wait for.
    pub changes: ChangesCounted,
    /// The last txgs, oldest first.
    pub txgs: Vec<TxgCounted>,
    /// Datasets that are open, snapshots left out.
    pub datasets: Vec<DatasetCounted>,
}

/// Runs of free bytes that were to be discarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrimsCounted {
    /// Runs that were discarded.
    pub discarded: u64,
    /// Their bytes.
    pub discarded_bytes: u64,
    /// Runs that were too small.
    pub skipped: u64,
    /// Their bytes.
    pub skipped_bytes: u64,
    /// Runs that a device failed to discard.
    pub failed: u64,
    /// Their bytes.
    pub failed_bytes: u64,
}

/// What a pool's devices are at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BusyInfo {
    /// Requests that wait for a place at a device now.
    pub waiting: u64,
    /// Requests that devices have now.
    pub active: u64,
    /// The sum of what reads and writes took, in nanoseconds.
    pub active_nanos: u64,
}

/// What came of looking for blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LookupsCounted {
    /// Blocks that were in memory.
    pub hits: u64,
    /// Blocks that were being read already, and were waited for.
    pub joined: u64,
    /// Blocks that had to be read.
    pub misses: u64,
}

/// Bytes of blocks, by what the blocks hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BytesByKind {
    /// File data.
    pub data: u64,
    /// All else.
    pub metadata: u64,
}

/// Why blocks are read ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AheadHits {
    /// Blocks that were read ahead.
    pub reads: u64,
    /// Of those, blocks that were used then.
    pub hits: u64,
    /// Of those, blocks that were waited for while they were read.
    pub joined: u64,
}

/// What a pool's cache did, and what it holds, in bytes unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheCounted {
    /// Lookups of file data.
    pub data: LookupsCounted,
    /// Lookups of all else.
    pub metadata: LookupsCounted,
    /// Lookups of file data by whoever reads ahead.
    pub data_ahead: LookupsCounted,
    /// Lookups of all else by whoever reads ahead.
    pub metadata_ahead: LookupsCounted,
    /// What was read ahead of readers.
    pub predicted: AheadHits,
    /// What was read ahead of walks.
    pub planned: AheadHits,
    /// Hits on blocks that were used once or not at all before.
    pub small_hits: u64,
    /// Hits on blocks that were used again before.
    pub main_hits: u64,
    /// Blocks that came back while they were remembered.
    pub ghost_hits: u64,
    /// Blocks that had to leave.
    pub evicted: u64,
    /// Bytes of those that had been used once or not at all and that a cache device may have.
    pub evicted_small_bytes: u64,
    /// Bytes of those that had been used again and that a cache device may have.
    pub evicted_main_bytes: u64,
    /// Bytes of those that no cache device may have.
    pub evicted_barred_bytes: u64,
    /// Blocks there now.
    pub blocks: u64,
    /// Most blocks there at a time.
    pub blocks_most: u64,
    /// All memory of the cache.
    pub bytes: u64,
    /// What lies beside the blocks: keys, queues.
    pub beside_bytes: u64,
    /// As much as there may be now.
    pub limit_bytes: u64,
    /// Of that, as much as blocks may have that were used once or not at all.
    pub small_limit_bytes: u64,
    /// As much as there may be when memory is not short.
    pub limit_most_bytes: u64,
    /// As little as there may be when memory is short.
    pub limit_least_bytes: u64,
    /// Blocks that were used once or not at all, and those that are there only as they are stored.
    pub small: BytesByKind,
    /// Blocks that were used again.
    pub main: BytesByKind,
    /// What the blocks took that are gone and remembered.
    pub ghosts: BytesByKind,
    /// Blocks as they are stored.
    pub stored_bytes: u64,
    /// The same blocks unpacked.
    pub logical_bytes: u64,
    /// Unpacked forms beside the stored ones.
    pub unpacked_bytes: u64,
    /// Objects in memory, which are not part of the cache.
    pub object_bytes: u64,
}

/// What a pool's cache devices did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheDevicesCounted {
    /// Blocks that were read from one.
    pub hits: u64,
    /// Blocks that were looked for and are on none.
    pub misses: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Blocks that were not what had been written.
    pub wrong_blocks: u64,
    /// Reads that failed or took too long.
    pub failed_reads: u64,
    /// Bytes of blocks there, as they are stored.
    pub bytes: u64,
    /// Memory that it takes to know where they are, in bytes.
    pub memory_bytes: u64,
    /// Blocks that were found on devices when they were opened.
    pub rebuilt_blocks: u64,
    /// Bytes of blocks that left memory and that a device had already.
    pub offered_again_bytes: u64,
}

/// What was read ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AheadCounted {
    /// Reads that went on where one before had ended.
    pub streams_continued: u64,
    /// Reads that continued no known stream.
    pub streams_begun: u64,
    /// Blocks read ahead.
    pub issued: u64,
    /// Blocks that are being read ahead now.
    pub active: u64,
}

/// What changes had to wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangesCounted {
    /// Changes that joined a txg.
    pub joined: u64,
    /// Changes that found the pool suspended.
    pub suspended: u64,
    /// Changes that were slowed down because much was dirty.
    pub delayed: u64,
    /// Changes that waited because as much was dirty as may be.
    pub over_limit: u64,
    /// Changes that waited because the open txg lets many blocks go.
    pub frees_delayed: u64,
    /// Changes that a quota does not allow.
    pub over_quota: u64,
}

/// How far a txg is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TxgState {
    /// New changes join it.
    #[default]
    Open,
    /// Changes that are in it come to their end.
    Quiescing,
    /// It is being written.
    Syncing,
    /// It is stable.
    Committed,
}

/// One txg. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TxgCounted {
    /// Which.
    pub txg: u64,
    /// How far it is.
    pub state: TxgState,
    /// When changes could join it first, by the pool's clock.
    pub birth_nanos: u64,
    /// Bytes that were dirty when its last change had ended.
    pub dirty_bytes: u64,
    /// What the devices did while it was written.
    pub io: IoCounters,
    /// How long changes could join it.
    pub open_nanos: u64,
    /// How long its last changes took to end.
    pub quiesce_nanos: u64,
    /// How long it was written.
    pub sync_nanos: u64,
}

/// What was counted of a dataset since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DatasetCounted {
    /// Its full name.
    pub name: String,
    /// Its objset.
    pub objset: u64,
    /// What clients did; none if they did nothing.
    #[serde(skip_serializing_if = "is_none_of")]
    pub uses: UsesCounted,
    /// What its log had to do; none if it had to do nothing.
    #[serde(skip_serializing_if = "is_none_of")]
    pub log: LogCounted,
}

fn is_none_of<T: Default + PartialEq>(counters: &T) -> bool {
    *counters == T::default()
}

/// What clients did to a dataset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsesCounted {
    /// Reads.
    pub reads: u64,
    /// Bytes of those.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of those.
    pub written_bytes: u64,
    /// Files that lost their last name and were to be freed later.
    pub unlinks: u64,
    /// Of those, files that have been freed.
    pub unlinked: u64,
}

/// What an intent log had to do: [`crate::LogInfo`] without times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogCounted {
    /// Commits.
    pub commits: u64,
    /// Writes to the log.
    pub writes: u64,
    /// Commits that had to wait for a txg.
    pub fallbacks: u64,
    /// Times a block found no room.
    pub no_space: u64,
    /// Records written.
    pub records: u64,
    /// Records of writes whose data lie beside the log.
    pub indirect: LogWrites,
    /// Records of writes with data that were there when they were logged.
    pub copied: LogWrites,
    /// Records of writes with data that were fetched when somebody asked.
    pub needcopy: LogWrites,
    /// Blocks in the main pool.
    pub normal: LogBlocks,
    /// Blocks on log devices.
    pub slog: LogBlocks,
}

impl From<&LogInfo> for LogCounted {
    fn from(log: &LogInfo) -> Self {
        Self {
            commits: log.commits,
            writes: log.writes,
            fallbacks: log.fallbacks,
            no_space: log.no_space,
            records: log.records,
            indirect: log.indirect,
            copied: log.copied,
            needcopy: log.needcopy,
            normal: log.normal,
            slog: log.slog,
        }
    }
}
