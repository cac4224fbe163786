//! A pool's vdevs written as name-value lists.

use std::sync::Arc;

use ondisk::NvList;
use ondisk::config::vdev_type;

use super::{OTHER_NAMES, key};
use crate::leaf::LeafConfig;
use crate::{Group, Leaf, Node, NodeKind, Removed, Shape, Top, VdevState, VdevTree};

/// For which place a configuration is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Label,
    Mos,
}

impl VdevTree {
    /// The whole tree, as the MOS stores it under `vdev_tree`.
    #[must_use]
    pub fn to_nvlist(&self) -> NvList {
        let root = self.root();
        let mut out = NvList::new();
        out.add_str(key::TYPE, vdev_type::ROOT).add_u64(key::ID, 0).add_u64(key::GUID, root.guid.get());
        add_nonzero(&mut out, key::CREATE_TXG, root.create_txg);
        add_nonzero(&mut out, key::VDEV_ROOT_ZAP, root.root_zap);
        let children = self.all_tops().iter().map(|top| top_nvlist(top, Target::Mos)).collect();
        out.add_nvlist_array(key::CHILDREN, children);
        out
    }
}

/// A top-level vdev with all below it.
pub(super) fn top_nvlist(top: &Top, target: Target) -> NvList {
    node_nvlist(top.node(), top.id().get().into(), target, Some(top))
}

/// The same as the MOS has it.
pub(crate) fn mos_nvlist(top: &Top) -> NvList {
    top_nvlist(top, Target::Mos)
}

/// A leaf that is in no vdev.
pub(super) fn leaf_nvlist(leaf: &Arc<Leaf>) -> NvList {
    node_nvlist(&Node::Leaf(Arc::clone(leaf)), 0, Target::Label, None)
}

/// A node with all below it. `top` is the top-level vdev, if the node is one: then its guid, size and
/// objects are told, too.
fn node_nvlist(node: &Node, id: u64, target: Target, top: Option<&Top>) -> NvList {
    let mut out = NvList::new();
    let guid = top.map_or(node.guid(), Top::guid);
    out.add_str(key::TYPE, type_name(node)).add_u64(key::ID, id).add_u64(key::GUID, guid.get());
    let leaf = match node {
        Node::Leaf(leaf) => Some(leaf.config()),
        Node::Group(_) | Node::Hole | Node::Indirect(_) => None,
    };
    match (node, &leaf) {
        (Node::Group(group), _) => add_group(&mut out, node.kind(), group),
        (_, Some(leaf)) => add_names(&mut out, leaf),
        (Node::Indirect(removed), _) => add_whole_disk(&mut out, removed.config().whole_disk),
        _ => {}
    }
    if let Some(top) = top {
        add_sizes(&mut out, top);
    }
    let leaving = top.and_then(|top| top.config().leaving);
    if leaving.is_some() || top.is_some_and(|top| top.config().non_allocating && !top.is_removed()) {
        out.add_u64(key::NONALLOCATING, 1);
    }
    if leaving.is_some() {
        out.add_u64(key::REMOVING, 1);
    }
    if let Node::Indirect(removed) = node {
        add_removed(&mut out, removed);
    }
    add_nonzero(&mut out, key::DTL, leaf.as_ref().map_or(0, |leaf| leaf.dtl_object));
    if let Some(leaving) = leaving {
        out.add_u64(key::INDIRECT_OBJECT, leaving.mapping.get())
            .add_u64(key::INDIRECT_BIRTHS, leaving.births.get());
    }
    let create_txg = match node {
        _ if top.is_some() => top.map_or(0, |top| top.config().create_txg),
        Node::Group(group) => group.config().create_txg,
        _ => leaf.as_ref().map_or(0, |leaf| leaf.create_txg),
    };
    add_nonzero(&mut out, key::CREATE_TXG, create_txg);
    add_nonzero(&mut out, key::EXPANSION_TIME, top.map_or(0, |top| top.config().expansion_secs));
    if target == Target::Mos {
        add_nonzero(&mut out, key::VDEV_LEAF_ZAP, leaf.as_ref().map_or(0, |leaf| leaf.leaf_zap));
        add_nonzero(&mut out, key::VDEV_TOP_ZAP, top.map_or(0, |top| top.config().top_zap));
    }
    match node {
        Node::Hole => _ = out.add_u64(key::IS_HOLE, 1),
        Node::Indirect(_) => _ = out.add_nvlist_array(key::CHILDREN, Vec::new()),
        Node::Leaf(leaf) => add_health(&mut out, leaf),
        Node::Group(_) => {
            let children = node.children().iter().zip(0..);
            let children = children.map(|(child, id)| node_nvlist(child, id, target, None)).collect();
            out.add_nvlist_array(key::CHILDREN, children);
        }
    }
    out
}

