//! The log and the txgs: the header's life, and the freeing of blocks.
//!
//! A header changes only when a txg syncs. `sync(txg)` decides what it says:
//!
//! ```text
//!  none ──first commit──► unpublished ──sync──► published ──txg stable──► acknowledged through
//!    ▲                                                │ broken, ended, closing
//!    └──────────── released ◄──sync, nothing in flight, all its txgs in── retired
//! ```
//! - Blocks whose records and allocation belong to txgs up to the syncing one are freed with it,
//!   and the header moves to the first block still needed. A crash before the uberblock finds
//!   the old header and the old allocations; after it, the new.
//! - A retired chain is freed as a whole, in the first txg that has all its records: only then
//!   may the header leave it, for acknowledged records exist nowhere else until they are synced.
//! - A block is allocated before the block that names it is written. Were its txg to become
//!   stable in between, a crash would leak it; so `sync` first waits for such writes.
//!
//! One leak is left to the next import, by choice: a device fails to write a block, the txg in which the
//! next block was allocated syncs before the retired chain can be released, and the power goes before
//! the txg after it. The next block could only be freed at once if the failed write had certainly
//! not reached the disk; freeing it while a reader might still get there would be worse. An import knows
//! where each log ends ([`crate::IntentLog::held`]), and on log devices it frees what none holds.
//!
//! Invariants
//! - Every block ever allocated is in the chain, waiting to be freed, or freed, and freed once
//!   (test: `every_block_is_in_the_chain_or_freed_once`).
//! - No block is freed in a txg older than itself, or with a write in flight
//!   (asserted by the test store in every test).

use std::sync::Arc;
use std::task::{Context, Waker};

use env::Shared;
use ondisk::Blkptr;
use ondisk::zil::ZilHeader;
use units::Txg;

use crate::ZilError;
use crate::chain::HeaderState;
use crate::commit::state::State;
use crate::log::Core;
use crate::replay::progress::Progress;

impl Core {
    /// See [`crate::LogHandle::sync`].
    pub(crate) async fn sync(self: &Arc<Self>, txg: Txg) -> Option<ZilHeader> {
        self.wait_for_flights(txg).await;
        self.nudge();
        let mut wakers = Vec::new();
        let (header, Freed { blocks, clones }) = {
            let mut state = self.state.lock();
            assert!(state.last_sync < txg, "the log of objset {} syncs txg {txg} twice", self.objset);
            state.last_sync = txg;
            let before = state.header;
            let freed = state.sync(txg);
            state.delegate(&mut wakers);
            ((state.header != before).then_some(state.header), freed)
        };
        wakers.into_iter().for_each(Waker::wake);
        for bp in &blocks {
            self.store.free(txg, bp).await;
        }
        clones.iter().for_each(|bp| self.store.free_clone(txg, bp));
        header
    }

    /// Waits until nothing is under way that names blocks allocated up to `txg`. What is begun
    /// from now on allocates in younger txgs.
    async fn wait_for_flights(&self, txg: Txg) {
        let stage = self.state.lock().stage.as_ref().map(|stage| stage.step.clone());
        if let Some(stage) = stage {
            stage.await;
        }
        loop {
            let flight = self.state.lock().flight_naming(txg);
            match flight {
                Some(flight) => flight.await,
                None => return,
            }
        }
    }

    /// Polls writes that every commit may have left, without waiting for them: a chain that has
    /// ended can only be given back once they have.
    fn nudge(&self) {
        let flights: Vec<Shared<()>> =
            self.state.lock().flights.iter().map(|flight| flight.io.clone()).collect();
        for flight in flights {
            let _ = flight.poll(&Context::from_waker(Waker::noop()));
        }
    }

    /// See [`crate::LogHandle::clean`].
    pub(crate) fn clean(&self, txg: Txg) {
        let dropped = self.pending.lock().clean(txg);
        drop(dropped);
        self.shelf.tidy();
        self.learn_synced(txg);
    }

    /// See [`crate::IntentLog::close`].
    pub(crate) async fn close(self: &Arc<Self>) -> Result<(), ZilError> {
        self.state.lock().closing = true;
        if self.awaken() {
            self.catch_up();
        }
        loop {
            self.drain().await;
            if self.is_closed() {
                return Ok(());
            }
            let txg = self.store.open_txg();
            self.store.wait_synced(txg).await?;
            self.clean(txg);
        }
    }

    /// Whether no record waits, no block is held, and the header that says so is stable.
    fn is_closed(&self) -> bool {
        let state = self.state.lock();
        state.is_gone() && state.header_txg <= state.synced && self.pending.lock().is_empty()
    }

    /// Waits for everything under way.
    async fn drain(&self) {
        loop {
            let step = {
                let state = self.state.lock();
                let flight = state.flights.front().map(|flight| flight.io.clone());
                state.stage.as_ref().map(|stage| stage.step.clone()).or(flight)
            };
            match step {
                Some(step) => step.await,
                None => return,
            }
        }
    }
}

/// What a txg frees of a log.
struct Freed {
    blocks: Vec<Blkptr>,
    clones: Vec<Blkptr>,
}

impl State {
    fn flight_naming(&self, txg: Txg) -> Option<Shared<()>> {
        let flight = self.flights.iter().find(|flight| flight.names_since <= txg);
        flight.map(|flight| flight.io.clone())
    }

    /// Brings the header up to `txg`; the blocks to be freed with it.
    fn sync(&mut self, txg: Txg) -> Freed {
        self.sync_replayed(txg);
        if self.closing {
            self.retire();
        }
        let mut freed = Freed { blocks: self.sync_orphans(txg), clones: Vec::new() };
        if !self.retired.is_empty() {
            let Some(mut released) = self.retired.release(txg) else { return freed };
            freed.blocks.append(&mut released.blocks);
            freed.clones = released.clones;
            self.publish(txg);
        } else if let Some(chain) = &mut self.chain {
            match chain.header {
                HeaderState::Unpublished => self.publish(txg),
                HeaderState::Published(_) => {
                    freed.blocks.append(&mut chain.pop_needless(txg));
                    self.header.log = chain.front().unwrap_or_default();
                }
            }
        }
        freed
    }

    /// Makes the header say where the present chain starts, or that there is none.
    fn publish(&mut self, txg: Txg) {
        self.header = ZilHeader::default();
        self.progress = Progress::default();
        self.header_txg = txg;
        if let Some(chain) = &mut self.chain {
            chain.header = HeaderState::Published(txg);
            self.header.log = chain.front().unwrap_or_default();
        }
    }

    fn sync_replayed(&mut self, txg: Txg) {
        let covered = self.progress.sync(txg);
        if covered.get() > self.header.replay_seq.get() {
            self.header.replay_seq = covered.get().into();
        }
    }

    fn sync_orphans(&mut self, txg: Txg) -> Vec<Blkptr> {
        let (freed, kept) = self.orphans.drain(..).partition(|bp: &Blkptr| bp.birth() <= txg);
        self.orphans = kept;
        freed
    }

    /// Whether nothing of the log is left to free.
    fn is_gone(&self) -> bool {
        let holds_none = self.chain.is_none() && self.retired.is_empty() && self.orphans.is_empty();
        holds_none && self.wanted.is_empty() && self.in_hand.is_none()
    }
}
