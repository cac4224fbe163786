//! I/O of a raidz or draid: every block is spread over the children, with columns of parity.
//!
//! ```text
//!   healthy         the data columns are read, and the block's checksum holds: done
//!   child missing   as many parity columns in place of its data, computed, checksum holds: done
//!   anything else   all columns there are ([`stripe`]); the guilty are counted and repaired
//! ```
//! A write makes a whole stripe at once, so there is never a stripe of which parts are of
//! different times, and no partial update of parity that a crash could tear.
//!
//! A child that missed writes and came back (stale) is read last, and its wrong columns are
//! repaired but not held against it. A child that is a mirror, while a device is replaced or a spare
//! stands in for one, has its column on each of its leaves: all are written and repaired, and one that
//! is whole is read.

use std::sync::Arc;

use env::{BufSlice, Durability, IoBuf};
use futures::future::join_all;
use units::{LeafOffset, Psize, Txg, VdevOffset};

use crate::draid;
use crate::io::{Ask, Asked, Mend};
use crate::leaf::block_on_leaf;
use crate::{Address, Leaf, NodeKind, Top, VdevError};

pub(crate) mod map;
mod stripe;

use map::{Column, Layout};
use stripe::{Held, Stripes, encode};

impl Top {
    /// Asks as few children as will do, or else all of them.
    pub(crate) async fn ask_columns(&self, ask: Ask<'_>) -> Result<Asked, VdevError> {
        let layout = self.layout(ask.offset, ask.whole as u64, ask.born)?;
        if let Some(good) = self.read_quickly(&layout, &ask).await {
            return Ok(Asked {
                good: Some(good),
                doubtful: None,
                wrong: Vec::new(),
                error: self.no_replica(),
            });
        }
        self.read_thoroughly(&layout, &ask).await.map(|(asked, _)| asked)
    }

    /// Reads and checks everything there is of a block; says how many columns were not right.
    pub(crate) async fn scrub_columns(&self, ask: Ask<'_>) -> Result<usize, VdevError> {
        let layout = self.layout(ask.offset, ask.whole as u64, ask.born)?;
        let (asked, bad_columns) = self.read_thoroughly(&layout, &ask).await?;
        match (asked.good, asked.doubtful) {
            (Some(_), _) => Ok(bad_columns),
            (None, Some(_)) if !self.may_come_back(ask.born) => Err(self.nobody_has_it(ask.offset, ask.len)),
            (None, _) => Err(asked.error),
        }
    }

    /// Writes whole sectors: as one stripe, unless they go where a block was that is older than the raidz is wide. Children
    /// out of use go without, as far as parity lets them.
    pub(crate) async fn write_columns(
        &self,
        Address { offset, born, .. }: Address,
        slices: Vec<BufSlice>,
        bytes: u64,
        durability: Durability,
    ) -> Result<(), VdevError> {
        let layout = self.layout(offset, bytes, born)?;
        let parts = encode(&layout, &in_one_piece(slices));
        let taken = self.taken(bytes, born);
        let _writing = self.ledger.places.write(offset.get()..offset.get() + taken).await;
        let jobs = layout.columns.iter().zip(parts).filter(|(column, _)| column.taken() > 0);
        let jobs = jobs.flat_map(|(column, part)| {
            self.copies_of(column.child).iter().map(move |leaf| (leaf, column, part.clone()))
        });
        let jobs: Vec<_> = jobs.filter(|(leaf, ..)| leaf.is_usable()).collect();
        let asked: Vec<_> = jobs.iter().map(|(leaf, ..)| (*leaf).clone()).collect();
        let writes = jobs.into_iter().map(|(leaf, column, part)| async move {
            leaf.write(self.place(column)?, vec![part], durability).await
        });
        let results = join_all(writes).await;
        self.settle(&asked, results)
    }

