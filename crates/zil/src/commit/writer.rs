//! From a commit to stable blocks.
//!
//! ```text
//!  commit ─► enlist ─► assemble ─────────────► fly ────────► land ─► done
//!                      fetch, plan, allocate,  write, flush
//!                      fill, link, hash
//! ```
//! No timers. A commit that finds a lane free lets the other tasks that its thread could run commit what they have
//! to ([`env::Env::has_ready`]), assembles what waits and writes it on its own task;
//! while all lanes are busy (see [`crate::commit::pace`]), records gather, and whoever sees a batch land takes all of them
//! along in the next. A batch of one block per vdev costs one round trip: each write is stable by
//! itself. More blocks on a vdev are written together and flushed once.
//!
//! Assembling and flying are shared futures: any waiting commit polls them, and a commit that is
//! cancelled leaves them to the others.
//!
//! Invariants
//! - A commit returns only when its records' blocks and all before them are stable, or their txg
//!   is (test: `no_order_of_completion_acknowledges_early`).
//! - A failed write or flush never leads to an acknowledgement
//!   (test: `a_failure_at_any_io_loses_nothing_acknowledged`).
//! - A cancelled commit leaves the log usable (test: `cancelling_any_commit_wedges_nobody`).

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use env::Shared;
use ondisk::Blkptr;
use units::{ObjectId, Txg, VdevId};

use crate::ZilError;
use crate::chain::{Block, BlockState, Chain};
use crate::commit::batch::{Batch, Counts, FilledBlock, LaidOut};
use crate::commit::flight::{Departure, Way, fly};
use crate::commit::plan::{BLOCK_BYTES_MIN, FIRST_BLOCK_BYTES};
use crate::commit::state::{Flight, Goal, Landed, Next, State, block_seq};
use crate::itx::Record;
use crate::itx::pending::Entry;
use crate::log::Core;
use crate::stats::{CommitParts, bump};
use crate::store::{LogEvent, Placement};
use crate::trace::{CommitTrace, Recorder, WaitedFor};

impl Core {
    /// See [`crate::IntentLog::commit`].
    pub(crate) async fn commit(self: &Arc<Self>, object: Option<ObjectId>) -> Result<(), ZilError> {
        let began = self.env.now();
        bump(&self.stats.commits, 1);
        let (brought, waited) = match self.enter(object, began) {
            Entered::Waits(brought, seat, first) => (brought, self.reach(seat, first).await),
            Entered::IsDone => {
                bump(&self.stats.commits_empty, 1);
                (Brought::default(), Ok(Waited::default()))
            }
        };
        let returned = self.env.now();
        let took = returned.saturating_sub(began);
        self.stats.latency.note(took);
        let landed =
            waited.as_ref().ok().and_then(|waited| waited.landed).filter(|landed| landed.at >= began);
        self.stats.parts.add(&match landed {
            Some(Landed { at, begun, sent, written, .. }) => {
                self.stats.wake.note(returned.saturating_sub(at));
                CommitParts::of_batch(began, [begun, sent, written, at], returned)
            }
            None => CommitParts::without_batch(took),
        });
        let waited = waited?;
        if let Some(recorder) = self.recorder() {
            let (objset, Brought { records, bytes }) = (self.objset, brought);
            let waited_for = WaitedFor::last(landed.map(|landed| landed.id), waited.txg);
            recorder.note_commit(CommitTrace { objset, object, began, returned, records, bytes, waited_for });
        }
        Ok(())
    }

