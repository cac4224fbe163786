//! What a log that breaks off has lost, as far as that can be known.
//!
//! ```text
//!  header ─► block 1 ─► block 2 ─► block 3 ✗     block 4     block 5 …
//!                                  not there     └ of the same chain, with higher numbers: found by looking
//! ```
//! Each log ends with a block that is not there, and nothing tells a block that was never written from one that
//! was damaged; unless the log was claimed further. Blocks of the same chain that lie behind it say that something
//! was there, or that the power went while several blocks were being written together, none of which anybody was
//! told of.
//! (tests: `a_damaged_middle_tells_what_lies_behind_it`, `the_end_of_a_log_is_no_loss`)

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ondisk::Blkptr;
use ondisk::zil::{ChainSeed, LogRecord, ZilHeader, flags};
use units::{ObjectId, ZilSeq};

use crate::chain::scan::{FoundBlock, ReadRange, scan};

/// What lay behind the place where a log breaks off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogLoss {
    /// The number of the block that is not there.
    pub block: ZilSeq,
    /// The log was claimed beyond it: it was there. Otherwise the power may have gone while the blocks were being
    /// written together.
    pub is_certain: bool,
    /// Records that the claim had found, and that cannot be reached.
    pub records_claimed: u64,
    /// Blocks of the chain found behind it, and their records.
    pub blocks: u64,
    /// See above.
    pub records: u64,
    /// Of these, changes of names.
    pub names: u64,
    /// And those of objects' contents.
    pub objects: BTreeMap<ObjectId, u64>,
    /// Bytes that these wrote.
    pub bytes: u64,
}

impl LogLoss {
    fn add(&mut self, block: &FoundBlock) {
        self.blocks += 1;
        for record in block.records().map_while(Result::ok) {
            self.records += 1;
            let Ok((_, record)) = record.decode() else { continue };
            match record.object() {
                Some(object) => *self.objects.entry(object).or_default() += 1,
                None => self.names += 1,
            }
            self.bytes += match record {
                LogRecord::Write(write) | LogRecord::Write2(write) => write.length,
                LogRecord::CloneRange(clone) => clone.length,
                _ => 0,
            };
        }
    }
}

/// Looks in `range` of a vdev for what lies behind the block at `place`, which is not there. `newest` is the last
/// record before it. Nothing when that seems to be the log's end.
pub async fn loss_behind(
    read: ReadRange<'_>,
    range: Range<u64>,
    place: &Blkptr,
    newest: ZilSeq,
    header: &ZilHeader,
) -> Option<LogLoss> {
    let seed = ChainSeed::of(place);
    let mut loss = LogLoss { block: seed.seq, ..LogLoss::default() };
    let is_claimed = header.claim_txg.get() != 0;
    if is_claimed && header.flags.get() & flags::CLAIM_LR_SEQ_VALID != 0 {
        loss.records_claimed = header.claim_lr_seq.get().saturating_sub(newest.get());
        loss.is_certain = loss.records_claimed > 0;
    }
    let last = if is_claimed { header.claim_blk_seq.get() } else { u64::MAX };
    // A place may be found twice, where windows meet.
    let mut seen = BTreeSet::new();
    let each = |block: FoundBlock| {
        let seq = block.seq.get();
        let is_behind = seq > seed.seq.get() && seq <= last;
        if block.objset == seed.objset && block.chain == seed.guid && is_behind && seen.insert(seq) {
            loss.add(&block);
        }
    };
    scan(read, range, each).await;
    (loss.is_certain || loss.blocks > 0).then_some(loss)
}

impl std::fmt::Display for LogLoss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the log breaks off before its block {}", self.block)?;
        if self.is_certain {
            write!(f, ", {} records before its end", self.records_claimed)?;
        }
        if self.blocks > 0 {
            write!(f, "; behind that lie at least {} blocks with {} records", self.blocks, self.records)?;
            write!(f, ": {} changes of names, and of {} objects", self.names, self.objects.len())?;
            write!(f, ", {} bytes written", self.bytes)?;
        }
        if !self.is_certain {
            write!(
                f,
                "; if the power went while these were being written together, nobody had been told of them"
            )?;
            write!(f, "; else they may have been lost")?;
        }
        Ok(())
    }
}
