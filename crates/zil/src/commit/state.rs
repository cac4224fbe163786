//! What one log knows, under one lock that is never held while waiting.
//!
//! Every record that a commit takes gets a *position*, counted up from zero. Three marks move
//! along the positions:
//!
//! ```text
//!      stable            assembled              next
//!        ▼                   ▼                    ▼
//!  ──────┼───────────────────┼────────────────────┼──►  positions
//!  in acked blocks     in blocks under way    wanted: in no block yet
//! ```
//! A commit is done when `stable` has passed its records, or when their txg has synced.
//!
//! When a chain breaks, what lies between `stable` and `assembled` is *lost* to the log: only
//! its txg can make it stable. Commits that need it wait for that.

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;
use std::time::Duration;

use env::Shared;
use ondisk::Blkptr;
use ondisk::zil::ZilHeader;
use units::{ObjectId, Txg, VdevId, ZilSeq};

use crate::chain::{BlockState, Chain, HeaderState, Retired};
use crate::commit::pace::Pace;
use crate::commit::plan::SizeHistory;
use crate::commit::seats::Seats;
use crate::itx::data_place::DataPlace;
use crate::itx::named::Named;
use crate::itx::pending::Entry;
use crate::itx::{Record, Scope};
use crate::replay::progress::Progress;

/// A record that somebody waits for.
#[derive(Debug)]
pub struct Wanted {
    pub position: u64,
    pub txg: Txg,
    pub record: Record,
    /// How much of a write's data is in blocks already.
    pub done: u64,
    /// A write's data were not there when it was logged.
    pub is_fetched: bool,
    /// Where a write's data are, while a batch has the record.
    pub place: Option<DataPlace>,
    /// When the commit came that wants it.
    pub since: Duration,
}

/// What a commit waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Goal {
    /// Records before this position.
    pub position: u64,
    /// Or this txg.
    pub txg: Txg,
}

impl Goal {
    fn max(self, other: Self) -> Self {
        Self { position: self.position.max(other.position), txg: self.txg.max(other.txg) }
    }
}

/// A batch of blocks that devices are writing.
pub struct Flight {
    pub id: u64,
    pub chain: u64,
    /// Sequence number of its first block.
    pub first: ZilSeq,
    /// The oldest txg in which a block that this batch names was allocated.
    pub names_since: Txg,
    pub io: Shared<()>,
    /// When it was sent off.
    pub since: Duration,
    /// The seat that polls it.
    pub driver: Option<u64>,
}

/// A batch that ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Landed {
    /// When it ended.
    pub at: Duration,
    pub id: u64,
    /// When it was begun.
    pub begun: Duration,
    /// When it was sent off.
    pub sent: Duration,
    /// When the last of its blocks was written.
    pub written: Duration,
}

/// What is done one at a time: assembling a batch, or beginning a chain.
pub struct Stage {
    pub step: Shared<()>,
    /// The seat that polls it.
    pub driver: Option<u64>,
}

/// What a waiting commit does next.
pub enum Next {
    /// Nothing: it is done. The newest batch that ended.
    Done(Landed),
    /// Poll this, then ask again.
    Drive(Shared<()>),
    /// Wait to be roused, then ask again.
    Park,
    /// Start assembling a batch, then ask again.
    Assemble,
    /// Begin a chain, then ask again.
    OpenChain,
    /// Wait for this txg, then ask again.
    WaitTxg(Txg),
}

