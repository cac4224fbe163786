//! A top-level vdev: what a DVA names. A node of leaves, and what is kept of it while that changes.
//!
//! ```text
//!   VdevTree ── id ──► Top ───► node       raidz1-0: a, replacing-1: b n, c     never changes
//!                       │                  raidz1-0: a, n, c                    the next one
//!                       └─────► Ledger     places, settling, counters, sizes    one for all of them
//! ```
//! A `Top` is one shape of the vdev: whoever has one does I/O on just these leaves to its end. Who
//! changes the shape ([`crate::reshape`]) puts another `Top` in its place in the tree, with the same
//! [`Ledger`]: a write under way in the old shape keeps a repair out of its place in the new one, and a
//! failure is judged by what the vdev is when it happens, whichever shape the I/O began in.
//!
//! What it is, how it is, and what the configuration says of it is here; its I/O is in [`crate::io`].
//!
//! Invariants
//! - No note of a repair or a write is lost when the shape changes under load.
//!   (tests: `a_write_in_the_old_shape_forbids_a_repair_in_the_new_one`,
//!   `a_failure_in_the_old_shape_is_judged_by_the_new_one`)

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use env::Env;
use parking_lot::{Mutex, RwLock};
use units::{Ashift, Asize, Guid, LABEL_END_BYTES, LABEL_START_BYTES, ObjectId, Spread, VdevId, VdevOffset};

use crate::draid;
use crate::heal::Places;
use crate::size::leaf_asize;
use crate::{Bias, Leaf, Mapping, Node, NodeKind, Removed, VdevAux, VdevState, VdevStats};

/// What the configuration says of a top-level vdev, beside its nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopConfig {
    /// Object that lists its space maps; 0 until its first txg has synced.
    pub metaslab_array: u64,
    /// Base-2 logarithm of a metaslab's size.
    pub metaslab_shift: u64,
    /// Bytes that can be allocated.
    pub asize: u64,
    /// What it is for.
    pub bias: Bias,
    /// Group in which it joined.
    pub create_txg: u64,
    /// Object of its own properties; 0 for none.
    pub top_zap: u64,
    /// When it was last enlarged, as OpenZFS noted it: seconds since 1970; 0 for never.
    pub expansion_secs: u64,
    /// It is being removed, and where that is noted.
    pub leaving: Option<Leaving>,
    /// The administrator wants no more blocks there.
    pub non_allocating: bool,
}

/// Where the meta-objset has what was copied of a vdev that is being removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// Object of the mapping, as far as it goes.
    pub mapping: ObjectId,
    /// Object that tells when what was copied.
    pub births: ObjectId,
}

/// Who a top-level vdev is, whatever its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopId {
    /// Its place in the pool.
    pub id: VdevId,
    /// Its guid.
    pub guid: Guid,
    /// Its sector size.
    pub ashift: Ashift,
}

/// What a top-level vdev keeps while its shape changes.
#[derive(Default)]
pub(crate) struct Ledger {
    config: Mutex<TopConfig>,
    pub(crate) stats: VdevStats,
    pub(crate) places: Places,
    /// Where what was copied of it is, while it is being removed.
    pub(crate) copied: RwLock<Mapping>,
    /// Health changed since the configuration was last written.
    changed: AtomicBool,
    /// How often a leaf's device was opened anew.
    reopened: AtomicU64,
    /// The shape that is in the tree. Held while it is decided whose failures the vdev can do without.
    pub(crate) settling: Mutex<Current>,
}

/// The shape that counts.
#[derive(Default)]
pub(crate) struct Current {
    /// How often the shape has changed.
    pub(crate) shape: u64,
    /// What has taken the place of the first shape's node; `None` as long as none has.
    pub(crate) node: Option<Node>,
}

