//! A top-level vdev: what a DVA names. A leaf by itself, or a mirror of leaves.
//!
//! What it is, how it is, and what the configuration says of it; its I/O is in [`crate::mirror`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use device::Env;
use parking_lot::Mutex;
use units::{Ashift, Guid, VdevId};

use crate::heal::Places;
use crate::{Leaf, VdevAux, VdevState, VdevStats};

/// How leaves make up a top-level vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopKind {
    /// The vdev is its only leaf, and shares its guid.
    Leaf,
    /// Every leaf holds everything.
    Mirror,
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
    /// A log device.
    pub is_log: bool,
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
        self.config().is_log
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
        let usable = self.leaves.iter().filter(|leaf| leaf.is_usable()).count();
        let whole = self.leaves.iter().all(|leaf| leaf.state().0 == VdevState::Online);
        match usable {
            0 => (VdevState::Unavail, VdevAux::NoReplicas),
            _ if whole => (VdevState::Online, VdevAux::None),
            _ => (VdevState::Degraded, VdevAux::None),
        }
    }

    /// Whether I/O can be done there at all.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.leaves.iter().any(|leaf| leaf.is_usable())
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