/// See the module.
#[derive(Default)]
pub struct State {
    /// The header as it was last given out.
    pub header: ZilHeader,
    /// The txg with which it last began to name another chain, or none.
    pub header_txg: Txg,
    pub chain: Option<Chain>,
    pub retired: Retired,
    /// Blocks allocated but never named: free at once.
    pub orphans: Vec<Blkptr>,
    pub wanted: VecDeque<Wanted>,
    /// The first position that the assembler has in hand.
    pub in_hand: Option<u64>,
    pub next_position: u64,
    pub stable: u64,
    /// Everything before the position is stable only with the txg.
    pub lost: Option<Goal>,
    /// Of the newest namespace record taken.
    pub namespace: Goal,
    /// Of the newest record taken of each object; only what may not be stable yet.
    pub objects: BTreeMap<ObjectId, Goal>,
    /// The assembler, or the chain being begun: one at a time.
    pub stage: Option<Stage>,
    pub flights: VecDeque<Flight>,
    pub next_id: u64,
    pub synced: Txg,
    /// The newest txg that `sync` was called for.
    pub last_sync: Txg,
    pub avoid: Vec<VdevId>,
    pub seats: Seats,
    /// A chain has ended since the parked seats last looked.
    pub is_upset: bool,
    /// How many batches there is room for in flight.
    pub lanes: usize,
    /// How many of them are worth while.
    pub pace: Pace,
    pub sizes: SizeHistory,
    /// Blocks of data that the newest records name; while a batch is in hand, that has it.
    pub named: Named,
    /// The newest batch that ended.
    pub landed: Landed,
    /// No chain is to be begun any more, and the present one is to go.
    pub closing: bool,
    /// How far replay has got.
    pub progress: Progress,
}

impl State {
    /// A number nothing else in this log has.
    pub fn draw_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// The first position that is in no block.
    pub fn assembled(&self) -> u64 {
        let waiting = || self.wanted.front().map(|record| record.position);
        self.in_hand.or_else(waiting).unwrap_or(self.next_position)
    }

    /// Lines `entries` up for the log, at the time `now`; what a commit of `object` has to wait for.
    pub fn enlist(&mut self, entries: Vec<Entry>, object: Option<ObjectId>, now: Duration) -> Goal {
        if self.stable == self.next_position {
            self.objects.clear();
        }
        for entry in entries {
            let position = self.next_position;
            self.next_position += 1;
            let goal = Goal { position: self.next_position, txg: entry.txg };
            match entry.scope {
                Scope::Namespace | Scope::NamespaceWith(_) => self.namespace = self.namespace.max(goal),
                Scope::Object(object) => {
                    let of = self.objects.entry(object).or_default();
                    *of = of.max(goal);
                }
            }
            assert!(
                self.wanted.back().is_none_or(|last| last.position < position),
                "records stand in their order"
            );
            self.wanted.push_back(Wanted {
                position,
                txg: entry.txg,
                record: entry.record,
                is_fetched: false,
                done: 0,
                place: None,
                since: now,
            });
        }
        match object {
            Some(object) => self.namespace.max(self.objects.get(&object).copied().unwrap_or_default()),
            None => self.objects.values().fold(self.namespace, |goal, &of| goal.max(of)),
        }
    }

    /// Puts records back at the head of the line. Places they had are given up.
    pub fn take_back(&mut self, records: impl IntoIterator<Item = Wanted, IntoIter: DoubleEndedIterator>) {
        for record in records.into_iter().rev() {
            self.wanted.push_front(Wanted { place: None, ..record });
        }
    }

    pub fn is_done(&self, goal: Goal) -> bool {
        self.stable >= goal.position || self.synced >= goal.txg
    }

    /// What the commit in seat `ticket` does to bring its `goal` nearer; `may_open` is false when
    /// it has tried to begin a chain and found no room.
    pub fn next(&mut self, ticket: u64, goal: Goal, may_open: bool) -> Next {
        self.seats.come_by(ticket);
        self.let_go(ticket);
        if self.is_done(goal) {
            return Next::Done(self.landed);
        }
        if self.stage.is_some() {
            return self.drive_stage(ticket);
        }
        let is_lost = self.lost.is_some_and(|lost| self.stable < lost.position.min(goal.position));
        let can_open = may_open && !self.closing && self.retired.in_flight == 0;
        let Some(chain) = &mut self.chain else {
            return if can_open { Next::OpenChain } else { Next::WaitTxg(goal.txg) };
        };
        let goes_with_header = match chain.header {
            HeaderState::Unpublished => true,
            HeaderState::Published(txg) => goal.txg <= txg,
        };
        if is_lost || goes_with_header || self.closing {
            return Next::WaitTxg(goal.txg);
        }
        let (goes_on, is_busy) = (chain.tail.is_some(), !self.flights.is_empty());
        if self.assembled() >= goal.position {
            return if is_busy { self.drive_flight(ticket) } else { Next::WaitTxg(self.chain_txg()) };
        }
        if goes_on && self.flights.len() < self.pace.lanes(self.lanes) {
            return Next::Assemble;
        }
        if is_busy {
            return self.drive_flight(ticket);
        }
        self.retire();
        if can_open { Next::OpenChain } else { Next::WaitTxg(goal.txg) }
    }

