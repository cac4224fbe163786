//! Replay: doing again what the log says was done.
//!
//! ```text
//!  records   create a   write a   write b   write a   truncate b   rename a   write a
//!            └─ alone ┘ └─ a: write, write ─────────────────────┐ └─ alone ┘ └─ …
//!                       └─ b: write, truncate ─────────────────┘
//! ```
//! Records about names, and of clones, are applied alone, in order. Between two of them lie records that change
//! one object's contents each: objects are independent, so theirs are applied side by side, each
//! object's in order.
//!
//! Each record is applied in a transaction of its own, which also notes the record's number:
//! when its txg syncs, `replay_seq` in the header moves on, as far as all records before are
//! stable ([`crate::replay::progress`]). A crash on the way resumes there. Of the records behind that
//! number some may be applied twice, but only such as say what an object's contents are: doing
//! them again, all and in order, ends in the same contents.
//!
//! A record that cannot be applied is tried once more after a txg has synced; then replay stops
//! and leaves the log as it is. Nothing that was promised is thrown away unasked.
//!
//! Numbers of records come from the disk. Only that they rise is asked of them; a log in which they do not is left
//! as it is (test: `record_numbers_that_do_not_rise_stop_replay_and_keep_the_log`).
//!
//! Invariants
//! - Records about names are applied in order, each once, over any number of crashes
//!   (test: `replay_resumes_after_a_crash_at_each_record`).
//! - Records of one object are applied in order, and none before a record about names that stands
//!   before it (test: `objects_are_replayed_side_by_side_and_names_alone`).

pub(crate) mod meter;
pub(crate) mod progress;

use std::collections::BTreeMap;
use std::sync::Arc;

use env::{BoxFuture, IoBuf, boxed};
use futures::stream::{self, StreamExt};
use ondisk::OndiskError;
use ondisk::zil::{LogRecord, RecordHead};
use units::{ObjectId, Txg, ZilSeq};

use crate::ZilError;
use crate::chain::walk::LogWalk;
use crate::claim::{Claimed, ClaimedBlocks};
use crate::live::{IntentLog, Live};
use crate::log::Core;
use crate::stats::bump;

/// What the file system does with records. `zpl` implements it.
pub trait Replay: Send + Sync {
    /// Does again what `record` says: what is about names in one transaction, contents of an object
    /// in as many as it takes.
    ///
    /// Calls [`ReplayCtx::note`] with each transaction's txg while it holds the transaction. The
    /// object of a record may be gone by now when the record's type is one that is logged out of
    /// order; that is [`Applied::Nothing`].
    fn apply<'a>(
        &'a self,
        record: &'a ReplayRecord,
        ctx: ReplayCtx<'a>,
    ) -> BoxFuture<'a, Result<Applied, Arc<dyn std::error::Error + Send + Sync>>>;
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It was done, and noted.
    Done,
    /// There was nothing to do.
    Nothing,
}

/// A record to be replayed.
#[derive(Debug)]
pub struct ReplayRecord {
    /// Its number, txg and case bit.
    pub head: RecordHead,
    /// What to do.
    pub record: LogRecord,
    /// For a write without data in it: the whole block that the file had at this place, all of
    /// which is to be written. Only the record's own range may make the file longer.
    pub block: Option<ReplayBlock>,
}

/// A file's block that a record leads to.
#[derive(Debug)]
pub struct ReplayBlock {
    /// Where in the file it begins.
    pub offset: u64,
    /// Its contents.
    pub data: IoBuf,
}

/// Ties a record to the transaction that replays it.
#[derive(Clone, Copy, Debug)]
pub struct ReplayCtx<'a> {
    core: &'a Core,
    seq: ZilSeq,
    /// The record is about names: one transaction holds all of it.
    is_all: bool,
}

impl ReplayCtx<'_> {
    /// What was done is stable once `txg` is. To be called while `txg` is held open, in each
    /// transaction; a record about names has one only.
    pub fn note(&self, txg: Txg) {
        self.core.state.lock().progress.note(self.seq, txg, self.is_all);
    }
}

/// What a replay did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// Blocks read.
    pub blocks: u64,
    /// Records applied.
    pub applied: u64,
    /// Records whose object had gone, or that were replayed or synced before.
    pub skipped: u64,
}

