//! The configuration as name-value lists: what labels and the MOS say of vdevs.
//!
//! ```text
//!   MOS config                         label of one leaf
//!   ├ version, name, state, txg, …     ├ version, name, state, txg, …
//!   └ vdev_tree: root                  ├ top_guid, guid (this leaf)
//!       ├ children[0]: mirror          └ vdev_tree: the one top-level vdev it is part of
//!       │   ├ children[0]: file             ├ children[0]: file
//!       │   └ children[1]: file             └ children[1]: file
//!       └ children[1]: disk (log)
//! ```
//! A label says nothing of the other top-level vdevs but how many there are; the MOS adds the
//! objects that hold vdev properties. Keys come in the order in which OpenZFS writes them, so
//! that its tools show the same lines for our pools.
//!
//! Invariants
//! - What OpenZFS wrote goes through a [`VdevTree`] and out again unchanged.
//!   (tests: `a_label_made_by_openzfs_is_generated_again_key_for_key`,
//!   `a_new_pool_is_found_again_as_it_was_made`)

use std::path::PathBuf;
use std::sync::Arc;

use device::Env;
pub(crate) use ondisk::config as key;
pub use ondisk::config::PoolState;
use ondisk::config::vdev_type;
use ondisk::{NvList, NvValue};
use units::{Ashift, Guid, Txg, VdevId};

use crate::leaf::{LeafConfig, LeafId};
use crate::spec::raidz;
use crate::top::{TopConfig, TopId};
use crate::tree::RootConfig;
use crate::{Bias, Leaf, LeafKind, Top, TopKind, VdevAux, VdevError, VdevState, VdevTree};

/// Names that a leaf's device has besides its path.
const OTHER_NAMES: [&str; 4] = [key::DEVID, key::PHYS_PATH, key::ENC_SYSFS_PATH, "fru"];

/// What the configuration says of the pool as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolConfig {
    /// Version of the format: 5000 with feature flags.
    pub version: u64,
    /// The pool's name.
    pub name: String,
    /// Whether it is in use.
    pub state: PoolState,
    /// Group in which this configuration is written.
    pub txg: Txg,
    /// Number of a known defect in what an old version wrote; 0 for none.
    pub errata: u64,
    /// The administrator's remark.
    pub comment: Option<String>,
    /// Which features may be enabled.
    pub compatibility: Option<String>,
    /// Who has it; 0 for nobody in particular.
    pub hostid: u64,
    /// That host's name.
    pub hostname: String,
    /// Features that a reader must know (flags by name).
    pub features_for_read: NvList,
}

impl PoolConfig {
    /// Reads what a label or the MOS says of the pool.
    ///
    /// # Errors
    /// [`VdevError::BadConfig`] when a key that must be there is not.
    pub fn from_nvlist(config: &NvList) -> Result<Self, VdevError> {
        let text = |name| config.get_str(name).map(str::to_owned);
        let state = number(config, key::POOL_STATE)?;
        Ok(Self {
            version: number(config, key::VERSION)?,
            name: text(key::POOL_NAME).ok_or_else(|| missing(key::POOL_NAME))?,
            state: PoolState::from_raw(state).ok_or_else(|| bad(format!("state is {state}")))?,
            txg: Txg::new(number(config, key::POOL_TXG)?),
            errata: config.get_u64(key::ERRATA).unwrap_or(0),
            comment: text(key::COMMENT),
            compatibility: text(key::COMPATIBILITY),
            hostid: config.get_u64(key::HOSTID).unwrap_or(0),
            hostname: text(key::HOSTNAME).unwrap_or_default(),
            features_for_read: config.get_nvlist(key::FEATURES_FOR_READ).cloned().unwrap_or_default(),
        })
    }

