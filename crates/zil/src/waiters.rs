//! Who to wake when something changed that no I/O announces: a txg synced, or the task that
//! was driving an I/O went away.

use std::task::Waker;

/// Wakers by slot. A slot belongs to one waiting task from `join` to `leave`.
#[derive(Debug, Default)]
pub struct Waiters {
    slots: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl Waiters {
    /// A slot of one's own.
    pub fn join(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        })
    }

    /// Remembers whom to wake for `slot`.
    pub fn register(&mut self, slot: usize, waker: &Waker) {
        match &mut self.slots[slot] {
            Some(known) if known.will_wake(waker) => {}
            other => *other = Some(waker.clone()),
        }
    }

    /// Gives the slot back.
    pub fn leave(&mut self, slot: usize) {
        self.slots[slot] = None;
        self.free.push(slot);
    }

    /// Everyone, to be woken once no lock is held.
    #[must_use]
    pub fn drain(&mut self) -> Vec<Waker> {
        self.slots.iter_mut().filter_map(Option::take).collect()
    }
}
