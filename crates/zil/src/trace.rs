//! A recording of commits, one by one: for "why was that slow?", and to make the same load again elsewhere.
//!
//! ```text
//!   began ── queue ──► begun ── assemble ──► sent ── write, flush ──► ended ── wake ──► returned      a commit
//!                      └───────────── the batch that it waited for last ──────┘
//! ```
//! Counters tell how long stages took on the whole; a recording tells what one commit waited for, which vdev took how
//! long for which part, and what else went in the same batch. A pool has one [`Recorder`], which its logs share. It is off
//! until somebody asks, and costs a commit one look at a flag then.
//!
//! Invariants
//! - What a commit names as its batch is recorded, if that landed while the recorder was on
//!   (test: `a_recording_tells_of_each_commit_what_it_waited_for`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use units::{ObjectId, ObjsetId, Txg, VdevId};

/// One commit that was done: one that failed is not recorded. Times are those of [`env::Env::now`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitTrace {
    /// Whose log.
    pub objset: ObjsetId,
    /// The object whose records were to be stable; `None` for all.
    pub object: Option<ObjectId>,
    /// When it was asked for.
    pub began: Duration,
    /// When it returned.
    pub returned: Duration,
    /// Records that it brought along.
    pub records: u64,
    /// Bytes that were written by those.
    pub bytes: u64,
    /// What it waited for last.
    pub waited_for: WaitedFor,
}

/// What a commit waited for last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitedFor {
    /// Nothing: all was stable.
    Nothing,
    /// The batch of that number in its log: its own, or one that stands before it in the chain and took longer.
    Batch(u64),
    /// A transaction group, because the log could not take its records, or had no chain yet.
    Txg(Txg),
}

impl WaitedFor {
    pub(crate) fn last(batch: Option<u64>, txg: Option<Txg>) -> Self {
        match (batch, txg) {
            (_, Some(txg)) => Self::Txg(txg),
            (Some(batch), None) => Self::Batch(batch),
            (None, None) => Self::Nothing,
        }
    }
}

/// One batch: blocks of one log that were written together. Times are those of [`env::Env::now`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchTrace {
    /// Whose log.
    pub objset: ObjsetId,
    /// Its number in that log.
    pub id: u64,
    /// When its first record was asked for, if it has any.
    pub came: Option<Duration>,
    /// When it was begun to be put together.
    pub begun: Duration,
    /// When its blocks were sent off.
    pub sent: Duration,
    /// When the last of its writes and flushes was done.
    pub ended: Duration,
    /// Records in it.
    pub records: u64,
    /// Batches of the same log that were under way when it was sent off.
    pub beside: usize,
    /// Its writes, of log blocks and of data that their records name.
    pub writes: Vec<IoTrace>,
    /// Its flushes, none where each write was stable by itself.
    pub flushes: Vec<IoTrace>,
}

/// One write or flush of a vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoTrace {
    /// Where.
    pub vdev: VdevId,
    /// Bytes written; none of a flush.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
    /// It succeeded.
    pub is_ok: bool,
}

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Commits in the order in which they returned.
    pub commits: Vec<CommitTrace>,
    /// Batches in the order in which they ended.
    pub batches: Vec<BatchTrace>,
    /// Commits that were left out because there were more than asked for.
    pub left_out: u64,
}

/// Records commits and batches while somebody asks for it.
#[derive(Debug, Default)]
pub struct Recorder {
    is_on: AtomicBool,
    tape: Mutex<Tape>,
}

#[derive(Debug, Default)]
struct Tape {
    recording: Recording,
    from: Duration,
    commits_max: usize,
}

/// A recorder that is on, until this is dropped or asked for what was recorded.
#[derive(Debug)]
pub struct ActiveRecording {
    recorder: Arc<Recorder>,
    from: Duration,
}

impl Recorder {
    /// Begins, unless somebody else is at it: at most `commits_max` commits are kept, of those that are asked for from the
    /// time `from` on.
    #[must_use]
    pub fn begin(self: &Arc<Self>, from: Duration, commits_max: usize) -> Option<ActiveRecording> {
        let mut tape = self.tape.lock();
        if self.is_on.swap(true, Relaxed) {
            return None;
        }
        *tape = Tape { recording: Recording::default(), from, commits_max };
        Some(ActiveRecording { recorder: Arc::clone(self), from })
    }

    /// Whether it is on.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    pub(crate) fn note_commit(&self, commit: CommitTrace) {
        let mut tape = self.tape.lock();
        if commit.began < tape.from {
            return;
        }
        if tape.recording.commits.len() < tape.commits_max {
            tape.recording.commits.push(commit);
        } else {
            tape.recording.left_out += 1;
        }
    }

    /// What comes after the last commit that is kept is of no use.
    pub(crate) fn note_batch(&self, batch: BatchTrace) {
        let mut tape = self.tape.lock();
        if tape.recording.commits.len() < tape.commits_max {
            tape.recording.batches.push(batch);
        }
    }
}

impl ActiveRecording {
    /// When it began.
    #[must_use]
    pub const fn from(&self) -> Duration {
        self.from
    }

    /// Ends it: what was recorded.
    #[must_use]
    pub fn end(self) -> Recording {
        std::mem::take(&mut self.recorder.tape.lock().recording)
    }
}

impl Drop for ActiveRecording {
    fn drop(&mut self) {
        let mut tape = self.recorder.tape.lock();
        self.recorder.is_on.store(false, Relaxed);
        *tape = Tape::default();
    }
}
