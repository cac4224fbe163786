//! A log as an import finds it, and what claiming does.
//!
//! ```text
//!  Found ──claim──► Claimed ──replay──► Live
//!    │                 │ a crash: found again, claimed already, resumes after replay_seq
//!    │                 └──discard──► Live, nothing replayed
//!    └ a crash: found again as it was
//! ```
//! After a crash, blocks that the chain allocated since the last uberblock are free as far as the
//! space maps know. Claim allocates them before anything else can, in the import's first txg, and
//! notes in the header how far the log reaches: what cannot be read now will not be believed
//! later, when a device comes back with other contents.
//!
//! Invariants
//! - A claimed header is claimed once (test: `claiming_twice_changes_nothing`).
//! - The space maps know all claimed blocks when the header says it is claimed: both belong to
//!   the same txg.

use std::collections::BTreeSet;
use std::sync::Arc;

use env::{Env, boxed};
use ondisk::zil::{TxType, ZilHeader, flags};
use ondisk::{Blkptr, Dva};
use units::{ObjsetId, Txg, VdevId, VdevOffset, ZilSeq};

use crate::ZilError;
use crate::chain::walk::{LogWalk, Referenced, WalkedBlock, WalkedRecord};
use crate::live::{IntentLog, LogHandle};
use crate::log::Core;
use crate::replay::meter::{Amount, ReplayWatch};
use crate::store::LogStore;

/// State of a log that an import has found.
#[derive(Debug)]
pub struct Found;

/// State of a log whose blocks are allocated and whose end is known.
#[derive(Debug, Default)]
pub struct Claimed {
    /// Whether records name blocks that belong to files, if this import has read them.
    names_shared_blocks: Option<bool>,
    /// Where the first block lies that is not there, and the newest record before it, if this import has looked.
    end: Option<(Blkptr, ZilSeq)>,
    /// Where all lies that the log holds, if this import has read that.
    held: Option<Vec<Dva>>,
}

impl Claimed {
    fn of(reach: Reach) -> Self {
        let end = reach.end.map(|place| (place, reach.lr_seq));
        let held = (!reach.names_unknown).then_some(reach.held);
        Self { names_shared_blocks: Some(reach.clones), end, held }
    }
}

/// Places already seen: a block may be named twice.
#[derive(Default)]
pub(crate) struct Seen(BTreeSet<(VdevId, VdevOffset)>);

impl Seen {
    /// Whether the block is new here.
    pub fn insert(&mut self, bp: &Blkptr) -> bool {
        let Dva { vdev, offset, .. } = bp.dva(0);
        self.0.insert((vdev, offset))
    }
}

/// How far a claim got.
#[derive(Default)]
struct Reach {
    blk_seq: ZilSeq,
    lr_seq: ZilSeq,
    blocks: u64,
    amount: Amount,
    clones: bool,
    end: Option<Blkptr>,
    held: Vec<Dva>,
    /// A record makes no sense that may name blocks.
    names_unknown: bool,
}

impl Reach {
    fn add_block(&mut self, block: &WalkedBlock) {
        self.blk_seq = block.seq;
        self.blocks += 1;
        self.end = (!block.is_written()).then_some(block.bp);
        self.held.extend(block.bp.dvas());
    }

    fn add(&mut self, record: &WalkedRecord<'_>) {
        self.amount.add(record.bytes().len());
        self.clones |= record.txtype() == TxType::CloneRange.raw();
        match record.referenced_blocks() {
            Ok(referenced) => self.held.extend(referenced.places()),
            Err(_) => self.names_unknown = true,
        }
    }

    /// That of a log of which only blocks count that were allocated up to a txg, and no record.
    async fn of_blocks_up_to(mut walk: LogWalk<'_>, txg: Txg) -> Result<Self, ZilError> {
        let mut reach = Self::default();
        while let Some(block) = walk.next().await?.filter(|block| block.bp.birth() <= txg) {
            reach.blk_seq = block.seq;
            reach.blocks += 1;
        }
        Ok(reach)
    }

