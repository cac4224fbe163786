//! From a list of attributes to the bytes of a bonus and a spill block.

use std::ops::Range;
use std::sync::Arc;

use ondisk::sa::{SPILL_MAX_BYTES, SaHeader};

use super::{SaTables, ZplAttr};
use crate::error::{Result, ZplError};

/// Bytes of the bonus that a spill block's pointer takes.
const SPILL_POINTER_BYTES: usize = 128;
/// Spill blocks are whole sectors.
const SPILL_UNIT_BYTES: usize = 512;
/// The longest value, because its length is stored in 16 bits.
const VALUE_MAX_BYTES: usize = u16::MAX as usize;
/// Attributes of a usual file, and the bytes of their values.
const USUAL: usize = 18;
const USUAL_BYTES: usize = 256;

/// The attributes of one object in the order in which they are stored. Their values lie in one piece of memory,
/// for a file that is made has sixteen of them.
#[derive(Clone, Debug, Default)]
pub struct SaAttrs {
    list: Vec<Attr>,
    /// Values, and what values that were replaced have left.
    values: Vec<u8>,
}

/// An attribute, and where its value lies.
#[derive(Clone, Debug)]
struct Attr {
    number: u16,
    value: Range<usize>,
}

impl PartialEq for SaAttrs {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for SaAttrs {}

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
    /// An empty list with room for those of a usual file.
    #[must_use]
    pub fn with_room() -> Self {
        Self { list: Vec::with_capacity(USUAL), values: Vec::with_capacity(USUAL_BYTES) }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, &[u8])> {
        self.list.iter().map(|attr| (attr.number, self.value(attr)))
    }

    fn value(&self, attr: &Attr) -> &[u8] {
        &self.values[attr.value.clone()]
    }

    /// The value of attribute `number`.
    #[must_use]
    pub fn get(&self, number: u16) -> Option<&[u8]> {
        self.list.iter().find(|attr| attr.number == number).map(|attr| self.value(attr))
    }

    /// Sets attribute `number`: in its place if it is there, else at the end.
    pub fn set(&mut self, number: u16, value: &[u8]) {
        match self.list.iter().position(|attr| attr.number == number) {
            Some(at) if self.list[at].value.len() == value.len() => {
                self.values[self.list[at].value.clone()].copy_from_slice(value);
            }
            Some(at) => self.list[at].value = self.keep(value),
            None => {
                let value = self.keep(value);
                self.list.push(Attr { number, value });
            }
        }
    }

    fn keep(&mut self, value: &[u8]) -> Range<usize> {
        let at = self.values.len();
        self.values.extend_from_slice(value);
        at..self.values.len()
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
        match self.list.iter().position(|attr| attr.number == before) {
            Some(at) if self.get(number).is_none() => {
                let value = self.keep(&value.to_le_bytes());
                self.list.insert(at + 1, Attr { number, value });
            }
            _ => self.set(number, &value.to_le_bytes()),
        }
    }

    /// Returns the bytes of these attributes for a dnode whose bonus holds `capacity` bytes.
    ///
    /// # Errors
    /// [`ZplError::TooBig`] when even a spill block is too small, or a value is too long for its
    /// header.
    /// (test: `a_value_is_as_long_as_a_header_can_say`)
    pub fn build(&self, tables: &SaTables, capacity: usize) -> Result<Built> {
        if self.list.iter().any(|attr| attr.value.len() > VALUE_MAX_BYTES) {
            return Err(ZplError::TooBig);
        }
        let whole = Extent::of(tables, &self.list);
        if whole.end() <= capacity {
            return Ok(self.finish(tables, &self.list, None, whole.end()));
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
        Ok(self.finish(tables, kept, Some(spilled), limit.min(whole.end())))
    }

    fn finish(
        &self,
        tables: &SaTables,
        kept: &[Attr],
        spilled: Option<&[Attr]>,
        bonus_bytes: usize,
    ) -> Built {
        let mut missing = Vec::new();
        let mut bonus = self.encode(tables, kept, &mut missing);
        let spill = spilled.map(|list| self.encode(tables, list, &mut missing));
        if !missing.is_empty() {
            return Built::NeedsLayouts(missing);
        }
        bonus.resize(bonus_bytes.max(bonus.len()), 0);
        let spill = spill.map(|mut bytes| {
            bytes.resize(bytes.len().next_multiple_of(SPILL_UNIT_BYTES), 0);
            bytes
        });
        Built::Ready { bonus, spill }
    }

    fn encode(&self, tables: &SaTables, list: &[Attr], missing: &mut Vec<Arc<[u16]>>) -> Vec<u8> {
        let attrs: Vec<u16> = list.iter().map(|attr| attr.number).collect();
        let Some(layout) = tables.layout_number(&attrs) else {
            missing.push(attrs.into());
            return Vec::new();
        };
        let lengths: Vec<u16> = list
            .iter()
            .filter(|attr| is_variable(tables, attr.number))
            .map(|attr| u16::try_from(attr.value.len()).expect("`build` refuses longer ones"))
            .collect();
        let mut bytes = Vec::with_capacity(Extent::of(tables, list).end());
        bytes.extend_from_slice(&SaHeader { layout, lengths }.encode());
        for attr in list {
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            bytes.extend_from_slice(self.value(attr));
        }
        bytes
    }
}

/// Sizes of a run of attributes as stored.
struct Extent {
    header: usize,
    values: usize,
}

impl Extent {
    fn of(tables: &SaTables, list: &[Attr]) -> Self {
        let variable = list.iter().filter(|attr| is_variable(tables, attr.number)).count();
        let values = list.iter().fold(0, |end: usize, attr| end.next_multiple_of(8) + attr.value.len());
        Self { header: SaHeader::bytes_for(variable), values }
    }

    fn end(&self) -> usize {
        self.header + self.values
    }
}

fn is_variable(tables: &SaTables, number: u16) -> bool {
    tables.length(number).unwrap_or(0) == 0
}
