//! Name-value lists read as a pool's vdevs.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use env::Env;
use ondisk::NvList;
use ondisk::config::vdev_type;
use units::{Ashift, Guid, ObjectId, Spread, Txg, VdevId};

use super::{OTHER_NAMES, bad, key, missing, number, small};
use crate::leaf::{LeafConfig, LeafId};
use crate::node::GroupConfig;
use crate::spec::raidz;
use crate::top::{TopConfig, TopId};
use crate::tree::RootConfig;
use crate::{
    Bias, Group, Leaf, LeafKind, Leaving, Node, NodeKind, Removed, RemovedConfig, Shape, Top, VdevAux,
    VdevError, VdevState,
};

/// What is told of a raidz that children are being added to: parts of it are dealt out one way, parts the other.
const RAIDZ_BEING_WIDENED: &str = "raidz being widened";
/// What is told of a draid that is made of several.
const DRAID_WITH_DOMAINS: &str = "draid with failure domains";
/// How deep groups may be nested below a top-level vdev: the deepest that commands make is a spare in a
/// replacing in a spare in a raidz, and a little more.
const DEPTH_MAX: usize = 6;

/// A tree whose leaves are closed, from the `vdev_tree` of a MOS config or one put together
/// from labels.
pub(crate) fn parse_root(
    env: &Arc<dyn Env>,
    tree: &NvList,
) -> Result<(RootConfig, Vec<Arc<Top>>), VdevError> {
    let root = RootConfig {
        guid: Guid::new(number(tree, key::GUID)?),
        create_txg: tree.get_u64(key::CREATE_TXG).unwrap_or(0),
        root_zap: tree.get_u64(key::VDEV_ROOT_ZAP).unwrap_or(0),
        former_guid: None,
    };
    let children = tree.get_nvlist_array(key::CHILDREN).ok_or_else(|| missing(key::CHILDREN))?;
    let mut tops = Vec::with_capacity(children.len());
    for (index, child) in children.iter().enumerate() {
        let top = parse_top(env, child)?;
        if top.id().get() as usize != index {
            return Err(bad(format!("vdev {} stands at place {index}", top.id())));
        }
        tops.push(Arc::new(top));
    }
    let mut guids = BTreeSet::new();
    for leaf in tops.iter().flat_map(|top| top.leaves()) {
        if !guids.insert(leaf.guid()) {
            return Err(bad(format!("two leaves have the guid {}", leaf.guid())));
        }
    }
    Ok((root, tops))
}

fn parse_top(env: &Arc<dyn Env>, from: &NvList) -> Result<Top, VdevError> {
    let id = VdevId::new(small(from, key::ID)?);
    let guid = Guid::new(number(from, key::GUID)?);
    let is_log = from.get_u64(key::IS_LOG).unwrap_or(0) != 0;
    let node = match from.get_str(key::TYPE) {
        Some(vdev_type::HOLE) => Node::Hole,
        Some(vdev_type::INDIRECT) => Node::Indirect(Arc::new(removed(from)?)),
        _ => Below { env, vdev: id, is_log }.node(from, 0)?,
    };
    let ashift = Ashift::new(small(from, key::ASHIFT)?);
    if !matches!(node, Node::Hole) && !(Ashift::MIN..=Ashift::MAX).contains(&ashift) {
        return Err(bad(format!("vdev {id} has ashift {ashift}")));
    }
    let config = TopConfig {
        metaslab_array: number(from, key::METASLAB_ARRAY)?,
        metaslab_shift: number(from, key::METASLAB_SHIFT)?,
        asize: number(from, key::ASIZE)?,
        bias: Bias::log(is_log),
        create_txg: from.get_u64(key::CREATE_TXG).unwrap_or(0),
        top_zap: from.get_u64(key::VDEV_TOP_ZAP).unwrap_or(0),
        expansion_secs: from.get_u64(key::EXPANSION_TIME).unwrap_or(0),
        leaving: leaving(from, &node)?,
        // What is being removed says so, too, whether or not it was wanted before.
        non_allocating: from.get_u64(key::NONALLOCATING) == Some(1) && !from.contains(key::REMOVING),
    };
    Ok(Top::new(env.clone(), TopId { id, guid, ashift }, config, node))
}