    /// Makes `work` the present stage, driven from `ticket`.
    pub fn start(&mut self, step: Shared<()>, driver: Option<u64>) -> Next {
        self.stage = Some(Stage { step: step.clone(), driver });
        Next::Drive(step)
    }

    /// The stage may last: a batch that has nobody to drive it is not left to wait for its end.
    fn drive_stage(&mut self, ticket: u64) -> Next {
        match &mut self.stage {
            Some(stage) if stage.driver.is_none() => {
                stage.driver = Some(ticket);
                Next::Drive(stage.step.clone())
            }
            _ => self.drive_flight(ticket),
        }
    }

    /// Whether a batch may still be taken for the chain of that number.
    pub fn goes_on(&self, chain: u64) -> bool {
        !self.closing && self.chain.as_ref().is_some_and(|now| now.id == chain && now.tail.is_some())
    }

    fn drive_flight(&mut self, ticket: u64) -> Next {
        match self.flights.iter_mut().find(|flight| flight.driver.is_none()) {
            Some(flight) => {
                flight.driver = Some(ticket);
                Next::Drive(flight.io.clone())
            }
            None => self.park(ticket),
        }
    }

    fn park(&mut self, ticket: u64) -> Next {
        self.seats.park(ticket);
        Next::Park
    }

    /// The seat drives nothing any more.
    pub fn let_go(&mut self, ticket: u64) {
        let of_stage = self.stage.iter_mut().map(|stage| &mut stage.driver);
        let of_flights = self.flights.iter_mut().map(|flight| &mut flight.driver);
        for driver in of_stage.chain(of_flights).filter(|driver| **driver == Some(ticket)) {
            *driver = None;
        }
    }

    /// Sees to it that the work there is has somebody to do it; whom to wake for that.
    pub fn delegate(&mut self, wakers: &mut Vec<Waker>) {
        let is_idle = self.flights.iter().any(|flight| flight.driver.is_none())
            || self.stage.as_ref().is_some_and(|stage| stage.driver.is_none());
        if std::mem::take(&mut self.is_upset) || is_idle {
            self.seats.rouse_parked(|_| true, wakers);
        } else if self.has_work() {
            let assembled = self.assembled();
            self.seats.promote(|goal| goal.position > assembled, wakers);
        }
    }

    /// Whether a commit whose records wait would find something to do, if it came by now: exactly
    /// when [`State::next`] says so, or those roused for it would rouse each other without end.
    fn has_work(&self) -> bool {
        let goes_on = self.chain.as_ref().is_some_and(|chain| chain.tail.is_some());
        let lanes = if goes_on { self.pace.lanes(self.lanes) } else { 1 };
        let has_lane = self.flights.len() < lanes;
        self.stage.is_none() && has_lane && !self.wanted.is_empty()
    }

    /// Answers who is done; whom to wake for that.
    pub fn answer(&mut self, wakers: &mut Vec<Waker>) {
        let (stable, synced) = (self.stable, self.synced);
        self.seats.rouse_parked(|goal| stable >= goal.position || synced >= goal.txg, wakers);
    }

    /// The txg that makes the present chain's header stable.
    fn chain_txg(&self) -> Txg {
        match self.chain.as_ref().map(|chain| chain.header) {
            Some(HeaderState::Published(txg)) if txg > self.synced => txg,
            _ => self.synced.next(),
        }
    }

    /// Ends the present chain. What is in its blocks and not acknowledged yet waits for a txg.
    pub fn retire(&mut self) {
        let Some(chain) = self.chain.take() else { return };
        self.is_upset = true;
        let unacked = chain.blocks.iter().skip(chain.acked);
        if let Some(txg) = unacked.map(|block| block.max_txg).max() {
            self.lose(Goal { position: self.assembled(), txg });
        }
        let in_flight = self.flights.iter().filter(|flight| flight.chain == chain.id).count();
        self.retired.add(&chain, in_flight);
    }

    /// Every block the log holds.
    pub fn places(&self) -> impl Iterator<Item = Blkptr> {
        let chain = self.chain.iter().flat_map(Chain::places);
        chain.chain(self.retired.blocks.iter().copied()).chain(self.orphans.iter().copied())
    }

