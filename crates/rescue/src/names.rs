//! The entries of a ZAP, read in spite of damage.
//!
//! Leaves are found by their content, not through the pointer table. So a lost header or table
//! costs nothing, and a lost leaf costs only its own entries. A ZAP leaves no outdated leaf behind
//! when it changes: a split keeps the leaf, and a freed leaf becomes a hole.

use ondisk::zap::{
    ARRAY_BYTES, BLOCK_LEAF, BLOCK_MICRO, CHAIN_END, LeafChunk, LeafEntryPhys, LeafHeaderPhys, LeafLayout,
    entries,
};

use crate::tree::{BlockTree, TreeRun};

/// A name and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedValue {
    /// The name, without the NUL.
    pub name: Vec<u8>,
    /// The size of each integer of the value in bytes.
    int_bytes: u8,
    /// The integers, big-endian.
    ints: Vec<u8>,
}

impl NamedValue {
    /// Returns the first integer of a value of 64-bit integers.
    pub fn word(&self) -> Option<u64> {
        let first = self.ints.first_chunk().filter(|_| self.int_bytes == 8)?;
        Some(u64::from_be_bytes(*first))
    }

    /// Returns a value of 16-bit integers.
    pub fn halves(&self) -> Option<Vec<u16>> {
        let halves = || self.ints.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
        (self.int_bytes == 2).then(|| halves().collect())
    }

    /// Returns a value of bytes.
    pub fn bytes(&self) -> Option<&[u8]> {
        (self.int_bytes == 1).then_some(&self.ints)
    }

    /// Returns the name as text.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.name).ok()
    }
}

/// The readable entries of a ZAP.
#[derive(Clone, Debug, Default)]
pub struct ReadNames {
    /// The entries, sorted by name.
    pub values: Vec<NamedValue>,
    /// The number of blocks that cannot be read.
    pub lost_blocks: u64,
}

impl ReadNames {
    /// Returns the first word of the value with this name.
    pub fn word(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(NamedValue::word)
    }

    /// Returns the value with this name.
    pub fn get(&self, name: &str) -> Option<&NamedValue> {
        self.values.iter().find(|value| value.name == name.as_bytes())
    }
}

/// Returns all readable entries of the ZAP in an object.
pub async fn read_names(tree: &BlockTree<'_>) -> ReadNames {
    let mut found = ReadNames::default();
    let mut block = 0;
    while let Some(run) = tree.run_at(block).await {
        match run {
            TreeRun::Hole { end } => block = end,
            TreeRun::Lost { end, .. } => {
                found.lost_blocks += end - block;
                block = end;
            }
            TreeRun::Data(bp) => {
                match tree.read(block, &bp).await {
                    Ok(bytes) => take_block(&bytes, &mut found.values),
                    Err(_) => found.lost_blocks += 1,
                }
                block += 1;
            }
        }
    }
    found.values.sort_by(|a, b| a.name.cmp(&b.name));
    found.values.dedup_by(|a, b| a.name == b.name);
    found
}

fn take_block(bytes: &[u8], into: &mut Vec<NamedValue>) {
    let kind = bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    if kind == BLOCK_MICRO {
        let used = entries(bytes).filter(ondisk::zap::MzapEntryPhys::is_used);
        into.extend(used.map(|entry| NamedValue {
            name: entry.name().to_vec(),
            int_bytes: 8,
            ints: entry.value.get().to_be_bytes().to_vec(),
        }));
    } else if kind == BLOCK_LEAF {
        take_leaf(bytes, into);
    }
}

fn take_leaf(bytes: &[u8], into: &mut Vec<NamedValue>) {
    if !bytes.len().is_power_of_two() {
        return;
    }
    let Ok(layout) = LeafLayout::new(bytes.len().trailing_zeros()) else { return };
    if LeafHeaderPhys::decode(bytes, layout).is_err() {
        return;
    }
    let numbers = (0..layout.chunks()).filter_map(|number| u16::try_from(number).ok());
    for number in numbers {
        if let Some(LeafChunk::Entry(entry)) = chunk(bytes, layout, number)
            && let Some(value) = whole(bytes, layout, &entry)
        {
            into.push(value);
        }
    }
}

fn chunk(bytes: &[u8], layout: LeafLayout, number: u16) -> Option<LeafChunk> {
    LeafChunk::decode(layout.chunk(bytes, number)?).ok()
}

fn whole(bytes: &[u8], layout: LeafLayout, entry: &LeafEntryPhys) -> Option<NamedValue> {
    let mut name = gathered(bytes, layout, entry.name_chunk.get(), entry.name_ints.get().into())?;
    if name.last() == Some(&0) {
        name.pop();
    }
    let int_bytes = entry.value_int_bytes;
    let len = usize::from(entry.value_ints.get()).checked_mul(int_bytes.into())?;
    let ints = gathered(bytes, layout, entry.value_chunk.get(), len)?;
    Some(NamedValue { name, int_bytes, ints })
}

/// Returns `len` bytes of a chain of chunks.
fn gathered(bytes: &[u8], layout: LeafLayout, first: u16, len: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut next = first;
    for _ in 0..len.div_ceil(ARRAY_BYTES).min(layout.chunks()) {
        if next == CHAIN_END {
            return None;
        }
        let LeafChunk::Array(array) = chunk(bytes, layout, next)? else { return None };
        out.extend_from_slice(&array.bytes);
        next = array.next.get();
    }
    out.truncate(len);
    (out.len() == len).then_some(out)
}
