//! A block as its columns were found, and the right bytes among them.
//!
//! ```text
//!   columns read ─► which are to be believed? ─► the others computed ─► checksum ─► right
//!                     │ all that were read, or all but stale ones          │
//!                     │ all but one, each in turn                          │ wrong
//!                     │ all but two …, as long as parity suffices ◄────────┤
//!                     └ the same with another copy of a column ◄───────────┘
//! ```
//! A child that is a mirror while a device is replaced or a spare stands in has several copies of its
//! column. One is believed at a time, the best first; the others come into play where they differ.
//! A block of several stripes ([`Layout`]) is doubted child by child: whoever is left out of one is left out of all.
//!
//! Only the checksum of the whole block tells right from wrong, so a column that is wrong and does
//! not say so is found by leaving out each in turn. Once the block is right, so is every column
//! that can be computed from it; those that were read and differ are to blame.
//!
//! Invariants
//! - Whatever columns are lost or wrong, if no more than the parity, the right bytes come out.
//!   (test: `every_tolerable_set_of_bad_children_is_seen_through`)

use std::collections::BTreeSet;

use codec::parity::{Known, Lost, PARITIES_MAX, generate, reconstruct};
use env::{BufSlice, IoBuf};

use super::map::{Column, Layout};
use crate::VdevError;

/// What is known of a column.
#[derive(Debug, Default)]
pub(super) enum Held {
    /// Nothing: its child is out of use, or was not asked.
    #[default]
    Nothing,
    /// Its child was asked and did not answer.
    Silence(VdevError),
    /// What its child says.
    Bytes(IoBuf),
}

impl Held {
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(buf) => Some(buf),
            Self::Nothing | Self::Silence(_) => None,
        }
    }
}

/// Most sets of copies that are tried: more than two devices that are replaced at a time give, and few
/// enough for a block that is lost for good.
const CHOICES_MAX: usize = 64;

/// The columns of a block and what was found in them.
pub(super) struct Stripes<'a> {
    layout: &'a Layout,
    /// For each column what the copies of it say, the best first.
    held: Vec<Vec<Held>>,
    /// Which copy of each column is believed.
    chosen: Vec<usize>,
}

impl<'a> Stripes<'a> {
    pub(super) fn new(layout: &'a Layout, held: Vec<Vec<Held>>) -> Self {
        assert_eq!(layout.columns.len(), held.len(), "something is known of each column, be it nothing");
        let first_there = |copies: &Vec<Held>| copies.iter().position(|held| held.bytes().is_some());
        let chosen = held.iter().map(|copies| first_there(copies).unwrap_or(0)).collect();
        Self { layout, held, chosen }
    }

    /// What the copy of a column says that is believed; what is behind it is known.
    fn bytes(&self, column: usize) -> Option<&[u8]> {
        let len = self.layout.columns[column].len;
        if len == 0 {
            return Some(&[]);
        }
        self.held[column].get(self.chosen[column]).and_then(Held::bytes).map(|bytes| &bytes[..len])
    }

    /// Which copy of a column is believed; `None` when there is none.
    pub(super) fn chosen(&self, column: usize) -> Option<usize> {
        self.bytes(column).map(|_| self.chosen[column]).filter(|copy| *copy < self.held[column].len())
    }

    /// For each column the copies that say different things, the one that is believed now first.
    fn alternatives(&self) -> Vec<Vec<usize>> {
        let of = |column: usize| {
            let mut different = vec![self.chosen[column]];
            for (index, held) in self.held[column].iter().enumerate() {
                let says =
                    |known: &usize| self.held[column].get(*known).and_then(Held::bytes) == held.bytes();
                if held.bytes().is_some() && !different.iter().any(says) {
                    different.push(index);
                }
            }
            different
        };
        (0..self.held.len()).map(of).collect()
    }

    /// Believes the next set of copies, with `at` as odometer; false when all have been believed.
    fn choose_next(&mut self, alternatives: &[Vec<usize>], at: &mut [usize]) -> bool {
        for (column, copies) in alternatives.iter().enumerate() {
            at[column] = (at[column] + 1) % copies.len();
            self.chosen[column] = copies[at[column]];
            if at[column] != 0 {
                return true;
            }
        }
        false
    }