/// Replay has stopped; the log is as it was, apart from what was replayed.
#[derive(Debug, thiserror::Error)]
#[error("replay stopped")]
pub struct ReplayStopped {
    /// To try again, or to discard.
    pub log: IntentLog<Claimed>,
    /// Why.
    #[source]
    pub error: ZilError,
}

impl ReplayReport {
    fn add(&mut self, applied: Applied) {
        match applied {
            Applied::Done => self.applied += 1,
            Applied::Nothing => self.skipped += 1,
        }
    }
}

/// The object whose contents the record changes, if it depends on nothing else. What a clone record
/// shares may be freed by whatever comes after it, so it is applied alone.
const fn lane_of(record: &LogRecord) -> Option<ObjectId> {
    match record {
        LogRecord::CloneRange(_) => None,
        other => other.object(),
    }
}

/// Objects whose records are applied at the same time.
const LANES_AT_ONCE: usize = 64;
/// Bytes of records that are gathered before they are applied.
const LANES_BYTES: usize = 16 << 20;

/// The largest block that a file can have.
const DATA_BYTES_MAX: u64 = 16 << 20;

/// A record to be applied.
struct Todo {
    seq: ZilSeq,
    txtype: u64,
    head: RecordHead,
    record: LogRecord,
    bytes: usize,
}

/// Whether numbers of records rise, as whoever writes a log has them do: the header says with one number how far
/// a replay has got.
#[derive(Default)]
struct Order {
    newest: Option<ZilSeq>,
}

impl Order {
    fn check(&mut self, seq: ZilSeq) -> Result<(), OndiskError> {
        if self.newest.is_some_and(|newest| seq <= newest) {
            return Err(OndiskError::BadValue { what: "log record", field: "sequence", value: seq.get() });
        }
        self.newest = Some(seq);
        Ok(())
    }
}

/// Records of objects' contents, each object's in order.
#[derive(Default)]
struct Lanes {
    by_object: BTreeMap<ObjectId, Vec<Todo>>,
    bytes: usize,
}

impl Lanes {
    fn push(&mut self, object: ObjectId, todo: Todo) {
        self.bytes += todo.bytes;
        self.by_object.entry(object).or_default().push(todo);
    }
}

impl IntentLog<Claimed> {
    /// Applies every record that is not in the pool yet; then the log is ready for use,
    /// its old chain freed with the txg that holds the last of them.
    ///
    /// # Errors
    /// Damage, a device that does not answer, or a record that cannot be applied.
    #[boxed]
    pub async fn replay(
        self,
        into: &dyn Replay,
    ) -> Result<(IntentLog<Live>, ReplayReport), Box<ReplayStopped>> {
        let mut claimed = ClaimedBlocks::new(&self.header());
        self.core.meter.begin(self.core.env.now());
        let replayed = self.core.replay(into, &mut claimed).await;
        self.core.meter.end();
        match replayed {
            Ok((report, after)) => Ok((self.into_live(claimed, after), report)),
            Err(error) => Err(Box::new(ReplayStopped { log: self, error })),
        }
    }
}

impl Core {
    /// Applies what the log holds; with the newest txg that anything was applied in.
    async fn replay(
        &self,
        into: &dyn Replay,
        claimed: &mut ClaimedBlocks,
    ) -> Result<(ReplayReport, Txg), ZilError> {
        let header = self.state.lock().header;
        let first = self.state.lock().progress.restart().max(ZilSeq::new(header.replay_seq.get()));
        let claim_txg = Txg::new(header.claim_txg.get());
        let mut report = ReplayReport::default();
        let mut waiting = Lanes::default();
        let mut order = Order::default();
        let mut walk = LogWalk::new(self.objset, &header, &*self.store);
        while let Some(block) = walk.next().await? {
            claimed.note_block(&block.bp);
            report.blocks += 1;
            for record in block.records() {
                let raw = record.map_err(|source| self.bad_record(block.seq, source))?;
                order.check(raw.seq()).map_err(|source| self.bad_record(raw.seq(), source))?;
                claimed.note_record(&raw);
                let behind = header.claim_lr_seq.get().saturating_sub(raw.seq().get());
                self.meter.span(behind.saturating_add(1));
                if raw.seq() <= first || raw.txg() < claim_txg {
                    report.skipped += 1;
                    self.meter.add(raw.bytes().len());
                    continue;
                }
                let (head, record) = raw.decode().map_err(|source| self.bad_record(raw.seq(), source))?;
                let bytes = raw.bytes().len();
                let todo = Todo { seq: raw.seq(), txtype: raw.txtype(), head, record, bytes };
                self.state.lock().progress.begin(todo.seq);
                match lane_of(&todo.record) {
                    Some(object) => waiting.push(object, todo),
                    None => {
                        self.replay_lanes(into, std::mem::take(&mut waiting), &mut report).await?;
                        report.add(self.replay_record(into, todo).await?);
                    }
                }
            }
            if waiting.bytes > LANES_BYTES {
                self.replay_lanes(into, std::mem::take(&mut waiting), &mut report).await?;
            }
        }
        self.replay_lanes(into, waiting, &mut report).await?;
        bump(&self.stats.replayed, report.applied);
        // Whatever was applied, was applied in a txg up to the one that is open now.
        let after = if report.applied > 0 { self.store.open_txg() } else { Txg::ZERO };
        Ok((report, after))
    }

