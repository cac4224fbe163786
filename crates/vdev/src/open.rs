//! Opening the leaves of a pool that exists, and making sure that they are its.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use env::{Device, DeviceError, Env, OpenMode, boxed};
use futures::future::join_all;
use ondisk::{NvList, UberblockPhys};
use units::{Guid, Txg};

use crate::config::{key, parse_root};
use crate::copies::{CopyFacts, CopyVerdict, Descent, Past, is_noted_missing, verdict};
use crate::label::{LeafLabels, best_uberblock};
use crate::size::{leaf_asize, leaf_psize};
use crate::whole_disk::vdev_in_time;
use crate::{Leaf, NodeKind, OtherCopy, RootConfig, Top, VdevAux, VdevError, VdevState, VdevTree};

/// How often, and at what intervals, a device is tried to be opened that somebody still holds: for a second.
const RELEASE_TRIES: usize = 100;
const RELEASE_POLL: Duration = Duration::from_millis(10);

/// How a pool's vdevs are opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenSpec<'a> {
    /// The `vdev_tree` of the MOS config, or one put together from labels.
    pub vdev_tree: &'a NvList,
    /// Where leaves were found, by guid; others are looked for where the configuration says.
    pub paths: &'a BTreeMap<Guid, PathBuf>,
    /// Leaves that have left for a pool of their own: they are not opened.
    pub gone: &'a BTreeSet<Guid>,
    /// Leaves that are known to lack data, and so do not speak for the pool.
    pub behind: &'a BTreeSet<Guid>,
    /// For reading only, or for writing too.
    pub mode: OpenMode,
}

impl VdevTree {
    /// Opens all leaves it can. Those that are missing, or are something else's, are UNAVAIL; it
    /// is for the caller to look at [`VdevTree::state`]. A leaf whose label is older than its
    /// sibling's was away and is read last.
    ///
    /// # Errors
    /// When the configuration makes no sense, or has vdevs of an unknown kind.
    #[boxed]
    pub async fn open(env: Arc<dyn Env>, spec: &OpenSpec<'_>) -> Result<Self, VdevError> {
        Self::open_after(env, spec, None).await
    }

    /// Opens the same pool as another configuration has it. Devices that are open stay so, and
    /// their labels are not read again.
    ///
    /// # Errors
    /// As [`Self::open`].
    #[boxed]
    pub async fn open_as(&self, spec: &OpenSpec<'_>) -> Result<Self, VdevError> {
        Self::open_after(Arc::clone(self.env()), spec, Some(self)).await
    }

    async fn open_after(
        env: Arc<dyn Env>,
        spec: &OpenSpec<'_>,
        earlier: Option<&Self>,
    ) -> Result<Self, VdevError> {
        let (root, tops) = parse_root(&env, spec.vdev_tree)?;
        // Devices that are taken over stay behind the fence that they are behind.
        let fence = earlier.map_or_else(Arc::default, |earlier| Arc::clone(earlier.fence()));
        let tree = Self::from_parts(env.clone(), spec.mode, root, tops, fence);
        let mut jobs = Vec::new();
        for top in tree.tops() {
            for leaf in top.leaves().iter().cloned() {
                jobs.push(open_if_allowed(&env, leaf, spec, Expected::of(&top, root), earlier));
            }
        }
        let labels: BTreeMap<Guid, LeafLabels> = join_all(jobs).await.into_iter().flatten().collect();
        let labels = tree.without_foreign(labels, spec);
        for top in tree.tops() {
            mark_stale(&top, root.guid, &labels);
        }
        tree.keep_labels(labels);
        Ok(tree)
    }

    /// The uberblock that counts of those that leaves had when they were opened.
    #[must_use]
    pub fn uberblock_at_open(&self) -> Option<UberblockPhys> {
        self.with_labels(|labels| {
            let found = labels.values().flat_map(|labels| &labels.uberblocks).map(|found| &found.uberblock);
            best_uberblock(found, None).copied()
        })
    }

