//! From a commit to stable blocks.
//!
//! ```text
//!  commit ─► enlist ─► assemble ─────────────► fly ────────► land ─► done
//!                      fetch, plan, allocate,  write, flush
//!                      fill, link, hash
//! ```
//! No timers. A commit that finds a lane free assembles what waits and writes it on its own task;
//! while all lanes are busy, records gather, and whoever sees a batch land takes all of them
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
use std::task::Poll;

use futures::FutureExt;
use ondisk::Blkptr;
use units::{ObjectId, Txg};

use crate::ZilError;
use crate::batch::{Batch, Counts, FilledBlock, LaidOut};
use crate::chain::{Block, BlockState, Chain};
use crate::log::Core;
use crate::plan::{BLOCK_BYTES_MIN, FIRST_BLOCK_BYTES};
use crate::flight::fly;
use crate::state::{Flight, Goal, Next, State, Step, block_seq};
use crate::stats::bump;
use crate::store::{LogEvent, Placement};

impl Core {
    /// See [`crate::IntentLog::commit`].
    pub(crate) async fn commit(self: &Arc<Self>, object: Option<ObjectId>) -> Result<(), ZilError> {
        let started = self.env.now();
        bump(&self.stats.commits, 1);
        let goal = {
            // Both locks: records must enter the line in the order they were taken.
            let mut state = self.state.lock();
            let entries = self.pending.lock().take(object);
            state.enlist(entries, object)
        };
        let waited = self.reach(goal).await;
        if !matches!(waited, Ok(true)) {
            bump(&self.stats.commits_empty, u64::from(waited.is_ok()));
        }
        self.stats.latency(self.env.now().saturating_sub(started));
        waited.map(drop)
    }

    /// Waits until `goal` is stable; whether there was anything to wait for.
    async fn reach(self: &Arc<Self>, goal: Goal) -> Result<bool, ZilError> {
        if self.state.lock().is_done(goal) {
            return Ok(false);
        }
        let mut seat = Seat::take(self);
        let (mut may_open, mut fell_back) = (true, false);
        loop {
            let lanes = self.store.lanes();
            let next = {
                let mut state = self.state.lock();
                match state.next(goal, lanes, may_open) {
                    Next::Assemble => {
                        let work = self.assembler(&mut state);
                        Next::Drive(Self::start(&mut state, work))
                    }
                    Next::OpenChain => {
                        may_open = false;
                        let work = self.opener(&mut state);
                        Next::Drive(Self::start(&mut state, work))
                    }
                    other => other,
                }
            };
            match next {
                Next::Done => {
                    seat.is_done = true;
                    return Ok(true);
                }
                Next::Drive(step) => seat.drive(step, goal).await,
                Next::WaitTxg(txg) => {
                    bump(&self.stats.fallbacks, u64::from(!fell_back));
                    fell_back = true;
                    self.store.wait_synced(txg).await?;
                    self.learn_synced(txg);
                }
                Next::Assemble | Next::OpenChain => unreachable!("turned into steps above"),
            }
        }
    }

    /// Makes `work` the log's present stage.
    fn start(state: &mut State, work: impl Future<Output = ()> + Send + 'static) -> Step {
        let step = work.boxed().shared();
        state.stage = Some(step.clone());
        step
    }

    /// See [`crate::IntentLog::prime`].
    pub(crate) async fn prime(self: &Arc<Self>) {
        let step = {
            let mut state = self.state.lock();
            let may = state.chain.is_none() && state.retired.in_flight == 0 && !state.closing;
            match &state.stage {
                Some(stage) => Some(stage.clone()),
                None => may.then(|| {
                    let work = self.opener(&mut state);
                    Self::start(&mut state, work)
                }),
            }
        };
        if let Some(step) = step {
            step.await;
        }
    }

    /// Wakes who waits for `txg`.
    pub(crate) fn learn_synced(&self, txg: Txg) {
        let wakers = self.state.lock().synced(txg);
        wakers.into_iter().for_each(std::task::Waker::wake);
    }

