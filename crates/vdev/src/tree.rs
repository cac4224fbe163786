//! The vdevs of a pool, by the numbers that DVAs carry.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, OnceLock};

use env::{BufSlice, Durability, Env, IoBuf, OpenMode, boxed};
use futures::future::join_all;
use ondisk::UberblockPhys;
use parking_lot::{Mutex, RwLock};
use units::{Ashift, Guid, Txg, VdevId, VdevOffset};

use crate::copies::{CopyVerdict, Past};
use crate::open::{Expected, open_leaf};
use crate::raidz::in_one_piece;
use crate::spec::draw_guid;
use crate::top::{TopConfig, TopId};
use crate::{
    Address, Fence, Leaf, LeafLabels, LeafWatch, NewVdev, Node, NodeKind, Top, VdevAux, VdevError, VdevState,
    Verify,
};

/// What the configuration says of the pool's root, beside its children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RootConfig {
    /// The pool's guid.
    pub guid: Guid,
    /// The guid that it had before it got another one since it was opened: devices that could not be told of that have
    /// it in their labels. Nothing on disk says so.
    pub former_guid: Option<Guid>,
    /// Group in which the pool was made.
    pub create_txg: u64,
    /// Object of the root's own properties; 0 for none.
    pub root_zap: u64,
}

impl RootConfig {
    /// Whether the newest label is of this pool.
    pub(crate) fn is_newest_of(&self, labels: &LeafLabels) -> bool {
        labels.pool_guid() == Some(self.guid)
    }

    /// Whether labels are of this pool, though the newest may be of a txg that never happened.
    pub(crate) fn has(&self, labels: &LeafLabels) -> bool {
        labels.is_of_pool(self.guid) || self.former_guid.is_some_and(|guid| labels.is_of_pool(guid))
    }
}

/// All top-level vdevs of a pool.
pub struct VdevTree {
    env: Arc<dyn Env>,
    mode: OpenMode,
    root: Mutex<RootConfig>,
    tops: RwLock<Vec<Arc<Top>>>,
    /// The last group for which it was noted who missed it.
    noted: AtomicU64,
    /// What leaves' labels said when they were opened, until nobody needs it any more.
    labels: Mutex<BTreeMap<Guid, LeafLabels>>,
    /// The states that the pool recently went through.
    past: Mutex<Past>,
    /// How often the device of any leaf was opened anew.
    reopened: AtomicU64,
    /// Who is told what befalls the leaves.
    watch: OnceLock<Arc<dyn LeafWatch>>,
    fence: Arc<Fence>,
}

impl VdevTree {
    /// Opens the devices of a new pool and draws all guids. Nothing is written.
    ///
    /// # Errors
    /// When a device cannot be opened, is too small, or cannot have the sector size.
    #[boxed]
    pub async fn create(env: Arc<dyn Env>, vdevs: &[NewVdev]) -> Result<Self, VdevError> {
        let create_txg = vdevs.iter().map(|vdev| vdev.create_txg).min().unwrap_or(0);
        let root = RootConfig { guid: draw_guid(&env), create_txg, ..RootConfig::default() };
        let tree = Self::from_parts(env, OpenMode::ReadWrite, root, Vec::new(), Arc::default());
        for vdev in vdevs {
            tree.add(vdev).await?;
        }
        Ok(tree)
    }

    pub(crate) fn from_parts(
        env: Arc<dyn Env>,
        mode: OpenMode,
        root: RootConfig,
        tops: Vec<Arc<Top>>,
        fence: Arc<Fence>,
    ) -> Self {
        tops.iter().flat_map(|top| top.leaves()).for_each(|leaf| leaf.fenced_by(&fence));
        Self {
            env,
            mode,
            root: Mutex::new(root),
            tops: RwLock::new(tops),
            noted: AtomicU64::new(0),
            labels: Mutex::default(),
            past: Mutex::default(),
            reopened: AtomicU64::new(0),
            watch: OnceLock::new(),
            fence,
        }
    }

