//! Counters of one log: what commits cost and where the bytes went.
//!
//! Relaxed atomics, bumped in passing; a snapshot is not one instant, but each figure is exact.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use units::{Histogram, Latencies, VdevId};

use crate::commit::batch::{FilledBlock, Writes};

/// Buckets of block size, 4 KiB apart: bucket `i` counts blocks of (i + 1) * 4 KiB written.
pub const SIZE_BUCKETS: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub commits: AtomicU64,
    pub commits_empty: AtomicU64,
    pub batches: AtomicU64,
    pub itxs: AtomicU64,
    pub itxs_assigned: AtomicU64,
    pub copied: WriteStats,
    pub fetched: WriteStats,
    pub indirect: WriteStats,
    pub placed_bytes: AtomicU64,
    pub record_bytes: AtomicU64,
    pub written_bytes: AtomicU64,
    pub allocated_bytes: AtomicU64,
    pub errors: AtomicU64,
    pub flush_errors: AtomicU64,
    pub no_space: AtomicU64,
    pub chains: AtomicU64,
    pub fallbacks: AtomicU64,
    pub replayed: AtomicU64,
    sizes: [AtomicU64; SIZE_BUCKETS],
    pub latency: Histogram,
    pub queue: Histogram,
    pub assemble: Histogram,
    pub write: Histogram,
    pub flush: Histogram,
    pub wake: Histogram,
    pub parts: PartCounters,
    homes: Mutex<BTreeMap<VdevId, HomeStats>>,
}

/// Counters of [`CommitParts`].
#[derive(Debug, Default)]
pub(crate) struct PartCounters([AtomicU64; CommitParts::COUNT]);

impl PartCounters {
    /// A commit took so long in each part.
    pub fn add(&self, parts: &CommitParts) {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.iter().zip(parts.each()).for_each(|(counter, time)| bump(counter, nanos(time)));
    }

    fn snapshot(&self) -> CommitParts {
        let [queue, assemble, write, flush, wake, rest] =
            self.0.each_ref().map(|counter| Duration::from_nanos(counter.load(Relaxed)));
        CommitParts { queue, assemble, write, flush, wake, rest }
    }
}

/// Records of writes of one kind, and their data.
#[derive(Debug, Default)]
pub(crate) struct WriteStats {
    records: AtomicU64,
    bytes: AtomicU64,
}

impl WriteStats {
    pub fn add(&self, writes: Writes) {
        bump(&self.records, writes.records);
        bump(&self.bytes, writes.bytes);
    }
}

/// What one vdev got of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HomeStats {
    /// Log blocks written.
    pub blocks: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Of those, bytes of records and of what ties blocks together; the rest is padding.
    pub used_bytes: u64,
    /// Bytes allocated to those blocks.
    pub allocated_bytes: u64,
    /// Writes and flushes that failed.
    pub errors: u64,
    /// How long writes of blocks took.
    pub writes: Latencies,
    /// How long flushes took.
    pub flushes: Latencies,
}

/// Where the time of commits went.
///
/// ```text
///  commit ── queue ──► assemble ──► write ──► flush ──► wake ──► returns
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageLatencies {
    /// From the commit until a batch takes its first record.
    pub queue: Latencies,
    /// Of a batch: its records fetched, laid out in blocks, linked and hashed; the next block found.
    pub assemble: Latencies,
    /// Of a batch: until the last of its blocks is written.
    pub write: Latencies,
    /// Of a batch: from there until flushes have ended; none where each write is stable by itself.
    pub flush: Latencies,
    /// From the end of the batch until the commit goes on.
    pub wake: Latencies,
}

/// What commits waited for, added up over all commits. The parts of a commit add up to its time from call to return, while
/// a stage of [`StageLatencies`] is counted once for a batch of several commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitParts {
    /// Until a batch was begun.
    pub queue: Duration,
    /// Until the batch was sent off.
    pub assemble: Duration,
    /// Until the last of its blocks was written.
    pub write: Duration,
    /// Until the flushes had ended.
    pub flush: Duration,
    /// Until the commit went on.
    pub wake: Duration,
    /// All of a commit that no batch ended: it waited for a txg, or had nothing to do.
    pub rest: Duration,
}

impl CommitParts {
    /// How many parts there are.
    pub const COUNT: usize = 6;

    /// Returns the parts of a commit that came at `began` and returned at `returned`, between which a batch passed these
    /// moments: begun, sent off, written, ended.
    pub(crate) fn of_batch(began: Duration, moments: [Duration; 4], returned: Duration) -> Self {
        let mut last = began;
        let mut until = |moment: Duration| {
            let next = moment.clamp(last, returned);
            std::mem::replace(&mut last, next).abs_diff(next)
        };
        let [queue, assemble, write, flush] = moments.map(&mut until);
        Self { queue, assemble, write, flush, wake: until(returned), rest: Duration::ZERO }
    }