    /// That of a log that was claimed before.
    async fn of(mut walk: LogWalk<'_>) -> Result<Self, ZilError> {
        let mut reach = Self::default();
        while let Some(block) = walk.next().await? {
            reach.add_block(&block);
            for record in block.records().map_while(Result::ok) {
                reach.lr_seq = reach.lr_seq.max(record.seq());
                reach.add(&record);
            }
        }
        Ok(reach)
    }
}

impl IntentLog<Found> {
    /// The log of a dataset whose objset says `header`.
    #[must_use]
    pub fn found(objset: ObjsetId, header: ZilHeader, store: Arc<dyn LogStore>, env: Arc<dyn Env>) -> Self {
        Self { core: Core::new(objset, header, store, env), state: Found }
    }

    /// Whether every device that the log needs answers. An import that must not lose writes asks
    /// this of every dataset before it claims any.
    ///
    /// # Errors
    /// A device that does not answer, or a log this code does not understand.
    #[boxed]
    pub async fn check(&self) -> Result<(), ZilError> {
        let header = self.header();
        let mut walk = LogWalk::new(self.core.objset, &header, &*self.core.store);
        while walk.next().await?.is_some() {}
        Ok(())
    }

    /// Allocates the log's blocks in `first_txg`, the first txg of this import, before anything
    /// else allocates, and notes in the header how far the log reaches. The caller stores
    /// [`IntentLog::header`] with the same txg. A header that is claimed already, or has no log,
    /// stays as it is.
    ///
    /// # Errors
    /// A device that does not answer; references to cloned blocks that cannot be kept.
    #[boxed]
    pub async fn claim(self, first_txg: Txg) -> Result<IntentLog<Claimed>, ZilError> {
        let mut header = self.header();
        let mut state = Claimed::default();
        if !header.log.is_hole() && header.claim_txg.get() == 0 {
            let walk = LogWalk::new(self.core.objset, &header, &*self.core.store);
            let reach = self.claim_blocks(walk, first_txg).await?;
            header.claim_txg = first_txg.get().into();
            self.note_reach(header, &reach);
            state = Claimed::of(reach);
        }
        Ok(IntentLog { core: self.core, state })
    }

    /// The same without what lies on devices that do not answer, and without what is damaged: the log ends at
    /// its first such block, also if it was claimed beyond that. Places of blocks behind that one stay allocated,
    /// for nobody knows them.
    ///
    /// # Errors
    /// As [`IntentLog::claim`], but for devices that do not answer.
    #[boxed]
    pub async fn claim_what_answers(self, first_txg: Txg) -> Result<IntentLog<Claimed>, ZilError> {
        let mut header = self.header();
        let mut state = Claimed::default();
        if !header.log.is_hole() {
            let walk = LogWalk::giving_up_damaged(self.core.objset, &header, &*self.core.store);
            let reach = if header.claim_txg.get() == 0 {
                header.claim_txg = first_txg.get().into();
                self.claim_blocks(walk, first_txg).await?
            } else {
                Reach::of(walk).await?
            };
            self.note_reach(header, &reach);
            state = Claimed::of(reach);
        }
        Ok(IntentLog { core: self.core, state })
    }

    /// The same in a pool that has returned to the checkpoint of txg `checkpoint`, for a log that was not claimed by
    /// then: its blocks up to that txg are allocated and are given back with the log, and nothing is replayed. What
    /// lies behind them, or was written to them since, is of the state that was given up.
    ///
    /// # Errors
    /// A log this code does not understand.
    #[boxed]
    pub async fn claim_without_records(
        self,
        first_txg: Txg,
        checkpoint: Txg,
    ) -> Result<IntentLog<Claimed>, ZilError> {
        let mut header = self.header();
        if !header.log.is_hole() && header.claim_txg.get() == 0 {
            let walk = LogWalk::giving_up_damaged(self.core.objset, &header, &*self.core.store);
            let reach = Reach::of_blocks_up_to(walk, checkpoint).await?;
            if reach.blocks > 0 {
                header.claim_txg = first_txg.get().into();
                self.note_reach(header, &reach);
            } else {
                self.core.state.lock().header = ZilHeader::default();
            }
        }
        Ok(IntentLog { core: self.core, state: Claimed::default() })
    }

