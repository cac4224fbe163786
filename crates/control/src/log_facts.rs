//! What a pool's intent logs had to do since it was opened, and what its devices are: what advice about log
//! devices is made of.

use crate::call::{Call, calls};
use crate::{VdevClass, VdevKind, VdevState};
use serde::{Deserialize, Serialize};

calls! {
    /// What the intent logs of a pool had to do.
    show PoolLogFacts at "/v1/pool/log-facts" gives LogFacts {
        /// Pool.
        pool: String,
    }
}

/// What is known of a pool's intent logs since it was opened. Counts of times are by powers of two of
/// nanoseconds: number `i` counts times below 2^i ns that are not in number `i - 1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogFacts {
    /// How long the pool has been open, in nanoseconds.
    pub open_nanos: u64,
    /// After so long at the latest a txg is synced, in nanoseconds.
    pub txg_timeout_nanos: u64,
    /// Commits that had something to make stable, or found that somebody else had done it.
    pub commits: u64,
    /// Of those, what found everything stable when it came.
    pub commits_empty: u64,
    /// Writes to logs, each of one or more blocks; fewer than commits where commits merge.
    pub batches: u64,
    /// Records written.
    pub records: u64,
    /// Data of writes in those, in bytes.
    pub data_bytes: u64,
    /// Data of writes that lie beside the log, because there was no log device to take them.
    pub beside_bytes: u64,
    /// Bytes of records: data, and what they begin with.
    pub record_bytes: u64,
    /// Bytes of blocks as they were written: records, what ties blocks together, padding.
    pub written_bytes: u64,
    /// Bytes allocated to those blocks.
    pub allocated_bytes: u64,
    /// Failed writes and flushes.
    pub errors: u64,
    /// Commits that had to wait for a txg.
    pub fallbacks: u64,
    /// How long commits took, from call to return.
    pub latency: Vec<u64>,
    /// How long commits waited until a write of the log took their first record.
    pub queue: Vec<u64>,
    /// How long it took to lay out what a write of the log has.
    pub assemble: Vec<u64>,
    /// How long it took from there until the last of its blocks was written.
    pub write: Vec<u64>,
    /// How long it took from there until the flushes after it had ended; none where each write is stable by itself.
    pub flush: Vec<u64>,
    /// How long it took from a write's end until the commits that it answers went on.
    pub wake: Vec<u64>,
    /// What commits waited for, in nanoseconds added up over all of them: until a write of the log was begun, until it was
    /// sent off, until it was written, until it was flushed, until the commit went on; and all of commits that no write
    /// of the log ended. They add up to the time of all commits.
    pub parts_nanos: Vec<u64>,
    /// How often how many bytes were written as one block: number `i` counts blocks of (i + 1) * 4 KiB.
    pub block_sizes: Vec<u64>,
    /// So many txgs have log blocks at a time.
    pub live_txgs: u64,
    /// A txg is synced early once its log blocks have taken so much of the room for them, in percent.
    pub share_percent: u64,
    /// The last txgs whose sync has begun, oldest first.
    pub txgs: Vec<TxgLogInfo>,
    /// The open one, as far as it is.
    pub open: TxgLogInfo,
    /// The most since the pool was opened.
    pub peak: LogPeakInfo,
    /// The most in the last hour.
    pub hour: LogPeakInfo,
    /// Txgs that were synced early because their log blocks had taken their share.
    pub hurried_txgs: u64,
    /// Log blocks that went to the main pool though there are log vdevs.
    pub blocks_past_logs: u64,
    /// Data and log vdevs, in order of their ids.
    pub vdevs: Vec<LogVdevInfo>,
}

/// What one txg left in the logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TxgLogInfo {
    /// Which.
    pub txg: u64,
    /// When its sync began, in nanoseconds of the daemon's clock.
    pub at_nanos: u64,
    /// Bytes that a log device holds of it, or would.
    pub bytes: u64,
    /// What was taken of the log vdevs then, in bytes.
    pub held_bytes: u64,
}

/// The most there was, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogPeakInfo {
    /// Of one txg.
    pub txg_bytes: u64,
    /// Of as many txgs, one after another, as have log blocks at a time.
    pub live_bytes: u64,
    /// Taken of the log vdevs.
    pub held_bytes: u64,
}

/// A top-level vdev, and what it had to do with logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogVdevInfo {
    /// Its number.
    pub id: u64,
    /// What it is used for.
    pub class: VdevClass,
    /// What it is made of.
    pub kind: VdevKind,
    /// State.
    pub state: VdevState,
    /// Allocatable space, in bytes.
    pub space_bytes: u64,
    /// What is taken of that now, what rests after a free included, in bytes.
    #[serde(default)]
    pub held_bytes: u64,
    /// Log blocks written to it.
    pub blocks: u64,
    /// Bytes of those.
    pub block_bytes: u64,
    /// How long writes of log blocks took.
    pub writes: Vec<u64>,
    /// How long flushes after them took.
    pub flushes: Vec<u64>,
    /// Its devices.
    pub leaves: Vec<LogLeafInfo>,
}

/// Operations of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeafOps {
    /// How many.
    pub ops: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// The sum of what each took, in nanoseconds.
    pub nanos: u64,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLeafInfo {
    /// Its lasting name.
    pub guid: u64,
    /// Where it was last seen.
    pub path: String,
    /// File or disk.
    pub kind: VdevKind,
    /// State.
    pub state: VdevState,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Reads since it was opened.
    pub reads: LeafOps,
    /// Writes, labels included.
    pub writes: LeafOps,
    /// Flushes.
    pub flushes: LeafOps,
    /// How long those took.
    pub flush_times: Vec<u64>,
    /// What is below it.
    pub storage: StorageInfo,
}

/// What a device or a file lies on, as far as the system tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StorageInfo {
    /// Of a file: the kind of file system that it is in.
    pub file_system: Option<String>,
    /// The disks below; none where that cannot be told.
    pub disks: Vec<DiskInfo>,
}

/// A disk as the system describes it; `None` where it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskInfo {
    /// Its name in `/dev`.
    pub name: String,
    /// Model.
    pub model: Option<String>,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// Whether it turns.
    pub is_rotational: Option<bool>,
    /// Whether it has a write cache that forgets at a power cut.
    pub has_volatile_cache: Option<bool>,
    /// It is made up by a hypervisor: what that does with a flush cannot be seen from here.
    pub is_virtual: bool,
}
