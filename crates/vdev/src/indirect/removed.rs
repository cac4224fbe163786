//! A removed vdev as the tree has it.

use std::sync::OnceLock;

use units::{Guid, ObjectId, VdevId};

use super::{Mapping, Run};

/// What the configuration says of a removed vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedConfig {
    /// Its guid.
    pub guid: Guid,
    /// Object of its mapping.
    pub mapping: ObjectId,
    /// Object that tells when what was copied.
    pub births: ObjectId,
    /// The vdev that was removed before it.
    pub previous: Option<VdevId>,
    /// Kept as it was.
    pub whole_disk: Option<u64>,
    /// Kept as it was.
    pub non_allocating: Option<u64>,
}

/// A removed vdev: no devices, but a mapping, once the pool has read it.
#[derive(Debug)]
pub struct Removed {
    config: RemovedConfig,
    mapping: OnceLock<Mapping>,
    /// The mapping the other way round, once somebody asks.
    targets: OnceLock<Vec<Run>>,
}

impl Removed {
    pub(crate) const fn new(config: RemovedConfig) -> Self {
        Self { config, mapping: OnceLock::new(), targets: OnceLock::new() }
    }

    /// What the configuration says of it.
    #[must_use]
    pub const fn config(&self) -> RemovedConfig {
        self.config
    }

    /// Its mapping; `None` as long as that was not read.
    #[must_use]
    pub fn mapping(&self) -> Option<&Mapping> {
        self.mapping.get()
    }

    /// Gives it its mapping, as the pool has read it. It never changes.
    ///
    /// # Panics
    /// When it has one.
    pub fn set_mapping(&self, mapping: Mapping) {
        assert!(self.mapping.set(mapping).is_ok(), "a removed vdev's mapping is read once");
    }

    /// Whether something of this vdev was copied to a place in this run.
    pub(super) fn was_copied_to(&self, run: Run) -> bool {
        let Some(mapping) = self.mapping() else { return false };
        let targets = self.targets.get_or_init(|| mapping.targets());
        let end = (run.vdev, run.offset.get().saturating_add(run.len));
        let before = targets.partition_point(|target| (target.vdev, target.offset.get()) < end);
        let last = before.checked_sub(1).map(|last| targets[last]);
        last.is_some_and(|last| last.vdev == run.vdev && last.offset.get() + last.len > run.offset.get())
    }
}