    /// Returns the parts of a commit that no batch ended.
    pub(crate) fn without_batch(took: Duration) -> Self {
        Self { rest: took, ..Self::default() }
    }

    /// Returns all parts, in the order of the fields.
    #[must_use]
    pub fn each(&self) -> [Duration; Self::COUNT] {
        let Self { queue, assemble, write, flush, wake, rest } = *self;
        [queue, assemble, write, flush, wake, rest]
    }
}

impl AddAssign for CommitParts {
    fn add_assign(&mut self, other: Self) {
        self.queue += other.queue;
        self.assemble += other.assemble;
        self.write += other.write;
        self.flush += other.flush;
        self.wake += other.wake;
        self.rest += other.rest;
    }
}

/// The counters of a log at about one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZilStats {
    /// Calls of `commit`.
    pub commits: u64,
    /// Those that found everything stable.
    pub commits_empty: u64,
    /// Writes to the log, each of one or more blocks; less than `commits` when commits merge.
    pub batches: u64,
    /// Records handed in.
    pub itxs_assigned: u64,
    /// Records written to the log; the others' txgs synced first.
    pub itxs: u64,
    /// Records of writes that came with their bytes.
    pub copied: u64,
    /// Their data.
    pub copied_bytes: u64,
    /// Records of writes whose bytes were fetched when somebody asked.
    pub fetched: u64,
    /// Their data.
    pub fetched_bytes: u64,
    /// Records of writes whose data lie in blocks of their own.
    pub indirect: u64,
    /// Their data.
    pub indirect_bytes: u64,
    /// Bytes of those blocks as they are stored, one copy.
    pub placed_bytes: u64,
    /// Bytes of records, headers included.
    pub record_bytes: u64,
    /// Bytes written: records, chain headers and padding.
    pub written_bytes: u64,
    /// Bytes allocated to the blocks written.
    pub allocated_bytes: u64,
    /// Failed writes and flushes.
    pub errors: u64,
    /// Of those, flushes.
    pub flush_errors: u64,
    /// Allocations that found no room.
    pub no_space: u64,
    /// Chains begun.
    pub chains: u64,
    /// Commits that had to wait for a txg.
    pub fallbacks: u64,
    /// Records replayed at import.
    pub replayed: u64,
    /// Blocks by bytes written: see [`SIZE_BUCKETS`].
    pub block_sizes: [u64; SIZE_BUCKETS],
    /// Commits, from call to return.
    pub latency: Latencies,
    /// The parts of that.
    pub stages: StageLatencies,
    /// What commits waited for.
    pub parts: CommitParts,
    /// Where blocks went.
    pub homes: BTreeMap<VdevId, HomeStats>,
}

/// What a log has written, in bytes: what tells how much of a device a txg takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogBytes {
    /// Allocated to the blocks written.
    pub allocated: u64,
    /// Data of writes that lie in blocks of their own, because there was no log device to take them.
    pub beside: u64,
}

/// Many counters of a batch have nothing to count: to look is quicker than to add.
pub(crate) fn bump(counter: &AtomicU64, by: u64) {
    if by > 0 {
        counter.fetch_add(by, Relaxed);
    }
}

impl Stats {
    /// A write of a block has ended.
    pub fn block_written(&self, block: &FilledBlock) {
        let (written, allocated) = (block.buf.len() as u64, block.bp.psize().get());
        bump(&self.written_bytes, written);
        bump(&self.allocated_bytes, allocated);
        let bucket = usize::try_from(written.div_ceil(4096).saturating_sub(1)).unwrap_or(usize::MAX);
        bump(&self.sizes[bucket.min(SIZE_BUCKETS - 1)], 1);
        let mut homes = self.homes.lock();
        let home = homes.entry(block.bp.dva(0).vdev).or_default();
        home.blocks += 1;
        home.bytes += written;
        home.used_bytes += block.used;
        home.allocated_bytes += allocated;
        home.writes.note(block.took);
    }

    pub fn failed(&self, home: VdevId) {
        bump(&self.errors, 1);
        self.homes.lock().entry(home).or_default().errors += 1;
    }

    /// A flush of `home` took so long.
    pub fn home_flushed(&self, home: VdevId, time: Duration) {
        self.homes.lock().entry(home).or_default().flushes.note(time);
    }