    /// Until when devices may be written to: always, unless somebody says otherwise.
    #[must_use]
    pub fn fence(&self) -> &Arc<Fence> {
        &self.fence
    }

    pub(crate) fn keep_watch(&self, watch: Arc<dyn LeafWatch>) {
        _ = self.watch.set(watch);
    }

    /// A leaf is part of the pool.
    pub(crate) fn have_watched(&self, leaf: &Leaf) {
        leaf.fenced_by(&self.fence);
        self.watch.get().into_iter().for_each(|watch| leaf.watched_by(watch));
    }

    /// Opens the devices of one more vdev and puts it in the first hole, or at the end.
    /// Nothing is written.
    ///
    /// # Errors
    /// As [`Self::create`].
    #[boxed]
    pub async fn add(&self, vdev: &NewVdev) -> Result<Arc<Top>, VdevError> {
        let mut planned = self.plan(std::slice::from_ref(vdev)).await?;
        let top =
            planned.pop().ok_or_else(|| VdevError::BadConfig { what: "a vdev was asked for".into() })?;
        self.join(&top);
        Ok(top)
    }

    /// Opens the devices of more vdevs, each with the number it will have: those of the holes first. They are not in
    /// the tree before each [joins](Self::join) it, and close when they are dropped. Nothing is written.
    ///
    /// # Errors
    /// As [`Self::create`].
    #[boxed]
    pub async fn plan(&self, vdevs: &[NewVdev]) -> Result<Vec<Arc<Top>>, VdevError> {
        if self.mode == OpenMode::ReadOnly {
            return Err(VdevError::ReadOnly);
        }
        let mut planned = Vec::with_capacity(vdevs.len());
        for (vdev, slot) in vdevs.iter().zip(self.free_slots()) {
            let id = VdevId::new(u32::try_from(slot).unwrap_or(u32::MAX));
            planned.push(Arc::new(vdev.build(&self.env, id).await?));
        }
        Ok(planned)
    }

    /// Puts a planned vdev in its place.
    ///
    /// # Panics
    /// When that is taken by now.
    pub fn join(&self, top: &Arc<Top>) {
        top.mark_changed();
        top.leaves().iter().for_each(|leaf| self.have_watched(leaf));
        let slot = top.id().get() as usize;
        let mut tops = self.tops.write();
        if slot == tops.len() {
            tops.push(Arc::clone(top));
        } else {
            assert_eq!(tops[slot].kind(), NodeKind::Hole, "the place of vdev {slot}");
            tops[slot] = Arc::clone(top);
        }
    }

    /// Numbers that no vdev has, the lowest first.
    fn free_slots(&self) -> impl Iterator<Item = usize> + use<> {
        let tops = self.tops.read();
        let holes = tops.iter().enumerate().filter(|(_, top)| top.kind() == NodeKind::Hole);
        let holes: Vec<usize> = holes.map(|(slot, _)| slot).collect();
        holes.into_iter().chain(tops.len()..)
    }

    /// Takes a vdev out for good and leaves a hole in its place; holes at the end vanish.
    /// Its devices close with their last I/O. That nothing is allocated there is the caller's care.
    ///
    /// # Errors
    /// [`VdevError::NoSuchVdev`].
    pub fn remove(&self, id: VdevId) -> Result<Arc<Top>, VdevError> {
        let gone = self.top(id)?;
        let hole = TopId { id, guid: Guid::new(0), ashift: Ashift::new(0) };
        let mut tops = self.tops.write();
        tops[id.get() as usize] =
            Arc::new(Top::new(self.env.clone(), hole, TopConfig::default(), Node::Hole));
        while tops.last().is_some_and(|top| top.kind() == NodeKind::Hole) {
            tops.pop();
        }
        for top in tops.iter() {
            top.mark_changed();
        }
        Ok(gone)
    }

