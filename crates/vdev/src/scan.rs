//! Looking for pools on devices: what `zpool import` lists, and whom a device belongs to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Device, DeviceError, Env, OpenMode, boxed};
use futures::future::join_all;
use ondisk::{NvList, UberblockPhys};
use tracing::Instrument as _;
use units::{Guid, Txg, VdevId};

use crate::config::key;
use crate::copies::{CopyFacts, CopyVerdict, Descent, LeafCopy, Past, choose_copy, verdict};
use crate::label::{LeafLabels, NameBelow, best_uberblock};
use crate::whole_disk::vdev_in_time;
use crate::{OtherCopy, PoolConfig, PoolState, SplitNote};

/// A device with labels.
#[derive(Clone, Debug)]
pub struct FoundLeaf {
    /// Where it is.
    pub path: PathBuf,
    /// What its labels say.
    pub labels: LeafLabels,
}

/// A pool that could be imported.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its guid.
    pub guid: Guid,
    /// What the newest label says of it.
    pub pool: PoolConfig,
    /// Its vdevs as far as labels tell, for [`crate::VdevTree::open`]. Enough to read the MOS,
    /// whose config is to be trusted from then on.
    pub vdev_tree: NvList,
    /// Where its leaves are, as labels name them; see [`Self::paths_in`].
    pub paths: BTreeMap<Guid, PathBuf>,
    /// Where leaves are that labels name as one of several, by the guid of the top-level vdev and the path that they
    /// had there.
    pub below: BTreeMap<(Guid, PathBuf), PathBuf>,
    /// Hot spares and cache devices that were found, of whatever pool.
    pub auxiliaries: BTreeMap<Guid, PathBuf>,
    /// Leaves that labels name but that were not found.
    pub missing_leaves: BTreeSet<Guid>,
    /// Leaves that were split off, into another pool that was found.
    pub gone: BTreeSet<Guid>,
    /// Top-level vdevs of which nothing was found.
    pub missing_vdevs: BTreeSet<VdevId>,
    /// The uberblock that counts, if any was found.
    pub uberblock: Option<UberblockPhys>,
    /// Leaves that lack data as far as this host knows, and so do not speak for the pool.
    pub behind: BTreeSet<Guid>,
    /// Devices that were passed over: older copies of leaves, and leaves with a history of their
    /// own.
    pub others: Vec<OtherCopy>,
}

impl Candidate {
    /// Returns the devices with a history of their own.
    pub fn foreign(&self) -> impl Iterator<Item = &OtherCopy> {
        self.others.iter().filter(|other| other.is_foreign)
    }

    /// Where the leaves of a configuration are. A leaf that is what is left of a mirror has the guid of the mirror,
    /// which is not in its labels until they are written anew: its older ones have the mirror's guid, too, and the
    /// path that the configuration has. The path is needed, for those that were taken out of the mirror may
    /// have such labels as well.
    #[must_use]
    pub fn paths_in(&self, vdev_tree: &NvList) -> BTreeMap<Guid, PathBuf> {
        let mut paths = self.paths.clone();
        for (guid, known_as) in sole_leaves(vdev_tree) {
            if let Some(path) = self.below.get(&(guid, known_as)) {
                paths.entry(guid).or_insert_with(|| path.clone());
            }
        }
        paths
    }
}

/// The leaves of a configuration that are top-level vdevs by themselves: guid and path.
fn sole_leaves(vdev_tree: &NvList) -> impl Iterator<Item = (Guid, PathBuf)> + '_ {
    let tops = vdev_tree.get_nvlist_array(key::CHILDREN).unwrap_or_default().iter();
    tops.filter_map(|top| Some((Guid::new(top.get_u64(key::GUID)?), top.get_str(key::PATH)?.into())))
}

/// Whom a device belongs to, as its labels say.
#[derive(Clone, Debug, PartialEq)]
pub enum LabelUse {
    /// No label verifies.
    Unused,
    /// A label was written, but the pool or the vdev never came to be.
    NeverUsed,
    /// Part of a pool. `Active` may mean in use elsewhere, or crashed.
    Pool {
        /// What the label says of the pool.
        pool: PoolConfig,
        /// The pool's guid.
        guid: Guid,
    },
    /// A spare or read cache, of no one pool.
    Auxiliary(PoolState),
    /// A label verifies but cannot be made sense of.
    Unknown,
}

