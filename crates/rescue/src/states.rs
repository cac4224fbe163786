//! The states of a pool that its devices still lead to.
//!
//! Every txg writes an uberblock into one slot of each label's ring. An old one leads to an old
//! state, of which all is there that was not written over since. All slots of all four labels of
//! all devices are looked at; the configuration beside the ring is not needed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Env, OpenMode};
use ondisk::{Blkptr, UberblockPhys};
use vdev::LeafLabels;

use crate::RescueError;

/// A root to read a pool from.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundState {
    /// The txg that wrote it.
    pub txg: u64,
    /// When, in seconds since 1970; unknown of a root that was found by its content.
    pub written_secs: Option<u64>,
    /// Leads to the meta-objset.
    pub root: Blkptr,
    /// How many copies of the uberblock there are; 0 of a root that was found by its content.
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

/// What the labels of one device hold.
#[derive(Clone, Debug)]
pub struct DeviceLabels {
    /// The device.
    pub path: PathBuf,
    /// Its size.
    pub size_bytes: u64,
    /// Whether it is a block device.
    pub is_block_device: bool,
    /// What its labels say.
    pub labels: LeafLabels,
}

/// Reads the labels of devices, as far as they can be read.
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

/// The states that uberblocks lead to, the newest first. Copies of one uberblock are one state.
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

/// The states that the uberblocks on these devices lead to, the newest first.
///
/// # Errors
/// [`RescueError::Open`].
pub async fn find_states(env: &Arc<dyn Env>, paths: &[PathBuf]) -> Result<Vec<FoundState>, RescueError> {
    Ok(states_of(&read_labels(env, paths).await?))
}
