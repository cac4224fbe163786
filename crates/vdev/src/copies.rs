//! Which devices speak for a pool. Import, `zpool online`, the reopening of a device and a restart
//! all use this decision.
//!
//! The uberblocks of a device prove which states of the pool the device took part in. Two
//! uberblocks with the same txg but different roots belong to different histories: for example,
//! half of a mirror was imported without the other half, on another host, by another program, or by
//! force. Data of one history never repairs data of another history.
//!
//! ```text
//!   the pool       … 15 ── 16 ── 17 ── 18         the [`Past`] that speaks for the pool
//!   current        … 15 ── 16 ── 17 ── 18         its newest state is the pool's
//!   stale          … 15 ── 16                     an earlier state of the pool: resilvered
//!   foreign        … 15 ── 16' ─ 17' ─ … 40'      a history of its own: refused by name
//!   duplicate      … 15 ── 16   (copy of "stale") another device is the same leaf, and newer
//! ```
//! | newest state of the device | its DTL has that txg | the pool is in use | verdict |
//! |---|---|---|---|
//! | the newest state of the pool | any | any | current; stale if the leaf is known to lack data |
//! | an earlier state of the pool | any | any | stale |
//! | older than all known states | no | any | stale |
//! | older than all known states | yes | any | foreign |
//! | a later state, which continues the pool's | any | no | current; foreign if known to lack data |
//! | a later state | any | yes | foreign |
//! | a state of another history | any | any | foreign |
//! | none: no uberblock | any | any | stale |
//!
//! If another device is a better copy of the same leaf, the verdict is always "duplicate". Of
//! several copies of a leaf, [`choose_copy`] chooses the copy with the newest uberblock, then the
//! copy at the path in its own label, then the first.
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

/// The number of txgs whose states are remembered for a pool in use. The uberblock rings of its
/// devices hold fewer.
const REMEMBERED_TXGS: usize = 512;

/// The checksum of a root block pointer. Two states of the same txg differ in their roots.
type Root = [u64; 4];

/// The states that a device, or a group of devices, took part in: txgs with their roots. A txg has
/// two roots if a rewind or a crash abandoned the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past {
    roots: BTreeMap<Txg, Vec<Root>>,
    newest: Option<(Txg, Root)>,
}

impl Past {
    /// Returns the states that the labels of a device prove.
    pub(crate) fn of(labels: &LeafLabels) -> Self {
        let mut past = Self::default();
        labels.uberblocks.iter().for_each(|found| past.insert(&found.uberblock));
        past.newest = labels.uberblock(None).map(state);
        past
    }

    /// Adds a state, which becomes the newest.
    pub(crate) fn add(&mut self, uberblock: &UberblockPhys) {
        self.insert(uberblock);
        self.newest = Some(state(uberblock));
        while self.roots.len() > REMEMBERED_TXGS {
            self.roots.pop_first();
        }
    }

    /// Adds the states of another device of the same history.
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

    /// Returns the txg of the newest state.
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

    /// Returns how the newest state of `device` relates to this past.
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

    /// True if the later states of `device` continue this history. The newest txg that both know
    /// decides. A device need not have every txg, because a pool with many vdevs writes each
    /// uberblock to only three of them.
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

/// How the newest state of a device relates to the known history of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Descent {
    /// The device has no uberblock.
    Blank,
    /// The state is the newest state of the pool.
    Newest,
    /// The state is an earlier state of the pool.
    Earlier,
    /// The state is older than all known states of the pool.
    Forgotten,
    /// The device took part in the newest known state of the pool, and in later states.
    Later,
    /// The state belongs to another history.
    Parted,
}

/// The known facts about a device that claims to be a leaf of a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyFacts {
    /// How the newest state of the device relates to the history of the pool.
    pub(crate) descent: Descent,
    /// The DTL of the leaf contains the txg of that state, although the device took part in it.
    pub(crate) is_noted_missing: bool,
    /// The pool is in use on this host, so no other host may continue it.
    pub(crate) is_in_use: bool,
    /// This host knows from another source that the leaf lacks data.
    pub(crate) is_behind: bool,
    /// Another device is a better copy of the same leaf.
    pub(crate) has_better_copy: bool,
}

/// The role of a device in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyVerdict {
    /// The device has the newest state and speaks for the pool.
    Current,
    /// The device has an older state of the same history and does not speak for the pool.
    Stale,
    /// The device has a history of its own.
    Foreign,
    /// The device is a copy of a leaf for which a better copy exists.
    Duplicate,
}

/// Applies the table of the module.
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

/// True if the DTL shows that the leaf did not take part in a txg. The first txg of a range does
/// not count, because the leaf may have failed in that txg after its uberblock was written.
pub(crate) fn is_noted_missing(dtl: &Dtl, txg: Txg) -> bool {
    dtl.iter().any(|range| range.contains(&txg) && txg > *range.start())
}

/// One of several devices with the labels of one leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeafCopy {
    /// The rank of its newest uberblock. `None` if it has no uberblock.
    pub(crate) rank: Option<(u64, u64, u16)>,
    /// True if the device is at the path in its own label.
    pub(crate) is_at_own_path: bool,
}

/// Chooses one of several copies of a leaf: the newest, then the copy at its own path, then the
/// first.
pub(crate) fn choose_copy(copies: &[LeafCopy]) -> Option<usize> {
    let order =
        |(place, copy): &(usize, &LeafCopy)| (copy.rank, copy.is_at_own_path, std::cmp::Reverse(*place));
    copies.iter().enumerate().max_by_key(order).map(|(place, _)| place)
}

/// A device that does not speak for the pool although its labels name the pool, and the device that
/// does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherCopy {
    /// The leaf whose labels this device has.
    pub leaf: Guid,
    /// The path of this device.
    pub path: PathBuf,
    /// The txg of the newest state of this device.
    pub txg: Txg,
    /// The path of the device that speaks for the pool.
    pub kept: PathBuf,
    /// The txg of the newest state of that device.
    pub kept_txg: Txg,
    /// True if this device has states that the other device does not have.
    pub is_foreign: bool,
}
