//! The configuration as name-value lists: what labels and the MOS say of vdevs.
//!
//! ```text
//!   MOS config                         label of one leaf
//!   ├ version, name, state, txg, …     ├ version, name, state, txg, …
//!   └ vdev_tree: root                  ├ top_guid, guid (this leaf)
//!       ├ children[0]: mirror          └ vdev_tree: the one top-level vdev it is part of
//!       │   ├ children[0]: file             ├ children[0]: file
//!       │   └ children[1]: replacing        └ children[1]: replacing
//!       │       ├ children[0]: file             ├ children[0]: file
//!       │       └ children[1]: file             └ children[1]: file
//!       └ children[1]: disk (log)
//! ```
//! Hot spares that wait and cache devices are in neither: objects of the MOS of their own list them.
//! A label says nothing of the other top-level vdevs but how many there are; the MOS adds the
//! objects that hold vdev properties. Keys come in the order in which OpenZFS writes them, so
//! that its tools show the same lines for our pools.
//!
//! Invariants
//! - What OpenZFS wrote goes through a [`VdevTree`] and out again unchanged.
//!   (tests: `a_label_made_by_openzfs_is_generated_again_key_for_key`,
//!   `a_new_pool_is_found_again_as_it_was_made`, `nested_vdevs_go_in_and_out_unchanged`)
//! - A configuration that nests nodes as no pool can is refused.
//!   (test: `trees_that_no_pool_can_have_are_refused`)

use std::sync::Arc;

pub(crate) use ondisk::config as key;
pub use ondisk::config::PoolState;
use ondisk::{NvList, NvValue};
use units::{Guid, Txg};

use crate::{Leaf, NodeKind, Top, VdevError, VdevTree};

mod parse;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use parse::parse_root;
use write::{Target, add_nonzero, add_text, leaf_nvlist, top_nvlist};
pub(crate) use write::{mos_nvlist, type_name};

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
    /// It is being split, or was split off another.
    pub split: Option<SplitNote>,
}

/// What the configuration says of a pool's split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitNote {
    /// These leaves are about to leave for a pool of their own, by top-level vdev; 0 where none does. Only the MOS says so.
    Leaving(Vec<Guid>),
    /// It was split off the pool of that guid, and not imported since.
    From(Guid),
}

impl SplitNote {
    fn from_nvlist(config: &NvList) -> Option<Self> {
        let noted = config.get_nvlist(key::SPLIT);
        if let Some(from) = config.get_u64(key::SPLIT_GUID).or_else(|| noted?.get_u64(key::SPLIT_GUID)) {
            return Some(Self::From(Guid::new(from)));
        }
        let leaving = noted?.get_u64_array(key::SPLIT_LIST)?;
        Some(Self::Leaving(leaving.iter().copied().map(Guid::new).collect()))
    }

    fn to_nvlist(&self) -> NvList {
        let mut out = NvList::new();
        match self {
            Self::Leaving(leaves) => {
                out.add_u64_array(key::SPLIT_LIST, leaves.iter().map(|leaf| leaf.get()).collect())
            }
            Self::From(pool) => out.add_u64(key::SPLIT_GUID, pool.get()),
        };
        out
    }
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
            split: SplitNote::from_nvlist(config),
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
            tops.iter().filter(|top| top.kind() == NodeKind::Hole).map(|top| top.id().get().into()).collect();
        if !holes.is_empty() {
            out.add_u64_array(key::HOLE_ARRAY, holes);
        }
        out.add_u64(key::VDEV_CHILDREN, tops.len() as u64);
        if let Some(SplitNote::From(pool)) = &self.split {
            out.add_u64(key::SPLIT_GUID, pool.get());
        }
        out.add_nvlist(key::VDEV_TREE, vdevs);
        out.add_nvlist(key::FEATURES_FOR_READ, self.features_for_read.clone());
        out
    }

    /// What a leaf's label says.
    #[must_use]
    pub fn label(&self, tree: &VdevTree, top: &Top, leaf: &Leaf) -> NvList {
        let mut out = self.head(tree.root().guid);
        out.add_u64(key::TOP_GUID, top.guid().get()).add_u64(key::GUID, leaf.guid().get());
        if leaf.config().is_spare {
            out.add_u64(key::IS_SPARE, 1);
        }
        if top.is_log() {
            out.add_u64(key::IS_LOG, 1);
        }
        let vdevs = top_nvlist(top, Target::Label);
        assert_eq!(
            guid_sum(&vdevs),
            top.node().guid_sum(),
            "every node of vdev {} is in its label",
            top.id()
        );
        self.tail(out, tree, vdevs)
    }

    /// What the label says of a leaf that is in no vdev of the pool any more.
    pub(crate) fn label_of_none(&self, pool: Guid, leaf: &Arc<Leaf>) -> NvList {
        let mut out = self.head(pool);
        out.add_u64(key::TOP_GUID, leaf.guid().get()).add_u64(key::GUID, leaf.guid().get());
        out.add_nvlist(key::VDEV_TREE, leaf_nvlist(leaf));
        out
    }

    /// What the MOS object `config` says, and what a cache file holds.
    #[must_use]
    pub fn mos(&self, tree: &VdevTree) -> NvList {
        let mut out = self.head(tree.root().guid);
        if let Some(split) = &self.split {
            out.add_nvlist(key::SPLIT, split.to_nvlist());
        }
        out.add_flag(key::HAS_PER_VDEV_ZAPS);
        self.tail(out, tree, tree.to_nvlist())
    }
}

/// Sum of the guids of a vdev and all below it, as a configuration has them.
fn guid_sum(vdev: &NvList) -> u64 {
    let own = vdev.get_u64(key::GUID).unwrap_or(0);
    let children = vdev.get_nvlist_array(key::CHILDREN).unwrap_or_default();
    children.iter().map(guid_sum).fold(own, u64::wrapping_add)
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
