//! Heartbeats: uberblocks that say nothing new but that somebody has the pool open (`multihost=on`).
//!
//! They lie in the last slot of the ring ([`MMP_SLOTS`]), which uberblocks of txgs leave free while `multihost` is on. A
//! heartbeat is stable when it counts, for what only this host's memory has is seen by no other.

use std::sync::Arc;

use env::{BufSlice, Durability, boxed};
use futures::future::join_all;
use ondisk::UberblockPhys;
use ondisk::label::{LABELS, MMP_SLOTS, uberblock_slots};
use units::{Ashift, LeafOffset};

use crate::label::sync::{labelled_leaves, parts_in_all_labels, uberblock_part, write_parts};
use crate::whole_disk::vdev_in_time;
use crate::{Leaf, LeafLabels, NodeKind, PoolConfig, PoolState, Top, VdevError, VdevTree};

/// Who wrote the uberblock that counts, as far as devices tell.
#[derive(Clone, Debug)]
pub struct Newest {
    /// It.
    pub uberblock: UberblockPhys,
    /// The pool as the label beside it has it.
    pub pool: Option<PoolConfig>,
}

impl VdevTree {
    /// The leaves that heartbeats go to: those that have the pool's labels.
    #[must_use]
    pub fn heartbeat_leaves(&self) -> Vec<Arc<Leaf>> {
        let tops = self.tops_with_devices();
        tops.iter().flat_map(|top| labelled_leaves(top, PoolState::Active)).collect()
    }

    /// Writes a heartbeat into one label of a leaf, with the bytes of `uberblock`, which no later
    /// txg has replaced. If the last write to `label` failed, the heartbeat goes to the next label
    /// whose last write did not fail. A heartbeat is a stable write, and after a failed stable
    /// write nothing in the leaf's cache can be trusted.
    ///
    /// # Errors
    /// Those of the device; its health stays as it is.
    #[boxed]
    pub async fn beat(&self, leaf: &Leaf, label: usize, uberblock: &UberblockPhys) -> Result<(), VdevError> {
        let ashift = self.top(leaf.vdev())?.ashift();
        let in_turn = (0..LABELS).map(|n| (label + n) % LABELS);
        let label = in_turn.into_iter().find(|label| leaf.may_write_label(*label)).unwrap_or(label);
        let (at, slice) = part(leaf, ashift, label, uberblock).ok_or_else(|| {
            let (vdev, guid, path) = (leaf.vdev(), leaf.guid(), leaf.path());
            VdevError::LeafUnavailable { vdev, guid, path, state: leaf.state().0 }
        })?;
        leaf.write(at, vec![slice], Durability::Stable).await
    }

    /// Writes a heartbeat into the labels of every leaf of the data vdevs. A host that has the pool
    /// open, or is about to open it, then sees the heartbeat even if the two hosts do not reach the
    /// same leaves.
    ///
    /// # Errors
    /// When too few leaves accepted the write.
    #[boxed]
    pub async fn beat_everywhere(&self, uberblock: &UberblockPhys) -> Result<(), VdevError> {
        let tops = self.tops_with_devices().into_iter().filter(|top| !top.is_log());
        for top in tops {
            // Not those whose labels are old on purpose: the newest uberblock would say that they miss nothing.
            let leaves = labelled_leaves(&top, PoolState::Active);
            let slot = heartbeat_slot(top.ashift());
            let parts = |leaf| slot.map(|slot| parts_in_all_labels(leaf, top.ashift(), slot, uberblock));
            let writes = leaves.iter().map(|leaf| write_parts(leaf, parts(leaf).unwrap_or_default()));
            let results = join_all(writes).await;
            if leaves.len() < needed(&top) || results.iter().any(Result::is_err) {
                return Err(VdevError::UberblockLost { txg: uberblock.txg() });
            }
        }
        Ok(())
    }

    /// Reads from all devices in use which uberblock counts now, and whose it is.
    #[boxed]
    pub async fn newest(&self) -> Option<Newest> {
        let devices = self.leaves().into_iter().filter_map(|leaf| leaf.device());
        let read = join_all(devices.map(|device| vdev_in_time(self.env(), device))).await;
        let labels: Vec<LeafLabels> = read.into_iter().flatten().map(|(_, labels)| labels).collect();
        let ranked = labels.iter().filter_map(|labels| Some((labels.uberblock(None)?, labels)));
        let (uberblock, _) = ranked.max_by_key(|(uberblock, _)| uberblock.rank())?;
        // The label that fits it best, wherever it is: vdevs have their labels written at different times.
        let configs = labels.iter().filter_map(|labels| labels.config(Some(uberblock.txg())));
        let config = configs.max_by_key(|config| config.get_u64(crate::config::key::POOL_TXG));
        let pool = config.and_then(|config| PoolConfig::from_nvlist(config).ok());
        Some(Newest { uberblock: *uberblock, pool })
    }
}

/// How many leaves of a vdev have to be there: of a raidz so many that another host which reaches enough of the others to open
/// the vdev sees one of them. Of a mirror one is enough to open it, and no number would do but all.
fn needed(top: &Top) -> usize {
    match top.kind() {
        NodeKind::Raidz { parity } => (usize::from(parity) + 1).min(top.leaves().len()),
        NodeKind::Draid(shape) => (shape.parity() + 1).min(top.leaves().len()),
        _ => 1,
    }
}

fn part(
    leaf: &Leaf,
    ashift: Ashift,
    label: usize,
    uberblock: &UberblockPhys,
) -> Option<(LeafOffset, BufSlice)> {
    uberblock_part(leaf, ashift, label % LABELS, heartbeat_slot(ashift)?, uberblock)
}

/// The slot of the uberblock ring that is reserved for heartbeats.
fn heartbeat_slot(ashift: Ashift) -> Option<u64> {
    uberblock_slots(ashift).checked_sub(MMP_SLOTS)
}
