//! Which blocks are on a device, and where: in memory alone, about a hundred bytes for each.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use ondisk::{Blkptr, DvaPhys};

/// What a block is called: where it is in the pool, and in which txg it came there. A block that was rewritten
/// within its txg has the same name; whoever reads it checks its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) dva: DvaPhys,
    pub(crate) birth: u64,
}

impl Name {
    pub(crate) fn of(bp: &Blkptr) -> Self {
        Self { dva: bp.dva(0).encode(), birth: bp.physical_birth().get() }
    }
}

/// Where a block is on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    pub(crate) psize: u32,
}

/// The blocks of a device.
#[derive(Debug, Default)]
pub(crate) struct Index {
    places: HashMap<Name, Place>,
    /// As they were written: in the order in which they are overwritten.
    order: VecDeque<(u64, Name)>,
    bytes: u64,
}

/// Memory that a block takes: one place in the table, which is two thirds full, and one in the queue.
const BYTES_PER_BLOCK: u64 = 100;

impl Index {
    pub(crate) fn get(&self, name: &Name) -> Option<Place> {
        self.places.get(name).copied()
    }

    pub(crate) fn blocks(&self) -> usize {
        self.places.len()
    }

    /// Bytes of all blocks.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of memory, about.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.order.len() as u64 * BYTES_PER_BLOCK
    }

    /// Adds a block that was written after all others.
    pub(crate) fn add_newest(&mut self, name: Name, place: Place) {
        self.forget(&name);
        self.bytes += u64::from(place.psize);
        self.places.insert(name, place);
        self.order.push_back((place.offset, name));
    }

    /// Adds a block that was written before all others, unless a newer one is there.
    pub(crate) fn add_oldest(&mut self, name: Name, place: Place) {
        if self.places.contains_key(&name) {
            return;
        }
        self.bytes += u64::from(place.psize);
        self.places.insert(name, place);
        self.order.push_front((place.offset, name));
    }

    /// Forgets a block.
    pub(crate) fn forget(&mut self, name: &Name) {
        if let Some(place) = self.places.remove(name) {
            self.bytes -= u64::from(place.psize);
        }
    }

    /// Forgets the blocks that begin within `range`, which comes after what was forgotten before.
    pub(crate) fn forget_range(&mut self, range: &Range<u64>) {
        while let Some((offset, name)) = self.order.front().copied()
            && range.contains(&offset)
        {
            self.order.pop_front();
            if self.places.get(&name).is_some_and(|place| place.offset == offset) {
                self.forget(&name);
            }
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