    /// Claims the log in a pool that went back to the older txg `state_txg`. Nothing is replayed,
    /// even if the log had been claimed by then. The blocks of the log, and the blocks that its
    /// records name, are allocated in that state. The readable ones are freed with the log. The
    /// others stay allocated without an owner, because the abandoned txgs may have freed them and
    /// reused their space.
    ///
    /// # Errors
    /// A log that this code does not understand.
    #[boxed]
    pub async fn claim_to_discard(
        self,
        first_txg: Txg,
        state_txg: Txg,
    ) -> Result<IntentLog<Claimed>, ZilError> {
        let mut header = self.header();
        if header.log.is_hole() || header.claim_txg.get() == 0 {
            return self.claim_without_records(first_txg, state_txg).await;
        }
        let walk = LogWalk::giving_up_damaged(self.core.objset, &header, &*self.core.store);
        let reach = Reach::of(walk).await?;
        header.replay_seq = header.replay_seq.get().max(reach.lr_seq.get()).into();
        self.note_reach(header, &reach);
        // The missing end is not reported as a loss, because the whole log is discarded.
        Ok(IntentLog { core: self.core, state: Claimed { end: None, ..Claimed::of(reach) } })
    }

    fn note_reach(&self, mut header: ZilHeader, reach: &Reach) {
        header.claim_blk_seq = reach.blk_seq.get().into();
        header.claim_lr_seq = reach.lr_seq.get().into();
        let needs_replay = reach.amount.records > 0 || reach.blocks > 1;
        let replay = if needs_replay { flags::REPLAY_NEEDED } else { 0 };
        header.flags = (header.flags.get() | replay | flags::CLAIM_LR_SEQ_VALID).into();
        self.core.state.lock().header = header;
        self.core.meter.expect(reach.amount);
    }

    /// Gives up a log that cannot be read to its end, because a device that held it is lost: the
    /// blocks that can still be found are freed in `first_txg`, and its header names none. For
    /// imports that were told to do without.
    pub async fn abandon(
        self,
        first_txg: Txg,
        is_present: impl Fn(VdevId) -> bool + Send,
    ) -> IntentLog<crate::Live> {
        let header = self.header();
        let is_claimed = header.claim_txg.get() != 0;
        let mut blocks = ClaimedBlocks::new(&header);
        let mut walk = LogWalk::new(self.core.objset, &header, &*self.core.store);
        let mut next = Some(header.log).filter(|bp| !bp.is_hole());
        while let Some(bp) = next {
            // Unclaimed, a young block is free as far as the space maps know.
            if (is_claimed || bp.birth() < first_txg) && bp.dvas().all(|dva| is_present(dva.vdev)) {
                blocks.note_block(&bp);
            }
            let Ok(Some(block)) = walk.next().await else { break };
            for record in block.records().map_while(Result::ok).filter(|_| is_claimed) {
                blocks.note_record(&record);
            }
            next = Some(walk.ahead()).filter(|bp| !bp.is_hole());
        }
        drop(walk);
        blocks.retain(|bp| bp.dvas().all(|dva| is_present(dva.vdev)));
        IntentLog { core: self.core, state: Claimed::default() }.into_live(blocks, Txg::ZERO)
    }

    async fn claim_blocks(&self, mut walk: LogWalk<'_>, first_txg: Txg) -> Result<Reach, ZilError> {
        let mut seen = Seen::default();
        let mut reach = Reach::default();
        while let Some(block) = walk.next().await? {
            if !self.claim_place(&block.bp, first_txg, &mut seen).await {
                break;
            }
            if block.is_written() {
                self.core.store.mend(&block.bp).await;
            }
            reach.add_block(&block);
            if !self.claim_records(&block, first_txg, &mut seen, &mut reach).await? {
                break;
            }
        }
        Ok(reach)
    }

