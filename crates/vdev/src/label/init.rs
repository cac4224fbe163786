//! First labels of a leaf that is about to join a pool.

use std::sync::Arc;

use env::{BufSlice, Durability, IoBuf, boxed};
use futures::future::join_all;
use ondisk::NvList;
use ondisk::label::{
    BOOT_ENV_OFFSET, CONFIG_BYTES, CONFIG_OFFSET, LABELS, UBERBLOCK_RING_BYTES, UBERBLOCK_RING_OFFSET,
    VdevPhys, empty_boot_env, label_verifier,
};
use units::{Ashift, Guid, LeafOffset, Txg};

use crate::config::key;
use crate::label::read::part_offset;
use crate::label::{LeafLabels, seal_part};
use crate::{Leaf, PoolConfig, PoolState, Top, VdevError, VdevTree};

/// Writes labels of txg 0 to all leaves of a new vdev, and wipes what an earlier owner left in
/// their rings. A crash before the next sync leaves devices that say they are not in use yet.
///
/// # Errors
/// The first leaf's that cannot be written: a vdev must not start with a bad leaf.
#[boxed]
pub async fn init_labels(tree: &VdevTree, top: &Top, pool: &PoolConfig) -> Result<(), VdevError> {
    for leaf in top.leaves() {
        init_label(tree, top, leaf, pool).await?;
    }
    Ok(())
}

/// The same for one leaf that is about to join a vdev.
///
/// # Errors
/// Those of the device.
#[boxed]
pub async fn init_label(tree: &VdevTree, top: &Top, leaf: &Leaf, pool: &PoolConfig) -> Result<(), VdevError> {
    let pool = PoolConfig { txg: Txg::ZERO, ..pool.clone() };
    let mut config = pool.label(tree, top, leaf);
    config.add_u64(key::CREATE_TXG, top.config().create_txg);
    init_leaf(leaf, &config).await
}

/// Writes labels of txg 0 to a leaf that has been taken out of the pool, and wipes its rings: the device
/// is not looked for any more, and free for another use. As OpenZFS does, the names stay for people to read.
/// A hot spare that was at work is a spare again, of no one pool.
///
/// # Errors
/// Those of the device, which is then still taken for part of a pool that has no such leaf.
#[boxed]
pub async fn retire_label(pool_guid: Guid, leaf: &Arc<Leaf>, pool: &PoolConfig) -> Result<(), VdevError> {
    let pool = PoolConfig { txg: Txg::ZERO, ..pool.clone() };
    let label = match leaf.config().is_spare {
        true => auxiliary_label(pool.version, leaf, Waiting::Spare),
        false => pool.label_of_none(pool_guid, leaf),
    };
    init_leaf(leaf, &label).await
}

/// A device that is in no vdev.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiting {
    /// A hot spare.
    Spare,
    /// A cache device, with sectors of this size.
    Cache(Ashift),
}

/// What the label of a hot spare that waits says, or that of a cache device.
fn auxiliary_label(version: u64, leaf: &Leaf, what: Waiting) -> NvList {
    let mut label = NvList::new();
    label.add_u64(key::VERSION, version);
    match what {
        Waiting::Spare => label.add_u64(key::POOL_STATE, PoolState::Spare as u64),
        Waiting::Cache(ashift) => label
            .add_u64(key::POOL_STATE, PoolState::L2Cache as u64)
            .add_u64(key::ASHIFT, u64::from(ashift.get())),
    };
    label.add_u64(key::GUID, leaf.guid().get()).add_str(key::PATH, leaf.path().to_string_lossy());
    label
}

/// Writes the labels of a hot spare or a cache device.
///
/// # Errors
/// Those of the device.
pub(crate) async fn init_auxiliary(leaf: &Leaf, version: u64, what: Waiting) -> Result<(), VdevError> {
    init_leaf(leaf, &auxiliary_label(version, leaf, what)).await
}

/// The guid that the labels of a hot spare have; `None` for another device.
pub(crate) async fn shared_spare(leaf: &Leaf) -> Option<Guid> {
    let labels = LeafLabels::read(&leaf.device()?).await;
    let label = labels.config(None)?;
    let is_spare = label.get_u64(key::POOL_STATE) == Some(PoolState::Spare as u64);
    label.get_u64(key::GUID).filter(|_| is_spare).map(Guid::new)
}

async fn init_leaf(leaf: &Leaf, config: &NvList) -> Result<(), VdevError> {
    let ring = Arc::new(IoBuf::zeroed(usize::try_from(UBERBLOCK_RING_BYTES).unwrap_or(usize::MAX)));
    let mut parts = Vec::new();
    for label in 0..LABELS {
        let Some(boot_at) = part_offset(leaf.psize(), label, BOOT_ENV_OFFSET) else { continue };
        let mut boot = empty_boot_env(label_verifier(boot_at));
        seal_part(&mut boot, label_verifier(boot_at));
        parts.push((boot_at, BufSlice::from(IoBuf::copy_of(&boot))));
        if let Some(ring_at) = part_offset(leaf.psize(), label, UBERBLOCK_RING_OFFSET) {
            parts.push((ring_at, BufSlice::from(ring.clone())));
        }
        parts.extend(config_part(leaf, label, config)?);
    }
    let writes = parts.into_iter().map(|(at, slice)| leaf.write(at, vec![slice], Durability::Cached));
    join_all(writes).await.into_iter().collect::<Result<(), _>>()?;
    leaf.flush().await?;
    check_written(leaf, config).await
}

/// Labels are what finds the pool again: what was written of them has to come back.
async fn check_written(leaf: &Leaf, config: &NvList) -> Result<(), VdevError> {
    let Some(device) = leaf.device() else { return Ok(()) };
    let found = LeafLabels::read(&device).await;
    match found.configs.iter().all(|label| label.as_ref() == Some(config)) {
        true => Ok(()),
        false => Err(VdevError::LabelsLost { vdev: leaf.vdev(), txg: Txg::ZERO }),
    }
}

/// The configuration part of one label, and where it goes; nothing for a leaf without labels.
pub(super) fn config_part(
    leaf: &Leaf,
    label: usize,
    config: &NvList,
) -> Result<Option<(LeafOffset, BufSlice)>, VdevError> {
    let Some(at) = part_offset(leaf.psize(), label, CONFIG_OFFSET) else { return Ok(None) };
    let verifier = label_verifier(at);
    let mut part = VdevPhys::encode(config, verifier)
        .map_err(|_| VdevError::LabelTooLarge { len: config.encode().len() })?;
    assert_eq!(part.len(), CONFIG_BYTES);
    seal_part(&mut part, verifier);
    Ok(Some((at, BufSlice::from(IoBuf::copy_of(&part)))))
}
