//! One shard of the cache: its blocks, and the queues they are in.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use env::IoBuf;
use l2arc::{Form, Offered};
use ondisk::Blkptr;

/// New blocks may take this part of the room before the oldest of them has to prove itself.
const SMALL_FRACTION: usize = 10;
/// Cold blocks may take this part of the room.
const COLD_FRACTION: usize = 4;
/// Uses after which a new block is one to keep. One more than one: whoever reads ahead inserts a
/// block that will be used once, and that is no sign of more to come.
const USES_TO_STAY: u8 = 2;
/// Uses are counted to this.
const USES_MAX: u8 = 3;

/// What tells one block from any other that ever was or will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    vdev: u32,
    offset: u64,
    birth: u64,
    checksum: [u64; 4],
}

impl Key {
    pub(crate) fn of(bp: &Blkptr) -> Self {
        let dva = bp.dva(0);
        Self {
            vdev: dva.vdev.get(),
            offset: dva.offset.get(),
            birth: bp.physical_birth().get(),
            checksum: bp.checksum(),
        }
    }

    /// A number that differs between neighbouring blocks: they go to different shards.
    pub(super) fn spread(&self) -> usize {
        let mixed = (self.offset >> 9).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(self.vdev);
        (mixed >> 32) as usize
    }

    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// A block that is there.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// Ready for use.
    Unpacked(Arc<IoBuf>),
    /// As it is stored. Who unpacks it inserts it again.
    Packed(Arc<IoBuf>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Small,
    Main,
    Cold,
}

struct Entry {
    /// Not there once the block is cold.
    data: Option<Arc<IoBuf>>,
    packed: Option<Arc<IoBuf>>,
    /// Its pointer, if it may go to a cache device.
    origin: Option<Box<Blkptr>>,
    place: Place,
    uses: u8,
    /// Which of its queue's tickets is valid: a block that left a queue leaves its ticket behind.
    ticket: u64,
}

/// The memory of a block without its buffers, in bytes: its entry in the table (an eighth of the
/// table is empty), a ticket, and the pointer for a cache device.
const BESIDE_BYTES: usize = size_of::<(Key, Entry)>() * 8 / 7 + size_of::<(Key, u64)>() + size_of::<Blkptr>();

/// The memory of a buffer, in bytes.
fn memory_bytes(buf: Option<&Arc<IoBuf>>) -> usize {
    buf.map_or(0, |buf| buf.memory_bytes())
}

impl Entry {
    fn packed_bytes(&self) -> usize {
        memory_bytes(self.packed.as_ref())
    }

    /// The memory of the block, in bytes. A block of 512 bytes takes a page.
    fn bytes(&self) -> usize {
        memory_bytes(self.data.as_ref()) + self.packed_bytes() + BESIDE_BYTES
    }
}

/// Blocks in the order in which they came.
#[derive(Default)]
struct Queue {
    tickets: VecDeque<(Key, u64)>,
    blocks: usize,
    bytes: usize,
}

/// Blocks that are gone, as fingerprints: a false one only promotes a block too early.
#[derive(Default)]
struct Ghosts {
    order: VecDeque<(u64, u64)>,
    /// The valid ticket of each.
    known: HashMap<u64, u64>,
    tickets: u64,
}

impl Ghosts {
    fn add(&mut self, key: &Key, most: usize) {
        self.tickets += 1;
        let fingerprint = key.fingerprint();
        self.known.insert(fingerprint, self.tickets);
        self.order.push_back((fingerprint, self.tickets));
        while self.order.len() > most {
            if let Some((oldest, ticket)) = self.order.pop_front()
                && self.known.get(&oldest) == Some(&ticket)
            {
                self.known.remove(&oldest);
            }
        }
    }

    fn take(&mut self, key: &Key) -> bool {
        self.known.remove(&key.fingerprint()).is_some()
    }
}

fn offered(entry: Entry) -> Option<Offered> {
    let bp = *entry.origin?;
    let form = match (entry.packed, entry.data) {
        (Some(packed), _) => Form::Stored(packed),
        (None, data) => Form::Plain(data?),
    };
    Some(Offered { bp, form })
}

#[derive(Default)]
pub(super) struct Shard {
    entries: HashMap<Key, Entry>,
    small: Queue,
    main: Queue,
    cold: Queue,
    ghosts: Ghosts,
    tickets: u64,
    packed_bytes: usize,
    /// Blocks that may go to a cache device and had to leave.
    left: Vec<Offered>,
}

/// A block to be kept.
pub(super) struct New<'a> {
    pub(super) data: &'a Arc<IoBuf>,
    /// As it is stored, if that is much less.
    pub(super) packed: Option<&'a Arc<IoBuf>>,
    /// Its pointer, if it may go to a cache device.
    pub(super) origin: Option<Box<Blkptr>>,
}

impl Shard {
    fn queue(&mut self, place: Place) -> &mut Queue {
        match place {
            Place::Small => &mut self.small,
            Place::Main => &mut self.main,
            Place::Cold => &mut self.cold,
        }
    }

    fn bytes(&self) -> usize {
        self.small.bytes + self.main.bytes + self.cold.bytes
    }

    /// All bytes, and those of blocks as they are stored.
    pub(super) fn held(&self) -> (usize, usize) {
        (self.bytes(), self.packed_bytes)
    }

    pub(super) fn has(&self, key: &Key) -> bool {
        self.entries.contains_key(key)
    }

