//! Which devices speak for a pool: the one decision of import, `online`, `reopen`, and of a restart.
//!
//! A device proves with its uberblocks which states of the pool it took part in. Two uberblocks of one txg with
//! different roots are of two histories: a mirror's half was imported without the other half, on another host, by
//! another program, or by force. Bytes of one history never repair bytes of the other history.
//!
//! ```text
//!   the pool       … 15 ── 16 ── 17 ── 18         Past of the devices that speak for the pool
//!   current        … 15 ── 16 ── 17 ── 18         its newest state is the pool's
//!   stale          … 15 ── 16                     an earlier state of the pool: brought up to date
//!   foreign        … 15 ── 16' ─ 17' ─ … 40'      a history of its own: refused by name
//!   duplicate      … 15 ── 16   (copy of "stale") another device is the same leaf, and newer
//! ```
//! | newest state of the device is | the pool noted that the leaf missed it | the pool is in use | verdict |
//! |---|---|---|---|
//! | the pool's newest | any | any | current; stale where this host knows that the leaf is behind |
//! | an earlier one of the pool | any | any | stale |
//! | older than all that is known | no | any | stale |
//! | older than all that is known | yes | any | foreign |
//! | a later one, which continues the pool's | any | no | current; foreign where this host knows that the leaf is behind |
//! | a later one | any | yes | foreign |
//! | one of another history | any | any | foreign |
//! | not there: no uberblock | any | any | stale |
//!
//! A duplicate is a duplicate whatever else it is. Of several copies of one leaf the copy with the newest uberblock
//! counts, then the copy at the path that its own label names, then the first ([`choose_copy`]).
//!
//! Invariants
//! - A device with states that the pool does not have is never written to.
//!   (tests: `every_combination_of_facts_has_the_verdict_of_the_table`,
//!   `a_leaf_that_was_written_elsewhere_is_refused_when_it_comes_back`)

use std::collections::BTreeMap;
use std::path::PathBuf;

use ondisk::UberblockPhys;
use units::{Guid, Txg};

use crate::{Dtl, LeafLabels};

#[cfg(test)]
mod tests;

/// How many txgs back the states of a pool in use are remembered: more than the rings of its devices hold.
const REMEMBERED_TXGS: usize = 512;

/// What tells two roots of one txg apart.
type Root = [u64; 4];

/// The states that devices took part in: txgs with their roots. A txg has two roots where the first was given up
/// by a rewind or a crash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past {
    roots: BTreeMap<Txg, Vec<Root>>,
    newest: Option<(Txg, Root)>,
}

impl Past {
    /// What the labels of one device prove.
    pub(crate) fn of(labels: &LeafLabels) -> Self {
        let mut past = Self::default();
        labels.uberblocks.iter().for_each(|found| past.insert(&found.uberblock));
        past.newest = labels.uberblock(None).map(state);
        past
    }

    /// Adds a state that is the newest from now on.
    pub(crate) fn add(&mut self, uberblock: &UberblockPhys) {
        self.insert(uberblock);
        self.newest = Some(state(uberblock));
        while self.roots.len() > REMEMBERED_TXGS {
            self.roots.pop_first();
        }
    }

    /// Adds what another device of the same history knows.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (txg, roots) in &other.roots {
            let known = self.roots.entry(*txg).or_default();
            known.extend(roots.iter().filter(|root| !known.contains(root)).copied().collect::<Vec<_>>());
        }
        self.newest = match (self.newest, other.newest) {
            (Some(own), Some(others)) if own.0 >= others.0 => Some(own),
            (own, others) => others.or(own),
        };
    }

    /// The txg of the newest state.
    pub(crate) fn newest_txg(&self) -> Option<Txg> {
        self.newest.map(|(txg, _)| txg)
    }

    fn insert(&mut self, uberblock: &UberblockPhys) {
        let (txg, root) = state(uberblock);
        let roots = self.roots.entry(txg).or_default();
        if !roots.contains(&root) {
            roots.push(root);
        }
    }

    fn has(&self, (txg, root): (Txg, Root)) -> bool {
        self.roots.get(&txg).is_some_and(|roots| roots.contains(&root))
    }

    /// How the newest state of a device stands to this past.
    pub(crate) fn descent_of(&self, device: &Self) -> Descent {
        let (Some(theirs), Some(ours)) = (device.newest, self.newest) else { return Descent::Blank };
        match () {
            () if theirs == ours => Descent::Newest,
            () if self.has(theirs) => Descent::Earlier,
            () if self.roots.contains_key(&theirs.0) => Descent::Parted,
            () if theirs.0 < ours.0 => Descent::Forgotten,
            () if self.is_continued_by(device) => Descent::Later,
            () => Descent::Parted,
        }
    }

    /// Whether a device with later states went on from here: the last txg that both know decides. Not every device has
    /// every txg, because the uberblocks of a large pool go to three vdevs each.
    fn is_continued_by(&self, device: &Self) -> bool {
        let is_shared = |(txg, roots): (&Txg, &Vec<Root>)| {
            self.roots.get(txg).map(|own| roots.iter().any(|root| own.contains(root)))
        };
        device.roots.iter().rev().find_map(is_shared) == Some(true)
    }
}