/// A top-level vdev in one of its shapes.
pub struct Top {
    pub(crate) id: TopId,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) node: Node,
    /// The node's leaves, so that no I/O has to look for them.
    pub(crate) leaves: Vec<Arc<Leaf>>,
    /// Which of them are those of each child of the node.
    below: Vec<Range<usize>>,
    pub(crate) ledger: Arc<Ledger>,
    /// The number of this shape among those of the vdev.
    pub(crate) shape: u64,
}

impl Top {
    /// # Panics
    /// When the node is another vdev than `id` says.
    pub(crate) fn new(env: Arc<dyn Env>, id: TopId, config: TopConfig, node: Node) -> Self {
        let ledger = Ledger { config: Mutex::new(config), ..Ledger::default() };
        Self::shaped(env, id, node, Arc::new(ledger), 0)
    }

    fn shaped(env: Arc<dyn Env>, id: TopId, node: Node, ledger: Arc<Ledger>, shape: u64) -> Self {
        assert!(
            matches!(node, Node::Hole) || node.guid() == id.guid,
            "the node of vdev {} is {}",
            id.id,
            node.guid()
        );
        let leaves = node.leaves();
        let mut below = Vec::with_capacity(node.children().len());
        let mut start = 0;
        for child in node.children() {
            let end = start + child.leaves().len();
            below.push(start..end);
            start = end;
        }
        Self { id, env, node, leaves, below, ledger, shape }
    }

    /// The same vdev with another node; from now on failures are judged by that.
    pub(crate) fn reshaped(&self, node: Node) -> Self {
        let mut current = self.ledger.settling.lock();
        assert_eq!(current.shape, self.shape, "vdev {} changes one step at a time", self.id.id);
        current.shape += 1;
        current.node = Some(node.clone());
        // A leaf that becomes a mirror leaves that a guid of its own.
        let id = TopId { guid: node.guid(), ..self.id };
        Self::shaped(self.env.clone(), id, node, Arc::clone(&self.ledger), current.shape)
    }

    /// Its place in the pool.
    #[must_use]
    pub fn id(&self) -> VdevId {
        self.id.id
    }

    /// Its guid: that of its leaf when it is one.
    #[must_use]
    pub fn guid(&self) -> Guid {
        self.id.guid
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> NodeKind {
        self.node.kind()
    }

    /// What is left of it, if it was removed and its blocks are elsewhere.
    #[must_use]
    pub fn removed(&self) -> Option<&Removed> {
        match &self.node {
            Node::Indirect(removed) => Some(removed),
            _ => None,
        }
    }

    /// Whether it was removed, and its blocks are elsewhere.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.removed().is_some()
    }

    /// The tree of it.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Over how many children its blocks are spread.
    #[must_use]
    pub fn spread(&self) -> Spread {
        self.node.spread()
    }

    /// Returns the place on a draid of the block whose data begins at this place of a child. `None` if
    /// the vdev is no draid, or if no block's data can begin at this place.
    #[must_use]
    pub fn draid_block_at(&self, child: usize, at: VdevOffset) -> Option<VdevOffset> {
        match (self.kind(), self.node.permutations()) {
            (NodeKind::Draid(shape), Some(permutations)) => {
                draid::map::stripe_at(&shape, permutations, self.id.ashift, child, at)
            }
            _ => None,
        }
    }

    /// The leaves of a child of the node; each has a copy of what the child has.
    pub(crate) fn copies_of(&self, child: usize) -> &[Arc<Leaf>] {
        &self.leaves[self.below[child].clone()]
    }

    /// Returns the allocatable size of each leaf if the vdev used its whole size.
    #[must_use]
    pub fn asize_of_leaf(&self) -> u64 {
        self.asize_of_child(self.config().asize)
    }

    /// Returns the smallest allocatable size that a leaf must have: room for all metaslabs, as in
    /// OpenZFS. The space after the last whole metaslab is never used, so a device may be a few
    /// sectors smaller.
    #[must_use]
    pub fn min_asize_of_leaf(&self) -> u64 {
        let TopConfig { asize, metaslab_shift, .. } = self.config();
        let mask = u32::try_from(metaslab_shift).ok().and_then(|shift| u64::MAX.checked_shl(shift));
        let whole = asize & mask.unwrap_or(u64::MAX);
        self.asize_of_child(if whole == 0 { asize } else { whole })
    }