    fn stages(&self) -> StageLatencies {
        StageLatencies {
            queue: self.queue.snapshot(),
            assemble: self.assemble.snapshot(),
            write: self.write.snapshot(),
            flush: self.flush.snapshot(),
            wake: self.wake.snapshot(),
        }
    }

    pub fn bytes(&self) -> LogBytes {
        LogBytes { allocated: self.allocated_bytes.load(Relaxed), beside: self.indirect.bytes.load(Relaxed) }
    }

    pub fn snapshot(&self) -> ZilStats {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        ZilStats {
            commits: of(&self.commits),
            commits_empty: of(&self.commits_empty),
            batches: of(&self.batches),
            itxs_assigned: of(&self.itxs_assigned),
            itxs: of(&self.itxs),
            copied: of(&self.copied.records),
            copied_bytes: of(&self.copied.bytes),
            fetched: of(&self.fetched.records),
            fetched_bytes: of(&self.fetched.bytes),
            indirect: of(&self.indirect.records),
            indirect_bytes: of(&self.indirect.bytes),
            placed_bytes: of(&self.placed_bytes),
            record_bytes: of(&self.record_bytes),
            written_bytes: of(&self.written_bytes),
            allocated_bytes: of(&self.allocated_bytes),
            errors: of(&self.errors),
            flush_errors: of(&self.flush_errors),
            no_space: of(&self.no_space),
            chains: of(&self.chains),
            fallbacks: of(&self.fallbacks),
            replayed: of(&self.replayed),
            block_sizes: self.sizes.each_ref().map(of),
            latency: self.latency.snapshot(),
            stages: self.stages(),
            parts: self.parts.snapshot(),
            homes: self.homes.lock().clone(),
        }
    }
}

/// Of several logs together.
impl AddAssign for ZilStats {
    fn add_assign(&mut self, other: Self) {
        self.commits += other.commits;
        self.commits_empty += other.commits_empty;
        self.batches += other.batches;
        self.itxs_assigned += other.itxs_assigned;
        self.itxs += other.itxs;
        self.copied += other.copied;
        self.copied_bytes += other.copied_bytes;
        self.fetched += other.fetched;
        self.fetched_bytes += other.fetched_bytes;
        self.indirect += other.indirect;
        self.indirect_bytes += other.indirect_bytes;
        self.placed_bytes += other.placed_bytes;
        self.record_bytes += other.record_bytes;
        self.written_bytes += other.written_bytes;
        self.allocated_bytes += other.allocated_bytes;
        self.errors += other.errors;
        self.flush_errors += other.flush_errors;
        self.no_space += other.no_space;
        self.chains += other.chains;
        self.fallbacks += other.fallbacks;
        self.replayed += other.replayed;
        self.block_sizes.iter_mut().zip(other.block_sizes).for_each(|(count, more)| *count += more);
        self.latency += other.latency;
        self.stages += other.stages;
        self.parts += other.parts;
        for (vdev, home) in other.homes {
            *self.homes.entry(vdev).or_default() += home;
        }
    }
}

impl AddAssign for StageLatencies {
    fn add_assign(&mut self, other: Self) {
        self.queue += other.queue;
        self.assemble += other.assemble;
        self.write += other.write;
        self.flush += other.flush;
        self.wake += other.wake;
    }
}

impl AddAssign for HomeStats {
    fn add_assign(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.bytes += other.bytes;
        self.used_bytes += other.used_bytes;
        self.allocated_bytes += other.allocated_bytes;
        self.errors += other.errors;
        self.writes += other.writes;
        self.flushes += other.flushes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_commit_add_up_to_its_time() {
        let at = Duration::from_micros;
        let parts = CommitParts::of_batch(at(10), [at(12), at(15), at(40), at(70)], at(71));
        assert_eq!(parts.each(), [at(2), at(3), at(25), at(30), at(1), at(0)]);
        // A commit that came while its batch was written, and one that went on before the batch had ended for others.
        let late = CommitParts::of_batch(at(20), [at(12), at(15), at(40), at(70)], at(71));
        assert_eq!(late.each(), [at(0), at(0), at(20), at(30), at(1), at(0)]);
        let early = CommitParts::of_batch(at(10), [at(12), at(15), at(40), at(70)], at(60));
        assert_eq!(early.each(), [at(2), at(3), at(25), at(20), at(0), at(0)]);
        let counters = PartCounters::default();
        [parts, late, CommitParts::without_batch(at(9))].iter().for_each(|parts| counters.add(parts));
        assert_eq!(counters.snapshot().each(), [at(2), at(3), at(45), at(60), at(2), at(9)]);
    }
}