    /// Claims what the block's records name; whether the log goes on after it.
    async fn claim_records(
        &self,
        block: &WalkedBlock,
        first_txg: Txg,
        seen: &mut Seen,
        reach: &mut Reach,
    ) -> Result<bool, ZilError> {
        for record in block.records() {
            let Ok(record) = record else { return Ok(false) };
            if !self.claim_record(&record, first_txg, seen).await? {
                return Ok(false);
            }
            reach.lr_seq = reach.lr_seq.max(record.seq());
            reach.add(&record);
        }
        Ok(true)
    }

    async fn claim_record(
        &self,
        record: &WalkedRecord<'_>,
        first_txg: Txg,
        seen: &mut Seen,
    ) -> Result<bool, ZilError> {
        match record.referenced_blocks() {
            Ok(Referenced::Nothing) => Ok(true),
            Ok(Referenced::Data(bp)) if bp.is_hole() || bp.is_embedded() || bp.birth() < first_txg => {
                Ok(true)
            }
            // The log block can be stable before the data it leads to. Then nobody was told of
            // the write, and the log ends here.
            Ok(Referenced::Data(bp)) => {
                let is_there = self.core.store.read_data_block(&bp).await.is_ok();
                let is_ours = is_there && self.claim_place(&bp, first_txg, seen).await;
                if is_ours {
                    self.core.store.mend(&bp).await;
                }
                Ok(is_ours)
            }
            Ok(Referenced::Clones(bps)) => self.claim_clones(&bps, first_txg),
            Err(_) => Ok(false),
        }
    }

    fn claim_clones(&self, bps: &[Blkptr], first_txg: Txg) -> Result<bool, ZilError> {
        let is_cloned = |bp: &&Blkptr| !bp.is_hole() && !bp.is_embedded();
        // A block from a txg that never was is not allocated.
        if bps.iter().filter(is_cloned).any(|bp| bp.physical_birth() >= first_txg) {
            return Ok(false);
        }
        for bp in bps.iter().filter(is_cloned) {
            self.core.store.claim_clone(first_txg, bp)?;
        }
        Ok(true)
    }

    /// Allocates a block, if the space maps do not know it; whether it is the log's now.
    async fn claim_place(&self, bp: &Blkptr, first_txg: Txg, seen: &mut Seen) -> bool {
        bp.birth() < first_txg || !seen.insert(bp) || self.core.store.claim(first_txg, bp).await.is_ok()
    }
}

impl IntentLog<Claimed> {
    /// Whether there is anything to replay.
    #[must_use]
    pub fn needs_replay(&self) -> bool {
        let header = self.header();
        !header.log.is_hole() && header.flags.get() & flags::REPLAY_NEEDED != 0
    }

    /// Has `watch` told of each record that is replayed.
    pub fn watch(&self, watch: Arc<dyn ReplayWatch>) {
        self.core.meter.watch(watch);
    }

    /// Where this import found that the log ends, and the number of the newest record before that.
    #[must_use]
    pub const fn end(&self) -> Option<(Blkptr, ZilSeq)> {
        self.state.end
    }

