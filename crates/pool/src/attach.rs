//! Devices that come into a vdev of a pool in use: beside one as its mirror, or in the place of one.
//!
//! ```text
//!   refused? ─► opened ─► labels of txg 0 ─► a txg's sync: in the vdev, DTL of all txgs, ─► stable ─► resilver
//!   (kinds)     (size,    (nobody believes    ZAP, configuration, history                    │           │
//!                sectors)  them)                                                             ▼           ▼
//!   └──────── any failure: the vdev is as it was ────────┘                        label of the txg    DTL empty
//!
//!   the power goes before the txg is stable      the vdev is as it was; the new device is nobody's
//!                  after that                    the import finds both, and begins the resilver anew
//!                  after the resilver            a mirror of two; or of a replacement, the new device alone
//! ```
//! What the new device held before is gone with its labels of txg 0, so whose it was is asked before them. These
//! labels are no member's: an import passes over them, and `create` and `add` take the device.
//!
//! From the moment at which the leaf is in the vdev every write goes to it too, those of the txg being synced
//! among them. What was written before, and what was begun before, is of txgs that its DTL has. It is read
//! last until it is whole, and no other leaf is let go of that has what it lacks.
//!
//! *Intent logs.* A scan visits no blocks of logs, and needs not. A log block that was written to the old
//! leaves only holds records of txgs up to the one that was open when the leaf came in. The resilver begins when
//! that one is stable: its header leads past the block then, and the block is freed. Logs that an import claimed,
//! and that were not replayed since, are replayed first; where one cannot be, no leaf becomes whole.
//!
//! A resilver that is under way is begun again, for the new leaf lacks what it has already passed.
//!
//! Invariants
//! - A crash leaves the device in the vdev or not, and nothing that was promised is lost: once the new leaf is whole
//!   it holds everything alone, log blocks too.
//!   (test: `a_power_cut_while_devices_come_and_go_loses_nothing`)
//! - What is refused changes no byte of the pool or of the device.
//!   (test: `devices_are_attached_and_detached_as_openzfs_says`)

use std::path::Path;
use std::sync::Arc;

use dmu::Tx;
use env::{BoxFuture, boxed};
use units::Guid;
use vdev::{Leaf, NewLeaf, NodeKind, Standing, init_label};

use crate::{Pool, PoolError, config};

/// Why a device is not attached, replaced, detached or taken out of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceRefusal {
    /// The pool has no such device.
    #[error("no such device in pool")]
    NoSuchDevice,
    /// Only what is a mirror, or becomes one, takes one more.
    #[error("can only attach to mirrors and top-level disks")]
    NoMirror,
    /// Only of several copies one may go.
    #[error("only applicable to mirror and replacing vdevs")]
    NoCopy,
    /// Something is nowhere else.
    #[error("no valid replicas")]
    NoReplicas,
    /// It is to be done to all devices, and not all are there.
    #[error("one or more devices is currently unavailable")]
    Unavailable,
    /// A hot spare stands in for it, or it does for another.
    #[error("already in replacing/spare config; wait for completion or use 'zpool detach'")]
    SpareAtWork,
}

impl Pool {
    /// Puts a new device beside a leaf, as its mirror or as one more of it, and begins to bring it up to
    /// date. Who calls has made sure that nobody else needs what is on the device.
    ///
    /// # Errors
    /// [`PoolError::Device`]; [`PoolError::Checkpoint`]; when the device cannot be opened, is too small, has larger
    /// sectors, or cannot be written to. The pool is as it was then.
    #[boxed]
    pub async fn attach(self: &Arc<Self>, beside: Guid, new: &NewLeaf) -> Result<(), PoolError> {
        self.put_in(beside, new, NodeKind::Mirror).await
    }

    /// Puts a new device in the place of a leaf, which goes once the new one has everything. The new
    /// device may be where the old one was: the old one is called `PATH/old` then, as in OpenZFS.
    ///
    /// # Errors
    /// As [`Self::attach`].
    #[boxed]
    pub async fn replace(self: &Arc<Self>, old: Guid, new: &NewLeaf) -> Result<(), PoolError> {
        self.put_in(old, new, NodeKind::Replacing).await
    }