    fn head(&self, pool: Guid) -> NvList {
        let mut out = NvList::new();
        out.add_u64(key::VERSION, self.version)
            .add_str(key::POOL_NAME, &*self.name)
            .add_u64(key::POOL_STATE, self.state as u64)
            .add_u64(key::POOL_TXG, self.txg.get())
            .add_u64(key::POOL_GUID, pool.get())
            .add_u64(key::ERRATA, self.errata);
        add_text(&mut out, key::COMMENT, self.comment.as_deref());
        add_text(&mut out, key::COMPATIBILITY, self.compatibility.as_deref());
        add_nonzero(&mut out, key::HOSTID, self.hostid);
        out.add_str(key::HOSTNAME, &*self.hostname);
        out
    }

    fn tail(&self, mut out: NvList, tree: &VdevTree, vdevs: NvList) -> NvList {
        let tops = tree.all_tops();
        let holes: Vec<u64> =
            tops.iter().filter(|top| top.kind() == TopKind::Hole).map(|top| top.id().get().into()).collect();
        if !holes.is_empty() {
            out.add_u64_array(key::HOLE_ARRAY, holes);
        }
        out.add_u64(key::VDEV_CHILDREN, tops.len() as u64);
        out.add_nvlist(key::VDEV_TREE, vdevs);
        out.add_nvlist(key::FEATURES_FOR_READ, self.features_for_read.clone());
        out
    }

    /// What a leaf's label says.
    #[must_use]
    pub fn label(&self, tree: &VdevTree, top: &Top, leaf: &Leaf) -> NvList {
        let mut out = self.head(tree.root().guid);
        out.add_u64(key::TOP_GUID, top.guid().get()).add_u64(key::GUID, leaf.guid().get());
        if top.is_log() {
            out.add_u64(key::IS_LOG, 1);
        }
        self.tail(out, tree, top_nvlist(top, Target::Label))
    }

    /// What the MOS object `config` says, and what a cache file holds.
    #[must_use]
    pub fn mos(&self, tree: &VdevTree) -> NvList {
        let mut out = self.head(tree.root().guid);
        out.add_flag(key::HAS_PER_VDEV_ZAPS);
        self.tail(out, tree, tree.to_nvlist())
    }
}

/// For which place a configuration is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
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

fn top_nvlist(top: &Top, target: Target) -> NvList {
    let leaf = match top.kind() {
        TopKind::Leaf => top.leaves().first(),
        TopKind::Mirror | TopKind::Raidz { .. } | TopKind::Hole => None,
    };
    let kind = match top.kind() {
        TopKind::Leaf => leaf.map_or(vdev_type::MISSING, |leaf| leaf.kind().name()),
        TopKind::Mirror => vdev_type::MIRROR,
        TopKind::Raidz { .. } => vdev_type::RAIDZ,
        TopKind::Hole => vdev_type::HOLE,
    };
    let config = top.config();
    let mut out = NvList::new();
    out.add_str(key::TYPE, kind);
    out.add_u64(key::ID, top.id().get().into()).add_u64(key::GUID, top.guid().get());
    let leaf_config = leaf.map(|leaf| leaf.config());
    if let Some(leaf) = &leaf_config {
        add_names(&mut out, leaf);
    }
    if let TopKind::Raidz { parity } = top.kind() {
        out.add_u64(key::NPARITY, parity.into());
    }
    out.add_u64(key::METASLAB_ARRAY, config.metaslab_array)
        .add_u64(key::METASLAB_SHIFT, config.metaslab_shift)
        .add_u64(key::ASHIFT, top.ashift().get().into())
        .add_u64(key::ASIZE, config.asize)
        .add_u64(key::IS_LOG, top.is_log().into());
    if let Some(leaf) = &leaf_config {
        add_nonzero(&mut out, key::DTL, leaf.dtl_object);
    }
    add_nonzero(&mut out, key::CREATE_TXG, config.create_txg);
    if target == Target::Mos {
        add_nonzero(&mut out, key::VDEV_LEAF_ZAP, leaf_config.map_or(0, |leaf| leaf.leaf_zap));
        add_nonzero(&mut out, key::VDEV_TOP_ZAP, config.top_zap);
    }
    match (top.kind(), leaf) {
        (TopKind::Mirror | TopKind::Raidz { .. }, _) => {
            let leaves = top.leaves().iter().enumerate();
            let children = leaves.map(|(index, leaf)| leaf_nvlist(leaf, index as u64, target)).collect();
            out.add_nvlist_array(key::CHILDREN, children);
        }
        (TopKind::Hole, _) => {
            out.add_u64(key::IS_HOLE, 1);
        }
        (TopKind::Leaf, Some(leaf)) => add_health(&mut out, leaf),
        (TopKind::Leaf, None) => {}
    }
    out
}

