//! Pools that other processes of the daemon hold, and what of this process they have to know.
//!
//! A daemon that holds all pools itself has no siblings. (test of `cli`: `two_pools_of_one_name_are_not_open_at_once`)

use std::path::Path;
use std::sync::Arc;

use control::Holdings;
use parking_lot::RwLock;
use vdev::Leaf;

use crate::{Held, Holder};

/// What the pools of other processes hold, as the daemon has said last.
#[derive(Default)]
pub struct Siblings(RwLock<Vec<Holdings>>);

impl Siblings {
    /// Sets them.
    pub fn set(&self, siblings: Vec<Holdings>) {
        *self.0.write() = siblings;
    }

    /// True if a pool has this name.
    pub fn has_name(&self, name: &str) -> bool {
        self.0.read().iter().any(|sibling| sibling.pool == name)
    }

    /// Returns the name of the pool with this guid.
    pub fn name_of(&self, guid: u64) -> Option<String> {
        self.0.read().iter().find(|sibling| sibling.guid == guid).map(|sibling| sibling.pool.clone())
    }

    /// Returns the guids of all.
    pub fn guids(&self) -> Vec<u64> {
        self.0.read().iter().map(|sibling| sibling.guid).collect()
    }

    /// Returns the name of the pool that has a device for which this is true.
    pub fn holder(&self, is_it: impl Fn(&Path) -> bool) -> Option<String> {
        self.find(|sibling| sibling.devices.iter().any(|path| is_it(Path::new(path))))
    }

    /// Returns the name of the pool that has a hot spare for which this is true.
    pub fn lister(&self, is_it: impl Fn(&Path) -> bool) -> Option<String> {
        self.find(|sibling| sibling.spares.iter().any(|path| is_it(Path::new(path))))
    }

    fn find(&self, is_meant: impl Fn(&Holdings) -> bool) -> Option<String> {
        self.0.read().iter().find(|sibling| is_meant(sibling)).map(|sibling| sibling.pool.clone())
    }
}

impl Holder {
    /// Lists what the open pools hold.
    pub(super) fn holdings(&self) -> Vec<Holdings> {
        self.all().iter().map(|held| holdings_of(held)).collect()
    }
}

/// Returns true if a device is the pool's: the device is in use, or a command has taken the device
/// out of use. A path at which the pool has not found its device may lead to a device of another
/// pool.
pub fn has(leaf: &Leaf) -> bool {
    leaf.device().is_some() || leaf.is_declared_out()
}

fn holdings_of(held: &Held) -> Holdings {
    let leaves = held.pool.vdevs().leaves().into_iter().chain(held.pool.cache_leaves());
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let (devices, absent): (Vec<_>, Vec<_>) = leaves.partition(|leaf| has(leaf));
    let paths = |leaves: Vec<Arc<Leaf>>| leaves.iter().map(|leaf| text(&leaf.path())).collect();
    Holdings {
        pool: held.pool.name(),
        guid: held.pool.guid().get(),
        devices: paths(devices),
        absent: paths(absent),
        spares: held.pool.spares().iter().map(|spare| text(&spare.path)).collect(),
    }
}