    /// Where a block that was written in that txg lies, once it is known to lie on the vdev.
    fn layout(&self, offset: VdevOffset, bytes: u64, born: Txg) -> Result<Layout, VdevError> {
        let out_of_range = VdevError::OutOfRange { vdev: self.id.id, offset, len: bytes };
        block_on_leaf(self.id.id, offset, self.taken(bytes, born), self.config().asize)?;
        match (self.kind(), self.node.permutations()) {
            (NodeKind::Draid(shape), Some(permutations)) => {
                draid::map::layout(&shape, permutations, self.id.ashift, offset, bytes).ok_or(out_of_range)
            }
            _ => {
                let (spread, children) = (self.node.spread_at(born), self.node.children().len());
                Ok(map::layout(spread, children, self.id.ashift, offset, bytes))
            }
        }
    }

    /// What a block takes that was written in that txg, parity and padding included.
    fn taken(&self, bytes: u64, born: Txg) -> u64 {
        Psize::new(bytes).allocated_over(self.id.ashift, self.node.spread_at(born)).get()
    }

    /// The leaves in use that have a column, the best first: whole before stale, and the first of those
    /// that are alike.
    fn usable_copies(&self, column: &Column) -> Vec<&Arc<Leaf>> {
        let mut leaves: Vec<_> =
            self.copies_of(column.child).iter().filter(|leaf| leaf.is_usable()).collect();
        leaves.sort_by_key(|leaf| leaf.is_stale());
        leaves.truncate(if column.taken() == 0 { 0 } else { leaves.len() });
        leaves
    }

    /// A leaf in use that has a column and missed nothing.
    fn sound_copy(&self, column: &Column) -> Option<&Arc<Leaf>> {
        self.copies_of(column.child).iter().find(|leaf| leaf.is_usable() && !leaf.is_stale())
    }

    fn place(&self, column: &Column) -> Result<LeafOffset, VdevError> {
        block_on_leaf(self.id.id, column.offset, column.taken() as u64, self.asize_of_leaf())
    }

    /// The block from its data columns, and as much parity as data columns are on children that
    /// are gone or stale. `None` when that is not the right block, or not to be had.
    async fn read_quickly(&self, layout: &Layout, ask: &Ask<'_>) -> Option<IoBuf> {
        let mut asked = Vec::with_capacity(layout.columns.len());
        for stripe in layout.stripes() {
            asked.extend(self.just_enough(stripe, layout.parity)?);
        }
        let stripes = self.held(layout, &asked, |column| column.len).await;
        stripes.without(&[]).filter(|block| ask.holds(block))
    }

    /// Who to ask for the columns of a stripe: for its data, and as much parity as it takes. `None` if that
    /// is not to be had.
    fn just_enough(&self, stripe: &[Column], parity: usize) -> Option<Vec<Vec<&Arc<Leaf>>>> {
        let sound = |column: &Column| self.sound_copy(column).filter(|_| column.len > 0);
        let mut asked: Vec<_> = stripe.iter().map(|column| Vec::from_iter(sound(column))).collect();
        let (sums, data) = asked.split_at_mut(parity.min(stripe.len()));
        let is_lost = |(asked, column): (&Vec<_>, &Column)| asked.is_empty() && column.len > 0;
        let mut lost =
            data.iter().zip(&stripe[sums.len()..]).filter(|pair| is_lost((pair.0, pair.1))).count();
        for sum in sums.iter_mut().filter(|sum| !sum.is_empty()) {
            match lost.checked_sub(1) {
                Some(rest) => lost = rest,
                None => sum.clear(),
            }
        }
        (lost == 0).then_some(asked)
    }

