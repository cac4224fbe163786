//! Finds the states of a pool that its devices still lead to.
//!
//! Every txg writes an uberblock into one slot of each label's ring. An old uberblock leads to an
//! old state, of which everything exists that was not overwritten since. All slots of all four
//! labels of all devices are read. The configuration beside the ring is not needed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Env, OpenMode};
use ondisk::{Blkptr, UberblockPhys};
use vdev::LeafLabels;

use crate::RescueError;

/// A root from which a pool can be read.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundState {
    /// The txg that wrote the root.
    pub txg: u64,
    /// The time of the txg, in seconds since 1970. Unknown for a root that a scan found.
    pub written_secs: Option<u64>,
    /// The pointer to the meta-objset.
    pub root: Blkptr,
    /// The number of copies of the uberblock. 0 for a root that a scan found.
    pub copies: usize,
}

impl FoundState {
    fn of(uberblock: &UberblockPhys) -> Self {
        Self {
            txg: uberblock.txg.get(),
            written_secs: Some(uberblock.timestamp.get()),
            root: uberblock.rootbp,
            copies: 1,
        }
    }
}

/// The labels of one device.
#[derive(Clone, Debug)]
pub struct DeviceLabels {
    /// The path of the device.
    pub path: PathBuf,
    /// The size of the device.
    pub size_bytes: u64,
    /// True for a block device.
    pub is_block_device: bool,
    /// The labels.
    pub labels: LeafLabels,
}

/// Reads the labels of devices, as far as they are readable.
///
/// # Errors
/// [`RescueError::Open`].
pub async fn read_labels(env: &Arc<dyn Env>, paths: &[PathBuf]) -> Result<Vec<DeviceLabels>, RescueError> {
    let mut found = Vec::new();
    for path in paths {
        found.push(labels_of(env, path).await?);
    }
    Ok(found)
}

async fn labels_of(env: &Arc<dyn Env>, path: &Path) -> Result<DeviceLabels, RescueError> {
    let opened = env.open(path, OpenMode::ReadOnly).await;
    let device = opened.map_err(|source| RescueError::Open { path: path.to_owned(), source })?;
    let (info, labels) = (device.info(), LeafLabels::read(&device).await);
    Ok(DeviceLabels {
        path: path.to_owned(),
        size_bytes: info.size_bytes,
        is_block_device: info.is_block_device,
        labels,
    })
}

/// Returns the states that uberblocks lead to, newest first. Copies of one uberblock count as one
/// state.
#[must_use]
pub fn states_of(devices: &[DeviceLabels]) -> Vec<FoundState> {
    let mut uberblocks: Vec<&UberblockPhys> =
        devices.iter().flat_map(|device| &device.labels.uberblocks).map(|found| &found.uberblock).collect();
    uberblocks.sort_by_key(|uberblock| std::cmp::Reverse(uberblock.rank()));
    let mut states: Vec<FoundState> = Vec::new();
    for uberblock in uberblocks.into_iter().filter(|uberblock| !uberblock.rootbp.is_hole()) {
        let known = states.iter_mut().find(|s| s.txg == uberblock.txg.get() && s.root == uberblock.rootbp);
        match known {
            Some(state) => state.copies += 1,
            None => states.push(FoundState::of(uberblock)),
        }
    }
    states
}

/// Reads the labels of these devices and returns the states of their uberblocks, newest first.
///
/// # Errors
/// [`RescueError::Open`].
pub async fn find_states(env: &Arc<dyn Env>, paths: &[PathBuf]) -> Result<Vec<FoundState>, RescueError> {
    Ok(states_of(&read_labels(env, paths).await?))
}
