//! The crash-safe order of labels around uberblocks.

use std::collections::BTreeSet;
use std::sync::Arc;

use env::{BufSlice, Durability, IoBuf, boxed};
use futures::future::{join, join_all};
use ondisk::UberblockPhys;
use ondisk::label::{LABELS, label_verifier, uberblock_slot_bytes, uberblock_slot_offset};
use units::{Ashift, LeafOffset, VdevId};

use crate::label::init::config_part;
use crate::label::read::part_offset;
use crate::label::seal_part;
use crate::{Leaf, PoolConfig, PoolState, Top, VdevError, VdevTree};

/// Vdevs that get the uberblock of a txg that changed no configuration.
const UBERBLOCK_TOPS: usize = 3;

/// What makes a txg stable.
#[derive(Clone, Copy, Debug)]
pub struct LabelSync<'a> {
    /// The txg's uberblock.
    pub uberblock: &'a UberblockPhys,
    /// What labels say of the pool.
    pub pool: &'a PoolConfig,
    /// Vdevs whose labels must change; see [`VdevTree::take_changed`].
    pub dirty: &'a BTreeSet<VdevId>,
    /// Vdevs with writes that have not been flushed.
    pub written: &'a BTreeSet<VdevId>,
    /// Whether the last slot of each ring is kept for heartbeats.
    pub multihost: bool,
}

/// Which labels of a leaf.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Even,
    Odd,
}

impl VdevTree {
    /// Flushes a txg's data and makes its uberblock stable, in the order that [`crate::label`]
    /// explains. May be called again after an error, with the same arguments.
    ///
    /// # Errors
    /// When data could not be flushed, the labels of a data vdev or the uberblock are stable
    /// nowhere. The txg has not happened then, or only perhaps after [`VdevError::UberblockLost`]
    /// and errors in the odd labels.
    #[boxed]
    pub async fn sync_labels(&self, sync: &LabelSync<'_>) -> Result<(), VdevError> {
        // Before any device has the uberblock, so that a device that returns with it is recognised
        // as part of this pool.
        self.add_to_past(sync.uberblock);
        self.flush_written(sync).await?;
        // Who failed just now has labels older than its siblings' from this very txg on.
        let dirty = sync.dirty.union(&self.changed()).copied().collect::<BTreeSet<_>>();
        let dirty: Vec<_> = dirty.iter().filter_map(|id| self.top(*id).ok()).collect();
        self.write_configs(sync, &dirty, Half::Even).await?;
        let targets = if dirty.is_empty() { self.uberblock_targets(sync) } else { self.tops_with_devices() };
        write_uberblocks(sync, &targets).await?;
        self.write_configs(sync, &dirty, Half::Odd).await
    }

    /// Step 1. A log vdev may fail: what the txg needs is not there, and a commit that does need it
    /// flushes for itself, and finds it out of use.
    async fn flush_written(&self, sync: &LabelSync<'_>) -> Result<(), VdevError> {
        let (logs, data): (Vec<_>, Vec<_>) =
            sync.written.iter().filter_map(|id| self.top(*id).ok()).partition(|top| top.is_log());
        let ids = |tops: Vec<Arc<Top>>| tops.into_iter().map(|top| top.id());
        let (of_logs, of_data) = join(self.flush(ids(logs)), self.flush(ids(data))).await;
        if let Err(error) = of_logs {
            tracing::warn!(%error, "log vdev not flushed");
        }
        of_data
    }

    /// A few data vdevs, others each txg.
    fn uberblock_targets(&self, sync: &LabelSync<'_>) -> Vec<Arc<Top>> {
        let tops = self.tops_with_devices().into_iter();
        let mut data: Vec<_> = tops.filter(|top| !top.is_log() && top.state().0.is_usable()).collect();
        if !data.is_empty() {
            let turn = usize::try_from(sync.uberblock.txg().get() % data.len() as u64).unwrap_or(0);
            data.rotate_left(turn);
        }
        data.truncate(UBERBLOCK_TOPS);
        data
    }

    async fn write_configs(
        &self,
        sync: &LabelSync<'_>,
        dirty: &[Arc<Top>],
        half: Half,
    ) -> Result<(), VdevError> {
        let vdevs = dirty.iter().map(|top| self.write_config(sync, top, half));
        join_all(vdevs).await.into_iter().collect()
    }

    /// Writes one half of the labels of a vdev's leaves. A log vdev may fail: the pool can be
    /// found without it.
    async fn write_config(&self, sync: &LabelSync<'_>, top: &Top, half: Half) -> Result<(), VdevError> {
        let leaves = labelled_leaves(top, sync.pool.state);
        let mut jobs = Vec::with_capacity(leaves.len());
        for leaf in &leaves {
            let config = sync.pool.label(self, top, leaf);
            let mut parts = Vec::new();
            for label in half.labels() {
                let part = config_part(leaf, label, &config)?;
                parts.extend(part.map(|(at, slice)| LabelPart { label, at, slice }));
            }
            jobs.push(write_parts(leaf, parts));
        }
        let results = join_all(jobs).await;
        if settle(top, &leaves, results) || top.is_log() {
            return Ok(());
        }
        Err(VdevError::LabelsLost { vdev: top.id(), txg: sync.uberblock.txg() })
    }
}