/// What was copied of a vdev that is being removed. Only what holds the same bytes on all leaves can be.
fn leaving(from: &NvList, node: &Node) -> Result<Option<Leaving>, VdevError> {
    if !node.kind().holds_copies() || from.get_u64(key::REMOVING).unwrap_or(0) == 0 {
        return Ok(None);
    }
    Ok(Some(Leaving {
        mapping: ObjectId::new(number(from, key::INDIRECT_OBJECT)?),
        births: ObjectId::new(number(from, key::INDIRECT_BIRTHS)?),
    }))
}

fn removed(from: &NvList) -> Result<Removed, VdevError> {
    let previous = from.get_u64(key::PREV_INDIRECT_VDEV).filter(|id| *id != u64::MAX);
    let previous = previous.map(|id| u32::try_from(id).map_err(|_| bad(format!("vdev {id} was removed"))));
    Ok(Removed::new(RemovedConfig {
        guid: Guid::new(number(from, key::GUID)?),
        mapping: ObjectId::new(number(from, key::INDIRECT_OBJECT)?),
        births: ObjectId::new(number(from, key::INDIRECT_BIRTHS)?),
        previous: previous.transpose()?.map(VdevId::new),
        whole_disk: from.get_u64(key::WHOLE_DISK),
        non_allocating: from.get_u64(key::NONALLOCATING),
    }))
}

/// Reads the nodes of one top-level vdev.
struct Below<'a> {
    env: &'a Arc<dyn Env>,
    vdev: VdevId,
    is_log: bool,
}

impl Below<'_> {
    fn node(&self, from: &NvList, depth: usize) -> Result<Node, VdevError> {
        let kind = from.get_str(key::TYPE).ok_or_else(|| missing(key::TYPE))?;
        let children = match kind {
            vdev_type::FILE => return self.leaf(from, LeafKind::File),
            vdev_type::DISK => return self.leaf(from, LeafKind::Disk),
            vdev_type::MIRROR
            | vdev_type::RAIDZ
            | vdev_type::DRAID
            | vdev_type::REPLACING
            | vdev_type::SPARE => self.children(from, depth)?,
            other => return Err(VdevError::UnsupportedKind { kind: other.to_owned() }),
        };
        // The groups that a pool is made of stand at its top, and only there.
        let kind = match kind {
            vdev_type::REPLACING => NodeKind::Replacing,
            vdev_type::SPARE => NodeKind::Spare,
            _ if depth > 0 => return Err(bad(format!("vdev {} has a {kind} below its top", self.vdev))),
            vdev_type::RAIDZ => raidz_of(from, children.len())?,
            vdev_type::DRAID => NodeKind::Draid(draid(from, children.len())?),
            _ => NodeKind::Mirror,
        };
        let config = GroupConfig {
            guid: Guid::new(number(from, key::GUID)?),
            create_txg: from.get_u64(key::CREATE_TXG).unwrap_or(0),
            whole_disk: from.get_u64(key::WHOLE_DISK),
        };
        let widened = widened(from, kind, children.len())?;
        Ok(Node::Group(Arc::new(Group::new(kind, config, children).widened_in(widened))))
    }

    fn children(&self, from: &NvList, depth: usize) -> Result<Vec<Node>, VdevError> {
        let children = from.get_nvlist_array(key::CHILDREN).ok_or_else(|| missing(key::CHILDREN))?;
        if children.is_empty() {
            return Err(bad(format!("vdev {} has a group without children", self.vdev)));
        }
        if depth >= DEPTH_MAX {
            return Err(bad(format!("vdev {} has more than {DEPTH_MAX} groups in each other", self.vdev)));
        }
        children.iter().map(|child| self.node(child, depth + 1)).collect()
    }

    fn leaf(&self, from: &NvList, kind: LeafKind) -> Result<Node, VdevError> {
        let is_set = |name| from.get_u64(name).is_some_and(|flag| flag != 0);
        let config = LeafConfig {
            path: PathBuf::from(from.get_str(key::PATH).unwrap_or_default()),
            other_names: OTHER_NAMES.map(|name| from.get_str(name).map(str::to_owned)),
            whole_disk: from.get_u64(key::WHOLE_DISK),
            dtl_object: from.get_u64(key::DTL).unwrap_or(0),
            create_txg: from.get_u64(key::CREATE_TXG).unwrap_or(0),
            leaf_zap: from.get_u64(key::VDEV_LEAF_ZAP).unwrap_or(0),
            is_spare: is_set(key::IS_SPARE),
            no_spare_found: false,
            away_for_now: false,
            unspare: is_set(key::UNSPARE),
            resilver_txg: from.get_u64(key::RESILVER_TXG).unwrap_or(0),
        };
        let guid = Guid::new(number(from, key::GUID)?);
        let leaf = Leaf::closed(self.env.clone(), LeafId { vdev: self.vdev, guid, kind }, config);
        // What it missed is known once that object can be read.
        leaf.set_stale(from.contains(key::DTL));
        let (state, aux) = parse_health(from, self.is_log);
        leaf.set_state(state, aux);
        if state != VdevState::Closed {
            leaf.set_stale(true);
        }
        Ok(Node::Leaf(Arc::new(leaf)))
    }
}

