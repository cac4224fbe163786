//! Which object number comes next.
//!
//! ```text
//!  blocks of dnodes   ▓▓▓▓ ▓▓▓▓ ░▓░░ ▓▓▓▓ ▓▓▓▓ ▓▓░░ │ not there yet …
//!                               ▲ gap              ▲ tail: new numbers come from here at once
//!                               ╰ found by what the pointers above count, in passing
//! ```
//! The first number after a mount comes from the last block of dnodes that has any, which is found from
//! the root in a few reads, however many objects there are. Each time a block's numbers are used up,
//! the next one's are taken, and one block that lies further to the front and is sparse, if the counts in
//! the pointers above (`blk_fill`) show one. Numbers freed later come back when their txg has
//! synced, so that one txg never frees and takes the same number.
//!
//! Invariants
//! - No lock is held while anything is read (its guard could not cross an await): who finds free numbers
//!   never waits for who looks for more.
//! - What a number costs does not follow from how many objects there are.
//!   (test: `the_first_new_object_after_a_mount_reads_a_few_blocks_only`)

use std::collections::BTreeSet;

use parking_lot::Mutex;
use units::ObjectId;

use crate::objset::SLOTS_PER_BLOCK;
use crate::{DmuError, Objset};

/// A block of dnodes with so many objects or fewer is worth a read.
const SPARSE_OBJECTS: u64 = SLOTS_PER_BLOCK / 4 * 3;
/// Free numbers that are kept; beyond, their blocks are looked for again.
const FREE_MAX: usize = 64 << 10;

/// Free object numbers of one objset.
#[derive(Default)]
pub(crate) struct Numbers {
    scan: Mutex<Scan>,
}

#[derive(Default)]
struct Scan {
    free: BTreeSet<u64>,
    /// The next block that was never looked at; none before the first look.
    tail: Option<u64>,
    /// From where on sparse blocks are looked for; none while somebody does.
    gaps: Option<u64>,
    /// Before which block they are: what lies behind was looked at in this mount.
    gaps_end: u64,
}

impl Numbers {
    /// A number with `slots` free slots in a row, in one block.
    pub async fn take(&self, objset: &Objset, slots: u8) -> Result<ObjectId, DmuError> {
        loop {
            if let Some(number) = self.scan.lock().pop(u64::from(slots)) {
                return Ok(ObjectId::new(number));
            }
            self.find_more(objset).await?;
        }
    }

    /// Numbers whose objects are gone from disk.
    pub fn give_back(&self, objects: &[ObjectId]) {
        let mut scan = self.scan.lock();
        for object in objects {
            scan.give_back(object.get());
        }
    }

    /// Looks at one more block at the end, and one further to the front.
    async fn find_more(&self, objset: &Objset) -> Result<(), DmuError> {
        let is_first = self.scan.lock().tail.is_none();
        if is_first {
            let last = objset.last_block_of_dnodes().await?;
            self.scan.lock().begin_at(last);
        } else {
            self.fill_a_gap(objset).await;
        }
        let Some(block) = self.scan.lock().take_block() else { return Ok(()) };
        let found = objset.free_slots(block).await?;
        self.scan.lock().free.extend(found);
        Ok(())
    }

    /// What cannot be read has no numbers to give; there are others at the end.
    async fn fill_a_gap(&self, objset: &Objset) {
        let (from, end) = {
            let mut scan = self.scan.lock();
            let Some(from) = scan.gaps.take() else { return };
            (from, scan.gaps_end)
        };
        let found = objset.sparse_block_of_dnodes(from, end, SPARSE_OBJECTS).await;
        let block = found.ok().flatten();
        let free = match block {
            Some(block) => objset.free_slots(block).await.unwrap_or_default(),
            None => Vec::new(),
        };
        let mut scan = self.scan.lock();
        scan.free.extend(free);
        scan.look_from(block.map_or(end, |block| block + 1));
    }
}

impl Scan {
    /// The last block that has objects is known; somebody may have been quicker to find it.
    fn begin_at(&mut self, last: u64) {
        if self.tail.is_none() {
            self.tail = Some(last);
            self.gaps = Some(0);
            self.gaps_end = last;
        }
    }

    /// A block that nobody else looks at.
    fn take_block(&mut self) -> Option<u64> {
        let tail = self.tail.as_mut()?;
        *tail += 1;
        Some(*tail - 1)
    }

    fn look_from(&mut self, block: u64) {
        self.gaps = Some(self.gaps.map_or(block, |gaps| gaps.min(block)));
    }

    fn give_back(&mut self, number: u64) {
        if self.free.len() < FREE_MAX {
            self.free.insert(number);
        } else {
            self.look_from(number / SLOTS_PER_BLOCK);
            self.gaps_end = self.tail.unwrap_or_default();
        }
    }

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
