//! Replay: doing again what the log says was done.
//!
//! Each record is applied in a transaction of its own, which also notes the record's number:
//! when its txg syncs, `replay_seq` in the header moves on with it. A crash on the way resumes
//! after the last record whose txg is stable, and no record is applied twice.
//!
//! A record that cannot be applied is tried once more after a txg has synced; then replay stops
//! and leaves the log as it is. Nothing that was promised is thrown away unasked.
//!
//! Invariants
//! - Records are applied in order, each once, over any number of crashes
//!   (test: `replay_resumes_after_a_crash_at_each_record`).

use std::sync::Arc;

use device::{BoxFuture, IoBuf};
use ondisk::zil::{LogRecord, RecordHead};
use units::{Txg, ZilSeq};

use crate::ZilError;
use crate::found::{Claimed, ClaimedBlocks};
use crate::live::{IntentLog, Live};
use crate::log::Core;
use crate::stats::bump;
use crate::walk::{LogWalk, WalkedRecord};

/// What the file system does with records. `zpl` implements it.
pub trait Replay: Send + Sync {
    /// Does again what `record` says, in one transaction (or several, the last of which counts).
    ///
    /// Calls [`ReplayCtx::note`] with the transaction's txg while it holds the transaction. The
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
}

impl ReplayCtx<'_> {
    /// The record is done once `txg` is stable. To be called while `txg` is held open.
    pub fn note(&self, txg: Txg) {
        let mut state = self.core.state.lock();
        state.replayed[txg.slot()] = Some((txg, self.seq));
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

impl IntentLog<Claimed> {
    /// Applies every record that is not in the pool yet, in order; then the log is ready for use,
    /// its old chain freed with the txg that holds the last of them.
    ///
    /// # Errors
    /// Damage, a device that does not answer, or a record that cannot be applied.
    pub async fn replay(
        self,
        into: &dyn Replay,
    ) -> Result<(IntentLog<Live>, ReplayReport), Box<ReplayStopped>> {
        let mut claimed = ClaimedBlocks::new(&self.header());
        match self.core.replay(into, &mut claimed).await {
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
        let first = ZilSeq::new(header.replay_seq.get()).max(self.newest_noted());
        let claim_txg = Txg::new(header.claim_txg.get());
        let mut report = ReplayReport::default();
        let mut walk = LogWalk::new(self.objset, &header, &*self.store);
        while let Some(block) = walk.next().await? {
            claimed.note_block(&block.bp);
            report.blocks += 1;
            for record in block.records() {
                let record = record.map_err(|source| self.bad_record(block.seq, source))?;
                claimed.note_record(&record);
                if record.seq() <= first || record.txg() < claim_txg {
                    report.skipped += 1;
                    continue;
                }
                match self.replay_record(into, &record).await? {
                    Applied::Done => report.applied += 1,
                    Applied::Nothing => report.skipped += 1,
                }
            }
        }
        bump(&self.stats.replayed, report.applied);
        // Whatever was applied, was applied in a txg up to the one that is open now.
        let after = if report.applied > 0 { self.store.open_txg() } else { Txg::ZERO };
        Ok((report, after))
    }

    /// The newest record that an earlier attempt in this process has applied.
    fn newest_noted(&self) -> ZilSeq {
        let state = self.state.lock();
        state.replayed.iter().flatten().map(|(_, seq)| *seq).max().unwrap_or_default()
    }

    async fn replay_record(&self, into: &dyn Replay, raw: &WalkedRecord<'_>) -> Result<Applied, ZilError> {
        let (head, record) = raw.decode().map_err(|source| self.bad_record(raw.seq(), source))?;
        let block = self.replay_block(&record).await?;
        let record = ReplayRecord { head, record, block };
        let ctx = ReplayCtx { core: self, seq: raw.seq() };
        if let Ok(applied) = into.apply(&record, ctx).await {
            return Ok(applied);
        }
        // What an earlier record removed may still be in the way until its txg has synced.
        self.store.wait_synced(self.store.open_txg()).await?;
        into.apply(&record, ctx).await.map_err(|source| ZilError::Replay {
            objset: self.objset,
            seq: raw.seq(),
            txtype: raw.txtype(),
            source,
        })
    }

    async fn replay_block(&self, record: &LogRecord) -> Result<Option<ReplayBlock>, ZilError> {
        let LogRecord::Write(write) = record else { return Ok(None) };
        if write.data.is_some() {
            return Ok(None);
        }
        let bytes = write.blkptr.lsize().get();
        let data = if write.blkptr.is_hole() {
            IoBuf::zeroed(usize::try_from(bytes.max(write.length)).unwrap_or(0))
        } else {
            self.store.read_data_block(&write.blkptr).await?
        };
        let offset = write.offset - write.offset % bytes.max(1);
        Ok(Some(ReplayBlock { offset, data }))
    }

    fn bad_record(&self, seq: ZilSeq, source: ondisk::OndiskError) -> ZilError {
        ZilError::BadRecord { objset: self.objset, seq, source }
    }
}
