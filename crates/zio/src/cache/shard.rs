//! One shard of the cache: its blocks, and the queues they are in.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use env::IoBuf;
use l2arc::{Form, Offered};
use ondisk::Blkptr;

use super::counters::{Ahead, CacheCensus, CachedBytes};

/// New blocks may take this part of the room before the oldest of them has to prove itself.
pub(super) const SMALL_FRACTION: usize = 10;
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
    is_data: bool,
    /// A cache device may have it.
    may_leave: bool,
    /// It was read ahead, and nobody has used it yet.
    ahead: Option<Ahead>,
    /// Its length once it is unpacked.
    logical: u32,
    /// Which of its queue's tickets is valid: a block that left a queue leaves its ticket behind.
    ticket: u64,
}

/// The memory of a block without its buffers, in bytes: its entry in the table (an eighth of the
/// table is empty), a ticket, and the pointer for a cache device.
pub(super) const BESIDE_BYTES: usize =
    size_of::<(Key, Entry)>() * 8 / 7 + size_of::<(Key, u64)>() + size_of::<Blkptr>();

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

    /// The lengths of its buffers.
    fn lengths(&self) -> CachedBytes {
        CachedBytes::of(self.is_data, length(self.data.as_ref()) + length(self.packed.as_ref()))
    }

    /// Its part in the sums of a shard.
    fn census(&self) -> CacheCensus {
        let (data, packed) = (length(self.data.as_ref()), length(self.packed.as_ref()));
        let is_packed = self.packed.is_some();
        let mut census = CacheCensus {
            blocks: 1,
            stored_bytes: if is_packed { packed } else { data },
            logical_bytes: u64::from(self.logical),
            unpacked_bytes: if is_packed { data } else { 0 },
            ..CacheCensus::default()
        };
        let queue = match self.place {
            Place::Small => &mut census.small,
            Place::Main => &mut census.main,
            Place::Cold => &mut census.cold,
        };
        *queue = self.lengths();
        census
    }
}

/// The length of a buffer, in bytes.
fn length(buf: Option<&Arc<IoBuf>>) -> u64 {
    buf.map_or(0, |buf| buf.len() as u64)
}

/// Blocks in the order in which they came.
#[derive(Default)]
struct Queue {
    tickets: VecDeque<(Key, u64)>,
    blocks: usize,
    bytes: usize,
}

/// A block that is gone.
struct Ghost {
    /// Its valid ticket.
    ticket: u64,
    /// What it took when it went.
    bytes: u32,
    is_data: bool,
}

impl Ghost {
    fn lengths(&self) -> CachedBytes {
        CachedBytes::of(self.is_data, self.bytes.into())
    }
}

/// Blocks that are gone, as fingerprints: a false one only promotes a block too early.
#[derive(Default)]
struct Ghosts {
    order: VecDeque<(u64, u64)>,
    known: HashMap<u64, Ghost>,
    tickets: u64,
    bytes: CachedBytes,
}

impl Ghosts {
    fn add(&mut self, key: &Key, of: &Entry, most: usize) {
        self.tickets += 1;
        let fingerprint = key.fingerprint();
        self.remove(fingerprint);
        let bytes = u32::try_from(of.lengths().total()).unwrap_or(u32::MAX);
        let ghost = Ghost { ticket: self.tickets, bytes, is_data: of.is_data };
        self.bytes += ghost.lengths();
        self.known.insert(fingerprint, ghost);
        self.order.push_back((fingerprint, self.tickets));
        while self.order.len() > most {
            if let Some((oldest, ticket)) = self.order.pop_front()
                && self.known.get(&oldest).is_some_and(|ghost| ghost.ticket == ticket)
            {
                self.remove(oldest);
            }
        }
    }

    fn remove(&mut self, fingerprint: u64) -> bool {
        let ghost = self.known.remove(&fingerprint);
        self.bytes -= ghost.as_ref().map(Ghost::lengths).unwrap_or_default();
        ghost.is_some()
    }

    fn take(&mut self, key: &Key) -> bool {
        self.remove(key.fingerprint())
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
    census: CacheCensus,
}

/// A block to be kept.
pub(super) struct New<'a> {
    pub(super) data: &'a Arc<IoBuf>,
    /// As it is stored, if that is much less.
    pub(super) packed: Option<&'a Arc<IoBuf>>,
    /// Its pointer, if it may go to a cache device.
    pub(super) origin: Option<Box<Blkptr>>,
    /// File data.
    pub(super) is_data: bool,
    /// A cache device may have it, if there is one.
    pub(super) may_leave: bool,
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