    /// Puts another `Top` in the place of one; see [`crate::reshape`].
    pub(crate) fn replace_top(
        &self,
        id: VdevId,
        with: impl FnOnce(&Top) -> Result<Top, VdevError>,
    ) -> Result<Arc<Top>, VdevError> {
        let mut tops = self.tops.write();
        let slot = tops.get_mut(id.get() as usize).filter(|top| top.kind() != NodeKind::Hole);
        let slot = slot.ok_or(VdevError::NoSuchVdev { vdev: id })?;
        *slot = Arc::new(with(slot)?);
        Ok(Arc::clone(slot))
    }

    pub(crate) fn keep_labels(&self, labels: BTreeMap<Guid, LeafLabels>) {
        *self.labels.lock() = labels;
    }

    pub(crate) fn keep_past(&self, past: Past) {
        *self.past.lock() = past;
    }

    /// Returns the states that the pool recently went through, as far as they are known.
    pub(crate) fn past(&self) -> Past {
        self.past.lock().clone()
    }

    /// Records a state that is about to be written.
    pub(crate) fn add_to_past(&self, uberblock: &UberblockPhys) {
        self.past.lock().add(uberblock);
    }

    pub(crate) fn with_labels<R>(&self, look: impl FnOnce(&BTreeMap<Guid, LeafLabels>) -> R) -> R {
        look(&self.labels.lock())
    }

    /// Forgets what labels said when leaves were opened: it is not so for long.
    pub fn forget_labels(&self) {
        self.labels.lock().clear();
    }

    /// Time, randomness and devices.
    #[must_use]
    pub fn env(&self) -> &Arc<dyn Env> {
        &self.env
    }

    /// Whether the pool may be written to.
    #[must_use]
    pub fn mode(&self) -> OpenMode {
        self.mode
    }

    /// What the configuration says of the root.
    #[must_use]
    pub fn root(&self) -> RootConfig {
        *self.root.lock()
    }

    /// Changes what the configuration says of the root.
    pub fn set_root(&self, change: impl FnOnce(&mut RootConfig)) {
        change(&mut self.root.lock());
    }

    /// The top-level vdev of a number.
    ///
    /// # Errors
    /// [`VdevError::NoSuchVdev`] for a hole too.
    pub fn top(&self, id: VdevId) -> Result<Arc<Top>, VdevError> {
        let tops = self.tops.read();
        let found = tops.get(id.get() as usize).filter(|top| top.kind() != NodeKind::Hole);
        found.cloned().ok_or(VdevError::NoSuchVdev { vdev: id })
    }

    /// All top-level vdevs by number, holes left out.
    #[must_use]
    pub fn tops(&self) -> Vec<Arc<Top>> {
        self.all_tops().into_iter().filter(|top| top.kind() != NodeKind::Hole).collect()
    }

    /// All top-level vdevs by number that have devices: neither holes nor removed vdevs.
    #[must_use]
    pub fn tops_with_devices(&self) -> Vec<Arc<Top>> {
        self.tops().into_iter().filter(|top| !top.is_removed()).collect()
    }

    /// All top-level vdevs by number, holes included.
    #[must_use]
    pub fn all_tops(&self) -> Vec<Arc<Top>> {
        self.tops.read().clone()
    }

    /// All leaves, in the order of the configuration.
    #[must_use]
    pub fn leaves(&self) -> Vec<Arc<Leaf>> {
        self.tops().iter().flat_map(|top| top.leaves().to_vec()).collect()
    }

    /// The leaf of a guid.
    ///
    /// # Errors
    /// [`VdevError::NoSuchLeaf`].
    pub fn leaf(&self, guid: Guid) -> Result<Arc<Leaf>, VdevError> {
        self.leaves().into_iter().find(|leaf| leaf.guid() == guid).ok_or(VdevError::NoSuchLeaf { guid })
    }

