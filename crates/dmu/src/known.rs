//! Objects that are in memory, by their numbers.
//!
//! The map keeps none of them alive. But what it has of an object that is gone takes the memory of a whole
//! one until it is dropped, so entries are looked through whenever there are twice as many as were alive
//! the last time. (test: `objects_that_nobody_holds_take_little_memory`)

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use units::ObjectId;

use crate::Dnode;

/// No fewer entries are looked through.
const SWEEP_MIN: usize = 1024;

/// See the module.
#[derive(Default)]
pub(crate) struct Known {
    dnodes: HashMap<ObjectId, Weak<Dnode>>,
    /// Entries that were of living objects when they were last looked through.
    alive: usize,
}

impl Known {
    pub fn get(&self, object: ObjectId) -> Option<Arc<Dnode>> {
        self.dnodes.get(&object).and_then(Weak::upgrade)
    }

    pub fn has(&self, object: ObjectId) -> bool {
        self.dnodes.get(&object).is_some_and(|weak| weak.strong_count() > 0)
    }

    pub fn remember(&mut self, dnode: &Arc<Dnode>) {
        if self.dnodes.len() >= SWEEP_MIN.max(self.alive.saturating_mul(2)) {
            self.dnodes.retain(|_, weak| weak.strong_count() > 0);
            self.alive = self.dnodes.len();
            self.dnodes.shrink_to(self.alive.saturating_mul(2));
        }
        self.dnodes.insert(dnode.object(), Arc::downgrade(dnode));
    }

    pub fn forget(&mut self, object: ObjectId) {
        self.dnodes.remove(&object);
    }

    pub fn len(&self) -> usize {
        self.dnodes.len()
    }
}
