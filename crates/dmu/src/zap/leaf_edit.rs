//! Changing a leaf in place.
//!
//! Every change is planned first, by a walk over all that it will touch; carrying it out then only
//! writes. So damage is found before anything has changed.

use std::ops::{Deref, DerefMut};

use ondisk::zap::{
    ARRAY_BYTES, BLOCK_LEAF, CHAIN_END, CHUNK_ARRAY, CHUNK_BYTES, CHUNK_ENTRY, CHUNK_FREE, ENTRIES_CD_SORTED,
    ZAP_LEAF_MAGIC,
};

use super::bytes::{put_u16, put_u32, put_u64, u16_at};
use super::error::Damage;
use super::key::Key;
use super::leaf::{ENTRY_NEXT_AT, Entry, HASH_TABLE_AT, Leaf, NEXT_AT, Shape, array_chunks};
use super::value::ZapValue;

/// Flags of a leaf: where names are normalised, the format wants to be told that chains are in
/// order of their differentiators. Ours always are.
pub(super) const fn leaf_flags(normflags: u64) -> u8 {
    if normflags == 0 { 0 } else { ENTRIES_CD_SORTED }
}

/// What an entry is made of.
struct Parts {
    hash: u64,
    cd: u32,
    name_ints: u16,
    name: Vec<u8>,
    value: Value,
}

/// A value as a leaf stores it.
struct Value {
    int_bytes: u8,
    ints: u16,
    bytes: Vec<u8>,
}

impl From<&ZapValue> for Value {
    fn from(value: &ZapValue) -> Self {
        Self { int_bytes: value.int_bytes(), ints: value.len() as u16, bytes: value.be_bytes() }
    }
}

/// A change of a leaf that fits it: to be carried out on the very bytes that it was planned for.
pub(super) struct LeafChange(Kind);

enum Kind {
    /// An entry comes in after the link at `link`, made of these chunks: its own, then its arrays'.
    Insert { link: usize, chunks: Vec<u16>, parts: Parts },
    /// The entry in chunk `entry` gets another value in `chunks`; of them, `more` were free before.
    Replace { entry: u16, chunks: Vec<u16>, more: Vec<u16>, spare: Vec<u16>, value: Value },
    /// The entry that the link at `link` leads to goes, with its arrays.
    Remove { link: usize, next: u16, chunks: Vec<u16> },
}

impl LeafChange {
    /// Changes the leaf.
    pub(super) fn carry_out(self, bytes: &mut [u8]) {
        let shape = Shape { shift: bytes.len().trailing_zeros() };
        let mut leaf = Leaf { bytes, shape };
        match self.0 {
            Kind::Insert { link, chunks, parts } => leaf.insert(link, &chunks, &parts),
            Kind::Replace { entry, chunks, more, spare, value } => {
                leaf.pop_free(&more);
                leaf.push_free(&spare);
                leaf.put_value(entry, &chunks, &value);
            }
            Kind::Remove { link, next, chunks } => leaf.remove(link, next, &chunks),
        }
    }
}

impl<T: DerefMut<Target = [u8]>> Leaf<T> {
    /// Makes a leaf with no entries of these bytes. `bytes` is a whole block of a size that
    /// a fat ZAP can have.
    pub(super) fn format(bytes: T, prefix: u64, prefix_len: u32, flags: u8) -> Self {
        let shift = bytes.len().trailing_zeros();
        let mut leaf = Self { bytes, shape: Shape { shift } };
        let shape = leaf.shape;
        leaf.bytes.fill(0);
        put_u64(&mut leaf.bytes, 0, BLOCK_LEAF);
        put_u64(&mut leaf.bytes, 16, prefix);
        put_u32(&mut leaf.bytes, 24, ZAP_LEAF_MAGIC);
        put_u16(&mut leaf.bytes, 28, shape.chunks());
        put_u16(&mut leaf.bytes, 32, prefix_len as u16);
        leaf.bytes[36] = flags;
        leaf.bytes[HASH_TABLE_AT..HASH_TABLE_AT + 2 * shape.buckets()].fill(0xff);
        for chunk in 0..shape.chunks() {
            let next = if chunk + 1 == shape.chunks() { CHAIN_END } else { chunk + 1 };
            let at = shape.chunk_at(chunk);
            leaf.bytes[at] = CHUNK_FREE;
            put_u16(&mut leaf.bytes, at + NEXT_AT, next);
        }
        leaf
    }