    pub(super) fn blocks(&self) -> u64 {
        self.census.blocks
    }

    pub(super) fn census(&self) -> CacheCensus {
        CacheCensus { ghosts: self.ghosts.bytes, ..self.census }
    }

    /// Notes that a block was read ahead.
    pub(super) fn note_ahead(&mut self, key: &Key, ahead: Ahead) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.ahead = Some(ahead);
        }
    }

    pub(super) fn has(&self, key: &Key) -> bool {
        self.entries.contains_key(key)
    }

    /// The block, if it is there. Whoever waited for it while it was read ahead is no later user of it.
    pub(super) fn get(&mut self, key: &Key, waited: bool) -> Option<Found> {
        let entry = self.entries.get_mut(key)?;
        entry.uses = (entry.uses + 1).min(USES_MAX);
        match entry.place {
            Place::Small | Place::Cold => self.census.small_hits += 1,
            Place::Main => self.census.main_hits += 1,
        }
        match entry.ahead.take().filter(|_| !waited) {
            Some(Ahead::Predicted) => self.census.predicted_hits += 1,
            Some(Ahead::Planned) => self.census.planned_hits += 1,
            None => {}
        }
        match (&entry.data, &entry.packed) {
            (Some(data), _) => Some(Found::Unpacked(data.clone())),
            (None, Some(packed)) => Some(Found::Packed(packed.clone())),
            (None, None) => None,
        }
    }

    pub(super) fn insert(&mut self, key: Key, new: New<'_>, room: usize) {
        let New { data, packed, origin, is_data, may_leave } = new;
        let (mut before, was_ghost) = (self.take(&key), self.ghosts.take(&key));
        self.census.ghost_hits += u64::from(was_ghost);
        let may_leave = may_leave || before.as_ref().is_some_and(|before| before.may_leave);
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
        let logical = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let data = Some(data.clone());
        let entry =
            Entry { data, packed, origin, place, uses, is_data, may_leave, ahead: None, logical, ticket: 0 };
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
        self.census += &entry.census();
        let queue = self.queue(entry.place);
        queue.tickets.push_back((key, ticket));
        queue.blocks += 1;
        queue.bytes += bytes;
        self.entries.insert(key, entry);
    }

    fn take(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        self.packed_bytes -= entry.packed_bytes();
        self.leave_out(&entry.census());
        let queue = self.queue(entry.place);
        queue.blocks -= 1;
        queue.bytes -= entry.bytes();
        self.sweep(entry.place);
        Some(entry)
    }

    /// Takes a block out of the sums.
    fn leave_out(&mut self, gone: &CacheCensus) {
        let census = &mut self.census;
        census.blocks -= gone.blocks;
        census.small -= gone.small;
        census.main -= gone.main;
        census.cold -= gone.cold;
        census.stored_bytes -= gone.stored_bytes;
        census.logical_bytes -= gone.logical_bytes;
        census.unpacked_bytes -= gone.unpacked_bytes;
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
                self.ghosts.add(&key, &entry, self.entries.len() + 64);
                self.count_evicted(&entry);
                self.left.extend(offered(entry));
            }
        }
        true
    }

    fn count_evicted(&mut self, entry: &Entry) {
        let census = &mut self.census;
        census.evicted += 1;
        let bytes = match (entry.may_leave, entry.place) {
            (false, _) => &mut census.evicted_barred_bytes,
            (true, Place::Small | Place::Cold) => &mut census.evicted_small_bytes,
            (true, Place::Main) => &mut census.evicted_main_bytes,
        };
        *bytes += entry.lengths().total();
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
        let mut sums = CacheCensus::default();
        self.entries.values().for_each(|entry| sums += &entry.census());
        let counted = self.census();
        let held = |census: &CacheCensus| (census.blocks, census.small, census.main, census.cold);
        assert_eq!(held(&counted), held(&sums));
        let forms = |census: &CacheCensus| (census.stored_bytes, census.logical_bytes, census.unpacked_bytes);
        assert_eq!(forms(&counted), forms(&sums));
        let mut ghosts = CachedBytes::default();
        self.ghosts.known.values().for_each(|ghost| ghosts += ghost.lengths());
        assert_eq!(counted.ghosts, ghosts);
    }
}