    /// The first block that `is_right`: with the best copy of each column, leaving out the children in `first`, then
    /// nobody, then ever more; then with other copies.
    pub(super) fn search(&mut self, first: &[usize], is_right: impl Fn(&[u8]) -> bool) -> Option<IoBuf> {
        let alternatives = self.alternatives();
        let mut at = vec![0; alternatives.len()];
        for _ in 0..CHOICES_MAX {
            if let Some(block) = self.search_chosen(first, &is_right) {
                return Some(block);
            }
            if !self.choose_next(&alternatives, &mut at) {
                break;
            }
        }
        None
    }

    /// The block if the children in `doubted` are left out; `None` when the rest is too little.
    pub(super) fn without(&self, doubted: &[usize]) -> Option<IoBuf> {
        let mut block = IoBuf::zeroed(self.layout.data_bytes());
        for start in (0..self.held.len()).step_by(self.layout.width) {
            let (lost, known) = self.used(start, doubted)?;
            let found = self.lost(start, &lost, &known);
            for (index, column) in self.layout.data_of(start) {
                let place = &mut block[column.at..column.at + column.len];
                match lost.iter().position(|lost| *lost == index) {
                    Some(at) => place.copy_from_slice(&found[at]),
                    None => place.copy_from_slice(self.bytes(index).unwrap_or_default()),
                }
            }
        }
        Some(block)
    }

    /// The data columns of the stripe from `start` on that are missing if the children in `doubted` are left out, and
    /// the parity that makes up for them; `None` when there is too little.
    fn used(&self, start: usize, doubted: &[usize]) -> Option<(Vec<usize>, Vec<usize>)> {
        let believed = |index: &usize| {
            let column = &self.layout.columns[*index];
            column.len == 0 || (!doubted.contains(&column.child) && self.bytes(*index).is_some())
        };
        let data = self.layout.data_of(start).map(|(index, _)| index);
        let lost: Vec<usize> = data.filter(|index| !believed(index)).collect();
        let known = (start..start + self.layout.parity).filter(believed);
        let known: Vec<usize> = known.take(lost.len()).collect();
        (known.len() == lost.len()).then_some((lost, known))
    }

    /// The lost columns of a stripe, computed.
    fn lost(&self, start: usize, lost: &[usize], known: &[usize]) -> Vec<Vec<u8>> {
        let mut found: Vec<_> = lost.iter().map(|index| vec![0; self.layout.columns[*index].len]).collect();
        let first = start + self.layout.parity;
        let held = |(index, _): (usize, &Column)| match lost.contains(&index) {
            true => &[],
            false => self.bytes(index).unwrap_or_default(),
        };
        let data: Vec<&[u8]> = self.layout.data_of(start).map(held).collect();
        let known = known
            .iter()
            .map(|index| Known { parity: index - start, bytes: self.bytes(*index).unwrap_or_default() });
        let places = lost.iter().zip(&mut found);
        let mut places: Vec<_> =
            places.map(|(index, bytes)| Lost { index: index - first, bytes: &mut bytes[..] }).collect();
        reconstruct(&mut places, &data, &known.collect::<Vec<_>>());
        found
    }

    /// What the last of the silent children said instead.
    pub(super) fn take_error(&mut self) -> Option<VdevError> {
        self.held.drain(..).flatten().rev().find_map(|held| match held {
            Held::Silence(error) => Some(error),
            Held::Bytes(_) | Held::Nothing => None,
        })
    }

    fn search_chosen(&self, first: &[usize], is_right: &impl Fn(&[u8]) -> bool) -> Option<IoBuf> {
        let mut tried = BTreeSet::new();
        let mut attempt = |doubted: &[usize]| {
            // Which parity is left out does not matter where none of it is used.
            if !tried.insert(self.essential(doubted)?) {
                return None;
            }
            self.without(doubted).filter(|block| is_right(block))
        };
        if let Some(block) = attempt(first) {
            return Some(block);
        }
        let there: BTreeSet<usize> = self.there().map(|(_, column)| column.child).collect();
        let there: Vec<usize> = there.into_iter().collect();
        let at_most = self.layout.parity.min(PARITIES_MAX);
        (0..=at_most).find_map(|size| choose(&there, size, &mut Vec::new(), &mut attempt))
    }