    fn insert(&mut self, link: usize, chunks: &[u16], parts: &Parts) {
        self.pop_free(chunks);
        let (name, value) = chunks[1..].split_at(array_chunks(parts.name.len()));
        self.write_array(name, &parts.name);
        self.write_array(value, &parts.value.bytes);
        let at = self.shape.chunk_at(chunks[0]);
        let next = u16_at(&self.bytes, link);
        let entry = &mut self.bytes[at..at + CHUNK_BYTES];
        entry[0] = CHUNK_ENTRY;
        entry[1] = parts.value.int_bytes;
        put_u16(entry, ENTRY_NEXT_AT, next);
        put_u16(entry, 4, name.first().copied().unwrap_or(CHAIN_END));
        put_u16(entry, 6, parts.name_ints);
        put_u16(entry, 8, value.first().copied().unwrap_or(CHAIN_END));
        put_u16(entry, 10, parts.value.ints);
        put_u32(entry, 12, parts.cd);
        put_u64(entry, 16, parts.hash);
        put_u16(&mut self.bytes, link, chunks[0]);
        let entries = self.entries();
        put_u16(&mut self.bytes, 30, entries.saturating_add(1));
    }

    fn put_value(&mut self, entry: u16, chunks: &[u16], value: &Value) {
        self.write_array(chunks, &value.bytes);
        let at = self.shape.chunk_at(entry);
        self.bytes[at + 1] = value.int_bytes;
        put_u16(&mut self.bytes, at + 8, chunks.first().copied().unwrap_or(CHAIN_END));
        put_u16(&mut self.bytes, at + 10, value.ints);
    }

    fn remove(&mut self, link: usize, next: u16, chunks: &[u16]) {
        self.push_free(chunks);
        put_u16(&mut self.bytes, link, next);
        let entries = self.entries();
        put_u16(&mut self.bytes, 30, entries.saturating_sub(1));
    }

    /// Takes chunks that [`Leaf::free_front`] found off the free list.
    fn pop_free(&mut self, chunks: &[u16]) {
        if let Some(&last) = chunks.last() {
            let next = u16_at(&self.bytes, self.shape.chunk_at(last) + NEXT_AT);
            put_u16(&mut self.bytes, 34, next);
            let free = self.free_chunks();
            put_u16(&mut self.bytes, 28, free.saturating_sub(chunks.len() as u16));
        }
    }

    /// Zeroes chunks and puts them at the front of the free list, in their order.
    fn push_free(&mut self, chunks: &[u16]) {
        if chunks.is_empty() {
            return;
        }
        let free = usize::from(self.free_chunks()) + chunks.len();
        let mut next = self.free_list();
        for &chunk in chunks.iter().rev() {
            let at = self.shape.chunk_at(chunk);
            let bytes = &mut self.bytes[at..at + CHUNK_BYTES];
            bytes.fill(0);
            bytes[0] = CHUNK_FREE;
            put_u16(bytes, NEXT_AT, next);
            next = chunk;
        }
        put_u16(&mut self.bytes, 34, next);
        put_u16(&mut self.bytes, 28, free as u16);
    }

    /// Fills array chunks with bytes and links them.
    fn write_array(&mut self, chunks: &[u16], bytes: &[u8]) {
        for (index, (&chunk, part)) in chunks.iter().zip(bytes.chunks(ARRAY_BYTES)).enumerate() {
            let at = self.shape.chunk_at(chunk);
            let into = &mut self.bytes[at..at + CHUNK_BYTES];
            into.fill(0);
            into[0] = CHUNK_ARRAY;
            into[1..1 + part.len()].copy_from_slice(part);
            put_u16(into, NEXT_AT, chunks.get(index + 1).copied().unwrap_or(CHAIN_END));
        }
    }
}

impl<T: Deref<Target = [u8]>> Leaf<T> {
    /// How to add an entry, which must not be there; with the lowest differentiator that is free for
    /// its hash unless `cd` gives one. `None`: there is not enough room.
    pub(super) fn insertion(
        &self,
        key: &Key,
        value: &ZapValue,
        cd: Option<u32>,
    ) -> Result<Option<LeafChange>, Damage> {
        self.insertion_of(Parts {
            hash: key.hash,
            cd: cd.map_or_else(|| self.unused_cd(key.hash), Ok)?,
            name_ints: key.ints,
            name: key.bytes.clone(),
            value: Value::from(value),
        })
    }

    fn insertion_of(&self, parts: Parts) -> Result<Option<LeafChange>, Damage> {
        let need = 1 + array_chunks(parts.name.len()) + array_chunks(parts.value.bytes.len());
        if usize::from(self.free_chunks()) < need {
            return Ok(None);
        }
        let link = self.link_for(parts.hash, parts.cd)?;
        let chunks = self.free_front(need)?;
        Ok(Some(LeafChange(Kind::Insert { link, chunks, parts })))
    }

