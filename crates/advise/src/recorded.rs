//! What a recording of commits tells: where the time of each went, and the load as a list of steps for whoever makes it again.
//!
//! ```text
//!   began ──── queue ────► begun ── assemble ──► sent ── write ──► ── flush ──► ended ── wake ──► returned
//!                          └──────────── of the batch that it waited for last ──────────┘
//! ```
//! A commit that came while its batch was under way already has the later stages only; the parts of one that waited for a
//! transaction group are all that.

use control::{BatchInfo, BatchIo, CommitInfo, LogRecording};
use std::collections::BTreeMap;
use std::time::Duration;

/// Where the time of a commit went, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Until the batch that it waited for was begun: others were under way.
    pub queue: u64,
    /// While that was put together.
    pub assemble: u64,
    /// Until the last of its writes was done.
    pub write: u64,
    /// Until the flushes after those had ended.
    pub flush: u64,
    /// Until the commit went on.
    pub wake: u64,
    /// Waiting for a transaction group.
    pub txg: u64,
}

impl Parts {
    /// All of them with what they are called, in the order in which they happen.
    #[must_use]
    pub const fn each(&self) -> [(&'static str, u64); 6] {
        [
            ("waited for others", self.queue),
            ("put together", self.assemble),
            ("written", self.write),
            ("flushed", self.flush),
            ("woken", self.wake),
            ("transaction group", self.txg),
        ]
    }

    fn of(commit: &CommitInfo, batch: Option<&BatchInfo>) -> Self {
        let Some(batch) = batch.filter(|_| commit.txg.is_none()) else {
            return Self { txg: if commit.txg.is_some() { commit.took } else { 0 }, ..Self::default() };
        };
        let written = batch.sent + batch.writes.iter().map(|write| write.took).max().unwrap_or(0);
        let returned = commit.began + commit.took;
        // Each mark not before the one before it, nor after the commit was done.
        let mut from = commit.began;
        let mut until = |mark: u64| {
            let to = mark.clamp(from, returned.max(from));
            to - std::mem::replace(&mut from, to)
        };
        Self {
            queue: until(batch.begun),
            assemble: until(batch.sent),
            write: until(written.min(batch.ended)),
            flush: until(batch.ended),
            wake: until(returned),
            txg: 0,
        }
    }
}

impl std::ops::AddAssign for Parts {
    fn add_assign(&mut self, other: Self) {
        self.queue += other.queue;
        self.assemble += other.assemble;
        self.write += other.write;
        self.flush += other.flush;
        self.wake += other.wake;
        self.txg += other.txg;
    }
}

/// A commit, and what it waited for.
#[derive(Clone, Copy, Debug)]
pub struct Explained<'a> {
    /// The commit.
    pub commit: &'a CommitInfo,
    /// The batch that it waited for last.
    pub batch: Option<&'a BatchInfo>,
    /// Where its time went.
    pub parts: Parts,
}

impl<'a> Explained<'a> {
    /// What took longest of that batch, a write or a flush.
    #[must_use]
    pub fn slowest_io(&self) -> Option<&'a BatchIo> {
        let batch = self.batch?;
        batch.writes.iter().chain(&batch.flushes).max_by_key(|io| io.took)
    }
}

/// All commits of a recording, those that took longest first.
#[must_use]
pub fn explained<'a>(recording: &'a LogRecording) -> Vec<Explained<'a>> {
    let batches: BTreeMap<(u64, u64), &BatchInfo> =
        recording.batches.iter().map(|batch| ((batch.objset, batch.id), batch)).collect();
    let explain = |commit: &'a CommitInfo| {
        let batch = commit.batch.and_then(|id| batches.get(&(commit.objset, id)).copied());
        Explained { commit, batch, parts: Parts::of(commit, batch) }
    };
    let mut all: Vec<_> = recording.commits.iter().map(explain).collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.commit.took));
    all
}

/// How long it took to record the commits that are kept: until the last of them, where there were more.
#[must_use]
pub fn span(recording: &LogRecording) -> Duration {
    let last = recording.commits.iter().map(|commit| commit.began + commit.took).max();
    let until = last.filter(|_| recording.left_out > 0).unwrap_or(recording.span_nanos);
    Duration::from_nanos(until)
}

/// One of a writer's commits: so long after the one before it was done, so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// How long the writer rests before it.
    pub rest: Duration,
    /// Bytes that it has written by then.
    pub bytes: u64,
}