    /// Sum of all guids, root and holes included, modulo 2^64: what an uberblock carries to
    /// tell whether all devices were found.
    #[must_use]
    pub fn guid_sum(&self) -> u64 {
        let of_top = |top: &Arc<Top>| match top.node() {
            Node::Hole => top.guid().get(),
            node => node.guid_sum(),
        };
        let tops = self.all_tops();
        tops.iter().map(of_top).fold(self.root().guid.get(), u64::wrapping_add)
    }

    /// The smallest sector of the vdevs that hold data: what a compressed block is rounded to.
    #[must_use]
    pub fn min_ashift(&self) -> Ashift {
        let tops = self.tops.read();
        let data = tops.iter().filter(|top| top.kind() != NodeKind::Hole && !top.is_log());
        data.map(|top| top.ashift()).min().unwrap_or(Ashift::MIN)
    }

    /// Vdevs that have too few usable leaves: nothing can be written there now.
    #[must_use]
    pub fn unusable(&self) -> BTreeSet<VdevId> {
        let tops = self.tops.read();
        let gone = tops.iter().filter(|top| top.kind() != NodeKind::Hole && !top.is_usable());
        gone.map(|top| top.id()).collect()
    }

    /// Vdevs where too few leaves are both usable and beyond doubt: not for log blocks, if others
    /// are.
    #[must_use]
    pub fn doubtful(&self) -> BTreeSet<VdevId> {
        self.tops().iter().filter(|top| !top.is_trusted()).map(|top| top.id()).collect()
    }

    /// The pool's health: that of its data vdevs taken together; a lost log only degrades it.
    #[must_use]
    pub fn state(&self) -> (VdevState, VdevAux) {
        let tops = self.tops();
        if tops.iter().any(|top| !top.is_log() && !top.state().0.is_usable()) {
            return (VdevState::Unavail, VdevAux::NoReplicas);
        }
        if tops.iter().any(|top| top.state().0 != VdevState::Online) {
            return (VdevState::Degraded, VdevAux::None);
        }
        (VdevState::Online, VdevAux::None)
    }

    /// Vdevs whose labels no longer say what is so, as for the next [`Self::take_changed`].
    #[must_use]
    pub fn changed(&self) -> BTreeSet<VdevId> {
        self.tops().iter().filter(|top| top.is_changed()).map(|top| top.id()).collect()
    }

    /// Vdevs whose labels no longer say what is so; each is reported once.
    pub fn take_changed(&self) -> BTreeSet<VdevId> {
        self.tops().iter().filter(|top| top.take_changed()).map(|top| top.id()).collect()
    }

    /// Marks every vdev's labels as out of date: after an import, a rename, a change of features.
    pub fn mark_all_changed(&self) {
        for top in self.tops() {
            top.mark_changed();
        }
    }

    /// Whether what is found bad may be repaired.
    pub(crate) fn heals(&self) -> bool {
        self.mode == OpenMode::ReadWrite
    }

    /// Reads `len` bytes that satisfy `verify`; see [`Top::read`].
    ///
    /// # Errors
    /// As [`Top::read`], and [`VdevError::NoSuchVdev`].
    pub async fn read(&self, at: Address, len: usize, verify: Verify<'_>) -> Result<IoBuf, VdevError> {
        let top = self.top(at.vdev)?;
        if !top.is_removed() {
            match top.read(at, len, verify, self.heals()).await {
                Err(_) if self.has_left(&top) => {}
                done => return done,
            }
        }
        self.read_removed(&*self.top(at.vdev)?, at, len, verify).await
    }

    /// Reads what may never have been written; see [`Top::probe`].
    ///
    /// # Errors
    /// As [`Top::probe`], and [`VdevError::NoSuchVdev`].
    pub async fn probe(&self, at: Address, len: usize, verify: Verify<'_>) -> Result<IoBuf, VdevError> {
        let top = self.top(at.vdev)?;
        if !top.is_removed() {
            match top.probe(at, len, verify, self.heals()).await {
                Err(_) if self.has_left(&top) => {}
                done => return done,
            }
        }
        self.probe_removed(&*self.top(at.vdev)?, at, len, verify).await
    }

