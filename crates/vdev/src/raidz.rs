//! I/O of a raidz: every block is spread over the children, with columns of parity.
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

use device::{BufSlice, Durability, IoBuf};
use futures::future::join_all;
use units::{LeafOffset, Psize, VdevOffset};

use crate::io::{Ask, Asked, Mend};
use crate::leaf::block_on_leaf;
use crate::{Leaf, Top, VdevError};

pub(crate) mod map;
mod stripe;

use map::Column;
use stripe::{Held, Stripe, encode};

impl Top {
    /// Asks as few children as will do, or else all of them.
    pub(crate) async fn ask_columns(&self, ask: Ask<'_>) -> Result<Asked, VdevError> {
        let columns = self.columns(ask.offset, ask.whole as u64)?;
        if let Some(good) = self.read_quickly(&columns, &ask).await {
            return Ok(Asked {
                good: Some(good),
                doubtful: None,
                wrong: Vec::new(),
                error: self.no_replica(),
            });
        }
        self.read_thoroughly(&columns, &ask).await.map(|(asked, _)| asked)
    }

    /// Reads and checks everything there is of a block; says how many columns were not right.
    pub(crate) async fn scrub_columns(&self, ask: Ask<'_>) -> Result<usize, VdevError> {
        let columns = self.columns(ask.offset, ask.whole as u64)?;
        let (asked, bad_columns) = self.read_thoroughly(&columns, &ask).await?;
        match (asked.good, asked.doubtful) {
            (Some(_), _) => Ok(bad_columns),
            (None, Some(_)) => Err(self.nobody_has_it(ask.offset, ask.len)),
            (None, None) => Err(asked.error),
        }
    }

    /// Writes whole sectors as one stripe. Children out of use go without, as far as parity lets
    /// them.
    pub(crate) async fn write_columns(
        &self,
        offset: VdevOffset,
        slices: Vec<BufSlice>,
        bytes: u64,
        durability: Durability,
    ) -> Result<(), VdevError> {
        let columns = self.columns(offset, bytes)?;
        let parts = encode(&columns, self.spread().parity(), in_one_piece(slices));
        let taken = self.taken(bytes);
        let _writing = self.ledger.places.write(offset.get()..offset.get() + taken).await;
        let jobs = columns.iter().zip(parts).flat_map(|(column, part)| {
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

    /// The columns of a block, once it is known to lie on the vdev.
    fn columns(&self, offset: VdevOffset, bytes: u64) -> Result<Vec<Column>, VdevError> {
        block_on_leaf(self.id.id, offset, self.taken(bytes), self.config().asize)?;
        Ok(map::columns(self.spread(), self.id.ashift, offset, bytes))
    }

    /// What a block takes, parity and padding included.
    fn taken(&self, bytes: u64) -> u64 {
        Psize::new(bytes).allocated_over(self.id.ashift, self.spread()).get()
    }

    /// The leaves in use that have a column, the best first: whole before stale, and the first of those
    /// that are alike.
    fn usable_copies(&self, column: &Column) -> Vec<&Arc<Leaf>> {
        let mut leaves: Vec<_> =
            self.copies_of(column.child).iter().filter(|leaf| leaf.is_usable()).collect();
        leaves.sort_by_key(|leaf| leaf.is_stale());
        leaves
    }

    /// A leaf in use that has a column and missed nothing.
    fn sound_copy(&self, column: &Column) -> Option<&Arc<Leaf>> {
        self.copies_of(column.child).iter().find(|leaf| leaf.is_usable() && !leaf.is_stale())
    }

    fn place(&self, column: &Column) -> Result<LeafOffset, VdevError> {
        block_on_leaf(self.id.id, column.offset, column.len as u64, self.asize_of_leaf())
    }

    /// The block from its data columns, and as much parity as data columns are on children that
    /// are gone or stale. `None` when that is not the right block, or not to be had.
    async fn read_quickly(&self, columns: &[Column], ask: &Ask<'_>) -> Option<IoBuf> {
        let parity = self.spread().parity();
        let is_sound = |column: &Column| self.sound_copy(column).is_some();
        let (sums, data) = columns.split_at(parity.min(columns.len()));
        let data_lost = data.iter().filter(|column| !is_sound(column)).count();
        let spare = (0..parity).filter(|index| is_sound(&sums[*index])).take(data_lost);
        let data = (parity..columns.len()).filter(|index| is_sound(&columns[*index]));
        let wanted: Vec<usize> = spare.chain(data).collect();
        if wanted.len() < columns.len() - sums.len() {
            return None;
        }
        let mut asked = vec![Vec::new(); columns.len()];
        for index in wanted {
            asked[index].extend(self.sound_copy(&columns[index]));
        }
        let stripe = self.held(columns, &asked).await;
        stripe.without(&[]).filter(|block| ask.holds(block))
    }

    /// The block from all columns there are. Repairs those that are wrong, and says how many
    /// these were.
    async fn read_thoroughly(&self, columns: &[Column], ask: &Ask<'_>) -> Result<(Asked, usize), VdevError> {
        let taken = self.taken(ask.whole as u64);
        let claim = self.ledger.places.claim(ask.offset.get()..ask.offset.get() + taken);
        let copies: Vec<_> = columns.iter().map(|column| self.usable_copies(column)).collect();
        let mut stripe = self.held(columns, &copies).await;
        let is_stale =
            |index: &usize| stripe.chosen(*index).is_some_and(|copy: usize| copies[*index][copy].is_stale());
        let stale: Vec<_> = (0..columns.len()).filter(is_stale).collect();
        let mut asked = Asked { good: None, doubtful: None, wrong: Vec::new(), error: self.no_replica() };
        let Some(block) = stripe.search(&stale, |block| ask.holds(block)) else {
            asked.doubtful = stripe.without(&[]);
            asked.error = stripe.take_error().unwrap_or(asked.error);
            return Ok((asked, 0));
        };
        let block = Arc::new(block);
        let judgement = stripe.judge(BufSlice::from(block.clone()));
        let guilty = judgement.wrong.iter().map(|(index, copy)| copies[*index][*copy]);
        guilty.filter(|leaf| !leaf.is_stale()).for_each(|leaf| leaf.stats().bad_checksum());
        let bad: Vec<_> = judgement.wrong.iter().chain(&judgement.silent).copied().collect();
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

    /// What the leaves in `asked` say, of which there are some for each column.
    async fn held<'a>(&self, columns: &'a [Column], asked: &[Vec<&Arc<Leaf>>]) -> Stripe<'a> {
        let wanted = columns.iter().zip(asked).flat_map(|(column, leaves)| {
            leaves.iter().map(move |leaf| async move { leaf.read(self.place(column)?, column.len).await })
        });
        let mut reads = join_all(wanted).await.into_iter().map(|read| match read {
            Ok(buf) => Held::Bytes(buf),
            Err(VdevError::LeafUnavailable { .. }) => Held::Nothing,
            Err(error) => Held::Silence(error),
        });
        let held = asked.iter().map(|leaves| reads.by_ref().take(leaves.len()).collect()).collect();
        Stripe::new(columns, self.spread().parity(), held)
    }
}

/// The bytes of all slices, without a copy if there is just one.
fn in_one_piece(slices: Vec<BufSlice>) -> BufSlice {
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
