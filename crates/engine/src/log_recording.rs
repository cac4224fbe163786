//! Records commits of a pool, one by one.

use crate::Holder;
use crate::log_facts::nanos;
use control::{
    BatchInfo, BatchIo, CommitInfo, Failure, FailureKind, LogFacts, LogRecording, PoolLogFacts,
    PoolLogRecord, RECORDED_COMMITS,
};
use pool::{BatchTrace, CommitTrace, IoTrace, WaitedFor};
use std::collections::BTreeSet;
use std::time::Duration;

/// Longer than anybody records: an hour.
const SPAN_MAX: Duration = Duration::from_secs(3600);
/// Some hundred bytes each.
const COMMITS_MAX: u64 = 2_000_000;

impl Holder {
    /// Records what commits of a pool wait for, and answers when the time is up. The pool may be exported meanwhile,
    /// which is told then.
    pub(super) async fn record_log(&self, call: &PoolLogRecord) -> Result<LogRecording, Failure> {
        let span = Duration::from_nanos(call.span_nanos);
        let refused = |why: &str| Failure::cannot(FailureKind::Other, "record", &call.pool, why);
        if span.is_zero() || span > SPAN_MAX {
            return Err(refused("it is for an hour at most"));
        }
        let commits_max = match call.commits_max {
            0 => RECORDED_COMMITS,
            wanted => wanted.min(COMMITS_MAX),
        };
        let began_secs = self.env.wall_clock().as_secs();
        let (active, before) = {
            let held = self.pool(&call.pool)?;
            let before = self.facts_now(call)?;
            let active = held.pool.record_log(usize::try_from(commits_max).unwrap_or(usize::MAX));
            (active.ok_or_else(|| refused("somebody else does"))?, before)
        };
        let from = active.from();
        self.env.sleep(span).await;
        let recording = active.end();
        let until = self.env.now();
        let after = self.facts_now(call)?;
        if after.open_nanos < before.open_nanos {
            return Err(refused("it was imported anew"));
        }
        let told = Told { from };
        let commits: Vec<CommitInfo> = recording.commits.iter().map(|commit| told.commit(commit)).collect();
        Ok(LogRecording {
            pool: call.pool.clone(),
            began_secs,
            span_nanos: told.at(until),
            datasets: self.names(call, &commits)?,
            commits,
            left_out: recording.left_out,
            batches: recording.batches.iter().map(|batch| told.batch(batch)).collect(),
            before,
            after,
        })
    }

    fn facts_now(&self, call: &PoolLogRecord) -> Result<LogFacts, Failure> {
        self.log_facts(&PoolLogFacts { pool: call.pool.clone() })
    }

    fn names(&self, call: &PoolLogRecord, commits: &[CommitInfo]) -> Result<Vec<(u64, String)>, Failure> {
        let seen: BTreeSet<u64> = commits.iter().map(|commit| commit.objset).collect();
        let all = self.pool(&call.pool)?.pool.dataset_logs();
        let named = all.into_iter().map(|log| (log.objset.get(), log.name));
        Ok(named.filter(|(objset, _)| seen.contains(objset)).collect())
    }
}

/// Tells what was recorded since a moment.
struct Told {
    from: Duration,
}

impl Told {
    fn at(&self, time: Duration) -> u64 {
        nanos(time.saturating_sub(self.from))
    }

    fn commit(&self, commit: &CommitTrace) -> CommitInfo {
        let (batch, txg) = match commit.waited_for {
            WaitedFor::Nothing => (None, None),
            WaitedFor::Batch(id) => (Some(id), None),
            WaitedFor::Txg(txg) => (None, Some(txg.get())),
        };
        CommitInfo {
            objset: commit.objset.get(),
            object: commit.object.map(units::ObjectId::get),
            began: self.at(commit.began),
            took: nanos(commit.returned.saturating_sub(commit.began)),
            records: commit.records,
            bytes: commit.bytes,
            batch,
            txg,
        }
    }

    fn batch(&self, batch: &BatchTrace) -> BatchInfo {
        BatchInfo {
            objset: batch.objset.get(),
            id: batch.id,
            came: batch.came.map(|came| self.at(came)),
            begun: self.at(batch.begun),
            sent: self.at(batch.sent),
            ended: self.at(batch.ended),
            records: batch.records,
            beside: batch.beside as u64,
            writes: batch.writes.iter().map(io).collect(),
            flushes: batch.flushes.iter().map(io).collect(),
        }
    }
}

fn io(one: &IoTrace) -> BatchIo {
    let IoTrace { vdev, bytes, took, is_ok } = *one;
    BatchIo { vdev: vdev.get().into(), bytes, took: nanos(took), is_failed: !is_ok }
}
