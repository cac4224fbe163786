//! A leaf of a fat ZAP, read in place.
//!
//! ```text
//!  0 block type  8 pad  16 prefix  24 magic  28 free chunks  30 entries
//! 32 prefix length  34 free list  36 flags  37 pad  48 hash table: a u16 per 32 bytes of block
//! then chunks of 24 bytes:
//!   entry 252  int size │ next │ name chunk, ints │ value chunk, ints │ cd (4) │ hash (8)
//!   array 251  21 bytes                                                        │ next
//!   free  253  21 bytes of zero                                                │ next
//! ```
//! Chains are lists of chunk numbers that end with 0xffff. Entries of one hash bucket are kept
//! in order of their differentiator. A leaf holds exactly the hashes that begin with its prefix.

use std::ops::Deref;

use ondisk::zap::{
    ARRAY_BYTES, BLOCK_LEAF, CHAIN_END, CHUNK_ARRAY, CHUNK_BYTES, CHUNK_ENTRY, ZAP_LEAF_MAGIC,
};

use super::bytes::{u16_at, u32_at, u64_at};
use super::error::Damage;
use super::header::{block_shift, prefix};
use super::key::Key;
use super::value::ZapValue;

/// Where the hash table begins.
pub(super) const HASH_TABLE_AT: usize = 48;
/// Where in an array or free chunk the next chunk's number is.
pub(super) const NEXT_AT: usize = 22;
/// Where in an entry chunk the next entry's number is.
pub(super) const ENTRY_NEXT_AT: usize = 2;

/// Chunks that an array of so many bytes takes.
pub(super) const fn array_chunks(bytes: usize) -> usize {
    bytes.div_ceil(ARRAY_BYTES)
}

/// An entry chunk, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) chunk: u16,
    pub(super) next: u16,
    pub(super) name_chunk: u16,
    pub(super) name_ints: u16,
    pub(super) value_chunk: u16,
    pub(super) value_ints: u16,
    pub(super) value_int_bytes: u8,
    pub(super) cd: u32,
    pub(super) hash: u64,
}

/// Where in a leaf the chunks lie: follows from the block size alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Base-2 logarithm of the block size.
    pub(super) shift: u32,
}

impl Shape {
    /// Base-2 logarithm of the number of hash buckets.
    pub(super) const fn hash_shift(self) -> u32 {
        self.shift - 5
    }

    /// Number of hash buckets.
    pub(super) const fn buckets(self) -> usize {
        1 << self.hash_shift()
    }

    /// Number of chunks.
    pub(super) const fn chunks(self) -> u16 {
        (((1usize << self.shift) - 2 * self.buckets()) / CHUNK_BYTES - 2) as u16
    }

    /// Where a chunk begins.
    pub(super) const fn chunk_at(self, chunk: u16) -> usize {
        HASH_TABLE_AT + 2 * self.buckets() + CHUNK_BYTES * chunk as usize
    }

    /// Where the head of a bucket's chain is.
    pub(super) const fn bucket_at(self, bucket: usize) -> usize {
        HASH_TABLE_AT + 2 * bucket
    }
}

/// A leaf over its bytes: `&[u8]`, `&mut [u8]` or owned.
#[derive(Debug)]
pub(super) struct Leaf<T> {
    pub(super) bytes: T,
    pub(super) shape: Shape,
}

impl<T: Deref<Target = [u8]>> Leaf<T> {
    /// The leaf in these bytes, whose prefix must be that of `hash`.
    pub(super) fn open(bytes: T, hash: u64) -> Result<Self, Damage> {
        let shift = block_shift(bytes.len())?;
        let leaf = Self { bytes, shape: Shape { shift } };
        if u64_at(&leaf.bytes, 0) != BLOCK_LEAF || u32_at(&leaf.bytes, 24) != ZAP_LEAF_MAGIC {
            return Err(Damage("no ZAP leaf"));
        }
        if leaf.prefix_len() > 64 - leaf.shape.hash_shift() {
            return Err(Damage("leaf prefix too long"));
        }
        if prefix(hash, leaf.prefix_len()) != leaf.prefix() {
            return Err(Damage("leaf of another hash prefix"));
        }
        if leaf.free_chunks() > leaf.shape.chunks() {
            return Err(Damage("leaf with more free chunks than chunks"));
        }
        Ok(leaf)
    }

