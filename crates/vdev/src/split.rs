//! One leaf of each mirror leaves for a pool of its own.
//!
//! ```text
//!   this pool                                  the other
//!   mirror-0: a b   b leaves                   0  b       with the vdev's sizes and objects
//!   mirror-1: c d   c leaves       ──►         1  c
//!   2         l     a log stays                2  hole    (none at the end)
//!   indirect-3                                 3  indirect-3
//! ```
//! The leaves keep their guids, and are top-level vdevs of the other pool under them; numbers are the same, for blocks are
//! named by them.

use std::collections::BTreeMap;
use std::sync::Arc;

use ondisk::NvList;
use ondisk::config::vdev_type;
use units::{Guid, VdevId};

use crate::config::{key, mos_nvlist};
use crate::scan::absent_vdev;
use crate::top::TopId;
use crate::{Node, NodeKind, Top, VdevError, VdevTree};

impl VdevTree {
    /// The `vdev_tree` of a pool of these leaves, one for each vdev that is neither a log nor removed, as the MOS of this
    /// pool has it: under this pool's guid.
    ///
    /// # Errors
    /// [`VdevError::NoSuchVdev`] when a vdev has none.
    pub fn split_tree(&self, leaves: &BTreeMap<VdevId, Guid>) -> Result<NvList, VdevError> {
        let mut tops = self.all_tops();
        while tops.last().is_some_and(|top| stays_behind(top)) {
            tops.pop();
        }
        let root = self.root();
        let children = tops.iter().map(|top| self.split_top(top, leaves)).collect::<Result<Vec<_>, _>>()?;
        let mut out = NvList::new();
        out.add_str(key::TYPE, vdev_type::ROOT).add_u64(key::ID, 0).add_u64(key::GUID, root.guid.get());
        out.add_u64(key::CREATE_TXG, root.create_txg).add_u64(key::VDEV_ROOT_ZAP, root.root_zap);
        out.add_nvlist_array(key::CHILDREN, children);
        Ok(out)
    }

    fn split_top(&self, top: &Arc<Top>, leaves: &BTreeMap<VdevId, Guid>) -> Result<NvList, VdevError> {
        if stays_behind(top) {
            return Ok(absent_vdev(top.id().get().into()));
        }
        if top.is_removed() {
            return Ok(mos_nvlist(top));
        }
        let guid = leaves.get(&top.id()).ok_or(VdevError::NoSuchVdev { vdev: top.id() })?;
        let leaf = self.leaf(*guid)?;
        let id = TopId { id: top.id(), guid: leaf.guid(), ashift: top.ashift() };
        let alone = Top::new(Arc::clone(self.env()), id, top.config(), Node::Leaf(leaf));
        Ok(mos_nvlist(&alone))
    }
}

fn stays_behind(top: &Top) -> bool {
    top.is_log() || top.kind() == NodeKind::Hole
}