fn state(uberblock: &UberblockPhys) -> (Txg, Root) {
    (uberblock.txg(), uberblock.rootbp.checksum())
}

/// How the newest state of a device stands to what is known of the pool's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Descent {
    /// The device has no uberblock.
    Blank,
    /// It is the pool's newest state.
    Newest,
    /// It is a state that the pool went through.
    Earlier,
    /// It is older than all states that are known of the pool.
    Forgotten,
    /// The device went through the pool's newest state, and on.
    Later,
    /// It is of another history.
    Parted,
}

/// What is known of a device that claims to be a leaf of a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyFacts {
    /// How its newest state stands to the pool's history.
    pub(crate) descent: Descent,
    /// The pool noted that the leaf missed the txg of that state, after the last txg that it took part in.
    pub(crate) is_noted_missing: bool,
    /// The pool is in use here: nobody else may continue it.
    pub(crate) is_in_use: bool,
    /// This host knows from elsewhere that the leaf lacks something.
    pub(crate) is_behind: bool,
    /// Another device is the same leaf, and counts for more.
    pub(crate) has_better_copy: bool,
}

/// What a device is to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyVerdict {
    /// It has the newest state, and speaks for the pool.
    Current,
    /// It has an older state of the same history, and does not speak for the pool.
    Stale,
    /// It has a history of its own.
    Foreign,
    /// It is a copy of a leaf that another device is.
    Duplicate,
}

/// The table.
pub(crate) fn verdict(facts: CopyFacts) -> CopyVerdict {
    use {CopyVerdict as V, Descent as D};
    let CopyFacts { descent, is_noted_missing, is_in_use, is_behind, has_better_copy } = facts;
    match descent {
        _ if has_better_copy => V::Duplicate,
        D::Parted => V::Foreign,
        D::Later if is_in_use || is_behind => V::Foreign,
        D::Forgotten if is_noted_missing => V::Foreign,
        D::Newest if is_behind => V::Stale,
        D::Newest | D::Later => V::Current,
        D::Earlier | D::Forgotten | D::Blank => V::Stale,
    }
}

/// Whether the notes of what a leaf missed say that it did not take part in a txg. The first txg of a range may be
/// on the leaf: it failed in that txg, after the uberblock was written.
pub(crate) fn is_noted_missing(dtl: &Dtl, txg: Txg) -> bool {
    dtl.iter().any(|range| range.contains(&txg) && txg > *range.start())
}

/// One of several devices with the labels of one leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeafCopy {
    /// The rank of its newest uberblock; none where it has no uberblock.
    pub(crate) rank: Option<(u64, u64, u16)>,
    /// It is where its own label says that the leaf is.
    pub(crate) is_at_own_path: bool,
}

/// Which of several copies of one leaf counts: the newest, then the copy at its own path, then the first.
pub(crate) fn choose_copy(copies: &[LeafCopy]) -> Option<usize> {
    let order =
        |(place, copy): &(usize, &LeafCopy)| (copy.rank, copy.is_at_own_path, std::cmp::Reverse(*place));
    copies.iter().enumerate().max_by_key(order).map(|(place, _)| place)
}

/// A device that does not speak for the pool although its labels name the pool, and the device that does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherCopy {
    /// The leaf that both say they are, or that this device says it is.
    pub leaf: Guid,
    /// Where it is.
    pub path: PathBuf,
    /// The txg of its newest state.
    pub txg: Txg,
    /// Where the device is that counts.
    pub kept: PathBuf,
    /// The txg of the newest state there.
    pub kept_txg: Txg,
    /// Whether it has states that the other device does not have.
    pub is_foreign: bool,
}