    /// What records commits, if somebody wants that now.
    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        self.store.recorder().filter(|recorder| recorder.is_on())
    }

    /// Takes a seat for a commit of `object`, and what is to be done first.
    fn enter(self: &Arc<Self>, object: Option<ObjectId>, now: Duration) -> Entered<'_> {
        let lanes = self.store.lanes();
        let is_recorded = self.recorder().is_some();
        let mut wakers = Vec::new();
        let entered = {
            // Both locks: records must enter the line in the order they were taken.
            let mut state = self.state.lock();
            let entries = self.pending.lock().take(object);
            let brought = if is_recorded { Brought::of(&entries) } else { Brought::default() };
            let goal = state.enlist(entries, object, now);
            if state.is_done(goal) {
                return Entered::IsDone;
            }
            state.lanes = lanes;
            let ticket = state.seats.join(goal);
            let mut seat = Seat { core: self, ticket, goal, may_open: true, is_left: false };
            let next = self.choose(&mut state, &mut seat, Some(now), &mut wakers);
            Entered::Waits(brought, seat, next)
        };
        wakers.into_iter().for_each(Waker::wake);
        entered
    }

    /// Does what there is to do until the seat's goal is stable.
    async fn reach(self: &Arc<Self>, mut seat: Seat<'_>, first: Next) -> Result<Waited, ZilError> {
        let (mut next, mut txg_waited) = (first, None);
        loop {
            match next {
                Next::Done(landed) => return Ok(Waited { landed: Some(landed), txg: txg_waited }),
                Next::Drive(step) => seat.drive(step).await,
                Next::Park => seat.park().await,
                Next::WaitTxg(txg) => {
                    bump(&self.stats.fallbacks, u64::from(txg_waited.is_none()));
                    txg_waited = Some(txg);
                    self.store.wait_synced(txg).await?;
                    self.learn_synced(txg);
                }
                Next::Assemble | Next::OpenChain => unreachable!("turned into steps"),
            }
            let mut wakers = Vec::new();
            next = self.choose(&mut self.state.lock(), &mut seat, None, &mut wakers);
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// Decides what a waiting commit does next; whom to wake for what it leaves to others. `now` of a caller who has just
    /// looked at the clock.
    fn choose(
        self: &Arc<Self>,
        state: &mut State,
        seat: &mut Seat<'_>,
        now: Option<Duration>,
        wakers: &mut Vec<Waker>,
    ) -> Next {
        let next = match state.next(seat.ticket, seat.goal, seat.may_open) {
            Next::Assemble => {
                let step = if self.env.has_ready() {
                    Shared::new(self.gatherer(state))
                } else {
                    Shared::new(self.assembler(state, now))
                };
                state.start(step, Some(seat.ticket))
            }
            Next::OpenChain => {
                seat.may_open = false;
                let work = self.opener(state);
                state.start(Shared::new(work), Some(seat.ticket))
            }
            Next::Done(landed) => {
                seat.is_left = true;
                state.seats.leave(seat.ticket);
                Next::Done(landed)
            }
            other => other,
        };
        state.delegate(wakers);
        next
    }

    /// See [`crate::IntentLog::prime`].
    pub(crate) async fn prime(self: &Arc<Self>) {
        let (step, has_rested) = {
            let mut state = self.state.lock();
            let has_rested = self.awaken();
            let may = state.chain.is_none() && state.retired.in_flight == 0 && !state.closing;
            let under_way = state.stage.as_ref().map(|stage| stage.step.clone());
            let step = under_way.or_else(|| {
                let step = Shared::new(may.then(|| self.opener(&mut state))?);
                state.start(step.clone(), None);
                Some(step)
            });
            (step, has_rested)
        };
        if has_rested {
            self.catch_up();
        }
        if let Some(step) = step {
            step.await;
        }
    }

    /// Wakes who waits for `txg`.
    pub(crate) fn learn_synced(&self, txg: Txg) {
        let wakers = self.state.lock().synced(txg);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Allocates a first block: the chain is usable once a header that names it is stable.
    pub(crate) fn opener(self: &Arc<Self>, state: &mut State) -> impl Future<Output = ()> + Send + use<> {
        let (id, bytes) = (state.draw_id(), state.sizes.expected(|| true).max(FIRST_BLOCK_BYTES));
        let placement = Placement { avoid: state.avoid.clone(), planned: Vec::new() };
        let seed = [self.env.random_u64(), self.env.random_u64(), self.objset.get(), 1];
        let (core, store) = (Arc::downgrade(self), Arc::clone(&self.store));
        async move {
            let mut first = store.allocate(bytes, &placement).await;
            if first.is_err() {
                first = store.allocate(BLOCK_BYTES_MIN, &placement).await;
            }
            let Some(core) = core.upgrade() else { return };
            let mut wakers = Vec::new();
            let event = {
                let mut state = core.state.lock();
                state.stage = None;
                state.seats.rouse_parked(|_| true, &mut wakers);
                core.chain_begun(&mut state, id, first.map(|bp| bp.with_checksum(seed)))
            };
            wakers.into_iter().for_each(Waker::wake);
            core.store.report(event);
        }
    }

    fn chain_begun(&self, state: &mut State, id: u64, first: Result<Blkptr, ZilError>) -> LogEvent {
        match first {
            Ok(first) => {
                let vdev = first.dva(0).vdev;
                state.chain = Some(Chain::new(id, first));
                bump(&self.stats.chains, 1);
                LogEvent::Started { vdev }
            }
            Err(_) => {
                bump(&self.stats.no_space, 1);
                LogEvent::NoSpace { last: None }
            }
        }
    }

    /// Lets the other tasks of this thread come by before it assembles: what they commit goes along.
    fn gatherer(self: &Arc<Self>, state: &State) -> impl Future<Output = ()> + Send + use<> {
        let core = Arc::downgrade(self);
        let chain = state.chain.as_ref().map(|chain| chain.id);
        async move {
            env::let_others_first().await;
            let Some(core) = core.upgrade() else { return };
            let assembles = core.assemble_gathered(chain);
            drop(core);
            if let Some(assembles) = assembles {
                assembles.await;
            }
        }
    }

    /// What assembles all that was gathered, if the chain is still there for it.
    fn assemble_gathered(
        self: &Arc<Self>,
        chain: Option<u64>,
    ) -> Option<impl Future<Output = ()> + Send + use<>> {
        let mut wakers = Vec::new();
        let assembles = {
            let mut state = self.state.lock();
            if chain.is_some_and(|chain| state.goes_on(chain)) {
                Some(self.assembler(&mut state, None))
            } else {
                state.stage = None;
                state.seats.rouse_parked(|_| true, &mut wakers);
                None
            }
        };
        wakers.into_iter().for_each(Waker::wake);
        assembles
    }

    /// Puts what waits into blocks and sends them off.
    fn assembler(
        self: &Arc<Self>,
        state: &mut State,
        now: Option<Duration>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let batch = Batch::take(state);
        self.assemble(batch, now)
    }

    /// The same, and a block without records if nothing waits: the chain's tail gets another place.
    pub(crate) fn hopper(self: &Arc<Self>, state: &mut State) -> impl Future<Output = ()> + Send + use<> {
        let batch = Batch::take(state).with_a_block();
        self.assemble(batch, None)
    }

    fn assemble(
        self: &Arc<Self>,
        batch: Batch,
        now: Option<Duration>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (core, store) = (Arc::downgrade(self), Arc::clone(&self.store));
        let shelf = Arc::clone(&self.shelf);
        let begun = now.unwrap_or_else(|| self.env.now());
        let came = batch.first_came();
        if let Some(came) = came {
            self.stats.queue.note(begun.saturating_sub(came));
        }
        async move {
            let laid_out = batch.fetch().await.lay_out(&*store, &shelf).await;
            if let Some(core) = core.upgrade() {
                let sent = core.env.now();
                core.stats.assemble.note(sent.saturating_sub(begun));
                core.install(laid_out, Way { came, begun, sent });
            }
        }
    }

    /// Makes assembled blocks part of the chain and lets them fly; or, when the chain broke in
    /// the meantime, takes everything back.
    fn install(self: &Arc<Self>, mut batch: LaidOut, way: Way) {
        let mut wakers = Vec::new();
        let event = {
            let mut state = self.state.lock();
            let driver = state.stage.take().and_then(|stage| stage.driver);
            state.in_hand = None;
            batch.unloggable.iter().for_each(|&goal| state.lose(goal));
            let flies = state.chain.as_ref().is_some_and(|chain| chain.id == batch.chain);
            if flies {
                state.named = std::mem::take(&mut batch.named);
                state.take_back(batch.rest());
                self.count(&batch.counts);
            } else {
                state.orphans.append(&mut batch.allocated);
                state.take_back(std::mem::take(&mut batch.records));
            }
            if flies && !batch.blocks.is_empty() {
                self.launch(&mut state, &mut batch, driver, way)
            } else {
                state.advance();
                state.seats.rouse_parked(|_| true, &mut wakers);
                None
            }
        };
        wakers.into_iter().for_each(Waker::wake);
        if let Some(event) = event {
            bump(&self.stats.no_space, 1);
            self.store.report(event);
        }
    }

    fn count(&self, counts: &Counts) {
        bump(&self.stats.itxs, counts.itxs);
        self.stats.copied.add(counts.copied);
        self.stats.fetched.add(counts.fetched);
        self.stats.indirect.add(counts.indirect);
        bump(&self.stats.placed_bytes, counts.placed);
        bump(&self.stats.record_bytes, counts.records);
    }

    /// Appends the batch's blocks to the chain and makes the future that writes them. An event
    /// when the chain ends with them.
    fn launch(
        self: &Arc<Self>,
        state: &mut State,
        batch: &mut LaidOut,
        driver: Option<u64>,
        way: Way,
    ) -> Option<LogEvent> {
        bump(&self.stats.batches, 1);
        let blocks = std::mem::take(&mut batch.blocks);
        state.sizes.note(blocks.iter().map(|block| block.buf.len() as u64).sum());
        let id = state.draw_id();
        let chain = state.chain.as_mut().expect("a chain to append to");
        (chain.lr_seq, chain.tail) = (batch.lr_seq, batch.tail);
        for block in &blocks {
            let (bp, through, max_txg) = (block.bp, block.through, block.max_txg);
            chain.blocks.push_back(Block { bp, through, max_txg, state: BlockState::InFlight });
        }
        let (first, last) = (blocks.first()?.bp, blocks.last()?.bp);
        let departure = Departure { id, way, records: batch.counts.itxs, beside: state.flights.len() };
        let io = Shared::new(fly(self, departure, blocks, batch.data_blocks()));
        let (first, names_since) = (block_seq(&first), batch.names_since);
        let (chain, since) = (batch.chain, way.sent);
        state.flights.push_back(Flight { id, chain, first, names_since, io, since, driver });
        batch.tail.is_none().then(|| LogEvent::NoSpace { last: Some(block_seq(&last)) })
    }

    /// See [`crate::LogHandle::give_up`].
    pub(crate) fn give_up(&self, vdev: VdevId) {
        let wakers: Vec<Waker> = {
            let mut state = self.state.lock();
            let flights = state.flights_on(vdev);
            flights.into_iter().flat_map(|id| state.land(id, 0, false)).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Takes note that a batch is done.
    pub(crate) fn landed(&self, landed: Landed, blocks: Vec<FilledBlock>, failures: Vec<ZilError>) {
        let id = landed.id;
        blocks.iter().for_each(|block| self.stats.block_written(block));
        let wakers = {
            let mut state = self.state.lock();
            // Of a batch that was given up all has been said, and its vdev may be well again.
            let is_awaited = state.flights.iter().any(|flight| flight.id == id);
            for vdev in failures.iter().filter_map(ZilError::vdev).filter(|_| is_awaited) {
                self.stats.failed(vdev);
                if !state.avoid.contains(&vdev) {
                    state.avoid.push(vdev);
                }
            }
            state.landed = landed;
            state.land(id, blocks.len(), failures.is_empty())
        };
        wakers.into_iter().for_each(Waker::wake);
        // A device that still holds a buffer keeps it.
        let done = blocks.into_iter().filter_map(|block| Arc::try_unwrap(block.buf).ok());
        done.for_each(|buf| self.shelf.give(buf));
        for error in failures {
            tracing::warn!(objset = self.objset.get(), %error, "log write failed; falling back to a txg");
            self.store.report(LogEvent::Failed { error });
        }
    }
}

/// What became of a commit that came in.
enum Entered<'a> {
    /// It has a seat, and something to do.
    Waits(Brought, Seat<'a>, Next),
    /// All was stable.
    IsDone,
}

/// What a commit brought along; not counted where nobody records it.
#[derive(Clone, Copy, Debug, Default)]
struct Brought {
    records: u64,
    bytes: u64,
}

impl Brought {
    fn of(entries: &[Entry]) -> Self {
        let bytes = |entry: &Entry| match &entry.record {
            Record::Write(write) => write.length,
            Record::Plain(_) => 0,
        };
        Self { records: entries.len() as u64, bytes: entries.iter().map(bytes).sum() }
    }
}

/// What a commit has waited for.
#[derive(Clone, Copy, Debug, Default)]
struct Waited {
    /// The newest batch, when it was done.
    landed: Option<Landed>,
    /// The last txg, if the log could not do it.
    txg: Option<Txg>,
}

/// A waiting commit's seat. Given up, it leaves its work to the others.
struct Seat<'a> {
    core: &'a Core,
    ticket: u64,
    goal: Goal,
    /// It has not tried to begin a chain yet.
    may_open: bool,
    /// The state knows of it no more.
    is_left: bool,
}

impl Seat<'_> {
    /// Polls `step` until it is ready, or something else happens.
    async fn drive(&self, step: Shared<()>) {
        poll_fn(|cx| match step.poll(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => self.core.state.lock().seats.poll_roused(self.ticket, cx),
        })
        .await;
    }

    async fn park(&self) {
        poll_fn(|cx| self.core.state.lock().seats.poll_roused(self.ticket, cx)).await;
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        let mut wakers = Vec::new();
        {
            let mut state = self.core.state.lock();
            state.seats.leave(self.ticket);
            state.let_go(self.ticket);
            state.delegate(&mut wakers);
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}
