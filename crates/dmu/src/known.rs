//! Objects that are in memory, by their numbers.
//!
//! The map keeps none of them alive. But what it has of an object that is gone takes the memory of a whole
//! one until it is dropped, so entries are looked through whenever there are twice as many as were alive
//! the last time. (test: `objects_that_nobody_holds_take_little_memory`)

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use units::ObjectId;

use crate::Dnode;
use crate::objset::SLOTS_PER_BLOCK;

/// No fewer entries are looked through.
const SWEEP_MIN: usize = 1024;

struct Entry {
    dnode: Weak<Dnode>,
    slots: u8,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Known {
    dnodes: HashMap<ObjectId, Entry>,
    /// Slots that the largest of them took, of all that there ever were.
    widest: u8,
    /// Entries that were of living objects when they were last looked through.
    alive: usize,
}

impl Known {
    pub fn get(&self, object: ObjectId) -> Option<Arc<Dnode>> {
        self.dnodes.get(&object).and_then(|entry| entry.dnode.upgrade())
    }

    /// Whether a living object takes any of `slots` slots from `first` on: one that begins there, or one with
    /// several slots that begins before. What is new is nowhere else: nothing of it is on disk.
    pub fn has_any(&self, first: u64, slots: u8) -> bool {
        let block = first - first % SLOTS_PER_BLOCK;
        let from = first.saturating_sub(u64::from(self.widest.saturating_sub(1))).max(block);
        let reaches = |number: u64| self.slots_at(number).is_some_and(|slots| number + slots > first);
        (from..first + u64::from(slots)).any(reaches)
    }

    /// How many slots the living object with this number takes.
    fn slots_at(&self, number: u64) -> Option<u64> {
        let living = self.dnodes.get(&ObjectId::new(number)).filter(|entry| entry.dnode.strong_count() > 0);
        living.map(|entry| u64::from(entry.slots))
    }

    /// Enters an object that takes so many slots.
    pub fn remember(&mut self, dnode: &Arc<Dnode>, slots: u8) {
        if self.dnodes.len() >= SWEEP_MIN.max(self.alive.saturating_mul(2)) {
            self.dnodes.retain(|_, entry| entry.dnode.strong_count() > 0);
            self.alive = self.dnodes.len();
            self.dnodes.shrink_to(self.alive.saturating_mul(2));
        }
        self.widest = self.widest.max(slots);
        self.dnodes.insert(dnode.object(), Entry { dnode: Arc::downgrade(dnode), slots });
    }

    pub fn forget(&mut self, object: ObjectId) {
        self.dnodes.remove(&object);
    }

    pub fn len(&self) -> usize {
        self.dnodes.len()
    }
}
