//! Sublists of livelists: lists of block pointers of which some say that their block was freed again.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use dmu::Tx;
use dmu::zap::int_name;
use ondisk::Blkptr;
use ondisk::bpobj::entry_is_free;
use units::{ObjectId, VdevId};

use crate::{Bpobj, Dsl, DslError};

/// How many times as many entries as a sublist may have two of them may have together to be made one: what that costs is
/// part of a sync.
const CONDENSED_MAX: u64 = 8;

/// Where a block lies: its first DVA, by which OpenZFS finds the `ALLOC` of a `FREE`.
type PlaceOfBlock = (VdevId, u64);

fn place_of(bp: &Blkptr) -> PlaceOfBlock {
    let dva = bp.dva(0);
    (dva.vdev, dva.offset.get())
}

/// How many times each of these was freed, and its `ALLOC` was not found yet.
struct Unmatched<K>(HashMap<K, u64>);

impl<K: Eq + std::hash::Hash> Unmatched<K> {
    fn add(&mut self, key: K, times: u64) {
        *self.0.entry(key).or_default() += times;
    }

    /// Takes one of them; false where there is none.
    fn take(&mut self, key: &K) -> bool {
        let Some(left) = self.0.get_mut(key).filter(|left| **left > 0) else { return false };
        *left -= 1;
        true
    }

    fn sum(&self) -> u64 {
        self.0.values().sum()
    }
}

/// Returns the entries of a sublist whose blocks are still there, in their order.
///
/// A block has several entries where files share the block. They have the same place and different
/// births, because a clone of a block is born in the txg that makes the clone. So the place and the
/// birth say which entry was freed. (test: pool's `a_shorter_livelist_keeps_the_reference_that_is_left`)
/// A list that OpenZFS has shortened may have the birth of another reference, because OpenZFS
/// compares the places only. Of such a list the places decide.
/// (test: `a_reference_with_another_birth_is_freed_by_its_place`)
pub(crate) async fn live(sublist: &Bpobj) -> Result<Vec<Blkptr>, DslError> {
    let mut entries = Vec::new();
    sublist.for_each(&mut |bps| entries.extend_from_slice(bps)).await?;
    let (live, unmatched) = live_of(entries);
    if unmatched > 0 {
        tracing::warn!(list = %sublist.object(), unmatched, "a livelist has blocks freed that it did not have");
    }
    Ok(live)
}

/// The entries that were not freed, and how many were freed and are not there.
fn live_of(entries: Vec<Blkptr>) -> (Vec<Blkptr>, u64) {
    let mut freed = Unmatched(HashMap::new());
    let mut live = Vec::new();
    // From the newest on, because what is freed was born before.
    for bp in entries.into_iter().rev() {
        let reference = (place_of(&bp), bp.birth());
        if entry_is_free(&bp) {
            freed.add(reference, 1);
        } else if !freed.take(&reference) {
            live.push(bp);
        }
    }
    live.reverse();
    let mut places = Unmatched(HashMap::new());
    for ((place, _), times) in freed.0 {
        places.add(place, times);
    }
    if places.sum() > 0 {
        live.retain(|bp| !places.take(&place_of(bp)));
    }
    (live, places.sum())
}

impl Dsl {
    pub(super) fn sublist_entries(&self) -> u64 {
        self.sublist_entries.load(Ordering::Relaxed)
    }

    /// How many blocks a sublist of a livelist may have before another is begun.
    pub fn set_sublist_entries(&self, entries: u64) {
        self.sublist_entries.store(entries, Ordering::Relaxed);
    }

    /// Makes one sublist of the first two in a row that are no more than one, without what was freed. The last is left
    /// alone, for it grows.
    pub(super) async fn condense(&self, tx: &Tx, list: ObjectId) -> Result<(), DslError> {
        let keys = self.deadlist_keys(list).await?;
        let older = &keys[..keys.len().saturating_sub(1)];
        for pair in older.windows(2) {
            let [(_, first), (key, next)] = [pair[0], pair[1]];
            let [first, next] = [Bpobj::open(&self.mos, first).await?, Bpobj::open(&self.mos, next).await?];
            let (entries, freed) = sum(first.listed(), next.listed());
            let most = self.sublist_entries();
            let is_short = entries <= most.saturating_mul(CONDENSED_MAX);
            let is_shared = self.is_shared_empty_bpobj(first.object()).await?
                || self.is_shared_empty_bpobj(next.object()).await?;
            if is_shared || !is_short || entries.saturating_sub(freed.saturating_mul(2)) >= most {
                continue;
            }
            let mut all = live(&first).await?;
            all.extend(live(&next).await?);
            first.replace_listed(tx, &all).await?;
            return self.remove_sublist(tx, list, key, next).await;
        }
        Ok(())
    }

    /// Takes a sublist of its own out of a livelist; what it lists is the caller's business.
    pub(super) async fn remove_sublist(
        &self,
        tx: &Tx,
        list: ObjectId,
        key: u64,
        sublist: Bpobj,
    ) -> Result<(), DslError> {
        self.zap(list.get()).await?.remove(tx, int_name(key).as_bytes()).await?;
        self.known_keys.remove(list, key);
        sublist.discard(tx).await
    }
}

fn sum(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0.saturating_add(b.0), a.1.saturating_add(b.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::life::bp;

    #[test]
    fn a_reference_with_another_birth_is_freed_by_its_place() {
        let free = |block, born| bp(block, born).with_fill(1);
        let alloc = |block, born| bp(block, born).with_fill(0);
        let cloned = vec![alloc(1, 10), alloc(2, 10), alloc(1, 12), free(1, 10)];
        assert_eq!(live_of(cloned), (vec![alloc(2, 10), alloc(1, 12)], 0), "the birth says which of two");
        let shortened = vec![alloc(1, 10), alloc(2, 10), free(1, 12)];
        assert_eq!(live_of(shortened), (vec![alloc(2, 10)], 0), "the place says which block");
        assert_eq!(live_of(vec![alloc(1, 10), free(3, 10)]), (vec![alloc(1, 10)], 1));
    }
}
