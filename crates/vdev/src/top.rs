//! A top-level vdev: what a DVA names. A leaf by itself, or several as mirror or raidz.
//!
//! What it is, how it is, and what the configuration says of it; its I/O is in [`crate::io`].

use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use device::Env;
use parking_lot::Mutex;
use units::{Ashift, Asize, Guid, LABEL_END_BYTES, LABEL_START_BYTES, Spread, VdevId};

use crate::heal::Places;
use crate::size::leaf_asize;
use crate::{Bias, Leaf, VdevAux, VdevState, VdevStats};

/// How leaves make up a top-level vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopKind {
    /// The vdev is its only leaf, and shares its guid.
    Leaf,
    /// Every leaf holds everything.
    Mirror,
    /// Blocks are spread over all leaves, with parity.
    Raidz {
        /// How many leaves may be lost: 1 to 3.
        parity: u8,
    },
    /// Nothing: a log device was removed here.
    Hole,
}

/// What the configuration says of a top-level vdev, beside its kind and leaves.
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
}

/// Who a top-level vdev is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopId {
    /// Its place in the pool.
    pub id: VdevId,
    /// Its guid.
    pub guid: Guid,
    /// How its leaves make it up.
    pub kind: TopKind,
    /// Its sector size.
    pub ashift: Ashift,
}

/// A top-level vdev.
pub struct Top {
    pub(crate) id: TopId,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) leaves: Vec<Arc<Leaf>>,
    config: Mutex<TopConfig>,
    pub(crate) stats: VdevStats,
    pub(crate) places: Places,
    /// Health changed since the configuration was last written.
    changed: AtomicBool,
    /// Held while it is decided whose failures the vdev can do without.
    pub(crate) settling: Mutex<()>,
    /// How often a leaf's device was opened anew.
    reopened: AtomicU64,
}

impl Top {
    pub(crate) fn new(env: Arc<dyn Env>, id: TopId, config: TopConfig, leaves: Vec<Arc<Leaf>>) -> Self {
        let stats = VdevStats::default();
        Self {
            id,
            env,
            leaves,
            config: Mutex::new(config),
            stats,
            places: Places::default(),
            changed: AtomicBool::new(false),
            settling: Mutex::new(()),
            reopened: AtomicU64::new(0),
        }
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

    /// How its leaves make it up.
    #[must_use]
    pub fn kind(&self) -> TopKind {
        self.id.kind
    }

    /// Over how many leaves its blocks are spread.
    #[must_use]
    pub fn spread(&self) -> Spread {
        match self.id.kind {
            TopKind::Raidz { parity } => Spread::raidz(self.leaves.len(), parity)
                .expect("the number of a raidz's leaves is checked when it is made or found"),
            TopKind::Leaf | TopKind::Mirror | TopKind::Hole => Spread::PLAIN,
        }
    }

    /// What each leaf must have room for.
    #[must_use]
    pub fn asize_of_leaf(&self) -> u64 {
        self.config().asize / self.spread().children() as u64
    }

    /// How large each leaf's device must be, labels included.
    #[must_use]
    pub fn bytes_of_leaf(&self) -> u64 {
        self.asize_of_leaf() + LABEL_START_BYTES + LABEL_END_BYTES
    }

    /// What could be allocated on its devices as they are; none unless all are in use.
    #[must_use]
    pub fn possible_asize(&self) -> Option<u64> {
        let is_whole = self.leaves.iter().all(|leaf| leaf.state().0 == VdevState::Online);
        let smallest = self.leaves.iter().map(|leaf| leaf_asize(leaf.psize())).min();
        smallest.filter(|_| is_whole).map(|asize| asize * self.spread().children() as u64)
    }

    /// What datasets are charged for so much space here.
    #[must_use]
    pub fn deflated(&self, space: Asize) -> Asize {
        space.deflated_over(self.id.ashift, self.spread())
    }

    /// How many leaves it can do without.
    #[must_use]
    pub fn tolerance(&self) -> usize {
        match self.id.kind {
            TopKind::Leaf | TopKind::Hole => 0,
            TopKind::Mirror => self.leaves.len().saturating_sub(1),
            TopKind::Raidz { parity } => parity.into(),
        }
    }

    /// Whether it can do without the leaves that `is_lost` tells.
    pub(crate) fn tolerates(&self, is_lost: impl Fn(&Leaf) -> bool) -> bool {
        let lost = self.leaves.iter().filter(|leaf| is_lost(leaf)).count();
        !self.leaves.is_empty() && lost <= self.tolerance()
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
        *self.config.lock()
    }

    /// Changes what the configuration says of it; its labels are to be written again.
    pub fn set_config(&self, change: impl FnOnce(&mut TopConfig)) {
        change(&mut self.config.lock());
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
        &self.stats
    }

    /// Its health: that of its leaves taken together.
    #[must_use]
    pub fn state(&self) -> (VdevState, VdevAux) {
        if self.id.kind == TopKind::Hole {
            return (VdevState::Online, VdevAux::None);
        }
        if let [only] = self.leaves.as_slice()
            && self.id.kind == TopKind::Leaf
        {
            return only.state();
        }
        let whole = self.leaves.iter().all(|leaf| leaf.state().0 == VdevState::Online);
        match self.is_usable() {
            false => (VdevState::Unavail, VdevAux::NoReplicas),
            true if whole => (VdevState::Online, VdevAux::None),
            true => (VdevState::Degraded, VdevAux::None),
        }
    }

    /// Whether I/O can be done there at all.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.tolerates(|leaf| !leaf.is_usable())
    }

    /// How often a leaf's device was opened anew. A cached write that began before that may be lost,
    /// whatever a later flush says: the flush speaks for what the new device was given.
    #[must_use]
    pub fn reopened(&self) -> u64 {
        self.reopened.load(SeqCst)
    }

    pub(crate) fn note_reopened(&self) {
        self.reopened.fetch_add(1, SeqCst);
    }

    /// Whether it can do its work without the leaves that are out of use, and without those whose
    /// flush failed.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.tolerates(|leaf| !leaf.is_usable() || leaf.is_suspect())
    }

    /// Notes that the configuration on disk no longer says what is so.
    pub(crate) fn mark_changed(&self) {
        self.changed.store(true, Relaxed);
    }

    pub(crate) fn take_changed(&self) -> bool {
        self.changed.swap(false, Relaxed)
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.changed.load(Relaxed)
    }
}
