//! The seats of all pools, by name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use control::pool_of;
use parking_lot::RwLock;

use crate::seat::PoolSeat;

/// See the module.
#[derive(Default)]
pub struct PoolSeats {
    by_name: RwLock<BTreeMap<String, Arc<PoolSeat>>>,
    is_ending: AtomicBool,
}

impl PoolSeats {
    /// Returns the seat of a pool, or of the pool that a dataset is in.
    pub fn of(&self, name: &str) -> Option<Arc<PoolSeat>> {
        self.by_name.read().get(pool_of(name)).cloned()
    }

    /// Returns all seats in the order of names.
    pub fn all(&self) -> Vec<Arc<PoolSeat>> {
        self.by_name.read().values().cloned().collect()
    }

    /// Adds a seat. False if the name has one already.
    pub fn add(&self, seat: Arc<PoolSeat>) -> bool {
        let mut by_name = self.by_name.write();
        if by_name.contains_key(&seat.name) {
            return false;
        }
        by_name.insert(seat.name.clone(), seat);
        true
    }

    /// Removes this seat.
    pub fn remove(&self, seat: &Arc<PoolSeat>) {
        let mut by_name = self.by_name.write();
        if by_name.get(&seat.name).is_some_and(|found| Arc::ptr_eq(found, seat)) {
            by_name.remove(&seat.name);
        }
    }

    /// From now on no process is started in place of one that ends.
    pub fn begin_ending(&self) {
        self.is_ending.store(true, Ordering::Release);
    }

    /// True if the daemon is about to end.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }
}
