//! From a list of attributes to the bytes of a bonus and a spill block.

use std::sync::Arc;

use ondisk::sa::{SPILL_MAX_BYTES, SaHeader};

use super::{SaTables, ZplAttr};
use crate::error::{Result, ZplError};

/// Bytes of the bonus that a spill block's pointer takes.
const SPILL_POINTER_BYTES: usize = 128;
/// Spill blocks are whole sectors.
const SPILL_UNIT_BYTES: usize = 512;

/// The attributes of one object in the order in which they are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaAttrs {
    list: Vec<(u16, Vec<u8>)>,
}

/// What [`SaAttrs::build`] made.
#[derive(Debug)]
pub enum Built {
    /// The bytes to store.
    Ready {
        /// For the bonus.
        bonus: Vec<u8>,
        /// For the spill block, when the bonus cannot hold all.
        spill: Option<Vec<u8>>,
    },
    /// Layouts that have no number yet: give them one and build again.
    NeedsLayouts(Vec<Arc<[u16]>>),
}

impl SaAttrs {
    /// The value of attribute `number`.
    #[must_use]
    pub fn get(&self, number: u16) -> Option<&[u8]> {
        self.list.iter().find(|(n, _)| *n == number).map(|(_, value)| value.as_slice())
    }

    /// Sets attribute `number`: in its place if it is there, else at the end.
    pub fn set(&mut self, number: u16, value: &[u8]) {
        match self.list.iter_mut().find(|(n, _)| *n == number) {
            Some((_, old)) => *old = value.to_vec(),
            None => self.list.push((number, value.to_vec())),
        }
    }

    /// Sets one of ours.
    pub fn set_known(&mut self, tables: &SaTables, attr: ZplAttr, value: &[u8]) {
        self.set(tables.number(attr), value);
    }

    /// Sets one of ours that is a word.
    pub fn set_word(&mut self, tables: &SaTables, attr: ZplAttr, value: u64) {
        self.set(tables.number(attr), &value.to_le_bytes());
    }

    /// Sets one of ours that is a word: in its place if it is there, else behind `before`. (Accounts
    /// by project look for it in a fixed place.)
    pub fn set_word_after(&mut self, tables: &SaTables, before: ZplAttr, attr: ZplAttr, value: u64) {
        let (before, number) = (tables.number(before), tables.number(attr));
        match self.list.iter().position(|(n, _)| *n == before) {
            Some(at) if self.get(number).is_none() => {
                self.list.insert(at + 1, (number, value.to_le_bytes().to_vec()));
            }
            _ => self.set(number, &value.to_le_bytes()),
        }
    }

    /// The bytes of these attributes for a dnode whose bonus holds `capacity` bytes.
    ///
    /// # Errors
    /// [`ZplError::TooBig`] when not even a spill block holds them.
    pub fn build(&self, tables: &SaTables, capacity: usize) -> Result<Built> {
        let whole = Extent::of(tables, &self.list);
        if whole.end() <= capacity {
            return Ok(finish(tables, &self.list, None, whole.end()));
        }
        let limit = capacity.saturating_sub(SPILL_POINTER_BYTES);
        let split = (0..=self.list.len())
            .rev()
            .find(|&n| Extent::of(tables, &self.list[..n]).end() <= limit)
            .ok_or(ZplError::TooBig)?;
        let (kept, spilled) = self.list.split_at(split);
        if Extent::of(tables, spilled).end() > SPILL_MAX_BYTES {
            return Err(ZplError::TooBig);
        }
        // The format's writer declares the bonus as long as its attributes would make it.
        Ok(finish(tables, kept, Some(spilled), limit.min(whole.end())))
    }
}

/// Sizes of a run of attributes as stored.
struct Extent {
    header: usize,
    values: usize,
}

impl Extent {
    fn of(tables: &SaTables, list: &[(u16, Vec<u8>)]) -> Self {
        let variable = list.iter().filter(|(number, _)| is_variable(tables, *number)).count();
        let values = list.iter().fold(0, |end: usize, (_, value)| end.next_multiple_of(8) + value.len());
        Self { header: SaHeader::bytes_for(variable), values }
    }

    fn end(&self) -> usize {
        self.header + self.values
    }
}

fn is_variable(tables: &SaTables, number: u16) -> bool {
    tables.length(number).unwrap_or(0) == 0
}

fn finish(
    tables: &SaTables,
    kept: &[(u16, Vec<u8>)],
    spilled: Option<&[(u16, Vec<u8>)]>,
    bonus_bytes: usize,
) -> Built {
    let mut missing = Vec::new();
    let bonus = encode(tables, kept, &mut missing);
    let spill = spilled.map(|list| encode(tables, list, &mut missing));
    if !missing.is_empty() {
        return Built::NeedsLayouts(missing);
    }
    let mut bonus = bonus;
    bonus.resize(bonus_bytes.max(bonus.len()), 0);
    let spill = spill.map(|mut bytes| {
        bytes.resize(bytes.len().next_multiple_of(SPILL_UNIT_BYTES), 0);
        bytes
    });
    Built::Ready { bonus, spill }
}

fn encode(tables: &SaTables, list: &[(u16, Vec<u8>)], missing: &mut Vec<Arc<[u16]>>) -> Vec<u8> {
    let attrs: Arc<[u16]> = list.iter().map(|(number, _)| *number).collect();
    let Some(layout) = tables.layout_number(&attrs) else {
        missing.push(attrs);
        return Vec::new();
    };
    let lengths: Vec<u16> = list
        .iter()
        .filter(|(number, _)| is_variable(tables, *number))
        .map(|(_, value)| u16::try_from(value.len()).expect("attribute lengths are bounded when set"))
        .collect();
    let mut bytes = SaHeader { layout, lengths }.encode();
    for (_, value) in list {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.extend_from_slice(value);
    }
    bytes
}