fn raidz_of(from: &NvList, children: usize) -> Result<NodeKind, VdevError> {
    if from.contains(key::RAIDZ_EXPANDING) {
        return Err(VdevError::UnsupportedKind { kind: RAIDZ_BEING_WIDENED.into() });
    }
    // Pools older than the key have single parity.
    let parity = from.get_u64(key::NPARITY).unwrap_or(1);
    raidz(children, u8::try_from(parity).unwrap_or(u8::MAX))
}

/// The txgs in which children were added to a raidz.
fn widened(from: &NvList, kind: NodeKind, children: usize) -> Result<Vec<Txg>, VdevError> {
    let txgs = from.get_u64_array(key::RAIDZ_EXPAND_TXGS).unwrap_or_default();
    let impossible = || bad(format!("a {kind:?} of {children} children was widened {} times", txgs.len()));
    match kind {
        _ if txgs.is_empty() => Ok(Vec::new()),
        NodeKind::Raidz { parity } => {
            let spread = Spread::raidz(children, parity).zip(children.checked_sub(txgs.len()));
            let is_possible = spread.is_some_and(|(spread, first)| spread.widened_from(first).is_some());
            let is_possible = is_possible && txgs.is_sorted();
            is_possible.then(|| txgs.iter().copied().map(Txg::new).collect()).ok_or_else(impossible)
        }
        _ => Err(impossible()),
    }
}

fn draid(from: &NvList, children: usize) -> Result<Shape, VdevError> {
    if from.contains(key::DRAID_NCHILDREN) {
        return Err(VdevError::UnsupportedKind { kind: DRAID_WITH_DOMAINS.into() });
    }
    let [data, parity, spares, groups] =
        [key::DRAID_NDATA, key::NPARITY, key::DRAID_NSPARES, key::DRAID_NGROUPS].map(|key| number(from, key));
    let (data, parity, spares, groups) = (data?, parity?, spares?, groups?);
    let shape = Shape::new(children as u64, data, parity, spares, groups);
    shape.ok_or_else(|| bad(format!("draid{parity}:{data}d:{children}c:{spares}s of {groups} groups")))
}

/// Whose errors took a device out of use may be another system's: it is tried again. Not so a log:
/// what it lacks is told by nothing.
fn parse_health(from: &NvList, keeps_faults: bool) -> (VdevState, VdevAux) {
    let is_set = |name| from.get_u64(name).is_some_and(|flag| flag != 0);
    let aux = VdevAux::from_stored(from.get_str(key::AUX_STATE).unwrap_or_default());
    if is_set(key::FAULTED) && (keeps_faults || aux == VdevAux::External) {
        (VdevState::Faulted, aux)
    } else if is_set(key::OFFLINE) {
        (VdevState::Offline, VdevAux::None)
    } else if is_set(key::REMOVED) && keeps_faults {
        (VdevState::Removed, VdevAux::None)
    } else {
        (VdevState::Closed, VdevAux::None)
    }
}