fn leaf_nvlist(leaf: &Leaf, index: u64, target: Target) -> NvList {
    let config = leaf.config();
    let mut out = NvList::new();
    out.add_str(key::TYPE, leaf.kind().name()).add_u64(key::ID, index).add_u64(key::GUID, leaf.guid().get());
    add_names(&mut out, &config);
    add_nonzero(&mut out, key::DTL, config.dtl_object);
    add_nonzero(&mut out, key::CREATE_TXG, config.create_txg);
    if target == Target::Mos {
        add_nonzero(&mut out, key::VDEV_LEAF_ZAP, config.leaf_zap);
    }
    add_health(&mut out, leaf);
    out
}

fn add_names(out: &mut NvList, config: &LeafConfig) {
    out.add_str(key::PATH, config.path.to_string_lossy());
    for (name, value) in OTHER_NAMES.iter().zip(&config.other_names) {
        add_text(out, name, value.as_deref());
    }
    if let Some(whole_disk) = config.whole_disk {
        out.add_u64(key::WHOLE_DISK, whole_disk);
    }
}

/// The states that outlive an import: those that somebody has to end.
fn add_health(out: &mut NvList, leaf: &Leaf) {
    let (state, aux) = leaf.state();
    match state {
        VdevState::Offline => out.add_u64(key::OFFLINE, 1),
        VdevState::Faulted => out.add_u64(key::FAULTED, 1),
        VdevState::Removed => out.add_u64(key::REMOVED, 1),
        _ => return,
    };
    if state == VdevState::Faulted {
        add_text(out, key::AUX_STATE, aux.stored_name());
    }
}

fn add_nonzero(out: &mut NvList, name: &str, value: u64) {
    if value != 0 {
        out.add_u64(name, value);
    }
}

fn add_text(out: &mut NvList, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        out.add_str(name, value);
    }
}

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
    Ok((root, tops))
}

fn parse_top(env: &Arc<dyn Env>, from: &NvList) -> Result<Top, VdevError> {
    let id = VdevId::new(small(from, key::ID)?);
    let guid = Guid::new(number(from, key::GUID)?);
    let name = from.get_str(key::TYPE).ok_or_else(|| missing(key::TYPE))?;
    let (kind, leaves) = match name {
        vdev_type::HOLE => (TopKind::Hole, Vec::new()),
        vdev_type::MIRROR => (TopKind::Mirror, parse_leaves(env, id, from)?),
        vdev_type::RAIDZ if WIDENED.iter().any(|key| from.contains(key)) => {
            return Err(VdevError::UnsupportedKind { kind: "widened raidz".into() });
        }
        vdev_type::RAIDZ => {
            let leaves = parse_leaves(env, id, from)?;
            // Pools older than the key have single parity.
            let parity = from.get_u64(key::NPARITY).unwrap_or(1);
            (raidz(leaves.len(), u8::try_from(parity).unwrap_or(u8::MAX))?, leaves)
        }
        _ => {
            let is_log = from.get_u64(key::IS_LOG).unwrap_or(0) != 0;
            (TopKind::Leaf, vec![parse_leaf(env, id, from, is_log)?])
        }
    };
    if kind != TopKind::Hole && leaves.is_empty() {
        return Err(bad(format!("vdev {id} has no children")));
    }
    let ashift = Ashift::new(small(from, key::ASHIFT)?);
    if kind != TopKind::Hole && !(Ashift::MIN..=Ashift::MAX).contains(&ashift) {
        return Err(bad(format!("vdev {id} has ashift {ashift}")));
    }
    let config = TopConfig {
        metaslab_array: number(from, key::METASLAB_ARRAY)?,
        metaslab_shift: number(from, key::METASLAB_SHIFT)?,
        asize: number(from, key::ASIZE)?,
        bias: Bias::log(from.get_u64(key::IS_LOG).unwrap_or(0) != 0),
        create_txg: from.get_u64(key::CREATE_TXG).unwrap_or(0),
        top_zap: from.get_u64(key::VDEV_TOP_ZAP).unwrap_or(0),
    };
    Ok(Top::new(env.clone(), TopId { id, guid, kind, ashift }, config, leaves))
}

