//! Opens the leaves of a pool whose labels may be gone, for reading only.
//!
//! An import refuses a device whose labels name something else, because an import would write to
//! that device. A rescue writes nothing and verifies every block by its checksum, so a wrong device
//! only costs reads that fail.
//! (test: `a_leaf_without_labels_is_read_and_a_missing_one_is_not`)

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use env::{Env, OpenMode, boxed};
use futures::future::join_all;
use ondisk::NvList;
use units::Guid;

use crate::config::parse_root;
use crate::{Leaf, VdevAux, VdevError, VdevState, VdevTree};

impl VdevTree {
    /// Opens the leaves of a configuration at the given paths (by guid), whatever their labels
    /// contain. A leaf is UNAVAIL if it has no path or its device cannot be opened. Nothing can be
    /// written through this tree.
    ///
    /// # Errors
    /// When the configuration is invalid or has vdevs of an unknown kind.
    #[boxed]
    pub async fn open_for_rescue(
        env: Arc<dyn Env>,
        vdev_tree: &NvList,
        paths: &BTreeMap<Guid, PathBuf>,
    ) -> Result<Self, VdevError> {
        let (root, tops) = parse_root(&env, vdev_tree)?;
        let tree = Self::from_parts(env, OpenMode::ReadOnly, root, tops, Arc::default());
        let leaves = tree.leaves();
        join_all(leaves.iter().map(|leaf| open_unasked(&tree, leaf, paths))).await;
        assert_eq!(tree.mode(), OpenMode::ReadOnly, "a rescue writes to no device");
        Ok(tree)
    }
}

/// Opens the device of a leaf without reading its labels.
async fn open_unasked(tree: &VdevTree, leaf: &Leaf, paths: &BTreeMap<Guid, PathBuf>) {
    let was_out = !matches!(leaf.state().0, VdevState::Closed | VdevState::Online);
    let opened = match paths.get(&leaf.guid()) {
        Some(path) => tree.env().open(path, OpenMode::ReadOnly).await.ok().map(|device| (path, device)),
        None => None,
    };
    let Some((path, device)) = opened else {
        leaf.set_state(VdevState::Unavail, VdevAux::OpenFailed);
        return;
    };
    leaf.attach(path, device);
    if was_out {
        // Its DTL is unknown, so reads prefer the other leaves.
        leaf.set_stale(true);
    }
}
