//! A removed vdev as the tree has it.

use std::sync::OnceLock;

use units::{Guid, ObjectId, VdevId};

use super::Mapping;

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
}

impl Removed {
    pub(crate) const fn new(config: RemovedConfig) -> Self {
        Self { config, mapping: OnceLock::new() }
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
}