    /// The uberblock that counts on all leaves in use, of those not after `max`.
    #[boxed]
    pub async fn best_uberblock(&self, max: Option<Txg>) -> Option<UberblockPhys> {
        let devices: Vec<_> = self.leaves().iter().filter_map(|leaf| leaf.device()).collect();
        let labels = join_all(devices.iter().map(LeafLabels::read)).await;
        let found = labels.iter().flat_map(|labels| &labels.uberblocks).map(|found| &found.uberblock);
        best_uberblock(found, max).copied()
    }
}

/// Decides which of the opened devices speak for the pool: see [`crate::copies`].
impl VdevTree {
    /// Takes leaves with a history of their own out of use, and keeps the history of the others. A
    /// device that the search found speaks for the pool. A device that was opened at the path in
    /// the configuration does not, unless the search found no device.
    fn without_foreign(
        &self,
        mut labels: BTreeMap<Guid, LeafLabels>,
        spec: &OpenSpec<'_>,
    ) -> BTreeMap<Guid, LeafLabels> {
        let is_any_found = labels.keys().any(|guid| is_found(*guid, spec));
        let speaks = |guid: &Guid| !spec.behind.contains(guid) && (is_found(*guid, spec) || !is_any_found);
        let mut order: Vec<Guid> = labels.keys().copied().collect();
        order.sort_by_key(|guid| {
            let rank = labels.get(guid).and_then(|labels| labels.uberblock(None)).map(UberblockPhys::rank);
            (!speaks(guid), std::cmp::Reverse(rank))
        });
        let first = order.first().filter(|guid| speaks(guid)).and_then(|guid| labels.get(guid));
        let mut past = first.map_or_else(Past::default, Past::of);
        for guid in order {
            let own = labels.get(&guid).map_or_else(Past::default, Past::of);
            let facts = CopyFacts {
                descent: past.descent_of(&own),
                is_noted_missing: false,
                is_in_use: false,
                is_behind: spec.behind.contains(&guid),
                has_better_copy: false,
            };
            match verdict(facts) {
                CopyVerdict::Foreign => {
                    labels.remove(&guid);
                    self.refuse_foreign(guid, &past, &own);
                }
                CopyVerdict::Current => past.merge(&own),
                _ if facts.descent == Descent::Earlier && !facts.is_behind => past.merge(&own),
                _ => {}
            }
        }
        self.keep_past(past);
        labels
    }

    /// Takes a leaf out of use if its own DTL contains the txg of its newest state. Called when the
    /// DTLs have been read. Returns these leaves.
    pub fn refuse_noted_foreign(&self) -> Vec<OtherCopy> {
        let judged: Vec<_> = self
            .with_labels(|labels| labels.iter().map(|(guid, labels)| (*guid, Past::of(labels))).collect());
        let past = self.past();
        let kept_txg = past.newest_txg().unwrap_or_default();
        let newest = judged.iter().find(|(_, own)| past.descent_of(own) == Descent::Newest);
        let newest = newest.and_then(|(guid, _)| self.leaf(*guid).ok());
        let kept = newest.map(|leaf| leaf.path()).unwrap_or_default();
        let mut refused = Vec::new();
        for (guid, own) in judged {
            let Ok(leaf) = self.leaf(guid) else { continue };
            if self.verdict_on(&leaf, &own, false) == CopyVerdict::Foreign {
                self.refuse_foreign(guid, &past, &own);
                let (path, txg) = (leaf.path(), own.newest_txg().unwrap_or_default());
                let kept = kept.clone();
                refused.push(OtherCopy { leaf: guid, path, txg, kept, kept_txg, is_foreign: true });
            }
        }
        refused
    }

    /// True if some vdev that is usable now would not be usable without these leaves.
    #[must_use]
    pub fn depends_on(&self, leaves: &BTreeSet<Guid>) -> bool {
        let is_lost = |leaf: &Leaf| !leaf.is_usable() || leaves.contains(&leaf.guid());
        let depends = |top: &Arc<Top>| top.is_usable() && !top.survives(is_lost);
        self.tops_with_devices().iter().any(depends)
    }

    /// Returns the leaves that lack data which their siblings have, as far as their vdevs can do
    /// without them.
    #[must_use]
    pub fn lacking(&self) -> BTreeSet<Guid> {
        let mut behind = BTreeSet::new();
        for top in self.tops_with_devices() {
            let lags = |leaf: &Leaf| !leaf.is_usable() || leaf.is_stale();
            let away = |leaf: &Leaf| !leaf.is_usable();
            let lacks: &dyn Fn(&Leaf) -> bool = if top.survives(lags) { &lags } else { &away };
            if top.survives(lacks) {
                behind.extend(top.leaves().iter().filter(|leaf| lacks(leaf)).map(|leaf| leaf.guid()));
            }
        }
        behind
    }