    pub(crate) async fn put_in(
        self: &Arc<Self>,
        beside: Guid,
        new: &NewLeaf,
        kind: NodeKind,
    ) -> Result<(), PoolError> {
        self.check_writable()?;
        self.check_no_checkpoint()?;
        self.check_no_evacuation()?;
        let _alone = self.adding.lock().await;
        let standing = self.standing_for(beside, kind)?;
        let new = NewLeaf { create_txg: standing.leaf.config().create_txg, ..new.clone() };
        let leaf = self.vdevs.plan_leaf(standing.leaf.vdev(), &new).await?;
        let top = self.vdevs.top(leaf.vdev())?;
        let label = self.config.lock().at(self.gate.open_txg());
        init_label(&self.vdevs, &top, &leaf, &label).await?;
        let joined = Arc::clone(&leaf);
        self.in_sync(move |pool, tx| async move { pool.join_leaf(&tx, beside, &leaf, kind).await }).await?;
        self.tell_done(if kind == NodeKind::Spare { "vdev_spare" } else { "vdev_attach" }, Some(&joined));
        if let Err(error) = self.begin_resilver().await {
            // It is in the vdev. The next import brings it up to date.
            tracing::warn!(%error, "a new device is not brought up to date");
        }
        Ok(())
    }

    /// [`Self::resilver`], as a future that is small for whoever waits.
    pub(crate) fn begin_resilver(self: &Arc<Self>) -> BoxFuture<'_, Result<(), PoolError>> {
        Box::pin(self.resilver())
    }

    /// Where a leaf stands, if a new one may be put beside it.
    fn standing_for(&self, beside: Guid, kind: NodeKind) -> Result<Standing, PoolError> {
        let standing = self.standing(beside)?;
        match (kind, standing.parent) {
            (NodeKind::Mirror, None | Some(NodeKind::Mirror)) => Ok(standing),
            (NodeKind::Mirror, Some(_)) => Err(DeviceRefusal::NoMirror.into()),
            (NodeKind::Spare, Some(NodeKind::Replacing)) => Err(DeviceRefusal::SpareAtWork.into()),
            // A new device takes the place of one that a spare stands in for; the spare goes when it is whole.
            (NodeKind::Replacing, Some(NodeKind::Spare)) if !standing.leaf.config().is_spare => Ok(standing),
            (_, Some(NodeKind::Spare)) => Err(DeviceRefusal::SpareAtWork.into()),
            _ => Ok(standing),
        }
    }

    pub(crate) fn standing(&self, leaf: Guid) -> Result<Standing, PoolError> {
        self.vdevs.standing(leaf).map_err(|_| DeviceRefusal::NoSuchDevice.into())
    }

    async fn join_leaf(
        self: &Arc<Self>,
        tx: &Tx,
        beside: Guid,
        new: &Arc<Leaf>,
        kind: NodeKind,
    ) -> Result<(), PoolError> {
        self.check_no_checkpoint()?;
        self.check_no_evacuation()?;
        let old = self.standing_for(beside, kind)?.leaf;
        // From here on it is whole or never stable: the leaf is written to.
        tx.note_change();
        make_way(&old, &new.path());
        let is_stood_in_for = self.standing_for(beside, kind)?.parent == Some(NodeKind::Spare);
        new.set_config(|config| (config.resilver_txg, config.unspare) = (tx.txg().get(), is_stood_in_for));
        self.vdevs.put_beside(beside, new, kind, || self.gate.open_txg())?;
        config::make_vdev_zaps(&self.dsl, tx, &self.vdevs).await?;
        self.note_event(tx, "vdev attach", None, &attached(kind, &new.path(), &old.path())).await?;
        self.store_config(tx).await
    }
}

/// What is behind a leaf's name for a device whose place a new one has taken.
const OLD: &str = "old";

/// Gives an old leaf another name if the new one has its name: nothing is opened there.
fn make_way(old: &Leaf, new: &Path) {
    if old.path() == new {
        old.set_config(|config| {
            config.path.push(OLD);
            config.other_names[0] = None;
        });
    }
}

/// Gives the old name back to a leaf whose replacement is taken out.
pub(crate) fn come_back(standing: &Standing) {
    let name = standing.leaf.path().join(OLD);
    for old in standing.siblings().filter(|old| old.path() == name) {
        old.set_config(|config| config.path = standing.leaf.path());
    }
}

/// What the history says.
fn attached(kind: NodeKind, new: &Path, old: &Path) -> String {
    let (verb, preposition) = match kind {
        NodeKind::Mirror => ("attach", "to"),
        NodeKind::Spare => ("spare in", "for"),
        _ => ("replace", "for"),
    };
    format!("{verb} vdev={} {preposition} vdev={}", new.display(), old.display())
}
