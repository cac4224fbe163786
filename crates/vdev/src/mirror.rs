//! I/O of a mirror: every leaf holds the same bytes at the same offsets, however it is nested.

use std::sync::Arc;

use env::{BufSlice, Durability, IoBuf};
use futures::future::join_all;
use units::{LeafOffset, VdevOffset};

use crate::heal::Claim;
use crate::io::{Ask, Asked, Mend};
use crate::leaf::block_on_leaf;
use crate::{Leaf, Top, VdevError};

/// Reads of neighbouring blocks go to the same child, so that it can read ahead: 2 MiB.
const ROTATION_SHIFT: u32 = 21;

impl Top {
    /// Asks one child after the other until one has the right bytes; then blames and repairs those
    /// asked before.
    pub(crate) async fn ask_copies(&self, ask: Ask<'_>) -> Result<Asked, VdevError> {
        let whole = ask.whole as u64;
        let place = block_on_leaf(self.id.id, ask.offset, whole, self.config().asize)?;
        let mut asked = Asked { good: None, doubtful: None, wrong: Vec::new(), error: self.no_replica() };
        let mut silent = Vec::new();
        let mut claim = None;
        for leaf in self.read_order(ask.offset) {
            match leaf.read(place, ask.whole).await {
                Ok(buf) if ask.holds(&buf) => {
                    asked.good = Some(buf);
                    break;
                }
                Ok(buf) => {
                    asked.doubtful = Some(buf);
                    asked.wrong.push(leaf);
                }
                Err(VdevError::LeafUnavailable { .. }) => continue,
                Err(error) => {
                    asked.error = error;
                    silent.push(leaf);
                }
            }
            if ask.heal && claim.is_none() {
                claim = Some(self.ledger.places.claim(ask.offset.get()..ask.offset.get() + whole));
            }
        }
        if let Some(good) = asked.good.take() {
            // Old bytes of a child that was away, or of a new one, are no error of its own.
            let guilty = asked.wrong.iter().filter(|leaf| !leaf.is_stale());
            guilty.for_each(|leaf| leaf.blame(place, whole));
            silent.append(&mut asked.wrong);
            asked.good = Some(match claim {
                Some(claim) => self.heal(claim, place, good, silent).await,
                None => good,
            });
        }
        Ok(asked)
    }

    /// Usable children, best first: whole before stale, idle before busy, and among equals the
    /// one whose turn it is at this offset.
    fn read_order(&self, offset: VdevOffset) -> Vec<Arc<Leaf>> {
        let count = self.leaves.len().max(1) as u64;
        let turn = (offset.get() >> ROTATION_SHIFT) % count;
        let mut order: Vec<_> = self.leaves.iter().enumerate().filter(|(_, leaf)| leaf.is_usable()).collect();
        order.sort_by_key(|(index, leaf)| {
            let rank = (*index as u64 + count - turn) % count;
            (leaf.is_stale(), leaf.stats().load(), rank)
        });
        order.into_iter().map(|(_, leaf)| leaf.clone()).collect()
    }

    /// Writes the good copy over the bad ones, unless the place was written meanwhile, and gives
    /// it back.
    async fn heal(&self, claim: Claim, place: LeafOffset, good: IoBuf, bad: Vec<Arc<Leaf>>) -> IoBuf {
        if !claim.begin() {
            return good;
        }
        let shared = Arc::new(good);
        let mend = |leaf| Mend { leaf, place, bytes: BufSlice::from(shared.clone()) };
        self.mend(bad.into_iter().map(mend).collect()).await;
        Arc::try_unwrap(shared).unwrap_or_else(|still_shared| (*still_shared).clone())
    }

    /// Reads the copies of all children, and repairs the bad ones; says how many these were. A child that is behind gets
    /// what a whole one has, however its own copy reads: it may be in a cache that lost a flush.
    pub(crate) async fn scrub_copies(&self, ask: Ask<'_>) -> Result<usize, VdevError> {
        let whole = ask.whole as u64;
        let place = block_on_leaf(self.id.id, ask.offset, whole, self.config().asize)?;
        let claim = self.ledger.places.claim(ask.offset.get()..ask.offset.get() + whole);
        let usable = self.leaves.iter().filter(|leaf| leaf.is_usable()).cloned();
        let (mut behind, sound): (Vec<_>, Vec<_>) = usable.partition(|leaf| leaf.is_stale());
        let mut copies = Copies { good: None, bad: Vec::new(), is_wrong: false, last: self.no_replica() };
        copies.look_at(sound, place, &ask).await;
        if copies.good.is_some() && ask.heal {
            copies.bad.append(&mut behind);
        } else {
            behind.sort_by_key(|leaf| leaf.lacks().contains(ask.born));
            copies.look_at(behind, place, &ask).await;
        }
        let bad_copies = copies.bad.len();
        match copies.good {
            Some(good) => {
                if ask.heal && !copies.bad.is_empty() {
                    self.heal(claim, place, good, copies.bad).await;
                }
                Ok(bad_copies)
            }
            None if copies.is_wrong && !self.may_come_back(ask.born) => {
                Err(self.nobody_has_it(ask.offset, ask.len))
            }
            None => Err(copies.last),
        }
    }

    /// Writes whole sectors to every usable child.
    pub(crate) async fn write_copies(
        &self,
        offset: VdevOffset,
        slices: Vec<BufSlice>,
        bytes: u64,
        durability: Durability,
    ) -> Result<(), VdevError> {
        let place = block_on_leaf(self.id.id, offset, bytes, self.config().asize)?;
        let _writing = self.ledger.places.write(offset.get()..offset.get() + bytes).await;
        self.on_all(|leaf| leaf.write(place, slices.clone(), durability)).await
    }
}

/// What a scrub has found of a block.
struct Copies {
    good: Option<IoBuf>,
    bad: Vec<Arc<Leaf>>,
    /// Some copy was read that is not right.
    is_wrong: bool,
    last: VdevError,
}

impl Copies {
    /// Reads what these leaves have, the most trusted first.
    async fn look_at(&mut self, leaves: Vec<Arc<Leaf>>, place: LeafOffset, ask: &Ask<'_>) {
        let reads = join_all(leaves.iter().map(|leaf| leaf.read(place, ask.whole))).await;
        for (leaf, read) in leaves.into_iter().zip(reads) {
            match read {
                // Where nothing is checked, old bytes of a child that was away look right, too.
                Ok(buf) if ask.holds(&buf) && (!leaf.is_stale() || self.agrees(&buf)) => {
                    self.good.get_or_insert(buf);
                    if !(ask.heal && leaf.lacks().contains(ask.born)) {
                        continue;
                    }
                }
                Ok(_) => {
                    self.is_wrong = true;
                    if !leaf.is_stale() {
                        leaf.blame(place, ask.whole as u64);
                    }
                }
                Err(error) => self.last = error,
            }
            self.bad.push(leaf);
        }
    }

    /// Whether bytes are those of a copy already found good, if there is one.
    fn agrees(&self, buf: &IoBuf) -> bool {
        self.good.as_ref().is_none_or(|good| good[..] == buf[..])
    }
}