    /// Returns the role of a device with this past if it is opened as this leaf of the pool.
    pub(crate) fn verdict_on(&self, leaf: &Leaf, own: &Past, is_in_use: bool) -> CopyVerdict {
        // A leaf that is being resilvered takes part in txgs although it lacks older blocks.
        let is_away = leaf.config().resilver_txg == 0;
        let is_missing = |txg| is_away && is_noted_missing(&leaf.dtl(), txg);
        verdict(CopyFacts {
            descent: self.past().descent_of(own),
            is_noted_missing: own.newest_txg().is_some_and(is_missing),
            is_in_use,
            is_behind: false,
            has_better_copy: false,
        })
    }

    fn refuse_foreign(&self, guid: Guid, past: &Past, own: &Past) {
        let Ok(leaf) = self.leaf(guid) else { return };
        let [pool, device] = [past, own].map(|past| past.newest_txg().unwrap_or_default());
        let path = leaf.path();
        tracing::warn!(guid = guid.get(), path = %path.display(), %pool, %device, "leaf was written elsewhere");
        leaf.take_out_of_use(VdevState::Unavail, VdevAux::Elsewhere);
        leaf.set_stale(true);
    }
}

fn is_found(guid: Guid, spec: &OpenSpec<'_>) -> bool {
    spec.paths.contains_key(&guid)
}

impl VdevTree {
    /// Looks whether the devices in use are still to be found where they were opened, with their labels:
    /// one that was unlinked, pulled out or overwritten may serve a good while from caches. Those that are
    /// not are out of use, if their vdev can do without, or is a log.
    #[boxed]
    pub async fn look_for_absent(&self) {
        for top in self.tops() {
            for leaf in top.leaves().iter().filter(|leaf| leaf.is_usable()) {
                let Some(aux) = self.absence(leaf).await else { continue };
                let is_lost = |other: &Leaf| other.guid() == leaf.guid() || !other.is_usable();
                if top.is_log() || top.survives(is_lost) {
                    tracing::warn!(guid = leaf.guid().get(), path = %leaf.path().display(), ?aux, "absent");
                    leaf.set_stale(true);
                    leaf.set_state(VdevState::Unavail, aux);
                    top.mark_changed();
                }
            }
        }
    }

    /// Returns whether a device at `path` has the guid in its label.
    #[boxed]
    pub async fn is_labeled(&self, path: &Path, guid: Guid) -> bool {
        let Ok(device) = self.env().open(path, OpenMode::ReadOnly).await else { return false };
        let read = vdev_in_time(self.env(), device).await;
        read.is_some_and(|(_, labels)| labels.guid() == Some(guid))
    }

    /// Why a leaf is not where it was opened, if so.
    #[boxed]
    async fn absence(&self, leaf: &Leaf) -> Option<VdevAux> {
        let Ok(device) = self.env().open(&leaf.path(), OpenMode::ReadOnly).await else {
            return Some(VdevAux::OpenFailed);
        };
        let Some((_, labels)) = vdev_in_time(self.env(), device).await else {
            return Some(VdevAux::OpenFailed);
        };
        match labels.guid() {
            Some(_) if leaf.is_named_by(&labels) => None,
            Some(_) => Some(VdevAux::BadLabel),
            None => Some(VdevAux::CorruptData),
        }
    }
}

/// What a device must be to be a leaf of the tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// The pool; `None` of a device whose labels name none.
    pub(crate) pool: Option<RootConfig>,
    /// Bytes that the vdev allocates from, as far as they are on this leaf.
    pub(crate) asize: u64,
    /// Whether the leaf is a top-level vdev by itself, and may be what is left of several.
    pub(crate) is_sole: bool,
}

impl Expected {
    /// What a device of `top` must be.
    pub(crate) fn of(top: &Top, pool: RootConfig) -> Self {
        let is_sole = top.kind() == NodeKind::Leaf;
        Self { pool: Some(pool), asize: top.min_asize_of_leaf(), is_sole }
    }
}

