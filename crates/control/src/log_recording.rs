//! A recording of commits, one by one: what each waited for. It tells why one was slow, and is a load that can be made
//! again elsewhere.

use crate::call::{Call, calls};
use crate::{Failure, FailureKind, LogFacts};
use serde::{Deserialize, Serialize};

calls! {
    /// Records the commits of a pool for a time, then answers. Not for every user: it costs memory, and commits a little.
    change PoolLogRecord at "/v1/pool/log-record" to "record" pool gives LogRecording {
        /// Pool.
        pool: String,
        /// How long, in nanoseconds.
        span_nanos: u64,
        /// So many commits are kept at most.
        commits_max: u64,
    }
}

/// Commits that are kept where nobody says how many.
pub const RECORDED_COMMITS: u64 = 100_000;

/// What was recorded. Times are nanoseconds since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogRecording {
    /// Pool.
    pub pool: String,
    /// When it began, in seconds since 1970.
    pub began_secs: u64,
    /// How long it was.
    pub span_nanos: u64,
    /// Commits that began in that time, in the order in which they returned.
    pub commits: Vec<CommitInfo>,
    /// Commits that are left out because there were more than were to be kept.
    pub left_out: u64,
    /// Writes of logs, in the order in which they ended.
    pub batches: Vec<BatchInfo>,
    /// Names of datasets, by what they are called on disk.
    pub datasets: Vec<(u64, String)>,
    /// The pool's counters as it began.
    pub before: LogFacts,
    /// And as it ended.
    pub after: LogFacts,
}

/// A commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommitInfo {
    /// Its dataset, as that is called on disk.
    pub objset: u64,
    /// The object that was to be stable; none for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<u64>,
    /// When it was asked for.
    pub began: u64,
    /// How long it took.
    pub took: u64,
    /// Records that it brought along.
    pub records: u64,
    /// Bytes that those write.
    pub bytes: u64,
    /// The batch that it waited for last: its own, or one that stands before it in the chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// The transaction group that it waited for, where the log could not do it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub txg: Option<u64>,
}

/// A write of a log: one block or several, written together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchInfo {
    /// Its dataset.
    pub objset: u64,
    /// Its number in that dataset's log.
    pub id: u64,
    /// When its first record was asked for; none where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub came: Option<u64>,
    /// When it was begun to be put together.
    pub begun: u64,
    /// When its blocks were sent off.
    pub sent: u64,
    /// When all of it was stable, or had failed.
    pub ended: u64,
    /// Records in it.
    pub records: u64,
    /// Batches of the same log that were under way as it was sent off.
    pub beside: u64,
    /// Its writes.
    pub writes: Vec<BatchIo>,
    /// Its flushes; none where each write was stable by itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flushes: Vec<BatchIo>,
}

/// A write or a flush of a top-level vdev.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchIo {
    /// Its number.
    pub vdev: u64,
    /// Bytes written; none of a flush.
    pub bytes: u64,
    /// How long it took.
    pub took: u64,
    /// It failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_failed: bool,
}
