//! Sublists of livelists: lists of block pointers of which some say that their block was freed again.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use dmu::Tx;
use dmu::zap::int_name;
use ondisk::Blkptr;
use ondisk::bpobj::entry_is_free;
use units::ObjectId;

use crate::{Bpobj, Dsl, DslError};

/// How many times as many entries as a sublist may have two of them may have together to be made one: what that costs is
/// part of a sync.
const CONDENSED_MAX: u64 = 8;

/// Those entries of a sublist whose blocks are still there, in their order. A block may have been born and freed several
/// times, for it may be shared; and its place may have become another block's.
pub(crate) async fn live(sublist: &Bpobj) -> Result<Vec<Blkptr>, DslError> {
    let mut entries = Vec::new();
    sublist.for_each(&mut |bps| entries.extend_from_slice(bps)).await?;
    let mut freed: HashMap<_, u64> = HashMap::new();
    let mut live = Vec::new();
    // From the newest on, as what is freed was born before.
    for bp in entries.into_iter().rev() {
        let place = bp.dva(0);
        let place = (place.vdev.get(), place.offset.get());
        if entry_is_free(&bp) {
            *freed.entry(place).or_default() += 1;
        } else if let Some(left) = freed.get_mut(&place).filter(|left| **left > 0) {
            *left -= 1;
        } else {
            live.push(bp);
        }
    }
    let unmatched: u64 = freed.values().sum();
    if unmatched > 0 {
        tracing::warn!(list = %sublist.object(), unmatched, "a livelist has blocks freed that it did not have");
    }
    live.reverse();
    Ok(live)
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