/// What a node is called.
pub(crate) fn type_name(node: &Node) -> &'static str {
    match (node, node.kind()) {
        (Node::Leaf(leaf), _) => leaf.kind().name(),
        (_, NodeKind::Mirror) => vdev_type::MIRROR,
        (_, NodeKind::Raidz { .. }) => vdev_type::RAIDZ,
        (_, NodeKind::Draid(_)) => vdev_type::DRAID,
        (_, NodeKind::Indirect) => vdev_type::INDIRECT,
        (_, NodeKind::Replacing) => vdev_type::REPLACING,
        (_, NodeKind::Spare) => vdev_type::SPARE,
        (_, NodeKind::Hole | NodeKind::Leaf) => vdev_type::HOLE,
    }
}

fn add_group(out: &mut NvList, kind: NodeKind, group: &Group) {
    match kind {
        NodeKind::Raidz { parity } => _ = out.add_u64(key::NPARITY, parity.into()),
        NodeKind::Draid(shape) => add_draid(out, &shape),
        _ => {}
    }
    if !group.widened().is_empty() {
        let txgs = group.widened().iter().map(|txg| txg.get()).collect();
        out.add_u64_array(key::RAIDZ_EXPAND_TXGS, txgs);
    }
    add_whole_disk(out, group.config().whole_disk);
}

fn add_draid(out: &mut NvList, shape: &Shape) {
    out.add_u64(key::NPARITY, shape.parity() as u64)
        .add_u64(key::DRAID_NDATA, shape.data() as u64)
        .add_u64(key::DRAID_NSPARES, shape.spares() as u64)
        .add_u64(key::DRAID_NGROUPS, shape.groups());
}

fn add_removed(out: &mut NvList, removed: &Removed) {
    let config = removed.config();
    if let Some(non_allocating) = config.non_allocating {
        out.add_u64(key::NONALLOCATING, non_allocating);
    }
    out.add_u64(key::INDIRECT_OBJECT, config.mapping.get())
        .add_u64(key::INDIRECT_BIRTHS, config.births.get());
    if let Some(previous) = config.previous {
        out.add_u64(key::PREV_INDIRECT_VDEV, previous.get().into());
    }
}

fn add_whole_disk(out: &mut NvList, whole_disk: Option<u64>) {
    if let Some(whole_disk) = whole_disk {
        out.add_u64(key::WHOLE_DISK, whole_disk);
    }
}

fn add_sizes(out: &mut NvList, top: &Top) {
    let config = top.config();
    out.add_u64(key::METASLAB_ARRAY, config.metaslab_array)
        .add_u64(key::METASLAB_SHIFT, config.metaslab_shift)
        .add_u64(key::ASHIFT, top.ashift().get().into())
        .add_u64(key::ASIZE, config.asize)
        .add_u64(key::IS_LOG, top.is_log().into());
}

fn add_names(out: &mut NvList, config: &LeafConfig) {
    out.add_str(key::PATH, config.path.to_string_lossy());
    for (name, value) in OTHER_NAMES.iter().zip(&config.other_names) {
        add_text(out, name, value.as_deref());
    }
    add_whole_disk(out, config.whole_disk);
    add_nonzero(out, key::IS_SPARE, config.is_spare.into());
}

/// The states that outlive an import: those that somebody has to end.
fn add_health(out: &mut NvList, leaf: &Leaf) {
    let (state, aux) = leaf.state();
    let config = leaf.config();
    let is_kept = |kept: VdevState| state == kept && leaf.is_declared_out();
    add_nonzero(out, key::OFFLINE, is_kept(VdevState::Offline).into());
    add_nonzero(out, key::RESILVER_TXG, config.resilver_txg);
    add_nonzero(out, key::FAULTED, is_kept(VdevState::Faulted).into());
    add_nonzero(out, key::REMOVED, is_kept(VdevState::Removed).into());
    add_nonzero(out, key::UNSPARE, config.unspare.into());
    if is_kept(VdevState::Faulted) {
        add_text(out, key::AUX_STATE, aux.stored_name());
    }
}

pub(super) fn add_nonzero(out: &mut NvList, name: &str, value: u64) {
    if value != 0 {
        out.add_u64(name, value);
    }
}

pub(super) fn add_text(out: &mut NvList, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        out.add_str(name, value);
    }
}