/// The first commits of a recording as the steps of writers, each of whom begins one when the one before is done. Who they
/// were nobody has recorded: a commit belongs to whoever was done last before it began, so that there are as few writers as
/// commits ever were under way at a time.
#[must_use]
pub fn writers(recording: &LogRecording, commits_max: usize) -> Vec<Vec<Step>> {
    let mut commits: Vec<&CommitInfo> =
        recording.commits.iter().filter(|commit| commit.batch.is_some() || commit.txg.is_some()).collect();
    commits.sort_by_key(|commit| commit.began);
    commits.truncate(commits_max);
    let mut writers: Vec<Vec<Step>> = Vec::new();
    // Who is done when: the last of those before a moment is one look away.
    let mut idle_since: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let from = commits.first().map_or(0, |commit| commit.began);
    for commit in commits {
        let last = idle_since.range(..=commit.began).next_back().map(|(&since, _)| since);
        let (who, since) = match last {
            Some(since) => {
                let there = idle_since.get_mut(&since).expect("just found");
                let who = there.pop().expect("nobody is kept as none");
                if there.is_empty() {
                    idle_since.remove(&since);
                }
                (who, since)
            }
            None => {
                writers.push(Vec::new());
                (writers.len() - 1, from)
            }
        };
        let rest = Duration::from_nanos(commit.began - since);
        writers[who].push(Step { rest, bytes: commit.bytes });
        idle_since.entry(commit.began + commit.took).or_default().push(who);
    }
    writers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(began: u64, took: u64, batch: Option<u64>) -> CommitInfo {
        CommitInfo { objset: 54, began, took, batch, bytes: 100 + began, ..CommitInfo::default() }
    }

    fn batch(id: u64, begun: u64, sent: u64, write: u64, ended: u64) -> BatchInfo {
        let writes = vec![BatchIo { vdev: 1, bytes: 4096, took: write, is_failed: false }];
        BatchInfo { objset: 54, id, begun, sent, ended, writes, ..BatchInfo::default() }
    }

    fn recording() -> LogRecording {
        LogRecording {
            commits: vec![
                commit(100, 200, Some(1)),
                commit(160, 150, Some(1)),
                CommitInfo { txg: Some(7), ..commit(400, 5_000, None) },
                commit(500, 0, None),
            ],
            batches: vec![batch(1, 110, 130, 60, 280), batch(2, 300, 310, 5, 320)],
            ..LogRecording::default()
        }
    }

    #[test]
    fn the_parts_of_a_commit_are_its_whole_time() {
        let recording = recording();
        let all = explained(&recording);
        let parts: Vec<_> = all.iter().map(|one| one.parts.each().map(|(_, nanos)| nanos)).collect();
        assert_eq!(parts, [[0, 0, 0, 0, 0, 5_000], [10, 20, 60, 90, 20, 0], [0, 0, 30, 90, 30, 0], [0; 6]]);
        let whole =
            all.iter().all(|one| one.parts.each().iter().map(|(_, n)| n).sum::<u64>() == one.commit.took);
        assert!(whole);
        assert_eq!(all[1].slowest_io().map(|io| io.took), Some(60));
    }

    #[test]
    fn a_batch_of_another_log_is_another_batch() {
        let mut recording = recording();
        recording.batches[0].objset = 55;
        assert!(explained(&recording).iter().all(|one| one.batch.is_none()));
    }

    #[test]
    fn what_was_left_out_is_no_part_of_the_time() {
        let whole = LogRecording { span_nanos: 1_000_000, ..recording() };
        assert_eq!(span(&whole), Duration::from_nanos(1_000_000));
        assert_eq!(span(&LogRecording { left_out: 9, ..whole }), Duration::from_nanos(5_400));
    }

    #[test]
    fn as_few_writers_as_commits_were_under_way() {
        let recording = LogRecording {
            commits: vec![
                commit(100, 50, Some(1)),
                commit(120, 100, Some(1)),
                commit(160, 10, Some(2)),
                commit(230, 10, Some(2)),
                // It had nothing to do, and so is no part of the load.
                commit(235, 0, None),
                commit(240, 10, Some(3)),
            ],
            ..LogRecording::default()
        };
        let step = |rest, bytes| Step { rest: Duration::from_nanos(rest), bytes };
        let first = vec![step(0, 200), step(10, 260)];
        let second = vec![step(20, 220), step(10, 330), step(0, 340)];
        assert_eq!(writers(&recording, 100), [first, second]);
        assert_eq!(writers(&recording, 1), [[step(0, 200)]]);
        assert!(writers(&LogRecording::default(), 100).is_empty());
    }
}