    /// Whether records name blocks that belong to files. Until they are replayed nothing else may
    /// free such a block.
    ///
    /// # Errors
    /// A device that does not answer, or damage.
    #[boxed]
    pub async fn names_shared_blocks(&self) -> Result<bool, ZilError> {
        if let Some(known) = self.state.names_shared_blocks {
            return Ok(known);
        }
        let mut walk = LogWalk::new(self.core.objset, &self.header(), &*self.core.store);
        while let Some(block) = walk.next().await? {
            let mut records = block.records().map_while(Result::ok);
            if records.any(|record| record.txtype() == TxType::CloneRange.raw()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Where all lies that the log holds: its blocks, the place of the one behind the last, and whatever blocks records
    /// name, those too that belong to files. A place may be told twice.
    ///
    /// # Errors
    /// A device that does not answer, or damage: what lies behind that is unknown.
    #[boxed]
    pub async fn held(&self) -> Result<Vec<Dva>, ZilError> {
        if let Some(known) = &self.state.held {
            return Ok(known.clone());
        }
        let objset = self.core.objset;
        let mut walk = LogWalk::new(objset, &self.header(), &*self.core.store);
        let mut held = Vec::new();
        while let Some(block) = walk.next().await? {
            held.extend(block.bp.dvas());
            for record in block.records() {
                let referenced = record.and_then(|record| record.referenced_blocks());
                let damage = |_| ZilError::LostBlock { objset, seq: block.seq, source: None };
                held.extend(referenced.map_err(damage)?.places());
            }
        }
        Ok(held)
    }

    /// Gives up everything in the log: its blocks are freed with the next txg.
    ///
    /// # Errors
    /// A device that does not answer, or damage: the blocks past it are unknown.
    #[boxed]
    pub async fn discard(self) -> Result<IntentLog<crate::Live>, ZilError> {
        let mut claimed = ClaimedBlocks::new(&self.header());
        let mut walk = LogWalk::new(self.core.objset, &self.header(), &*self.core.store);
        while let Some(block) = walk.next().await? {
            claimed.note_block(&block.bp);
            for record in block.records().map_while(Result::ok) {
                claimed.note_record(&record);
            }
        }
        drop(walk);
        Ok(self.into_live(claimed, Txg::ZERO))
    }

    /// The log in use, the old chain to be freed in `after` or later.
    pub(crate) fn into_live(self, claimed: ClaimedBlocks, after: Txg) -> IntentLog<crate::Live> {
        {
            let mut state = self.core.state.lock();
            state.retired.is_named = !state.header.log.is_hole();
            state.retired.blocks = claimed.blocks;
            state.retired.clones = claimed.clones;
            state.retired.after = after;
        }
        IntentLog { core: self.core, state: crate::Live }
    }
}

/// What claim allocated or took references to: what goes when the log is done with.
pub(crate) struct ClaimedBlocks {
    claim_txg: Txg,
    seen: Seen,
    blocks: Vec<Blkptr>,
    clones: Vec<Blkptr>,
}

impl ClaimedBlocks {
    pub fn new(header: &ZilHeader) -> Self {
        let claim_txg = Txg::new(header.claim_txg.get());
        Self { claim_txg, seen: Seen::default(), blocks: Vec::new(), clones: Vec::new() }
    }

    pub fn note_block(&mut self, bp: &Blkptr) {
        if self.seen.insert(bp) {
            self.blocks.push(*bp);
        }
    }

    fn retain(&mut self, keeps: impl Fn(&Blkptr) -> bool) {
        self.blocks.retain(&keeps);
        self.clones.retain(&keeps);
    }

    pub fn note_record(&mut self, record: &WalkedRecord<'_>) {
        match record.referenced_blocks() {
            // Older data blocks were in the file already when the pool crashed.
            Ok(Referenced::Data(bp))
                if !bp.is_hole() && !bp.is_embedded() && bp.birth() >= self.claim_txg =>
            {
                self.note_block(&bp);
            }
            Ok(Referenced::Clones(bps)) => {
                self.clones.extend(bps.into_iter().filter(|bp| !bp.is_hole() && !bp.is_embedded()));
            }
            _ => {}
        }
    }
}

impl<S> IntentLog<S> {
    /// The header as it should be stored.
    #[must_use]
    pub fn header(&self) -> ZilHeader {
        self.core.state.lock().header
    }

    /// What the txg engine needs of this log.
    #[must_use]
    pub fn handle(&self) -> LogHandle {
        LogHandle(Arc::clone(&self.core))
    }
}