    pub(super) fn get(&mut self, key: &Key) -> Option<Found> {
        let entry = self.entries.get_mut(key)?;
        entry.uses = (entry.uses + 1).min(USES_MAX);
        match (&entry.data, &entry.packed) {
            (Some(data), _) => Some(Found::Unpacked(data.clone())),
            (None, Some(packed)) => Some(Found::Packed(packed.clone())),
            (None, None) => None,
        }
    }

    pub(super) fn insert(&mut self, key: Key, new: New<'_>, room: usize) {
        let New { data, packed, origin } = new;
        let (mut before, was_ghost) = (self.take(&key), self.ghosts.take(&key));
        let origin = origin.or_else(|| before.as_mut()?.origin.take());
        let (place, uses) = match before {
            Some(Entry { place: Place::Small, uses, .. }) => (Place::Small, uses),
            Some(Entry { uses, .. }) => (Place::Main, uses),
            None if was_ghost => (Place::Main, 0),
            None => (Place::Small, 0),
        };
        let needed = data.memory_bytes() + BESIDE_BYTES;
        if needed > room {
            return;
        }
        let packed = packed.filter(|packed| needed + packed.memory_bytes() <= room).cloned();
        let entry = Entry { data: Some(data.clone()), packed, origin, place, uses, ticket: 0 };
        self.put(key, entry);
        self.shrink_to(room);
    }

    pub(super) fn forget(&mut self, key: &Key) {
        self.take(key);
    }

    fn put(&mut self, key: Key, mut entry: Entry) {
        self.tickets += 1;
        entry.ticket = self.tickets;
        let (ticket, bytes) = (entry.ticket, entry.bytes());
        self.packed_bytes += entry.packed_bytes();
        let queue = self.queue(entry.place);
        queue.tickets.push_back((key, ticket));
        queue.blocks += 1;
        queue.bytes += bytes;
        self.entries.insert(key, entry);
    }

    fn take(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        self.packed_bytes -= entry.packed_bytes();
        let queue = self.queue(entry.place);
        queue.blocks -= 1;
        queue.bytes -= entry.bytes();
        self.sweep(entry.place);
        Some(entry)
    }

    /// Drops tickets of blocks that left, once most are of those.
    fn sweep(&mut self, place: Place) {
        let queue = self.queue(place);
        if queue.tickets.len() < 64 + 2 * queue.blocks {
            return;
        }
        let tickets = std::mem::take(&mut queue.tickets);
        let valid =
            |(key, ticket): &(Key, u64)| self.entries.get(key).is_some_and(|entry| entry.ticket == *ticket);
        let kept = tickets.into_iter().filter(valid).collect();
        self.queue(place).tickets = kept;
    }

    /// The block that came first.
    fn pop(&mut self, place: Place) -> Option<(Key, Entry)> {
        while let Some((key, ticket)) = self.queue(place).tickets.pop_front() {
            if self.entries.get(&key).is_some_and(|entry| entry.ticket == ticket) {
                return self.take(&key).map(|entry| (key, entry));
            }
        }
        None
    }

    /// Evicts until no more than `room` bytes are held.
    pub(super) fn shrink_to(&mut self, room: usize) {
        while self.bytes() > room {
            let is_small_full = self.small.bytes > room / SMALL_FRACTION;
            let evicted = if self.cold.bytes > room / COLD_FRACTION {
                self.evict(Place::Cold)
            } else if is_small_full || self.main.blocks == 0 {
                self.evict(Place::Small) || self.evict(Place::Cold)
            } else {
                self.evict(Place::Main)
            };
            assert!(evicted, "bytes are held by no block");
        }
    }

    fn evict(&mut self, from: Place) -> bool {
        let Some((key, entry)) = self.pop(from) else { return false };
        match from {
            Place::Small if entry.uses >= USES_TO_STAY => {
                self.put(key, Entry { place: Place::Main, uses: 0, ..entry });
            }
            Place::Main if entry.uses > 0 => {
                let uses = entry.uses - 1;
                self.put(key, Entry { uses, ..entry });
            }
            Place::Small | Place::Main if entry.packed.is_some() => {
                self.put(key, Entry { data: None, place: Place::Cold, uses: 0, ..entry });
            }
            _ => {
                self.ghosts.add(&key, self.entries.len() + 64);
                self.left.extend(offered(entry));
            }
        }
        true
    }

    /// Blocks that may go to a cache device and had to leave since this was asked last.
    pub(super) fn take_left(&mut self) -> Vec<Offered> {
        std::mem::take(&mut self.left)
    }

    /// Whether all sums are what the blocks come to.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let queues = [(Place::Small, &self.small), (Place::Main, &self.main), (Place::Cold, &self.cold)];
        for (place, queue) in queues {
            let here = || self.entries.values().filter(move |entry| entry.place == place);
            assert_eq!(queue.blocks, here().count(), "{place:?}");
            assert_eq!(queue.bytes, here().map(Entry::bytes).sum::<usize>(), "{place:?}");
            assert!(queue.tickets.len() <= 64 + 2 * queue.blocks + 1, "{place:?}");
        }
        assert_eq!(self.packed_bytes, self.entries.values().map(Entry::packed_bytes).sum::<usize>());
        assert!(self.entries.values().all(|entry| entry.data.is_some() != (entry.place == Place::Cold)));
        assert!(self.ghosts.known.len() <= self.ghosts.order.len());
    }
}