    /// Says that nobody wants these bytes any more; see [`Top::discard`].
    ///
    /// # Errors
    /// As [`Top::discard`], and [`VdevError::NoSuchVdev`].
    #[boxed]
    pub async fn discard(&self, vdev: VdevId, offset: VdevOffset, len: u64) -> Result<(), VdevError> {
        self.top(vdev)?.discard(offset, len).await
    }

    /// Checks and repairs all copies of a place; see [`Top::scrub`].
    ///
    /// # Errors
    /// As [`Top::scrub`], and [`VdevError::NoSuchVdev`].
    #[boxed]
    pub async fn scrub(&self, at: Address, len: usize, verify: Verify<'_>) -> Result<usize, VdevError> {
        let top = self.top(at.vdev)?;
        if !top.is_removed() {
            match top.scrub(at, len, verify, self.heals()).await {
                Err(_) if self.has_left(&top) => {}
                done => return done,
            }
        }
        self.scrub_removed(&*self.top(at.vdev)?, at, len, verify).await
    }

    /// Writes slices one after another; see [`Top::write`].
    ///
    /// # Errors
    /// As [`Top::write`], [`VdevError::NoSuchVdev`], and [`VdevError::ReadOnly`].
    pub async fn write(
        &self,
        at: Address,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> Result<(), VdevError> {
        if self.mode == OpenMode::ReadOnly {
            return Err(VdevError::ReadOnly);
        }
        let top = self.top(at.vdev)?;
        match top.is_removed() {
            true => self.write_removed(&top, at, in_one_piece(slices), durability).await,
            false => top.write(at, slices, durability).await,
        }
    }

    /// Makes completed writes to these vdevs stable, all at once. A vdev that is gone for good
    /// has nothing to flush.
    ///
    /// # Errors
    /// The first vdev's that could not, after all have been tried.
    pub async fn flush(&self, vdevs: impl IntoIterator<Item = VdevId>) -> Result<(), VdevError> {
        let tops: Vec<_> = vdevs.into_iter().filter_map(|id| self.top(id).ok()).collect();
        let results = match tops.as_slice() {
            [only] => vec![only.flush().await],
            several => join_all(several.iter().map(|top| top.flush())).await,
        };
        results.into_iter().collect()
    }

    /// Takes a leaf out of use. What it misses from now on makes it stale.
    ///
    /// # Errors
    /// [`VdevError::NoSuchLeaf`]; [`VdevError::NoReplica`] when its siblings could not do its work.
    pub fn offline(&self, guid: Guid) -> Result<(), VdevError> {
        let leaf = self.leaf(guid)?;
        let top = self.top(leaf.vdev())?;
        if !top.is_log() && !self.can_do_without(&leaf) {
            return Err(VdevError::NoReplica { vdev: top.id(), guid: top.guid() });
        }
        leaf.set_stale(true);
        leaf.set_state(VdevState::Offline, VdevAux::None);
        top.mark_changed();
        Ok(())
    }

    /// Whether a leaf's vdev has all without it that it has with it, or would have if the leaf came back.
    #[must_use]
    pub fn can_do_without(&self, leaf: &Leaf) -> bool {
        let is_lost = |other: &Leaf| other.guid() == leaf.guid() || !other.is_usable();
        self.top(leaf.vdev()).is_ok_and(|top| top.survives(is_lost) && !top.node().requires(leaf))
    }

    /// Says that what the configuration has of a vdev is no longer so.
    pub fn mark_changed(&self, vdev: VdevId) {
        if let Ok(top) = self.top(vdev) {
            top.mark_changed();
        }
    }

    /// Notes which leaves miss the group `txg`, which is being written. Those that a vdev cannot
    /// do without miss nothing: it is nowhere else.
    pub fn note_dtls(&self, txg: Txg) {
        self.noted.store(txg.get(), Relaxed);
        for top in self.tops() {
            let has_copies = top.node().is_redundant();
            let missed = |leaf: &&Arc<Leaf>| leaf.take_owed() || (has_copies && !leaf.is_usable());
            top.leaves().iter().filter(missed).for_each(|leaf| leaf.add_to_dtl(txg.prev()..=txg));
        }
    }

    /// How often the device of any leaf was opened anew. What began before that and was not stable yet
    /// may be lost, whatever a flush says that ends after it.
    #[must_use]
    pub fn reopened(&self) -> u64 {
        self.reopened.load(SeqCst)
    }

    /// Leaves that [failed](Leaf::has_failed): those to be opened anew when the devices are said to work again.
    #[must_use]
    pub fn failed_leaves(&self) -> Vec<Arc<Leaf>> {
        self.leaves().into_iter().filter(|leaf| leaf.has_failed()).collect()
    }

    /// Reopens a leaf's device, at `path` or at its present path, and puts the leaf back in use. A
    /// leaf that missed writes is read last until [`Self::resilvered`]. The same holds for a leaf
    /// that was in use until now, because it misses the writes made in between. A device may have
    /// gone back in time, for example an old copy of the disk: then the device misses all txgs after
    /// its newest uberblock, whatever the DTL of the leaf says. `open` returns the open txg. The
    /// error counters stay, because a pool reopens devices on its own and the administrator would
    /// not see the errors.
    ///
    /// # Errors
    /// When the device cannot be opened, or its labels belong to something else.
    /// [`VdevError::WrittenElsewhere`] when it has a history of its own.
    pub async fn reopen(
        &self,
        guid: Guid,
        path: Option<&Path>,
        open: impl Fn() -> Txg,
    ) -> Result<(), VdevError> {
        let leaf = self.leaf(guid)?;
        let since = if leaf.is_usable() { open().prev() } else { Txg::new(self.noted.load(Relaxed)) };
        let top = self.top(leaf.vdev())?;
        let path = path.map_or_else(|| leaf.path(), Path::to_owned);
        leaf.close();
        // Between the two: who finds the new count is not served by the old device any more.
        top.note_reopened();
        self.reopened.fetch_add(1, SeqCst);
        let expected = Expected::of(&top, self.root());
        let is_ours =
            |labels: &LeafLabels| self.verdict_on(&leaf, &Past::of(labels), true) != CopyVerdict::Foreign;
        let labels = open_leaf(&self.env, &leaf, &path, self.mode, expected, &is_ours).await?;
        match top.node().is_redundant() {
            true => {
                // A log has uberblocks of few txgs, so they do not show how old the device is.
                let whole_until = labels.uberblock(None).map(UberblockPhys::txg).filter(|_| !top.is_log());
                leaf.add_to_dtl(whole_until.map_or(since, |txg| since.min(txg.next()))..=open());
                leaf.set_config(|config| config.resilver_txg = config.resilver_txg.max(open().get()));
            }
            false => leaf.set_stale(false),
        }
        top.mark_changed();
        Ok(())
    }

    /// Says that a leaf has everything again that was born up to `txg`; whether it is whole now.
    ///
    /// # Errors
    /// [`VdevError::NoSuchLeaf`].
    pub fn resilvered(&self, guid: Guid, txg: Txg) -> Result<bool, VdevError> {
        let leaf = self.leaf(guid)?;
        let is_whole = leaf.caught_up(txg);
        self.top(leaf.vdev())?.mark_changed();
        Ok(is_whole)
    }

    /// Lets go of all devices.
    pub fn close(&self) {
        for leaf in self.leaves() {
            leaf.close();
        }
    }
}
