//! What the intent log of each dataset had to do: the figures of `zilstat`.

use std::ops::AddAssign;

use crate::Counts;
use crate::call::{Call, calls};
use serde::{Deserialize, Serialize};

calls! {
    /// What the intent logs of datasets had to do, those of datasets that were in use since the import; in order of
    /// their names.
    show DatasetLogs at "/v1/dataset/logs" gives Vec<LogInfo> {
        /// Only this pool's; else all pools'.
        pool: Option<String>,
    }
}

/// Records of writes, and their data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogWrites {
    /// How many.
    pub records: u64,
    /// Data, in bytes.
    pub bytes: u64,
}

/// Log blocks that were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogBlocks {
    /// How many.
    pub count: u64,
    /// Bytes of records, and of what ties blocks together.
    pub used_bytes: u64,
    /// Bytes written: those, and padding.
    pub written_bytes: u64,
    /// Bytes allocated.
    pub allocated_bytes: u64,
}

/// What one intent log had to do since its dataset was opened. Times are counted by powers of two of nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogInfo {
    /// Dataset, by its full name.
    pub dataset: String,
    /// Number of its objset.
    pub objset: u64,
    /// Commits.
    pub commits: u64,
    /// Of those, what found everything stable.
    pub commits_empty: u64,
    /// Writes to the log, each of one or more blocks: less than commits where commits merge.
    pub writes: u64,
    /// Commits that had to wait for a txg.
    pub fallbacks: u64,
    /// Times a block found no room.
    pub no_space: u64,
    /// Records written.
    pub records: u64,
    /// Records of writes with data that were there when they were logged.
    pub copied: LogWrites,
    /// Records of writes with data that were fetched when somebody asked.
    pub needcopy: LogWrites,
    /// Records of writes whose data lie beside the log.
    pub indirect: LogWrites,
    /// Blocks in the main pool.
    pub normal: LogBlocks,
    /// Blocks on log devices.
    pub slog: LogBlocks,
    /// Writes of log blocks that failed.
    pub failed_writes: u64,
    /// Flushes that failed.
    pub failed_flushes: u64,
    /// How long commits took, from call to return.
    pub latency: Counts,
    /// From the commit until a write of the log takes its first record.
    pub queue: Counts,
    /// How long it took to lay out what a write has.
    pub assemble: Counts,
    /// How long writes were at the devices.
    pub write: Counts,
    /// How long flushes after them took.
    pub flush: Counts,
    /// From a write's end until the commit goes on.
    pub wake: Counts,
}

/// Has a function of all counters be written once: what `since` and addition do to each.
macro_rules! each_counter {
    ($do:ident, $a:expr, $b:expr) => {
        $do!($a, $b; commits, commits_empty, writes, fallbacks, no_space, records, copied.records, copied.bytes,
            needcopy.records, needcopy.bytes, indirect.records, indirect.bytes, normal.count, normal.used_bytes,
            normal.written_bytes, normal.allocated_bytes, slog.count, slog.used_bytes, slog.written_bytes,
            slog.allocated_bytes, failed_writes, failed_flushes);
    };
}

macro_rules! subtract {
    ($a:expr, $b:expr; $($first:ident $(. $second:ident)?),*) => {
        $($a.$first $(.$second)? = $a.$first $(.$second)?.saturating_sub($b.$first $(.$second)?);)*
    };
}

macro_rules! add {
    ($a:expr, $b:expr; $($first:ident $(. $second:ident)?),*) => {
        $($a.$first $(.$second)? += $b.$first $(.$second)?;)*
    };
}

impl LogInfo {
    /// What was added since `earlier`; counters that went back are none.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut added = self.clone();
        each_counter!(subtract, added, earlier);
        let times = added.times_mut().into_iter().zip(earlier.times());
        times.for_each(|(now, before)| *now = now.since(before));
        added
    }

    fn times(&self) -> [&Counts; 6] {
        [&self.latency, &self.queue, &self.assemble, &self.write, &self.flush, &self.wake]
    }

    fn times_mut(&mut self) -> [&mut Counts; 6] {
        let Self { latency, queue, assemble, write, flush, wake, .. } = self;
        [latency, queue, assemble, write, flush, wake]
    }
}

/// Of several logs together; it keeps its name.
impl AddAssign<&Self> for LogInfo {
    fn add_assign(&mut self, other: &Self) {
        each_counter!(add, self, other);
        self.times_mut().into_iter().zip(other.times()).for_each(|(sum, more)| *sum += more);
    }
}

impl AddAssign for LogBlocks {
    fn add_assign(&mut self, other: Self) {
        add!(self, other; count, used_bytes, written_bytes, allocated_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_added_and_what_is_new_is_told_of_every_counter() {
        let writes = |n: u64| LogWrites { records: n, bytes: 100 * n };
        let blocks = |n: u64| LogBlocks {
            count: n,
            used_bytes: 10 * n,
            written_bytes: 20 * n,
            allocated_bytes: 30 * n,
        };
        let log = |n: u64| LogInfo {
            dataset: "tank".into(),
            objset: 54,
            commits: n,
            commits_empty: 2 * n,
            writes: 3 * n,
            fallbacks: 4 * n,
            no_space: 5 * n,
            records: 6 * n,
            copied: writes(n),
            needcopy: writes(2 * n),
            indirect: writes(3 * n),
            normal: blocks(n),
            slog: blocks(2 * n),
            failed_writes: 7 * n,
            failed_flushes: 8 * n,
            latency: Counts(vec![n, 2 * n]),
            queue: Counts(vec![2 * n]),
            assemble: Counts(vec![3 * n]),
            write: Counts(vec![4 * n]),
            flush: Counts(vec![5 * n]),
            wake: Counts(vec![6 * n]),
        };
        let mut sum = log(3);
        sum += &log(4);
        assert_eq!(sum, log(7));
        assert_eq!(log(9).since(&log(2)), log(7));
        assert_eq!(log(2).since(&log(9)).commits, 0, "a log that began anew");
    }
}