/// Whom a device belongs to: for `create`, `add` and `attach`, which must not take it away.
///
/// # Errors
/// [`DeviceError::TimedOut`] when it does not answer.
#[boxed]
pub async fn label_use(env: &Arc<dyn Env>, device: &Arc<dyn Device>) -> Result<LabelUse, DeviceError> {
    let found = vdev_in_time(env, Arc::clone(device)).await;
    let (_, labels) = found.ok_or(DeviceError::TimedOut)?;
    Ok(use_of(&labels))
}

fn use_of(labels: &LeafLabels) -> LabelUse {
    let Some(config) = labels.config(None) else { return LabelUse::Unused };
    match config.get_u64(key::POOL_STATE).and_then(PoolState::from_raw) {
        Some(state @ (PoolState::Spare | PoolState::L2Cache)) => LabelUse::Auxiliary(state),
        Some(_) if labels.txg() == Txg::ZERO => LabelUse::NeverUsed,
        _ => match (PoolConfig::from_nvlist(config), labels.pool_guid()) {
            (Ok(pool), Some(guid)) => LabelUse::Pool { pool, guid },
            _ => LabelUse::Unknown,
        },
    }
}

impl FoundLeaf {
    /// Returns whom the device belongs to.
    #[must_use]
    pub fn label_use(&self) -> LabelUse {
        use_of(&self.labels)
    }
}

/// Reads the labels of the devices at `paths`; those without any are left out.
#[boxed]
pub async fn scan(env: &Arc<dyn Env>, paths: &[PathBuf]) -> Vec<FoundLeaf> {
    let found = join_all(paths.iter().map(|path| scan_one(env, path))).await;
    found.into_iter().flatten().collect()
}

async fn scan_one(env: &Arc<dyn Env>, path: &Path) -> Option<FoundLeaf> {
    let device = match env.open(path, OpenMode::ReadOnly).await {
        Ok(device) => device,
        Err(error @ (DeviceError::Open { .. } | DeviceError::InUse { .. })) => {
            tracing::warn!(%error, "not looked at");
            return None;
        }
        Err(_) => return None,
    };
    let span = tracing::warn_span!("scan", path = %path.display());
    let Some((_, labels)) = vdev_in_time(env, device).instrument(span).await else {
        tracing::warn!(path = %path.display(), "does not answer");
        return None;
    };
    labels.config(None)?;
    Some(FoundLeaf { path: path.to_owned(), labels })
}

/// The pools that these leaves are of, by guid. Labels that were never used are left out.
#[must_use]
pub fn candidates(found: &[FoundLeaf]) -> Vec<Candidate> {
    candidates_without(found, &BTreeSet::new())
}

/// As [`candidates`], but the leaves in `behind` are known to lack data and so do not speak for
/// their pools.
#[must_use]
pub fn candidates_without(found: &[FoundLeaf], behind: &BTreeSet<Guid>) -> Vec<Candidate> {
    let used = || found.iter().filter(|leaf| leaf.labels.txg() > Txg::ZERO);
    let named = by_pool(used(), |leaf| leaf.labels.pool_guid());
    let newest: BTreeMap<Guid, Txg> =
        named.iter().filter_map(|(guid, leaves)| Some((*guid, newest_uberblock(leaves)?.txg()))).collect();
    // A label that is younger than all uberblocks beside it is of a txg that never happened, in which the pool
    // was to get another guid.
    let by_pool = by_pool(used(), |leaf| {
        let named = leaf.labels.pool_guid()?;
        leaf.labels.pool_guid_at(newest.get(&named).copied()).or(Some(named))
    });
    let auxiliaries = auxiliaries(found);
    let candidates = by_pool.into_iter().filter_map(|(guid, leaves)| candidate(guid, &leaves, behind));
    let candidates: Vec<_> =
        candidates.map(|candidate| Candidate { auxiliaries: auxiliaries.clone(), ..candidate }).collect();
    let split_off = split_off(&candidates);
    let gone = |candidate: &Candidate| split_off.get(&candidate.guid).cloned().unwrap_or_default();
    candidates.into_iter().map(|candidate| Candidate { gone: gone(&candidate), ..candidate }).collect()
}

