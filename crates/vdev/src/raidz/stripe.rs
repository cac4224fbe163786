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
//! The number of attempts is bounded as in OpenZFS, and in no other way: every set of up to
//! `parity` children is left out once ([`attempts_max`]), and the search starts again for each set
//! of copies. A wide raidz3 has 120,000 sets, which need a minute of CPU time. So the search runs
//! in slices and yields to the other tasks of its thread after each slice. It ends early when
//! nobody waits for the block any more.
//! (tests: `a_lost_block_of_a_wide_raidz_takes_as_many_attempts_as_there_are_sets`,
//! `a_long_search_lets_others_go_first`)
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

/// The size of the attempts in one slice of a search, in bytes: about a millisecond of work.
const SLICE_BYTES: usize = 256 << 10;

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
    pub(super) async fn search(
        &mut self,
        first: &[usize],
        is_right: impl Fn(&[u8]) -> bool,
    ) -> Option<IoBuf> {
        let alternatives = self.alternatives();
        let mut at = vec![0; alternatives.len()];
        let mut pace = SearchPace::default();
        for _ in 0..CHOICES_MAX {
            if let Some(block) = self.search_chosen(first, &is_right, &mut pace).await {
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

    async fn search_chosen(
        &self,
        first: &[usize],
        is_right: &impl Fn(&[u8]) -> bool,
        pace: &mut SearchPace,
    ) -> Option<IoBuf> {
        let there: BTreeSet<usize> = self.there().map(|(_, column)| column.child).collect();
        let there: Vec<usize> = there.into_iter().collect();
        let at_most = self.layout.parity.min(PARITIES_MAX);
        let sets = (0..=at_most).flat_map(|size| Sets::new(&there, size));
        let mut tried = BTreeSet::new();
        for doubted in [first.to_vec()].into_iter().chain(sets) {
            // Which parity is left out does not matter where none of it is used.
            let Some(essential) = self.essential(&doubted) else { continue };
            if !tried.insert(essential) {
                continue;
            }
            let Some(block) = self.without(&doubted) else { continue };
            if is_right(&block) {
                return Some(block);
            }
            pace.worked(block.len()).await;
        }
        None
    }

    /// The columns that somebody says something of.
    fn there(&self) -> impl Iterator<Item = (usize, &Column)> {
        self.layout.columns.iter().enumerate().filter(|(index, _)| self.bytes(*index).is_some())
    }

    /// Returns the key that distinguishes one attempt from another: the data columns left out and
    /// the parity used. For a block of several stripes, the key is the children left out. `None`
    /// when too few columns are left.
    fn essential(&self, doubted: &[usize]) -> Option<Vec<u16>> {
        let short = |at: usize| u16::try_from(at).unwrap_or(u16::MAX);
        let mut essential = Vec::new();
        for start in (0..self.held.len()).step_by(self.layout.width) {
            let (lost, known) = self.used(start, doubted)?;
            essential.extend(lost.into_iter().chain(known).map(short));
        }
        match self.held.len() > self.layout.width {
            true => Some(doubted.iter().copied().map(short).collect()),
            false => Some(essential),
        }
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

/// The work of a search since it last yielded to the other tasks of its thread.
#[derive(Default)]
struct SearchPace {
    bytes: usize,
}

impl SearchPace {
    async fn worked(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.bytes >= SLICE_BYTES {
            self.bytes = 0;
            env::let_others_first().await;
        }
    }
}

/// Iterates over every subset of a given size of some children.
struct Sets<'a> {
    from: &'a [usize],
    /// The next subset, as ascending positions in `from`. `None` at the end.
    next: Option<Vec<usize>>,
}

impl<'a> Sets<'a> {
    fn new(from: &'a [usize], size: usize) -> Self {
        Self { from, next: (size <= from.len()).then(|| (0..size).collect()) }
    }
}

impl Iterator for Sets<'_> {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        let mut places = self.next.take()?;
        let set = places.iter().map(|at| self.from[*at]).collect();
        let (size, count) = (places.len(), self.from.len());
        // Advances the last position that can advance. The positions after it follow directly.
        if let Some(turn) = (0..size).rev().find(|turn| places[*turn] < count - size + turn) {
            places[turn] += 1;
            for behind in turn + 1..size {
                places[behind] = places[behind - 1] + 1;
            }
            self.next = Some(places);
        }
        Some(set)
    }
}

/// The largest number of attempts that one set of copies of a lost block needs.
#[cfg(test)]
fn attempts_max(children: usize, parity: usize) -> u64 {
    let sets = |size: usize| (0..size).fold(1, |sets, at| sets * (children - at) as u64 / (at as u64 + 1));
    (0..=parity).map(sets).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use futures::executor::block_on;
    use futures::{FutureExt, poll};
    use units::{Ashift, Spread, VdevOffset};

    use super::*;
    use crate::raidz::map::layout;

    /// A block with one sector on each data child, all of them read.
    fn read(children: usize, parity: u8) -> (Layout, Vec<Vec<Held>>) {
        let spread = Spread::raidz(children, parity).expect("possible");
        let bytes = (children - usize::from(parity)) as u64 * 512;
        let layout = layout(spread, children, Ashift::new(9), VdevOffset::new(0), bytes);
        let held = layout.columns.iter().map(|column| vec![Held::Bytes(IoBuf::zeroed(column.len))]).collect();
        (layout, held)
    }

    /// Counts the attempts and rejects each of them.
    fn wrong(attempts: &AtomicU64) -> impl Fn(&[u8]) -> bool {
        |_| {
            attempts.fetch_add(1, Relaxed);
            false
        }
    }

    #[test]
    fn a_lost_block_of_a_wide_raidz_takes_as_many_attempts_as_there_are_sets() {
        for (children, parity) in [(4, 1), (12, 2), (20, 3), (40, 2)] {
            let (layout, held) = read(children, parity);
            let attempts = AtomicU64::new(0);
            assert!(block_on(Stripes::new(&layout, held).search(&[], wrong(&attempts))).is_none());
            let (attempts, parity) = (attempts.into_inner(), usize::from(parity));
            assert!(attempts <= attempts_max(children, parity), "{attempts} of {children} children");
            // The attempts include all sets of data children.
            assert!(attempts >= attempts_max(children - parity, parity), "{attempts} of {children} children");
        }
        assert_eq!(attempts_max(90, 3), 1 + 90 + 4005 + 117_480, "what OpenZFS tries, and not more");
    }

    #[test]
    fn a_long_search_lets_others_go_first() {
        let (layout, held) = read(20, 3);
        let per_slice = SLICE_BYTES.div_ceil(layout.data_bytes()) as u64;
        let (attempts, mut turns) = (AtomicU64::new(0), 0);
        let mut stripes = Stripes::new(&layout, held);
        block_on(async {
            let mut search = Box::pin(stripes.search(&[], wrong(&attempts)));
            while poll!(&mut search).is_pending() {
                turns += 1;
                assert_eq!(attempts.load(Relaxed), turns * per_slice);
            }
        });
        assert_eq!(turns, attempts.load(Relaxed) / per_slice);
        assert!(turns > 10, "{turns} slices");
        // The search ends when its future is dropped.
        attempts.store(0, Relaxed);
        assert!(stripes.search(&[], wrong(&attempts)).now_or_never().is_none());
        assert_eq!(attempts.load(Relaxed), per_slice);
    }

    #[test]
    fn each_set_comes_once() {
        let from = [3, 5, 7, 9, 11];
        for (size, count) in [1, 5, 10, 10, 5, 1, 0].into_iter().enumerate() {
            let sets: Vec<_> = Sets::new(&from, size).collect();
            let distinct: BTreeSet<_> = sets.iter().cloned().collect();
            assert_eq!((sets.len(), distinct.len()), (count, count));
            assert!(sets.iter().all(|set| set.is_sorted_by(|a, b| a < b)));
        }
    }
}