    /// Allocates a first block: the chain is usable once a header that names it is stable.
    pub(crate) fn opener(self: &Arc<Self>, state: &mut State) -> impl Future<Output = ()> + Send + use<> {
        let (id, bytes) = (state.draw_id(), state.sizes.expected().max(FIRST_BLOCK_BYTES));
        let placement = Placement { avoid: state.avoid.clone() };
        let seed = [self.env.random_u64(), self.env.random_u64(), self.objset.get(), 1];
        let (core, store) = (Arc::downgrade(self), Arc::clone(&self.store));
        async move {
            let mut first = store.allocate(bytes, &placement).await;
            if first.is_err() {
                first = store.allocate(BLOCK_BYTES_MIN, &placement).await;
            }
            let Some(core) = core.upgrade() else { return };
            let event = {
                let mut state = core.state.lock();
                state.stage = None;
                core.chain_begun(&mut state, id, first.map(|bp| bp.with_checksum(seed)))
            };
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

    /// Puts what waits into blocks and sends them off.
    pub(crate) fn assembler(self: &Arc<Self>, state: &mut State) -> impl Future<Output = ()> + Send + use<> {
        let batch = Batch::take(state);
        let (core, store) = (Arc::downgrade(self), Arc::clone(&self.store));
        async move {
            let laid_out = batch.fetch().await.lay_out(&*store).await;
            if let Some(core) = core.upgrade() {
                core.install(laid_out);
            }
        }
    }

    /// Makes assembled blocks part of the chain and lets them fly; or, when the chain broke in
    /// the meantime, takes everything back.
    fn install(self: &Arc<Self>, mut batch: LaidOut) {
        let event = {
            let mut state = self.state.lock();
            state.stage = None;
            state.in_hand = None;
            batch.unloggable.iter().for_each(|&goal| state.lose(goal));
            if state.chain.as_ref().is_none_or(|chain| chain.id != batch.chain) {
                state.orphans.append(&mut batch.allocated);
                state.take_back(batch.records);
                return;
            }
            state.take_back(batch.rest());
            self.count(&batch.counts);
            if batch.blocks.is_empty() {
                state.advance();
                return;
            }
            state.sizes.note(batch.blocks.iter().map(|block| block.buf.len() as u64).sum());
            let chain = state.chain.as_mut().expect("checked above");
            chain.lr_seq = batch.lr_seq;
            chain.tail = batch.tail;
            let last = batch.blocks.last().map(|block| block_seq(&block.bp));
            self.launch(&mut state, batch.chain, std::mem::take(&mut batch.blocks), batch.names_since);
            batch.tail.is_none().then_some(LogEvent::NoSpace { last })
        };
        if let Some(event) = event {
            bump(&self.stats.no_space, 1);
            self.store.report(event);
        }
    }

    fn count(&self, counts: &Counts) {
        bump(&self.stats.itxs, counts.itxs);
        bump(&self.stats.copied_bytes, counts.copied);
        bump(&self.stats.fetched_bytes, counts.fetched);
        bump(&self.stats.indirect_bytes, counts.indirect);
        bump(&self.stats.record_bytes, counts.records);
    }

    /// Appends `blocks` to the chain and makes the future that writes them.
    fn launch(self: &Arc<Self>, state: &mut State, chain: u64, blocks: Vec<FilledBlock>, names_since: Txg) {
        bump(&self.stats.batches, 1);
        let id = state.draw_id();
        let first = block_seq(&blocks[0].bp);
        for block in &blocks {
            let (bp, through, max_txg) = (block.bp, block.through, block.max_txg);
            state.append(Block { bp, through, max_txg, state: BlockState::InFlight });
        }
        let (core, store) = (Arc::downgrade(self), Arc::clone(&self.store));
        let io = fly(core, store, id, blocks).boxed().shared();
        state.flights.push_back(Flight { id, chain, first, names_since, io });
    }

    /// Takes note that a batch is done.
    pub(crate) fn landed(&self, id: u64, written: &[(Blkptr, u64)], failures: Vec<ZilError>) {
        for (bp, bytes) in written {
            self.stats.block_written(bp.dva(0).vdev, *bytes, bp.psize().get());
        }
        {
            let mut state = self.state.lock();
            for vdev in failures.iter().filter_map(ZilError::vdev) {
                self.stats.failed(vdev);
                if !state.avoid.contains(&vdev) {
                    state.avoid.push(vdev);
                }
            }
            state.land(id, written.len(), failures.is_empty());
        }
        for error in failures {
            tracing::warn!(objset = self.objset.get(), %error, "log write failed; falling back to a txg");
            self.store.report(LogEvent::Failed { error });
        }
    }
}

/// A waiting commit's place among those to be woken. Given up early, it wakes the others: it may
/// have been the one that polled.
struct Seat<'a> {
    core: &'a Core,
    slot: usize,
    is_done: bool,
}

impl<'a> Seat<'a> {
    fn take(core: &'a Core) -> Self {
        let slot = core.state.lock().waiters.join();
        Self { core, slot, is_done: false }
    }

    /// Polls `step` until it is ready, or `goal` is reached another way.
    async fn drive(&self, mut step: Step, goal: Goal) {
        poll_fn(|cx| {
            if step.poll_unpin(cx).is_ready() {
                return Poll::Ready(());
            }
            let mut state = self.core.state.lock();
            if state.is_done(goal) {
                return Poll::Ready(());
            }
            state.waiters.register(self.slot, cx.waker());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let wakers = {
            let mut state = self.core.state.lock();
            state.waiters.leave(self.slot);
            if self.is_done { Vec::new() } else { state.waiters.drain() }
        };
        wakers.into_iter().for_each(std::task::Waker::wake);
    }
}