    /// The block from all columns there are. Repairs those that are wrong, and says how many
    /// these were.
    async fn read_thoroughly(&self, layout: &Layout, ask: &Ask<'_>) -> Result<(Asked, usize), VdevError> {
        let (columns, taken) = (&layout.columns, self.taken(ask.whole as u64, ask.born));
        let claim = self.ledger.places.claim(ask.offset.get()..ask.offset.get() + taken);
        let copies: Vec<_> = columns.iter().map(|column| self.usable_copies(column)).collect();
        let mut stripes = self.held(layout, &copies, Column::taken).await;
        let is_stale =
            |index: &usize| stripes.chosen(*index).is_some_and(|copy: usize| copies[*index][copy].is_stale());
        let stale = (0..columns.len()).filter(is_stale).map(|index| columns[index].child);
        let stale: Vec<_> = stale.collect();
        let mut asked = Asked { good: None, doubtful: None, wrong: Vec::new(), error: self.no_replica() };
        let Some(block) = stripes.search(&stale, |block| ask.holds(block)).await else {
            asked.doubtful = stripes.without(&[]);
            asked.error = stripes.take_error().unwrap_or(asked.error);
            return Ok((asked, 0));
        };
        let block = Arc::new(block);
        let judgement = stripes.judge(BufSlice::from(block.clone()));
        for (index, copy) in &judgement.wrong {
            let (leaf, column) = (copies[*index][*copy], &columns[*index]);
            if !leaf.is_stale() {
                leaf.blame(self.place(column)?, column.taken() as u64);
            }
        }
        let mut bad: Vec<_> = judgement.wrong.iter().chain(&judgement.silent).copied().collect();
        if ask.heal {
            // However it reads, it may be in a cache that lost a flush.
            let all = copies
                .iter()
                .enumerate()
                .flat_map(|(index, of)| (0..of.len()).map(move |copy| (index, copy)));
            let behind = all.filter(|&(index, copy)| copies[index][copy].is_stale());
            bad.extend(behind.filter(|at| !judgement.wrong.contains(at) && !judgement.silent.contains(at)));
        }
        if ask.heal && !bad.is_empty() && claim.begin() {
            let mend = |(index, copy): (usize, usize)| {
                let (leaf, place) = (Arc::clone(copies[index][copy]), self.place(&columns[index])?);
                Ok(Mend { leaf, place, bytes: judgement.right[index].clone() })
            };
            self.mend(bad.iter().copied().map(mend).collect::<Result<_, VdevError>>()?).await;
        }
        drop(judgement);
        asked.good = Some(Arc::try_unwrap(block).unwrap_or_else(|still_shared| (*still_shared).clone()));
        Ok((asked, bad.len()))
    }

    /// What the leaves in `asked` say, of which there are some for each column, and of which so many bytes are of interest.
    async fn held<'a>(
        &self,
        layout: &'a Layout,
        asked: &[Vec<&Arc<Leaf>>],
        bytes: fn(&Column) -> usize,
    ) -> Stripes<'a> {
        let wanted = layout.columns.iter().zip(asked).flat_map(|(column, leaves)| {
            leaves.iter().map(move |leaf| async move { leaf.read(self.place(column)?, bytes(column)).await })
        });
        let mut reads = join_all(wanted).await.into_iter().map(|read| match read {
            Ok(buf) => Held::Bytes(buf),
            Err(VdevError::LeafUnavailable { .. }) => Held::Nothing,
            Err(error) => Held::Silence(error),
        });
        let held = asked.iter().map(|leaves| reads.by_ref().take(leaves.len()).collect()).collect();
        Stripes::new(layout, held)
    }
}

/// The bytes of all slices, without a copy if there is just one.
pub(crate) fn in_one_piece(slices: Vec<BufSlice>) -> BufSlice {
    if let [only] = slices.as_slice() {
        return only.clone();
    }
    let len = slices.iter().map(|slice| slice.bytes().len()).sum();
    let mut whole = IoBuf::zeroed(len);
    let mut rest: &mut [u8] = &mut whole;
    for slice in &slices {
        let (here, behind) = rest.split_at_mut(slice.bytes().len());
        here.copy_from_slice(slice.bytes());
        rest = behind;
    }
    BufSlice::from(whole)
}

#[cfg(test)]
mod tests;