    /// Applies what waits, objects side by side. An error comes back when all lanes have ended, and
    /// then the one of the first record.
    async fn replay_lanes(
        &self,
        into: &dyn Replay,
        lanes: Lanes,
        report: &mut ReplayReport,
    ) -> Result<(), ZilError> {
        let lanes = lanes.by_object.into_values().map(|lane| self.replay_lane(into, lane));
        let ends: Vec<_> = stream::iter(lanes).buffer_unordered(LANES_AT_ONCE).collect().await;
        let mut failed: Option<(ZilSeq, ZilError)> = None;
        for (lane, error) in ends {
            report.applied += lane.applied;
            report.skipped += lane.skipped;
            let is_first =
                |(seq, _): &(ZilSeq, ZilError)| failed.as_ref().is_none_or(|(first, _)| seq < first);
            failed = error.filter(is_first).or(failed);
        }
        failed.map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Applies an object's records, up to one that cannot be.
    async fn replay_lane(
        &self,
        into: &dyn Replay,
        lane: Vec<Todo>,
    ) -> (ReplayReport, Option<(ZilSeq, ZilError)>) {
        let mut report = ReplayReport::default();
        for todo in lane {
            let seq = todo.seq;
            match self.replay_record(into, todo).await {
                Ok(applied) => report.add(applied),
                Err(error) => return (report, Some((seq, error))),
            }
        }
        (report, None)
    }

    async fn replay_record(&self, into: &dyn Replay, todo: Todo) -> Result<Applied, ZilError> {
        let Todo { seq, txtype, head, record, bytes } = todo;
        let block = self.replay_block(seq, &record).await?;
        let is_all = record.object().is_none();
        let record = ReplayRecord { head, record, block };
        let ctx = ReplayCtx { core: self, seq, is_all };
        let mut applied = into.apply(&record, ctx).await;
        if applied.is_err() {
            // What an earlier record removed may still be in the way until its txg has synced.
            self.store.wait_synced(self.store.open_txg()).await?;
            applied = into.apply(&record, ctx).await;
        }
        let applied =
            applied.map_err(|source| ZilError::Replay { objset: self.objset, seq, txtype, source })?;
        self.state.lock().progress.end(seq);
        if let Some(watch) = self.meter.add(bytes)
            && let Some(progress) = self.meter.progress(self.env.now())
        {
            watch.replayed(self.objset, progress).await;
        }
        Ok(applied)
    }

    async fn replay_block(&self, seq: ZilSeq, record: &LogRecord) -> Result<Option<ReplayBlock>, ZilError> {
        let LogRecord::Write(write) = record else { return Ok(None) };
        if write.data.is_some() {
            return Ok(None);
        }
        let bytes = write.blkptr.lsize().get();
        let data = if write.blkptr.is_hole() {
            let bytes = bytes.max(write.length);
            if bytes > DATA_BYTES_MAX {
                let source = OndiskError::BadValue { what: "log record", field: "length", value: bytes };
                return Err(self.bad_record(seq, source));
            }
            IoBuf::zeroed(bytes as usize)
        } else {
            self.store.read_data_block(&write.blkptr).await?
        };
        let offset = write.offset - write.offset % bytes.max(1);
        Ok(Some(ReplayBlock { offset, data }))
    }

    fn bad_record(&self, seq: ZilSeq, source: OndiskError) -> ZilError {
        ZilError::BadRecord { objset: self.objset, seq, source }
    }
}
