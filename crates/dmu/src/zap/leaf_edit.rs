//! Changing a leaf in place.
//!
//! Every change first walks what it will touch and only then writes, so that damage found on
//! the way leaves the leaf as it was.

use std::ops::DerefMut;

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
struct Parts<'a> {
    hash: u64,
    cd: u32,
    name_ints: u16,
    name: &'a [u8],
    value_int_bytes: u8,
    value_ints: u16,
    value: &'a [u8],
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

    /// Adds an entry, which must not be there; with the lowest differentiator that is free for
    /// its hash unless `cd` gives one. `false`: not enough room, nothing changed.
    pub(super) fn insert(&mut self, key: &Key, value: &ZapValue, cd: Option<u32>) -> Result<bool, Damage> {
        let value_bytes = value.be_bytes();
        let parts = Parts {
            hash: key.hash,
            cd: cd.map_or_else(|| self.unused_cd(key.hash), Ok)?,
            name_ints: key.ints,
            name: &key.bytes,
            value_int_bytes: value.int_bytes(),
            value_ints: value.len() as u16,
            value: &value_bytes,
        };
        self.insert_parts(&parts)
    }

    fn insert_parts(&mut self, parts: &Parts<'_>) -> Result<bool, Damage> {
        let name_chunks = array_chunks(parts.name.len());
        let need = 1 + name_chunks + array_chunks(parts.value.len());
        if usize::from(self.free_chunks()) < need {
            return Ok(false);
        }
        let link = self.link_for(parts.hash, parts.cd)?;
        let chunks = self.free_front(need)?;
        self.pop_free(&chunks);
        let (name, value) = chunks[1..].split_at(name_chunks);
        self.write_array(name, parts.name);
        self.write_array(value, parts.value);
        let at = self.shape.chunk_at(chunks[0]);
        let next = u16_at(&self.bytes, link);
        let entry = &mut self.bytes[at..at + CHUNK_BYTES];
        entry[0] = CHUNK_ENTRY;
        entry[1] = parts.value_int_bytes;
        put_u16(entry, ENTRY_NEXT_AT, next);
        put_u16(entry, 4, name.first().copied().unwrap_or(CHAIN_END));
        put_u16(entry, 6, parts.name_ints);
        put_u16(entry, 8, value.first().copied().unwrap_or(CHAIN_END));
        put_u16(entry, 10, parts.value_ints);
        put_u32(entry, 12, parts.cd);
        put_u64(entry, 16, parts.hash);
        put_u16(&mut self.bytes, link, chunks[0]);
        let entries = self.entries();
        put_u16(&mut self.bytes, 30, entries.saturating_add(1));
        Ok(true)
    }

    /// Gives the entry in chunk `chunk` another value. `false`: not enough room, nothing changed.
    pub(super) fn replace_value(&mut self, chunk: u16, value: &ZapValue) -> Result<bool, Damage> {
        let entry = self.entry(chunk)?;
        let mut chunks = self.array_list(entry.value_chunk)?;
        let bytes = value.be_bytes();
        let need = array_chunks(bytes.len());
        if need > chunks.len() + usize::from(self.free_chunks()) {
            return Ok(false);
        }
        if need > chunks.len() {
            let more = self.free_front(need - chunks.len())?;
            self.pop_free(&more);
            chunks.extend(more);
        } else {
            let spare = chunks.split_off(need);
            self.push_free(&spare)?;
        }
        self.write_array(&chunks, &bytes);
        let at = self.shape.chunk_at(chunk);
        self.bytes[at + 1] = value.int_bytes();
        put_u16(&mut self.bytes, at + 8, chunks.first().copied().unwrap_or(CHAIN_END));
        put_u16(&mut self.bytes, at + 10, value.len() as u16);
        Ok(true)
    }

    /// Removes the entry that the link at `link` leads to.
    pub(super) fn remove(&mut self, link: usize, entry: &Entry) -> Result<(), Damage> {
        let mut chunks = vec![entry.chunk];
        chunks.extend(self.array_list(entry.name_chunk)?);
        chunks.extend(self.array_list(entry.value_chunk)?);
        self.push_free(&chunks)?;
        put_u16(&mut self.bytes, link, entry.next);
        let entries = self.entries();
        put_u16(&mut self.bytes, 30, entries.saturating_sub(1));
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
    fn push_free(&mut self, chunks: &[u16]) -> Result<(), Damage> {
        let free = usize::from(self.free_chunks()) + chunks.len();
        if free > usize::from(self.shape.chunks()) {
            return Err(Damage("leaf would have more free chunks than chunks"));
        }
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
        Ok(())
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

impl<T: std::ops::Deref<Target = [u8]>> Leaf<T> {
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
        let parts = Parts {
            hash: entry.hash,
            cd: entry.cd,
            name_ints: entry.name_ints,
            name: &name,
            value_int_bytes: entry.value_int_bytes,
            value_ints: entry.value_ints,
            value: &value,
        };
        if to.insert_parts(&parts)? { Ok(()) } else { Err(Damage("leaf entries share chunks")) }
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