/// The leaves of pools that were split off others, by the guid of the pool that they were split off.
fn split_off(candidates: &[Candidate]) -> BTreeMap<Guid, BTreeSet<Guid>> {
    let mut split_off: BTreeMap<Guid, BTreeSet<Guid>> = BTreeMap::new();
    for candidate in candidates {
        if let Some(SplitNote::From(from)) = candidate.pool.split {
            let leaves = candidate.paths.keys().chain(&candidate.missing_leaves);
            split_off.entry(from).or_default().extend(leaves);
        }
    }
    split_off
}

fn by_pool<'a>(
    found: impl Iterator<Item = &'a FoundLeaf>,
    pool_of: impl Fn(&FoundLeaf) -> Option<Guid>,
) -> BTreeMap<Guid, Vec<&'a FoundLeaf>> {
    let mut by_pool: BTreeMap<Guid, Vec<&FoundLeaf>> = BTreeMap::new();
    for leaf in found {
        if let Some(pool) = pool_of(leaf) {
            by_pool.entry(pool).or_default().push(leaf);
        }
    }
    by_pool
}

/// The uberblock that counts of all that these leaves have.
fn newest_uberblock(leaves: &[&FoundLeaf]) -> Option<UberblockPhys> {
    let uberblocks = leaves.iter().flat_map(|leaf| &leaf.labels.uberblocks).map(|found| &found.uberblock);
    best_uberblock(uberblocks, None).copied()
}

/// The paths of hot spares and cache devices. Of several paths of one device, the path in its label
/// is used, else the first.
fn auxiliaries(found: &[FoundLeaf]) -> BTreeMap<Guid, PathBuf> {
    let mut paths = BTreeMap::new();
    for leaf in found {
        let Some((guid, path)) = auxiliary(leaf) else { continue };
        match leaf.labels.own_path() == Some(&path) {
            true => _ = paths.insert(guid, path),
            false => _ = paths.entry(guid).or_insert(path),
        }
    }
    paths
}

/// A hot spare that waits, or a cache device.
fn auxiliary(found: &FoundLeaf) -> Option<(Guid, PathBuf)> {
    let state = found.labels.config(None)?.get_u64(key::POOL_STATE).and_then(PoolState::from_raw)?;
    let is_auxiliary = matches!(state, PoolState::Spare | PoolState::L2Cache);
    is_auxiliary.then(|| Some((found.labels.guid()?, found.path.clone())))?
}