/// Leaves whose label is older than a sibling's missed what happened since: since their own last
/// uberblock, before which all was flushed. Labels younger than the uberblock that counts are of
/// a txg that never happened, and tell nothing.
/// Likewise those that name another pool, which this leaf was to be split off to.
///
/// The same holds for leaves whose newest uberblock is older than a sibling's, because all leaves of
/// a vdev get the same uberblocks: such a leaf is an old copy of the disk. A difference of one txg
/// counts for nothing, because a crash may leave the last uberblock on some leaves only, when the
/// data of its txg are on all.
fn mark_stale(top: &Top, pool: Guid, labels: &BTreeMap<Guid, LeafLabels>) {
    let found = labels.values().flat_map(|labels| &labels.uberblocks).map(|found| &found.uberblock);
    let Some(txg) = best_uberblock(found, None).map(UberblockPhys::txg) else { return };
    let label_txg = |leaf: &Leaf| {
        let label = labels.get(&leaf.guid())?.config_of(pool, Some(txg))?;
        label.get_u64(key::POOL_TXG).map(Txg::new)
    };
    let uberblock_txg = |leaf: &Leaf| {
        let own = labels.get(&leaf.guid())?.uberblock(Some(txg));
        own.map(UberblockPhys::txg)
    };
    let newest = top.leaves().iter().filter_map(|leaf| label_txg(leaf)).max();
    let newest_uberblock = top.leaves().iter().filter_map(|leaf| uberblock_txg(leaf)).max();
    let is_old_copy =
        |leaf: &Leaf| uberblock_txg(leaf).is_some_and(|own| Some(own.next()) < newest_uberblock);
    for leaf in top.leaves().iter().filter(|leaf| label_txg(leaf) < newest || is_old_copy(leaf)) {
        // What is not there misses what is written from now on, and that is noted then.
        if labels.contains_key(&leaf.guid()) {
            let whole_at = label_txg(leaf).max(uberblock_txg(leaf)).unwrap_or_default();
            leaf.add_to_dtl(whole_at.next().min(txg)..=txg);
        }
    }
}

/// Opens a leaf unless somebody took it out of use; gives its labels.
async fn open_if_allowed(
    env: &Arc<dyn Env>,
    leaf: Arc<Leaf>,
    spec: &OpenSpec<'_>,
    expected: Expected,
    earlier: Option<&VdevTree>,
) -> Option<(Guid, LeafLabels)> {
    if leaf.state().0 != VdevState::Closed {
        // It is not opened, and may be elsewhere all the same.
        if let Some(path) = spec.paths.get(&leaf.guid()) {
            leaf.set_config(|config| config.path.clone_from(path));
        }
        return None;
    }
    if spec.gone.contains(&leaf.guid()) {
        leaf.set_state(VdevState::Unavail, VdevAux::SplitPool);
        leaf.set_stale(true);
        // It is about to be taken out: no spare is to stand in for it.
        leaf.set_config(|config| config.no_spare_found = true);
        return None;
    }
    if let Some(labels) = earlier.and_then(|earlier| taken_over(&leaf, expected, earlier)) {
        return Some((leaf.guid(), labels));
    }
    let found = spec.paths.get(&leaf.guid());
    let path = found.cloned().unwrap_or_else(|| leaf.path());
    match open_leaf(env, &leaf, &path, spec.mode, expected, &|_| true).await {
        // Whoever looks at all devices may find that a newer label is of a txg that never happened. Nobody has.
        Ok(labels) if found.is_none() && expected.pool.is_some_and(|pool| !pool.is_newest_of(&labels)) => {
            tracing::warn!(guid = leaf.guid().get(), path = %path.display(), "leaf of another pool");
            leaf.take_out_of_use(VdevState::Unavail, VdevAux::BadLabel);
            leaf.set_stale(true);
            None
        }
        Ok(labels) => Some((leaf.guid(), labels)),
        Err(error) => {
            tracing::warn!(guid = leaf.guid().get(), path = %path.display(), %error, "leaf not opened");
            // It misses what is written without it, should it come back.
            leaf.set_stale(true);
            None
        }
    }
}