impl Half {
    fn labels(self) -> impl Iterator<Item = usize> {
        let first = if self == Self::Even { 0 } else { 1 };
        (first..LABELS).step_by(2)
    }
}

/// Writes the uberblock to all labels of all leaves of `tops`, and flushes. One data vdev where it
/// is stable is enough.
async fn write_uberblocks(sync: &LabelSync<'_>, tops: &[Arc<Top>]) -> Result<(), VdevError> {
    let jobs = tops.iter().map(|top| async move {
        let leaves = labelled_leaves(top, sync.pool.state);
        let parts = leaves.iter().map(|leaf| write_parts(leaf, uberblock_parts(sync, top, leaf)));
        let results = join_all(parts).await;
        settle(top, &leaves, results) && !top.is_log()
    });
    let is_stable = join_all(jobs).await.contains(&true);
    if is_stable { Ok(()) } else { Err(VdevError::UberblockLost { txg: sync.uberblock.txg() }) }
}

fn uberblock_parts(sync: &LabelSync<'_>, top: &Top, leaf: &Leaf) -> Vec<LabelPart> {
    let ashift: Ashift = top.ashift();
    let slot = UberblockPhys::slot_of(sync.uberblock.txg(), ashift, sync.multihost);
    let slot = slot.expect("a vdev's ashift is in range");
    parts_in_all_labels(leaf, ashift, slot, sync.uberblock)
}

/// The writes that put an uberblock into its slot of each label of a leaf.
pub(super) fn parts_in_all_labels(
    leaf: &Leaf,
    ashift: Ashift,
    slot: u64,
    uberblock: &UberblockPhys,
) -> Vec<LabelPart> {
    let part = |label| {
        let (at, slice) = uberblock_part(leaf, ashift, label, slot, uberblock)?;
        Some(LabelPart { label, at, slice })
    };
    (0..LABELS).filter_map(part).collect()
}

/// An uberblock as it lies in a slot of a label, and where that is on the leaf.
pub(super) fn uberblock_part(
    leaf: &Leaf,
    ashift: Ashift,
    label: usize,
    slot: u64,
    uberblock: &UberblockPhys,
) -> Option<(LeafOffset, BufSlice)> {
    let at = part_offset(leaf.psize(), label, uberblock_slot_offset(ashift, slot))?;
    let verifier = label_verifier(at);
    let slot_len = usize::try_from(uberblock_slot_bytes(ashift)).expect("a slot is at most 8 KiB");
    let mut slot = uberblock.encode_slot(slot_len, verifier);
    seal_part(&mut slot, verifier);
    Some((at, BufSlice::from(IoBuf::copy_of(&slot))))
}

/// The leaves that get labels and uberblocks. One that missed writes of which the configuration
/// says nothing keeps what it has, so that the next import finds its label older than the others',
/// unless the vdev cannot do without it, or the pool is to be found on no device any more.
pub(super) fn labelled_leaves(top: &Top, state: PoolState) -> Vec<Arc<Leaf>> {
    let is_left_out = |leaf: &Leaf| !leaf.may_have_labels();
    let all = state == PoolState::Destroyed || !top.survives(is_left_out);
    let leaves = top.leaves().iter().filter(|leaf| leaf.is_usable() && (all || leaf.may_have_labels()));
    leaves.cloned().collect()
}

/// A part of a label and its offset on the device.
pub(super) struct LabelPart {
    label: usize,
    at: LeafOffset,
    slice: BufSlice,
}

/// Writes the same part of several labels of one leaf at once, then flushes the leaf. One
/// successful write is enough, because a reader uses the best label of the leaf. A label whose
/// write fails keeps its old content or does not verify.
pub(super) async fn write_parts(leaf: &Leaf, parts: Vec<LabelPart>) -> Result<(), VdevError> {
    let writes = parts.into_iter().map(|LabelPart { label, at, slice }| async move {
        let result = leaf.write(at, vec![slice], Durability::Cached).await;
        leaf.note_label(label, result.is_ok());
        result
    });
    let results = join_all(writes).await;
    let is_any_written = results.iter().any(Result::is_ok);
    match results.into_iter().find_map(Result::err) {
        Some(error) if !is_any_written => return Err(error),
        Some(error) => tracing::warn!(guid = leaf.guid().get(), %error, "a label was not written"),
        None if !is_any_written => {
            let (vdev, guid, path) = (leaf.vdev(), leaf.guid(), leaf.path());
            return Err(VdevError::LeafUnavailable { vdev, guid, path, state: leaf.state().0 });
        }
        None => {}
    }
    leaf.flush().await
}

/// Whether a vdev can do without the leaves that failed; see [`Top::settle`].
fn settle(top: &Top, leaves: &[Arc<Leaf>], results: Vec<Result<(), VdevError>>) -> bool {
    for (leaf, error) in leaves.iter().zip(&results).filter_map(|(l, r)| Some((l, r.as_ref().err()?))) {
        tracing::warn!(guid = leaf.guid().get(), %error, "label not written");
    }
    top.settle(leaves, results).is_ok()
}