fn candidate(guid: Guid, found: &[&FoundLeaf], behind: &BTreeSet<Guid>) -> Option<Candidate> {
    let Sorted { mut leaves, uberblock, mut others } = sort_out(found, behind);
    // Labels younger than the uberblock are of a txg that never happened: only if there is no other.
    let max = uberblock.map(|ub| ub.txg());
    let config_of = |leaf: &FoundLeaf| {
        leaf.labels
            .config_of(guid, max)
            .filter(|label| label.get_u64(key::POOL_TXG) > Some(0))
            .or(leaf.labels.config_of(guid, None))
            .cloned()
    };
    // Newest first; the sort is stable, so that of two equal ones the first path given wins.
    leaves.sort_by_key(|leaf| {
        std::cmp::Reverse(config_of(leaf).and_then(|label| label.get_u64(key::POOL_TXG)))
    });
    let newest = config_of(leaves.first()?)?;
    let pool = PoolConfig::from_nvlist(&newest).ok()?;
    let mut paths = BTreeMap::new();
    let mut below = BTreeMap::new();
    let mut vdevs: BTreeMap<u64, NvList> = BTreeMap::new();
    for leaf in &leaves {
        let Some(config) = config_of(leaf) else { continue };
        if let Some(leaf_guid) = leaf.labels.guid() {
            paths.entry(leaf_guid).or_insert_with(|| leaf.path.clone());
        }
        for NameBelow { top, path, .. } in leaf.labels.names_below() {
            below.entry((top, path)).or_insert_with(|| leaf.path.clone());
        }
        if let Some(vdev) = config.get_nvlist(key::VDEV_TREE)
            && let Some(id) = vdev.get_u64(key::ID)
        {
            vdevs.entry(id).or_insert_with(|| vdev.clone());
        }
    }
    let (vdev_tree, missing_vdevs) = assemble(guid, &newest, &vdevs)?;
    let leaves: BTreeSet<Guid> = vdevs.values().flat_map(leaf_guids).collect();
    let missing_leaves = leaves.iter().filter(|leaf| !paths.contains_key(leaf)).copied().collect();
    // A device that has left the pool, or is about to leave it, may have a history of its own.
    let is_leaving = |leaf| matches!(&pool.split, Some(SplitNote::Leaving(guids)) if guids.contains(&leaf));
    others.retain(|other| leaves.contains(&other.leaf) && !is_leaving(other.leaf));
    Some(Candidate {
        guid,
        pool,
        vdev_tree,
        paths,
        below,
        auxiliaries: BTreeMap::new(),
        missing_leaves,
        gone: BTreeSet::new(),
        missing_vdevs,
        uberblock,
        behind: behind.clone(),
        others,
    })
}

/// The devices of a pool, sorted by their role.
struct Sorted<'a> {
    /// One device for each leaf, all of one history.
    leaves: Vec<&'a FoundLeaf>,
    /// The newest uberblock of that history.
    uberblock: Option<UberblockPhys>,
    /// The devices that were passed over.
    others: Vec<OtherCopy>,
}

/// Applies [`verdict`] to every device. The newest device comes first, because the others are
/// compared with its history.
fn sort_out<'a>(found: &[&'a FoundLeaf], behind: &BTreeSet<Guid>) -> Sorted<'a> {
    let newest = |leaf: &FoundLeaf| leaf.labels.uberblock(None).copied();
    let is_behind = |leaf: &FoundLeaf| leaf.labels.guid().is_some_and(|guid| behind.contains(&guid));
    let mut judged: Vec<(&FoundLeaf, &FoundLeaf)> =
        found.iter().map(|leaf| (*leaf, copy_that_counts(leaf, found))).collect();
    judged.sort_by_key(|(leaf, kept)| {
        let is_copy = !std::ptr::eq(*leaf, *kept);
        (is_copy, is_behind(leaf), std::cmp::Reverse(newest(leaf).map(|uberblock| uberblock.rank())))
    });
    let best = judged.first().map(|(leaf, _)| *leaf).filter(|leaf| !is_behind(leaf));
    let mut past = best.map_or_else(Past::default, |leaf| Past::of(&leaf.labels));
    let (mut leaves, mut others) = (Vec::new(), Vec::new());
    for (leaf, kept) in judged {
        let own = Past::of(&leaf.labels);
        let facts = CopyFacts {
            descent: past.descent_of(&own),
            is_noted_missing: false,
            is_in_use: false,
            is_behind: is_behind(leaf),
            has_better_copy: !std::ptr::eq(leaf, kept),
        };
        match verdict(facts) {
            CopyVerdict::Duplicate => others.extend(duplicate(leaf, kept)),
            CopyVerdict::Foreign => others.extend(best.and_then(|best| other_copy(leaf, best, true))),
            CopyVerdict::Current => {
                past.merge(&own);
                leaves.push(leaf);
            }
            CopyVerdict::Stale => {
                if facts.descent == Descent::Earlier && !facts.is_behind {
                    past.merge(&own);
                }
                leaves.push(leaf);
            }
        }
    }
    Sorted { leaves, uberblock: best.and_then(newest), others }
}