/// Takes a device over that is open as the same leaf, if it is large enough.
fn taken_over(leaf: &Leaf, expected: Expected, earlier: &VdevTree) -> Option<LeafLabels> {
    let of_guid = earlier.leaf(leaf.guid()).ok();
    let before = of_guid.or_else(|| former(leaf, expected, earlier)).filter(|before| before.is_usable())?;
    let is_large = leaf_asize(before.psize()) >= expected.asize
        && expected.pool.is_some_and(|pool| pool.guid == earlier.root().guid);
    let labels = earlier.with_labels(|labels| labels.get(&before.guid()).cloned()).filter(|_| is_large)?;
    leaf.take_over(&before).then_some(labels)
}

/// The leaf of several in an earlier tree that this one, which is alone now, is what is left of.
fn former(leaf: &Leaf, expected: Expected, earlier: &VdevTree) -> Option<Arc<Leaf>> {
    if !expected.is_sole {
        return None;
    }
    let path = leaf.path();
    let guid_below = |labels: &LeafLabels| labels.guid_below(leaf.guid(), &path);
    earlier.leaf(earlier.with_labels(|labels| labels.values().find_map(guid_below))?).ok()
}

/// Opens a leaf at `path`, and checks that its labels and size are as expected and that `is_ours`
/// accepts its labels. Returns the labels.
///
/// # Errors
/// When the device cannot be opened or is not the expected one. The state of the leaf then has the
/// reason too.
pub(crate) async fn open_leaf(
    env: &Arc<dyn Env>,
    leaf: &Leaf,
    path: &Path,
    mode: OpenMode,
    expected: Expected,
    is_ours: &(dyn Fn(&LeafLabels) -> bool + Sync),
) -> Result<LeafLabels, VdevError> {
    let opened = match leaf.is_kept_closed() {
        true => Err(DeviceError::Gone),
        false => open_once_free(env, path, mode).await,
    };
    let device = opened.map_err(|source| {
        leaf.set_state(VdevState::Unavail, VdevAux::OpenFailed);
        VdevError::Open { path: path.to_owned(), source }
    })?;
    let Some((device, labels)) = vdev_in_time(env, device).await else {
        leaf.set_state(VdevState::Unavail, VdevAux::OpenFailed);
        return Err(VdevError::Open { path: path.to_owned(), source: DeviceError::TimedOut });
    };
    if expected.is_sole {
        leaf.recall_former(&labels);
    }
    let problem = if labels.guid().is_none() {
        Some(VdevAux::CorruptData)
    } else if !leaf.is_named_by(&labels) || expected.pool.is_some_and(|pool| !pool.has(&labels)) {
        Some(VdevAux::BadLabel)
    } else if leaf_asize(leaf_psize(device.info().size_bytes)) < expected.asize {
        Some(VdevAux::TooSmall)
    } else if !is_ours(&labels) {
        Some(VdevAux::Elsewhere)
    } else {
        None
    };
    if let Some(aux) = problem {
        leaf.set_state(VdevState::Unavail, aux);
        if aux == VdevAux::Elsewhere {
            return Err(VdevError::WrittenElsewhere { path: path.to_owned() });
        }
        let (vdev, guid) = (leaf.vdev(), leaf.guid());
        return Err(VdevError::LeafUnavailable {
            vdev,
            guid,
            path: path.to_owned(),
            state: VdevState::Unavail,
        });
    }
    leaf.attach(path, device);
    Ok(labels)
}

/// Opens a device that somebody may still be letting go of: requests of this process that were under way when
/// it was closed, or a process that was killed, whose locks go a moment after it. They are waited for, but
/// not for ever: a device may never answer, and another may hold it for good.
///
/// # Errors
/// Those of opening; [`DeviceError::InUse`] after a second.
#[boxed]
pub async fn open_once_free(
    env: &Arc<dyn Env>,
    path: &Path,
    mode: OpenMode,
) -> Result<Arc<dyn Device>, DeviceError> {
    for _ in 0..RELEASE_TRIES {
        match env.open(path, mode).await {
            Err(DeviceError::InUse { .. }) => env.sleep(RELEASE_POLL).await,
            opened => return opened,
        }
    }
    env.open(path, mode).await
}