    /// How to give the entry in chunk `entry` another value. `None`: there is not enough room.
    pub(super) fn replacement(&self, entry: u16, value: &ZapValue) -> Result<Option<LeafChange>, Damage> {
        let value = Value::from(value);
        let mut chunks = self.array_list(self.entry(entry)?.value_chunk)?;
        let need = array_chunks(value.bytes.len());
        if need > chunks.len() + usize::from(self.free_chunks()) {
            return Ok(None);
        }
        let spare = chunks.split_off(need.min(chunks.len()));
        let more = self.free_front(need - chunks.len())?;
        chunks.extend(&more);
        self.check_free(spare.len())?;
        Ok(Some(LeafChange(Kind::Replace { entry, chunks, more, spare, value })))
    }

    /// How to remove the entry that the link at `link` leads to.
    pub(super) fn removal(&self, link: usize, entry: &Entry) -> Result<LeafChange, Damage> {
        let mut chunks = vec![entry.chunk];
        chunks.extend(self.array_list(entry.name_chunk)?);
        chunks.extend(self.array_list(entry.value_chunk)?);
        self.check_free(chunks.len())?;
        Ok(LeafChange(Kind::Remove { link, next: entry.next, chunks }))
    }

    /// Whether so many chunks more can be free.
    fn check_free(&self, more: usize) -> Result<(), Damage> {
        if usize::from(self.free_chunks()) + more > usize::from(self.shape.chunks()) {
            return Err(Damage("leaf would have more free chunks than chunks"));
        }
        Ok(())
    }

    /// The lowest differentiator that no entry of this hash has.
    fn unused_cd(&self, hash: u64) -> Result<u32, Damage> {
        let mut taken: Vec<u32> = self
            .chain(hash)?
            .iter()
            .filter(|(_, entry)| entry.hash == hash)
            .map(|(_, entry)| entry.cd)
            .collect();
        taken.sort_unstable();
        let mut cd = 0;
        for other in taken {
            if other == cd {
                cd += 1;
            }
        }
        Ok(cd)
    }

    /// The link after which an entry belongs, to keep its chain in order of differentiators.
    fn link_for(&self, hash: u64, cd: u32) -> Result<usize, Damage> {
        let mut link = self.bucket_link(hash);
        for _ in 0..=self.shape.chunks() {
            let chunk = u16_at(&self.bytes, link);
            if chunk == CHAIN_END || self.entry(chunk)?.cd > cd {
                return Ok(link);
            }
            link = self.shape.chunk_at(chunk) + ENTRY_NEXT_AT;
        }
        Err(Damage("hash chain without end"))
    }

    /// The first `count` chunks of the free list, which stay there.
    fn free_front(&self, count: usize) -> Result<Vec<u16>, Damage> {
        let mut chunks = Vec::with_capacity(count);
        let mut chunk = self.free_list();
        while chunks.len() < count {
            let at = self.chunk_of(chunk, CHUNK_FREE)?;
            chunks.push(chunk);
            chunk = u16_at(&self.bytes, at + NEXT_AT);
        }
        Ok(chunks)
    }

    /// Parts the entries by the bit after the leaf's prefix into two fresh leaves, made of the
    /// blocks `low` and `high`.
    pub(super) fn split_into(&self, low: &mut [u8], high: &mut [u8], flags: u8) -> Result<(), Damage> {
        let len = self.prefix_len() + 1;
        if len > 64 - self.shape.hash_shift() {
            return Err(Damage("leaf prefix too long"));
        }
        let flags = flags | self.flags();
        let mut low = Leaf::format(low, self.prefix() << 1, len, flags);
        let mut high = Leaf::format(high, self.prefix() << 1 | 1, len, flags);
        for chunk in 0..self.shape.chunks() {
            if self.bytes[self.shape.chunk_at(chunk)] != CHUNK_ENTRY {
                continue;
            }
            let entry = self.entry(chunk)?;
            let goes_high = entry.hash >> (64 - len) & 1 == 1;
            self.copy_entry(&entry, if goes_high { &mut high } else { &mut low })?;
        }
        Ok(())
    }

    /// Copies an entry with its arrays, whole chunks at a time.
    fn copy_entry(&self, entry: &Entry, to: &mut Leaf<&mut [u8]>) -> Result<(), Damage> {
        let name = self.whole_array(entry.name_chunk)?;
        let value = self.whole_array(entry.value_chunk)?;
        let value = Value { int_bytes: entry.value_int_bytes, ints: entry.value_ints, bytes: value };
        let parts = Parts { hash: entry.hash, cd: entry.cd, name_ints: entry.name_ints, name, value };
        let change = to.insertion_of(parts)?.ok_or(Damage("leaf entries share chunks"))?;
        change.carry_out(to.bytes);
        Ok(())
    }

    /// All bytes of an array's chunks, what is unused at the end included.
    fn whole_array(&self, first: u16) -> Result<Vec<u8>, Damage> {
        let list = self.array_list(first)?;
        let part = |chunk: &u16| {
            let at = self.shape.chunk_at(*chunk);
            &self.bytes[at + 1..at + 1 + ARRAY_BYTES]
        };
        Ok(list.iter().flat_map(part).copied().collect())
    }
}
