//! Repairs and writes of the same place keep out of each other's way.
//!
//! A reader finds one child's copy bad and another's good, and writes the good one over the bad
//! one. If meanwhile the place is written anew, because its block was freed and the space given to
//! another, the repair would bring back old bytes on one child.
//!
//! ```text
//!   read child 1: wrong ─► claim ─► read child 2: right ─► heal ─► release
//!                            │                               │
//!   a write under way here, or begun now: no repair          └ a write begun now: waits
//! ```
//! Invariants
//! - Between the read of the good copy and the end of the repair, no write of the place is under
//!   way. (tests: `a_write_under_way_forbids_the_repair`, `a_write_waits_for_a_repair_under_way`)

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use futures::channel::oneshot;
use parking_lot::Mutex;

#[cfg(test)]
mod tests;

#[derive(Default)]
struct State {
    next: u64,
    writes: BTreeMap<u64, Range<u64>>,
    claims: BTreeMap<u64, ClaimState>,
}

struct ClaimState {
    range: Range<u64>,
    /// A write came in between.
    is_void: bool,
    /// Who waits for the repair to end; `None` until it starts.
    waiters: Option<Vec<oneshot::Sender<()>>>,
}

/// Writes under way and repairs intended, by place.
#[derive(Clone, Default)]
pub(crate) struct Places(Arc<Mutex<State>>);

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

impl Places {
    /// Notes a write of `range` until the guard is dropped; first waits for repairs under way there.
    pub(crate) async fn write(&self, range: Range<u64>) -> Writing {
        loop {
            let wait = {
                let mut state = self.0.lock();
                match state.repair_under_way(&range) {
                    Some(wait) => wait,
                    None => return Writing { places: self.clone(), id: state.begin_write(range) },
                }
            };
            // Done or dropped: either way the repair has ended.
            let _ = wait.await;
        }
    }

    /// Notes that `range` may have to be repaired with what is read from now on.
    pub(crate) fn claim(&self, range: Range<u64>) -> Claim {
        let mut state = self.0.lock();
        let is_void = state.writes.values().any(|write| overlap(write, &range));
        let id = state.next_id();
        state.claims.insert(id, ClaimState { range, is_void, waiters: None });
        Claim { places: self.clone(), id }
    }
}

impl State {
    fn next_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn repair_under_way(&mut self, range: &Range<u64>) -> Option<oneshot::Receiver<()>> {
        let claims = self.claims.values_mut().filter(|claim| overlap(&claim.range, range));
        let waiters = claims.filter_map(|claim| claim.waiters.as_mut()).next()?;
        let (sender, receiver) = oneshot::channel();
        waiters.push(sender);
        Some(receiver)
    }

    fn begin_write(&mut self, range: Range<u64>) -> u64 {
        for claim in self.claims.values_mut().filter(|claim| overlap(&claim.range, &range)) {
            claim.is_void = true;
        }
        let id = self.next_id();
        self.writes.insert(id, range);
        id
    }
}

/// A write under way.
pub(crate) struct Writing {
    places: Places,
    id: u64,
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.places.0.lock().writes.remove(&self.id);
    }
}

/// The wish to repair a place; released when dropped.
pub(crate) struct Claim {
    places: Places,
    id: u64,
}

impl Claim {
    /// Whether the repair may be done: nothing was written there since the claim. From now on
    /// writes wait.
    pub(crate) fn begin(&self) -> bool {
        let mut state = self.places.0.lock();
        let claim = state.claims.get_mut(&self.id).expect("a claim stands until it is dropped");
        if claim.is_void {
            return false;
        }
        claim.waiters = Some(Vec::new());
        true
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Dropping the waiters' senders wakes them.
        self.places.0.lock().claims.remove(&self.id);
    }
}