    pub(super) fn prefix(&self) -> u64 {
        u64_at(&self.bytes, 16)
    }

    pub(super) fn prefix_len(&self) -> u32 {
        u32::from(u16_at(&self.bytes, 32))
    }

    pub(super) fn free_chunks(&self) -> u16 {
        u16_at(&self.bytes, 28)
    }

    pub(super) fn entries(&self) -> u16 {
        u16_at(&self.bytes, 30)
    }

    pub(super) fn free_list(&self) -> u16 {
        u16_at(&self.bytes, 34)
    }

    pub(super) fn flags(&self) -> u8 {
        self.bytes[36]
    }

    /// Where the head of this hash's chain is.
    pub(super) fn bucket_link(&self, hash: u64) -> usize {
        let drop = 64 - self.shape.hash_shift() - self.prefix_len();
        let bucket = (hash >> drop) as usize & (self.shape.buckets() - 1);
        self.shape.bucket_at(bucket)
    }

    /// Where a chunk begins, if it is of the kind wanted.
    pub(super) fn chunk_of(&self, chunk: u16, kind: u8) -> Result<usize, Damage> {
        if chunk >= self.shape.chunks() {
            return Err(Damage("chunk number out of range"));
        }
        let at = self.shape.chunk_at(chunk);
        if self.bytes[at] == kind { Ok(at) } else { Err(Damage("chunk of the wrong kind")) }
    }

    pub(super) fn entry(&self, chunk: u16) -> Result<Entry, Damage> {
        let at = self.chunk_of(chunk, CHUNK_ENTRY)?;
        let bytes = &self.bytes;
        Ok(Entry {
            chunk,
            value_int_bytes: bytes[at + 1],
            next: u16_at(bytes, at + ENTRY_NEXT_AT),
            name_chunk: u16_at(bytes, at + 4),
            name_ints: u16_at(bytes, at + 6),
            value_chunk: u16_at(bytes, at + 8),
            value_ints: u16_at(bytes, at + 10),
            cd: u32_at(bytes, at + 12),
            hash: u64_at(bytes, at + 16),
        })
    }

    /// The entries of the bucket of `hash`, each with the place of the link that leads to it.
    pub(super) fn chain(&self, hash: u64) -> Result<Vec<(usize, Entry)>, Damage> {
        let mut found = Vec::new();
        let mut link = self.bucket_link(hash);
        loop {
            let chunk = u16_at(&self.bytes, link);
            if chunk == CHAIN_END {
                return Ok(found);
            }
            if found.len() >= usize::from(self.shape.chunks()) {
                return Err(Damage("hash chain without end"));
            }
            let entry = self.entry(chunk)?;
            found.push((link, entry));
            link = self.shape.chunk_at(chunk) + ENTRY_NEXT_AT;
        }
    }

    /// The entry of this key, with the place of the link that leads to it.
    pub(super) fn find_linked(&self, key: &Key) -> Result<Option<(usize, Entry)>, Damage> {
        let mut link = self.bucket_link(key.hash);
        for _ in 0..=self.shape.chunks() {
            let chunk = u16_at(&self.bytes, link);
            if chunk == CHAIN_END {
                return Ok(None);
            }
            let entry = self.entry(chunk)?;
            if entry.hash == key.hash && entry.name_ints == key.ints && self.holds(&entry, &key.bytes)? {
                return Ok(Some((link, entry)));
            }
            link = self.shape.chunk_at(chunk) + ENTRY_NEXT_AT;
        }
        Err(Damage("hash chain without end"))
    }

    /// The entry of this key.
    pub(super) fn find(&self, key: &Key) -> Result<Option<Entry>, Damage> {
        Ok(self.find_linked(key)?.map(|(_, entry)| entry))
    }

    /// Whether the name of `entry` is these bytes.
    fn holds(&self, entry: &Entry, name: &[u8]) -> Result<bool, Damage> {
        let mut chunk = entry.name_chunk;
        for part in name.chunks(ARRAY_BYTES) {
            let at = self.chunk_of(chunk, CHUNK_ARRAY)?;
            if &self.bytes[at + 1..at + 1 + part.len()] != part {
                return Ok(false);
            }
            chunk = u16_at(&self.bytes, at + NEXT_AT);
        }
        Ok(true)
    }