    /// The batches in flight whose blocks all lie on `vdev`.
    pub fn flights_on(&self, vdev: VdevId) -> Vec<u64> {
        let Some(chain) = &self.chain else { return Vec::new() };
        let flights: Vec<_> = self.flights.iter().filter(|flight| flight.chain == chain.id).collect();
        let ends = flights.iter().skip(1).map(|next| Some(next.first)).chain([None]);
        let is_there = |flight: &Flight, end: Option<ZilSeq>| {
            let from = chain.blocks.iter().skip_while(|block| block_seq(&block.bp) != flight.first);
            let mut blocks = from.take_while(|block| Some(block_seq(&block.bp)) != end);
            blocks.all(|block| block.bp.dva(0).vdev == vdev)
        };
        let found = flights.iter().zip(ends).filter(|&(flight, end)| is_there(flight, end));
        found.map(|(flight, _)| flight.id).collect()
    }

    /// Leaves everything before a position to a txg.
    pub fn lose(&mut self, goal: Goal) {
        self.lost = Some(self.lost.map_or(goal, |lost| lost.max(goal)));
    }

    /// Forgets a batch that devices are done with; `ok` when all of it is stable. Whom to wake.
    #[must_use]
    pub fn land(&mut self, id: u64, blocks: usize, ok: bool) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let Some(at) = self.flights.iter().position(|flight| flight.id == id) else { return wakers };
        let flight = self.flights.remove(at).expect("a flight just found");
        self.pace.note(self.landed.at.saturating_sub(flight.since));
        let Some(chain) = self.chain.as_mut().filter(|chain| chain.id == flight.chain) else {
            self.retired.in_flight -= 1;
            self.seats.rouse_parked(|_| true, &mut wakers);
            return wakers;
        };
        if !ok {
            self.retire();
            self.delegate(&mut wakers);
            return wakers;
        }
        let first = chain.blocks.iter().rposition(|block| block_seq(&block.bp) == flight.first);
        let first = first.expect("a block in flight stays in its chain");
        for block in chain.blocks.range_mut(first..first + blocks) {
            block.state = BlockState::Stable;
        }
        self.advance();
        // A driver that is not done looks for more work itself. One that is done returns: the
        // next batch should not wait for all others to be answered first.
        let driver = flight.driver.and_then(|ticket| self.seats.goal(ticket));
        if driver.is_none_or(|goal| self.is_done(goal)) {
            self.delegate(&mut wakers);
        }
        self.answer(&mut wakers);
        wakers
    }

    /// Moves `stable` as far as blocks and txgs allow.
    pub fn advance(&mut self) {
        if let Some(lost) = self.lost.filter(|lost| lost.txg <= self.synced) {
            self.stable = self.stable.max(lost.position);
            self.lost = None;
        }
        if self.lost.is_some() {
            return;
        }
        let assembled = self.assembled();
        let Some(chain) = self.chain.as_mut().filter(|chain| chain.is_reachable(self.synced)) else { return };
        if let Some(through) = chain.advance() {
            self.stable = self.stable.max(through);
        }
        if chain.acked == chain.blocks.len() {
            self.stable = self.stable.max(assembled);
        }
        self.check_order();
    }

    /// The order drawn in the module's head.
    fn check_order(&self) {
        let (stable, assembled, next) = (self.stable, self.assembled(), self.next_position);
        assert!(
            stable <= assembled && assembled <= next,
            "stable {stable}, assembled {assembled}, next {next}"
        );
    }

    /// Learns that `txg` is stable; whom to wake for it.
    #[must_use]
    pub fn synced(&mut self, txg: Txg) -> Vec<Waker> {
        if txg <= self.synced {
            return Vec::new();
        }
        self.synced = txg;
        self.wanted.retain(|record| record.txg > txg);
        self.objects.retain(|_, goal| goal.txg > txg);
        self.advance();
        let mut wakers = Vec::new();
        self.seats.rouse_all(&mut wakers);
        wakers
    }
}

/// A log block's place in its chain.
pub fn block_seq(bp: &Blkptr) -> ZilSeq {
    ondisk::zil::ChainSeed::of(bp).seq
}
