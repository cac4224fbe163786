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

/// Most sets of copies that are tried: more than two devices that are replaced at a time give, and few
/// enough for a block that is lost for good.
const CHOICES_MAX: usize = 64;

/// The columns of a block and what was found in them.
pub(super) struct Stripe<'a> {
    columns: &'a [Column],
    /// How many of the first of them are parity.
    parity: usize,
    /// For each column what the copies of it say, the best first.
    held: Vec<Vec<Held>>,
    /// Which copy of each column is believed.
    chosen: Vec<usize>,
}

impl<'a> Stripe<'a> {
    pub(super) fn new(columns: &'a [Column], parity: usize, held: Vec<Vec<Held>>) -> Self {
        assert_eq!(columns.len(), held.len(), "something is known of each column, be it nothing");
        let first_there = |copies: &Vec<Held>| copies.iter().position(|held| held.bytes().is_some());
        let chosen = held.iter().map(|copies| first_there(copies).unwrap_or(0)).collect();
        Self { columns, parity, held, chosen }
    }

    /// What the copy of a column says that is believed.
    fn bytes(&self, column: usize) -> Option<&[u8]> {
        self.held[column].get(self.chosen[column]).and_then(Held::bytes)
    }

    /// Which copy of a column is believed; `None` when there is none.
    pub(super) fn chosen(&self, column: usize) -> Option<usize> {
        self.bytes(column).map(|_| self.chosen[column])
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
        (0..self.columns.len()).map(of).collect()
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

    /// The first block that `is_right`: with the best copy of each column, leaving out those in `first`, then
    /// nothing, then ever more; then with other copies.
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

    /// The block if the columns in `doubted` are left out; `None` when the rest is too little.
    pub(super) fn without(&self, doubted: &[usize]) -> Option<IoBuf> {
        let believed = |index: &usize| !doubted.contains(index) && self.bytes(*index).is_some();
        let lost: Vec<_> = (self.parity..self.columns.len()).filter(|index| !believed(index)).collect();
        let known = (0..self.parity).filter(believed);
        let known = known.map(|parity| Known { parity, bytes: self.bytes(parity).unwrap_or_default() });
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
            match self.bytes(index).filter(|_| !lost.contains(&index)) {
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
        self.held.drain(..).flatten().rev().find_map(|held| match held {
            Held::Silence(error) => Some(error),
            Held::Bytes(_) | Held::Nothing => None,
        })
    }

    fn search_chosen(&self, first: &[usize], is_right: &impl Fn(&[u8]) -> bool) -> Option<IoBuf> {
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
        let there: Vec<_> = (0..self.columns.len()).filter(|index| self.bytes(*index).is_some()).collect();
        let spare = (there.len() + self.parity).saturating_sub(self.columns.len());
        (0..=spare.min(PARITIES_MAX)).find_map(|size| choose(&there, size, &mut Vec::new(), &mut attempt))
    }

    /// What makes one attempt differ from another: the data columns left out, and the parity used.
    fn essential(&self, doubted: &[usize]) -> Vec<usize> {
        let believed = |index: &usize| !doubted.contains(index) && self.bytes(*index).is_some();
        let mut essential: Vec<_> =
            (self.parity..self.columns.len()).filter(|index| !believed(index)).collect();
        let lost = essential.len();
        essential.extend((0..self.parity).filter(believed).take(lost));
        essential
    }

    /// Copies of columns that do not hold what the right block puts there: those that say something
    /// else, and those that say nothing though they were asked.
    pub(super) fn judge(&self, block: BufSlice) -> Judgement {
        let right = encode(self.columns, self.parity, block);
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
pub(super) fn encode(columns: &[Column], parity: usize, block: BufSlice) -> Vec<BufSlice> {
    let mut start = 0;
    let ranges = columns[parity..].iter().map(|column| {
        start += column.len;
        start - column.len..start
    });
    let ranges: Vec<_> = ranges.collect();
    let columns_end = ranges.last().map_or(0, |range| range.end);
    assert_eq!(columns_end, block.bytes().len(), "the data columns are the block");
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