    fn asize_of_child(&self, asize: u64) -> u64 {
        match self.kind() {
            NodeKind::Draid(shape) => shape.asize_of_child(asize),
            _ => self.id.ashift.round_up(asize.div_ceil(self.spread().children() as u64)),
        }
    }

    /// How large each leaf's device must be, labels included.
    #[must_use]
    pub fn bytes_of_leaf(&self) -> u64 {
        self.min_asize_of_leaf() + LABEL_START_BYTES + LABEL_END_BYTES
    }

    /// What could be allocated on its devices as they are; none unless all are in use, and of a draid, which is
    /// not enlarged.
    #[must_use]
    pub fn possible_asize(&self) -> Option<u64> {
        if matches!(self.kind(), NodeKind::Draid(_)) {
            return None;
        }
        let is_whole = self.leaves.iter().all(|leaf| leaf.state().0 == VdevState::Online);
        let smallest = self.leaves.iter().map(|leaf| leaf_asize(leaf.psize())).min();
        smallest.filter(|_| is_whole).map(|asize| asize * self.spread().children() as u64)
    }

    /// What datasets are charged for so much space here.
    #[must_use]
    pub fn deflated(&self, space: Asize) -> Asize {
        space.deflated_over(self.id.ashift, self.spread())
    }

    /// Its sector size.
    #[must_use]
    pub fn ashift(&self) -> Ashift {
        self.id.ashift
    }

    /// Its leaves, in the order of the configuration.
    #[must_use]
    pub fn leaves(&self) -> &[Arc<Leaf>] {
        &self.leaves
    }

    /// What the configuration says of it.
    #[must_use]
    pub fn config(&self) -> TopConfig {
        *self.ledger.config.lock()
    }

    /// Changes what the configuration says of it; its labels are to be written again.
    pub fn set_config(&self, change: impl FnOnce(&mut TopConfig)) {
        change(&mut self.ledger.config.lock());
        self.mark_changed();
    }

    /// A log device.
    #[must_use]
    pub fn is_log(&self) -> bool {
        self.config().bias == Bias::Log
    }

    /// Counters of what was asked of it; those of its leaves count what became of that.
    #[must_use]
    pub fn stats(&self) -> &VdevStats {
        &self.ledger.stats
    }

    /// Its health: that of its nodes taken together.
    #[must_use]
    pub fn state(&self) -> (VdevState, VdevAux) {
        self.node.state()
    }

    /// Whether it has everything that was ever written to it.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.node.lacks(&|leaf| !leaf.is_usable()).is_empty()
    }

    /// Whether I/O can be done there at all.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.survives(|leaf| !leaf.is_usable())
    }

    /// Whether it can do without the leaves that `is_lost` tells.
    pub(crate) fn survives(&self, is_lost: impl Fn(&Leaf) -> bool) -> bool {
        self.node.survives(&is_lost)
    }

    /// How often a leaf's device was opened anew. A cached write that began before that may be lost,
    /// whatever a later flush says: the flush speaks for what the new device was given.
    #[must_use]
    pub fn reopened(&self) -> u64 {
        self.ledger.reopened.load(SeqCst)
    }

    pub(crate) fn note_reopened(&self) {
        self.ledger.reopened.fetch_add(1, SeqCst);
    }

    /// Whether it can do its work without the leaves that are out of use, and without those whose
    /// flush failed.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.survives(|leaf| !leaf.is_usable() || leaf.is_suspect())
    }

    /// Notes that the configuration on disk no longer says what is so.
    pub(crate) fn mark_changed(&self) {
        self.ledger.changed.store(true, Relaxed);
    }

    pub(crate) fn take_changed(&self) -> bool {
        self.ledger.changed.swap(false, Relaxed)
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.ledger.changed.load(Relaxed)
    }
}