/// Returns the device that counts for this leaf among all devices with its guid. This is the leaf's
/// own device if there is no other.
fn copy_that_counts<'a>(leaf: &'a FoundLeaf, found: &[&'a FoundLeaf]) -> &'a FoundLeaf {
    let guid = leaf.labels.guid();
    let is_copy = |other: &&&FoundLeaf| guid.is_some() && other.labels.guid() == guid;
    let copies: Vec<&FoundLeaf> = found.iter().filter(is_copy).copied().collect();
    let facts: Vec<_> = copies.iter().map(|copy| leaf_copy(copy)).collect();
    choose_copy(&facts).map_or(leaf, |best| copies[best])
}

/// Describes `copy` as a copy of `kept`. `None` if both have the same states, because one device
/// may have several paths.
fn duplicate(copy: &FoundLeaf, kept: &FoundLeaf) -> Option<OtherCopy> {
    match Past::of(&kept.labels).descent_of(&Past::of(&copy.labels)) {
        Descent::Newest => None,
        descent => other_copy(copy, kept, matches!(descent, Descent::Parted | Descent::Later)),
    }
}

fn leaf_copy(leaf: &FoundLeaf) -> LeafCopy {
    LeafCopy {
        rank: leaf.labels.uberblock(None).map(UberblockPhys::rank),
        is_at_own_path: leaf.labels.own_path().is_some_and(|path| path == leaf.path),
    }
}

fn other_copy(other: &FoundLeaf, kept: &FoundLeaf, is_foreign: bool) -> Option<OtherCopy> {
    let txg = |leaf: &FoundLeaf| leaf.labels.uberblock(None).map(UberblockPhys::txg).unwrap_or_default();
    Some(OtherCopy {
        leaf: other.labels.guid()?,
        path: other.path.clone(),
        txg: txg(other),
        kept: kept.path.clone(),
        kept_txg: txg(kept),
        is_foreign,
    })
}

/// Most top-level vdevs that a DVA can tell apart.
const VDEVS_MAX: u64 = 1 << 24;

fn assemble(
    guid: Guid,
    newest: &NvList,
    vdevs: &BTreeMap<u64, NvList>,
) -> Option<(NvList, BTreeSet<VdevId>)> {
    let seen = vdevs.last_key_value().map_or(0, |(id, _)| id + 1);
    // Pools of the first versions do not say how many there are.
    let count = newest.get_u64(key::VDEV_CHILDREN).unwrap_or(seen);
    // A count far above what was found is damage; believing it would cost memory.
    if count > VDEVS_MAX || count > seen.saturating_add(1 << 16) {
        return None;
    }
    let holes = newest.get_u64_array(key::HOLE_ARRAY).unwrap_or_default();
    let mut missing = BTreeSet::new();
    let children = (0..count).map(|id| match vdevs.get(&id) {
        Some(vdev) if !holes.contains(&id) => vdev.clone(),
        _ => {
            if !holes.contains(&id) {
                missing.insert(VdevId::new(u32::try_from(id).unwrap_or(u32::MAX)));
            }
            absent_vdev(id)
        }
    });
    let children: Vec<_> = children.collect();
    let mut tree = NvList::new();
    tree.add_str(key::TYPE, key::vdev_type::ROOT).add_u64(key::ID, 0).add_u64(key::GUID, guid.get());
    tree.add_nvlist_array(key::CHILDREN, children);
    Some((tree, missing))
}

/// Stands for a vdev of which nothing is known, or that is not there.
pub(crate) fn absent_vdev(id: u64) -> NvList {
    let mut vdev = NvList::new();
    vdev.add_str(key::TYPE, key::vdev_type::HOLE).add_u64(key::ID, id).add_u64(key::GUID, 0);
    for name in [key::METASLAB_ARRAY, key::METASLAB_SHIFT, key::ASHIFT, key::ASIZE, key::IS_LOG] {
        vdev.add_u64(name, 0);
    }
    vdev
}

fn leaf_guids(vdev: &NvList) -> Vec<Guid> {
    let own = || vdev.get_u64(key::GUID).map(Guid::new).into_iter().collect();
    let children = vdev.get_nvlist_array(key::CHILDREN);
    children.map_or_else(own, |children| children.iter().flat_map(leaf_guids).collect())
}
