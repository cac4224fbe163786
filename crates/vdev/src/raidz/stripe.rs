//! A block as its columns were found, and the right bytes among them.
//!
//! ```text
//!   columns read ─► which are to be believed? ─► the others computed ─► checksum ─► right
//!                     │ all that were read, or all but stale ones          │
//!                     │ all but one, each in turn                          │ wrong
//!                     └ all but two …, as long as parity suffices ◄────────┘
//! ```
//! Only the checksum of the whole block tells right from wrong, so a column that is wrong and does
//! not say so is found by leaving out each in turn. Once the block is right, so is every column
//! that can be computed from it; those that were read and differ are to blame.
//!
//! Invariants
//! - Whatever columns are lost or wrong, if no more than the parity, the right bytes come out.
//!   (test: `every_tolerable_set_of_bad_children_is_seen_through`)

use std::collections::BTreeSet;

use codec::parity::{Known, Lost, PARITIES_MAX, generate, reconstruct};
use device::{BufSlice, IoBuf};

use super::map::Column;
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

/// The columns of a block and what was found in them.
pub(super) struct Stripe<'a> {
    pub(super) columns: &'a [Column],
    /// How many of the first of them are parity.
    pub(super) parity: usize,
    /// As many as there are columns.
    pub(super) held: Vec<Held>,
}

impl Stripe<'_> {
    /// The block if the columns in `doubted` are left out; `None` when the rest is too little.
    pub(super) fn without(&self, doubted: &[usize]) -> Option<IoBuf> {
        let believed = |index: &usize| !doubted.contains(index) && self.held[*index].bytes().is_some();
        let lost: Vec<_> = (self.parity..self.columns.len()).filter(|index| !believed(index)).collect();
        let known = (0..self.parity).filter(believed);
        let known =
            known.map(|parity| Known { parity, bytes: self.held[parity].bytes().unwrap_or_default() });
        let known: Vec<_> = known.take(lost.len()).collect();
        if known.len() < lost.len() {
            return None;
        }
        Some(self.assembled(&lost, &known))
    }

    fn assembled(&self, lost: &[usize], known: &[Known<'_>]) -> IoBuf {
        let mut block = IoBuf::zeroed(self.columns[self.parity..].iter().map(|column| column.len).sum());
        let mut places = Vec::with_capacity(lost.len());
        let mut data: Vec<&[u8]> = Vec::with_capacity(self.columns.len());
        let mut rest: &mut [u8] = &mut block;
        for (index, column) in self.columns.iter().enumerate().skip(self.parity) {
            let (bytes, behind) = rest.split_at_mut(column.len);
            rest = behind;
            match self.held[index].bytes().filter(|_| !lost.contains(&index)) {
                Some(held) => {
                    bytes.copy_from_slice(held);
                    data.push(held);
                }
                None => {
                    places.push(Lost { index: index - self.parity, bytes });
                    data.push(&[]);
                }
            }
        }
        reconstruct(&mut places, &data, known);
        block
    }

    /// What the last of the silent children said instead.
    pub(super) fn take_error(&mut self) -> Option<VdevError> {
        self.held.drain(..).rev().find_map(|held| match held {
            Held::Silence(error) => Some(error),
            Held::Bytes(_) | Held::Nothing => None,
        })
    }

    /// The first block that `is_right`, leaving out `first`, then nothing, then ever more columns.
    pub(super) fn search(&self, first: &[usize], is_right: impl Fn(&[u8]) -> bool) -> Option<IoBuf> {
        let mut tried = BTreeSet::new();
        let mut attempt = |doubted: &[usize]| {
            // Which parity is left out does not matter where none of it is used.
            let essential: Vec<_> = self.essential(doubted);
            if !tried.insert(essential) {
                return None;
            }
            self.without(doubted).filter(|block| is_right(block))
        };
        if let Some(block) = attempt(first) {
            return Some(block);
        }
        let there: Vec<_> =
            (0..self.columns.len()).filter(|index| self.held[*index].bytes().is_some()).collect();
        let spare = (there.len() + self.parity).saturating_sub(self.columns.len());
        (0..=spare.min(PARITIES_MAX)).find_map(|size| choose(&there, size, &mut Vec::new(), &mut attempt))
    }

    /// What makes one attempt differ from another: the data columns left out, and the parity used.
    fn essential(&self, doubted: &[usize]) -> Vec<usize> {
        let believed = |index: &usize| !doubted.contains(index) && self.held[*index].bytes().is_some();
        let mut essential: Vec<_> =
            (self.parity..self.columns.len()).filter(|index| !believed(index)).collect();
        let lost = essential.len();
        essential.extend((0..self.parity).filter(believed).take(lost));
        essential
    }

    /// Columns that do not hold what the right block puts there: those that say something else,
    /// and those that say nothing though they were asked.
    pub(super) fn judge(&self, block: BufSlice) -> Judgement {
        let right = encode(self.columns, self.parity, block);
        let mut judgement = Judgement { wrong: Vec::new(), silent: Vec::new(), right };
        for (index, (held, right)) in self.held.iter().zip(&judgement.right).enumerate() {
            match held {
                Held::Bytes(buf) if buf[..] != *right.bytes() => judgement.wrong.push(index),
                Held::Silence(_) => judgement.silent.push(index),
                Held::Bytes(_) | Held::Nothing => {}
            }
        }
        judgement
    }
}

/// Who has what is right.
pub(super) struct Judgement {
    pub(super) wrong: Vec<usize>,
    pub(super) silent: Vec<usize>,
    /// What belongs in each column.
    pub(super) right: Vec<BufSlice>,
}

/// What a block puts into its columns.
pub(super) fn encode(columns: &[Column], parity: usize, block: BufSlice) -> Vec<BufSlice> {
    let mut start = 0;
    let ranges = columns[parity..].iter().map(|column| {
        start += column.len;
        start - column.len..start
    });
    let ranges: Vec<_> = ranges.collect();
    let data: Vec<&[u8]> = ranges.iter().map(|range| &block.bytes()[range.clone()]).collect();
    let mut sums: Vec<IoBuf> = columns[..parity].iter().map(|column| IoBuf::zeroed(column.len)).collect();
    generate(&mut sums.iter_mut().map(|sum| &mut sum[..]).collect::<Vec<_>>(), &data);
    let data = ranges.into_iter().map(|range| block.part(range));
    sums.into_iter().map(BufSlice::from).chain(data).collect()
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
