//! Which vdevs can be emptied into the rest of their pool. The order of the questions is OpenZFS's, for it decides what people
//! are told.

use std::sync::Arc;

use dsl::features::DEVICE_REMOVAL;
use metaslab::Class;
use units::VdevId;
use vdev::{Bias, Node, NodeKind, Top};

use crate::{Pool, PoolError, RemovalRefusal};

impl Pool {
    /// Refuses to empty a vdev that has to stay, or now is not the time.
    pub(super) async fn admit_evacuation(&self, top: &Top) -> Result<(), PoolError> {
        if self.dsl.feature_count(&DEVICE_REMOVAL).await?.is_none() {
            return Err(RemovalRefusal::Unsupported.into());
        }
        if top.config().leaving.is_some() {
            return Err(RemovalRefusal::Leaving.into());
        }
        self.check_room_beside(top).await?;
        if self.evacuation.is_under_way() || !top.is_whole() {
            return Err(RemovalRefusal::Busy.into());
        }
        if !top.is_usable() {
            return Err(RemovalRefusal::Unreadable.into());
        }
        Ok(self.check_layout(top)?)
    }

    /// What is on the vdev has to fit on the others, and datasets must not be left with less than they have.
    async fn check_room_beside(&self, top: &Top) -> Result<(), PoolError> {
        let root = self.dsl.resolve(&self.name()).await?;
        let room = self.dsl.head_room(&root).await?.of_pool(&self.space.pool_space());
        let (own, others) = self.zio.with_allocator(|allocator| {
            let own = allocator.vdev_space(top.id()).unwrap_or_default();
            let takers: Vec<VdevId> = allocator.takers(Class::Normal).filter(|id| *id != top.id()).collect();
            let free = |id| allocator.vdev_space(id).map_or(0, |space| space.free.get());
            (own, takers.into_iter().map(free).sum::<u64>())
        });
        let is_counted = top.config().bias == Bias::None;
        if others < own.allocated.get() || (is_counted && room < own.capacity.get()) {
            return Err(RemovalRefusal::NoRoom.into());
        }
        Ok(())
    }

    /// Copying knows nothing of blocks: what takes a run must lay it out as what had it.
    fn check_layout(&self, top: &Top) -> Result<(), RemovalRefusal> {
        let others = self.vdevs.tops_with_devices();
        let counts = |other: &&Arc<Top>| [Bias::None, top.config().bias].contains(&other.config().bias);
        let has_same_sectors = others.iter().filter(counts).all(|other| other.ashift() == top.ashift());
        let is_last = || {
            let mut takers = others.iter().filter(|other| other.config().bias == Bias::None);
            !takers.any(|other| other.id() != top.id())
        };
        if !has_same_sectors || !others.iter().all(|other| is_plain(other)) || is_last() {
            return Err(RemovalRefusal::Layout);
        }
        Ok(())
    }

    /// Refuses to add vdevs to which what is on others could not be copied, while one is copied or was.
    pub(crate) fn check_beside_removed(&self, tops: &[Arc<Top>]) -> Result<(), RemovalRefusal> {
        let is_under_way = self.evacuation.is_under_way();
        if !is_under_way && self.vdevs.removed_tops().is_empty() {
            return Ok(());
        }
        let sectors = self.vdevs.min_ashift();
        let fits = |top: &Arc<Top>| is_plain(top) && (!is_under_way || top.ashift() == sectors);
        if tops.iter().all(fits) { Ok(()) } else { Err(RemovalRefusal::Raidz) }
    }
}

/// A device, or a mirror of devices.
fn is_plain(top: &Top) -> bool {
    let is_leaf = |node: &Node| node.kind() == NodeKind::Leaf;
    match top.kind() {
        NodeKind::Leaf => true,
        NodeKind::Mirror => top.node().children().iter().all(is_leaf),
        _ => false,
    }
}
