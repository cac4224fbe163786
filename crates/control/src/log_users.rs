//! Who uses the intent logs of a pool: its datasets, and the programs that ask for their writes to be stable.

use crate::call::{Call, calls};
use serde::{Deserialize, Serialize};

calls! {
    /// Who uses the intent logs of a pool.
    show PoolLogUsers at "/v1/pool/log-users" gives LogUsers {
        /// Pool.
        pool: String,
    }
}

/// Datasets that are told of at most.
pub const LOG_DATASETS_MAX: usize = 1_000;

/// Who uses the intent logs of a pool. All counters only grow while what they count is open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogUsers {
    /// Datasets with commits since they were opened, those with the most first: [`LOG_DATASETS_MAX`] at most.
    pub datasets: Vec<LogDatasetInfo>,
    /// Datasets with commits that are left out.
    pub datasets_left_out: u64,
    /// Threads that asked for something to be stable through mounts: those that each mount remembers.
    pub threads: Vec<LogThreadInfo>,
}

/// What a dataset had its log do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogDatasetInfo {
    /// Its name now.
    pub name: String,
    /// What it is called by on disk, whatever its name.
    pub objset: u64,
    /// Commits that had something to make stable, or found that somebody else had done it.
    pub commits: u64,
    /// Of those, what found everything stable when it came.
    pub commits_empty: u64,
    /// Data of writes that were made stable, in bytes.
    pub data_bytes: u64,
    /// Bytes of log blocks as they were written.
    pub written_bytes: u64,
    /// How long commits took, by powers of two of nanoseconds as in [`crate::LogFacts`].
    pub latency: Vec<u64>,
}

/// A thread that asked for something to be stable: by fsync(2) and its like, or by a write to a file that was opened
/// with `O_SYNC` or `O_DSYNC`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogThreadInfo {
    /// The dataset that is mounted there.
    pub dataset: String,
    /// Its number, as the system calls it.
    pub thread: u64,
    /// The process that it is of; its own number where it was gone before anybody looked.
    pub process: u64,
    /// That process's command; none where it was gone before anybody looked.
    pub command: Option<String>,
    /// How often it asked since the mount remembers it.
    pub syncs: u64,
    /// How long it waited for that in all, in nanoseconds.
    pub nanos: u64,
}
