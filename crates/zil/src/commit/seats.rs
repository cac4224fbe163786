//! Who waits, and who of them does the work.
//!
//! Waking a thread costs more than most log writes, so a waiting commit is woken once: when it is
//! done. The work in between is one commit's for all: each step (assembling a batch, writing it)
//! has at most one *driver*, the others are *parked*. A driver that leaves, because it is done
//! or was cancelled, sees to it that what is left has another.
//!
//! Invariants
//! - While a commit is parked, every step under way has a driver, or somebody has been roused to
//!   become it (tests: `cancelling_any_commit_wedges_nobody`, `followers_are_woken_once`).

use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};

use crate::commit::state::Goal;

/// A waiting commit.
#[derive(Debug)]
struct Seat {
    goal: Goal,
    waker: Option<Waker>,
    is_parked: bool,
    is_roused: bool,
}

/// All waiting commits, in the order of their arrival.
#[derive(Debug, Default)]
pub struct Seats {
    seats: BTreeMap<u64, Seat>,
    next: u64,
    /// Roused to assemble the next batch, and not yet come by.
    promoted: Option<u64>,
}

impl Seats {
    pub fn join(&mut self, goal: Goal) -> u64 {
        self.next += 1;
        self.seats.insert(self.next, Seat { goal, waker: None, is_parked: false, is_roused: false });
        self.next
    }

    /// Gives back the memory of nobody's seats.
    pub fn let_go_of_room(&mut self) {
        if self.seats.is_empty() {
            self.seats = BTreeMap::new();
        }
    }

    pub fn leave(&mut self, ticket: u64) {
        self.seats.remove(&ticket);
        self.come_by(ticket);
    }

    /// The seat's task runs: it will look for itself what is to be done.
    pub fn come_by(&mut self, ticket: u64) {
        if self.promoted == Some(ticket) {
            self.promoted = None;
        }
        if let Some(seat) = self.seats.get_mut(&ticket) {
            (seat.is_parked, seat.is_roused) = (false, false);
        }
    }

    /// Makes the seat wait until roused.
    pub fn park(&mut self, ticket: u64) {
        self.seats.get_mut(&ticket).expect("a seat taken").is_parked = true;
    }

    pub fn goal(&self, ticket: u64) -> Option<Goal> {
        self.seats.get(&ticket).map(|seat| seat.goal)
    }

    /// Ready once roused; until then remembers whom to wake.
    pub fn poll_roused(&mut self, ticket: u64, cx: &Context<'_>) -> Poll<()> {
        let seat = self.seats.get_mut(&ticket).expect("a seat taken");
        if seat.is_roused {
            return Poll::Ready(());
        }
        match &mut seat.waker {
            Some(known) if known.will_wake(cx.waker()) => {}
            other => *other = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Rouses the parked seats that `picks`; their wakers, to be called without a lock.
    pub fn rouse_parked(&mut self, picks: impl Fn(Goal) -> bool, wakers: &mut Vec<Waker>) {
        for seat in self.seats.values_mut().filter(|seat| seat.is_parked && picks(seat.goal)) {
            seat.is_roused = true;
            wakers.extend(seat.waker.take());
        }
    }

    /// Rouses everyone, drivers too.
    pub fn rouse_all(&mut self, wakers: &mut Vec<Waker>) {
        for seat in self.seats.values_mut() {
            seat.is_roused = true;
            wakers.extend(seat.waker.take());
        }
    }

    /// Rouses the first parked seat that `picks`, to do work for all; unless one is on its way.
    pub fn promote(&mut self, picks: impl Fn(Goal) -> bool, wakers: &mut Vec<Waker>) {
        if self.promoted.is_some() {
            return;
        }
        let parked = |seat: &Seat| seat.is_parked && !seat.is_roused;
        let found = self.seats.iter_mut().find(|(_, seat)| parked(seat) && picks(seat.goal));
        if let Some((&ticket, seat)) = found {
            seat.is_roused = true;
            wakers.extend(seat.waker.take());
            self.promoted = Some(ticket);
        }
    }
}