/// What the configuration of a raidz has to which children were added: its old blocks are laid out
/// as if these were not there.
const WIDENED: [&str; 2] = [key::RAIDZ_EXPANDING, key::RAIDZ_EXPAND_TXGS];

fn parse_leaves(env: &Arc<dyn Env>, vdev: VdevId, from: &NvList) -> Result<Vec<Arc<Leaf>>, VdevError> {
    let children = from.get_nvlist_array(key::CHILDREN).ok_or_else(|| missing(key::CHILDREN))?;
    let is_log = from.get_u64(key::IS_LOG).unwrap_or(0) != 0;
    children.iter().map(|child| parse_leaf(env, vdev, child, is_log)).collect()
}

fn parse_leaf(
    env: &Arc<dyn Env>,
    vdev: VdevId,
    from: &NvList,
    keeps_faults: bool,
) -> Result<Arc<Leaf>, VdevError> {
    let kind = match from.get_str(key::TYPE) {
        Some(vdev_type::FILE) => LeafKind::File,
        Some(vdev_type::DISK) => LeafKind::Disk,
        other => {
            return Err(VdevError::UnsupportedKind { kind: other.unwrap_or_default().to_owned() });
        }
    };
    let config = LeafConfig {
        path: PathBuf::from(from.get_str(key::PATH).unwrap_or_default()),
        other_names: OTHER_NAMES.map(|name| from.get_str(name).map(str::to_owned)),
        whole_disk: from.get_u64(key::WHOLE_DISK),
        dtl_object: from.get_u64(key::DTL).unwrap_or(0),
        create_txg: from.get_u64(key::CREATE_TXG).unwrap_or(0),
        leaf_zap: from.get_u64(key::VDEV_LEAF_ZAP).unwrap_or(0),
    };
    let guid = Guid::new(number(from, key::GUID)?);
    let leaf = Leaf::closed(env.clone(), LeafId { vdev, guid, kind }, config);
    // What it missed is known once that object can be read.
    leaf.set_stale(from.contains(key::DTL));
    let (state, aux) = parse_health(from, keeps_faults);
    leaf.set_state(state, aux);
    if state != VdevState::Closed {
        leaf.set_stale(true);
    }
    Ok(Arc::new(leaf))
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

pub(crate) fn number(from: &NvList, name: &str) -> Result<u64, VdevError> {
    match from.get(name) {
        Some(NvValue::U64(value)) => Ok(*value),
        Some(_) => Err(bad(format!("{name} is not a number"))),
        None => Err(missing(name)),
    }
}

fn small<T: TryFrom<u64>>(from: &NvList, name: &str) -> Result<T, VdevError> {
    let raw = number(from, name)?;
    T::try_from(raw).map_err(|_| bad(format!("{name} is {raw}")))
}

pub(crate) fn missing(name: &str) -> VdevError {
    bad(format!("no {name}"))
}

pub(crate) fn bad(what: String) -> VdevError {
    VdevError::BadConfig { what }
}