    /// The columns that somebody says something of.
    fn there(&self) -> impl Iterator<Item = (usize, &Column)> {
        self.layout.columns.iter().enumerate().filter(|(index, _)| self.bytes(*index).is_some())
    }

    /// What makes one attempt differ from another: the data columns left out, and the parity used. `None` when
    /// there is too little.
    fn essential(&self, doubted: &[usize]) -> Option<Vec<usize>> {
        let mut essential = Vec::new();
        for start in (0..self.held.len()).step_by(self.layout.width) {
            let (lost, known) = self.used(start, doubted)?;
            essential.extend(lost.into_iter().chain(known));
        }
        Some(essential)
    }

    /// Copies of columns that do not hold what the right block puts there: those that say something
    /// else, and those that say nothing though they were asked.
    pub(super) fn judge(&self, block: BufSlice) -> Judgement {
        let right = encode(self.layout, &block);
        let mut judgement = Judgement { wrong: Vec::new(), silent: Vec::new(), right };
        for (column, (copies, right)) in self.held.iter().zip(&judgement.right).enumerate() {
            for (copy, held) in copies.iter().enumerate() {
                match held {
                    Held::Bytes(buf) if buf[..] != *right.bytes() => judgement.wrong.push((column, copy)),
                    Held::Silence(_) => judgement.silent.push((column, copy)),
                    Held::Bytes(_) | Held::Nothing => {}
                }
            }
        }
        judgement
    }
}

/// Who has what is right.
pub(super) struct Judgement {
    /// By column and copy.
    pub(super) wrong: Vec<(usize, usize)>,
    /// By column and copy.
    pub(super) silent: Vec<(usize, usize)>,
    /// What belongs in each column.
    pub(super) right: Vec<BufSlice>,
}

/// What a block puts into its columns.
pub(super) fn encode(layout: &Layout, block: &BufSlice) -> Vec<BufSlice> {
    assert_eq!(layout.data_bytes(), block.bytes().len(), "the data columns are the block");
    layout.stripes().flat_map(|columns| encode_stripe(columns, layout.parity, block)).collect()
}

fn encode_stripe(columns: &[Column], parity: usize, block: &BufSlice) -> Vec<BufSlice> {
    let (sums, data) = columns.split_at(parity);
    let range = |column: &Column| column.at..column.at + column.len;
    let held: Vec<&[u8]> = data.iter().map(|column| &block.bytes()[range(column)]).collect();
    let mut sums: Vec<IoBuf> = sums.iter().map(|column| IoBuf::zeroed(column.len)).collect();
    generate(&mut sums.iter_mut().map(|sum| &mut sum[..]).collect::<Vec<_>>(), &held);
    let data = data.iter().map(|column| with_pad(block.part(range(column)), column.pad));
    sums.into_iter().map(BufSlice::from).chain(data).collect()
}

/// The bytes of a column and the zeros behind them.
fn with_pad(bytes: BufSlice, pad: usize) -> BufSlice {
    if pad == 0 {
        return bytes;
    }
    let len = bytes.bytes().len();
    let mut whole = IoBuf::zeroed(len + pad);
    whole[..len].copy_from_slice(bytes.bytes());
    BufSlice::from(whole)
}

/// Calls `attempt` with every set of `size` of the first `from`, until one gives something.
fn choose<T>(
    from: &[usize],
    size: usize,
    chosen: &mut Vec<usize>,
    attempt: &mut impl FnMut(&[usize]) -> Option<T>,
) -> Option<T> {
    if size == 0 {
        return attempt(chosen);
    }
    for (at, index) in from.iter().enumerate() {
        chosen.push(*index);
        let found = choose(&from[at + 1..], size - 1, chosen, attempt);
        chosen.pop();
        if found.is_some() {
            return found;
        }
    }
    None
}
