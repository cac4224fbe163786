//! Logs at rest: those that txgs need not look at.
//!
//! Of ten thousand logs few are in use. One that has no record to drop, no block to free and no
//! header to move is at rest, and costs a txg nothing.
//!
//! ```text
//!            assign, prime, close, move: attend, and learn what has become stable meanwhile
//!  at rest ──────────────────────────────────────────────────────────────────────────────────► awake
//!     ▲                          txg stable, nothing left to do: leave                            │
//!     └───────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//! A log wakes before anything of it can belong to a txg: a record is assigned by somebody who
//! holds the txg open, and a block is allocated by a stage, which only begins for such a record
//! or under the lock under which the log was woken.
//!
//! Going to rest races with waking. So the log leaves first, then says that it rests, then looks,
//! under its locks, whether it may; who gives it something to do does that under one of these
//! locks, and looks then whether the log rests. One of the two sees the other. In between, a log
//! that is awake is not attended to; only the sync loop would notice, and it is the one that is here.
//!
//! Invariants
//! - A log with something to do for a txg is attended to in that txg: the world of all tests
//!   syncs a log only if it is (test: `an_idle_log_comes_to_rest_and_wakes`).

use std::collections::BTreeMap;

use crate::chain::{Chain, HeaderState};
use crate::commit::state::State;
use crate::log::Core;

impl Core {
    /// Sees to it that txgs attend to the log; whether it was at rest, and so has to learn what has
    /// become stable since ([`Core::catch_up`]).
    pub(crate) fn awaken(&self) -> bool {
        self.rests.awaken(|| self.store.attend(self.objset))
    }

    /// Learns what has become stable while the log was at rest.
    pub(crate) fn catch_up(&self) {
        self.learn_synced(self.store.synced_txg());
    }

    /// See [`crate::LogHandle::rest`].
    pub(crate) fn rest(&self) {
        let leave = || self.store.leave(self.objset);
        if self.rests.rest(|| self.may_rest(), leave, || self.store.attend(self.objset)) {
            self.state.lock().let_go_of_room();
            self.pending.lock().let_go_of_room();
        }
    }

    fn may_rest(&self) -> bool {
        let state = self.state.lock();
        let pending = self.pending.lock();
        pending.is_empty() && self.shelf.is_empty() && state.may_rest()
    }
}

impl State {
    /// Gives back the memory of what is empty.
    fn let_go_of_room(&mut self) {
        self.wanted.shrink_to_fit();
        self.flights.shrink_to_fit();
        if let Some(chain) = &mut self.chain {
            chain.blocks.shrink_to_fit();
        }
        if self.objects.is_empty() {
            self.objects = BTreeMap::new();
        }
        self.seats.let_go_of_room();
    }

    fn may_rest(&self) -> bool {
        let works = self.stage.is_some() || self.in_hand.is_some();
        let has_records = works || !self.flights.is_empty() || !self.wanted.is_empty();
        let has_to_end = self.closing && self.chain.is_some();
        let has_to_free = has_to_end || !self.retired.is_empty() || !self.orphans.is_empty();
        // Commits that come now find themselves done without being told of any txg.
        let is_awaited = self.lost.is_some() || self.namespace.txg > self.synced || !self.objects.is_empty();
        !(has_records || has_to_free || is_awaited) && self.header_stays()
    }

    /// Whether the header on disk says what there is: not so while a claimed log is replayed.
    fn header_stays(&self) -> bool {
        let is_stable = |chain: &Chain| {
            chain.blocks.is_empty()
                && matches!(chain.header, HeaderState::Published(txg) if txg <= self.synced)
        };
        let front = self.chain.as_ref().and_then(Chain::front).unwrap_or_default();
        self.header.log == front
            && self.header_txg <= self.synced
            && self.chain.as_ref().is_none_or(is_stable)
    }
}
