//! Which object number comes next.
//!
//! Blocks of dnodes are looked at once, from the front, and the free numbers found there
//! given out in order; numbers freed later come back when their group has synced, so that
//! one group never frees and takes the same number.

use std::collections::BTreeSet;

use units::ObjectId;

use crate::objset::SLOTS_PER_BLOCK;
use crate::{DmuError, Objset};

/// Free object numbers of one objset.
#[derive(Default)]
pub(crate) struct Numbers {
    state: async_lock::Mutex<Scan>,
    freed: parking_lot::Mutex<BTreeSet<u64>>,
}

#[derive(Default)]
struct Scan {
    free: BTreeSet<u64>,
    next_block: u64,
}

impl Numbers {
    /// A number with `slots` free slots in a row, in one block.
    pub async fn take(&self, objset: &Objset, slots: u8) -> Result<ObjectId, DmuError> {
        let mut scan = self.state.lock().await;
        scan.free.append(&mut self.freed.lock());
        loop {
            if let Some(number) = scan.pop(u64::from(slots)) {
                return Ok(ObjectId::new(number));
            }
            let block = scan.next_block;
            scan.next_block += 1;
            scan.free.extend(objset.free_slots(block).await?);
        }
    }

    /// Numbers whose objects are gone from disk.
    pub fn give_back(&self, objects: &[ObjectId]) {
        self.freed.lock().extend(objects.iter().map(|object| object.get()));
    }
}

impl Scan {
    fn pop(&mut self, slots: u64) -> Option<u64> {
        let first = *self.free.iter().find(|&&n| {
            n % SLOTS_PER_BLOCK + slots <= SLOTS_PER_BLOCK && (1..slots).all(|i| self.free.contains(&(n + i)))
        })?;
        (0..slots).for_each(|i| {
            self.free.remove(&(first + i));
        });
        Some(first)
    }
}