    /// `len` bytes of the array that begins in chunk `first`.
    fn array(&self, first: u16, len: usize) -> Result<Vec<u8>, Damage> {
        if array_chunks(len) > usize::from(self.shape.chunks()) {
            return Err(Damage("array longer than the leaf"));
        }
        let mut bytes = Vec::with_capacity(len);
        let mut chunk = first;
        while bytes.len() < len {
            let at = self.chunk_of(chunk, CHUNK_ARRAY)?;
            let part = ARRAY_BYTES.min(len - bytes.len());
            bytes.extend_from_slice(&self.bytes[at + 1..at + 1 + part]);
            chunk = u16_at(&self.bytes, at + NEXT_AT);
        }
        Ok(bytes)
    }

    /// All chunks of the array that begins in chunk `first`.
    pub(super) fn array_list(&self, first: u16) -> Result<Vec<u16>, Damage> {
        let mut list = Vec::new();
        let mut chunk = first;
        while chunk != CHAIN_END {
            if list.len() >= usize::from(self.shape.chunks()) {
                return Err(Damage("array without end"));
            }
            let at = self.chunk_of(chunk, CHUNK_ARRAY)?;
            list.push(chunk);
            chunk = u16_at(&self.bytes, at + NEXT_AT);
        }
        Ok(list)
    }

    /// The name of an entry: without its NUL, or words in big-endian bytes.
    pub(super) fn name(&self, entry: &Entry, word_keys: bool) -> Result<Vec<u8>, Damage> {
        let ints = usize::from(entry.name_ints);
        if word_keys {
            return self.array(entry.name_chunk, ints * 8);
        }
        let mut name = self.array(entry.name_chunk, ints)?;
        if name.last() == Some(&0) {
            name.pop();
        }
        Ok(name)
    }

    /// The value of an entry.
    pub(super) fn value(&self, entry: &Entry) -> Result<ZapValue, Damage> {
        let len = usize::from(entry.value_ints) * usize::from(entry.value_int_bytes);
        ZapValue::from_be_bytes(entry.value_int_bytes, self.array(entry.value_chunk, len)?)
    }

    /// The value of an entry if it is a single `u64`; spares the copy that [`Leaf::value`] makes.
    pub(super) fn value_u64(&self, entry: &Entry) -> Result<Option<u64>, Damage> {
        if entry.value_int_bytes != 8 || entry.value_ints != 1 {
            return Ok(None);
        }
        let at = self.chunk_of(entry.value_chunk, CHUNK_ARRAY)?;
        let word = self.bytes[at + 1..at + 9].iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
        Ok(Some(word))
    }

    /// Returns the number of leading bits that `hash` shares with the hashes of all entries.
    pub(super) fn common_bits(&self, hash: u64) -> Result<u32, Damage> {
        let is_entry = |chunk: &u16| self.bytes[self.shape.chunk_at(*chunk)] == CHUNK_ENTRY;
        let mut common = u64::BITS;
        for chunk in (0..self.shape.chunks()).filter(is_entry) {
            common = common.min((self.entry(chunk)?.hash ^ hash).leading_zeros());
        }
        Ok(common)
    }

    /// Up to `limit` entries from `(hash, cd)` on, in order.
    pub(super) fn entries_from(&self, hash: u64, cd: u32, limit: usize) -> Result<Vec<Entry>, Damage> {
        let mut found = Vec::new();
        for chunk in 0..self.shape.chunks() {
            if self.bytes[self.shape.chunk_at(chunk)] == CHUNK_ENTRY {
                let entry = self.entry(chunk)?;
                if (entry.hash, entry.cd) >= (hash, cd) {
                    found.push(entry);
                }
            }
        }
        if limit < found.len() {
            found.select_nth_unstable_by_key(limit, |entry| (entry.hash, entry.cd));
            found.truncate(limit);
        }
        found.sort_unstable_by_key(|entry| (entry.hash, entry.cd));
        Ok(found)
    }
}
