//! The tree of a top-level vdev: leaves, and groups of nodes that make up for each other.
//!
//! ```text
//!   raidz1-0                      kind        can do without                        its children hold
//!   ├ a                           leaf        nothing
//!   ├ replacing-1                 mirror      all but one child                     the same bytes
//!   │   ├ b     (old)             replacing   as a mirror; ends with its resilver   the same bytes
//!   │   └ spare-1                 spare       as a mirror; ends with a command      the same bytes
//!   │       ├ n (new)             raidz       as many children as it has parity     columns of a block
//!   │       └ s (hot spare)
//!   └ c
//! ```
//! Health is a predicate over children and no count of leaves: of the six leaves above, a, b and n may
//! go one after another in one order and not in another. [`Node::survives`] answers for any set of lost
//! leaves. What the DTLs mean is the same predicate, asked txg by txg: [`Node::lacks`] is the txgs in
//! which more of a node's children missed writes than it can do without, and a leaf is *required* when
//! that set grows without it.
//!
//! Every group below a top-level vdev holds copies: its leaves have the same bytes at the same offsets.
//! So I/O sees of a nested node only its leaves ([`Node::leaves`]), and the lone leaf pays nothing for
//! the tree above others ([`crate::mirror`], [`crate::raidz`]).
//!
//! A node does not change. Who changes the tree makes a new one out of the old one's leaves
//! ([`crate::reshape`]).
//!
//! Invariants
//! - The predicate says of every tree and every set of lost leaves what reading says.
//!   (test: `a_block_is_readable_exactly_while_the_predicate_says_so`)
//! - A copy of a column that is wrong does not stand in the way of one that is right.
//!   (test: `another_copy_of_a_column_is_believed_where_the_first_is_wrong`)
//! - A leaf that the rest cannot do without is known to be required.
//!   (test: `a_leaf_is_required_when_without_it_a_txg_is_nowhere_whole`)

use std::sync::Arc;

use units::{Guid, Spread, Txg};

use crate::draid::permutation::Permutations;
use crate::{Dtl, Leaf, Removed, Shape, VdevAux, VdevState};

#[cfg(test)]
pub(crate) mod tests;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// One device.
    Leaf,
    /// Every child holds everything.
    Mirror,
    /// Blocks are spread over all children, with parity.
    Raidz {
        /// How many children may be lost: 1 to 3.
        parity: u8,
    },
    /// Blocks are spread over some of the children, with parity, and each block over others. Read only.
    Draid(Shape),
    /// A mirror of an old device and the one that takes its place, until that is resilvered.
    Replacing,
    /// A mirror of a device and the hot spare that stands in for it, until somebody detaches either.
    Spare,
    /// Nothing: a log device was removed here. Only ever a top-level vdev.
    Hole,
    /// Nothing any more, but its blocks are elsewhere ([`crate::Removed`]). Only ever a top-level vdev.
    Indirect,
}

impl NodeKind {
    /// Whether a node of this kind holds the same bytes on all its leaves.
    #[must_use]
    pub const fn holds_copies(self) -> bool {
        matches!(self, Self::Leaf | Self::Mirror | Self::Replacing | Self::Spare)
    }

    /// Whether it is a group that comes and goes with what is done to a device.
    #[must_use]
    pub const fn is_passing(self) -> bool {
        matches!(self, Self::Replacing | Self::Spare)
    }
}

/// A node of the tree below a top-level vdev, which is itself one.
#[derive(Clone)]
pub enum Node {
    /// Nothing: see [`NodeKind::Hole`].
    Hole,
    /// See [`NodeKind::Indirect`].
    Indirect(Arc<Removed>),
    /// One device.
    Leaf(Arc<Leaf>),
    /// Nodes that make up for each other.
    Group(Arc<Group>),
}

/// What the configuration says of a group beside its kind and children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupConfig {
    /// Its guid.
    pub guid: Guid,
    /// Txg in which it joined; that of the whole vdev's when it is a top-level one.
    pub create_txg: u64,
    /// Kept as it was: OpenZFS says 0 of groups that an `attach` or `replace` made.
    pub whole_disk: Option<u64>,
}

/// Nodes that make up for each other.
pub struct Group {
    kind: NodeKind,
    config: GroupConfig,
    children: Vec<Node>,
    /// The txgs in which a raidz was given another child each, in order: what was written before the first
    /// is spread over as many children less than there are.
    widened: Arc<[Txg]>,
    /// Which child of a draid takes which part of it.
    permutations: Option<Arc<Permutations>>,
}

impl Group {
    /// A group of these children.
    ///
    /// # Panics
    /// When the kind is no group's, or there is no child, or a draid has not as many as its shape says.
    pub(crate) fn new(kind: NodeKind, config: GroupConfig, children: Vec<Node>) -> Self {
        let is_group = !matches!(kind, NodeKind::Leaf | NodeKind::Hole | NodeKind::Indirect);
        assert!(is_group, "a group is no {kind:?}");
        assert!(!children.is_empty(), "a group has children");
        let permutations = match kind {
            NodeKind::Draid(shape) => {
                assert_eq!(shape.children(), children.len(), "children of a draid");
                Permutations::of(shape.children()).map(Arc::new)
            }
            _ => None,
        };
        Self { kind, config, children, widened: Arc::default(), permutations }
    }

    /// The same group with other children.
    pub(crate) fn with_children(&self, children: Vec<Node>) -> Self {
        Self { widened: Arc::clone(&self.widened), ..Self::new(self.kind, self.config, children) }
    }

    /// The same raidz, to which children were added in these txgs, one after the other.
    ///
    /// # Panics
    /// When it cannot have been as narrow as it was before.
    pub(crate) fn widened_in(self, txgs: Vec<Txg>) -> Self {
        let widened = Self { widened: txgs.into(), ..self };
        assert!(widened.spread().is_some(), "a raidz of fewer children than it takes");
        widened
    }

    /// The txgs in which a raidz was widened, by a child each.
    #[must_use]
    pub fn widened(&self) -> &[Txg] {
        &self.widened
    }

    /// Over how many children its blocks are spread; `None` for what cannot be.
    fn spread(&self) -> Option<Spread> {
        match self.kind {
            NodeKind::Raidz { parity } => {
                let children = self.children.len();
                Spread::raidz(children, parity)?.widened_from(children.checked_sub(self.widened.len())?)
            }
            NodeKind::Draid(shape) => Some(shape.spread()),
            _ => Some(Spread::PLAIN),
        }
    }

    /// How the blocks of a txg are spread.
    fn spread_at(&self, born: Txg) -> Option<Spread> {
        match self.kind {
            NodeKind::Raidz { parity } => {
                let later = self.widened.iter().filter(|txg| **txg > born).count();
                Spread::raidz(self.children.len().checked_sub(later)?, parity)
            }
            _ => self.spread(),
        }
    }

    /// What the configuration says of it.
    #[must_use]
    pub fn config(&self) -> GroupConfig {
        self.config
    }
}

impl Node {
    /// A group of these children; see [`Group::new`].
    pub(crate) fn group(kind: NodeKind, config: GroupConfig, children: Vec<Self>) -> Self {
        Self::Group(Arc::new(Group::new(kind, config, children)))
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> NodeKind {
        match self {
            Self::Hole => NodeKind::Hole,
            Self::Indirect(_) => NodeKind::Indirect,
            Self::Leaf(_) => NodeKind::Leaf,
            Self::Group(group) => group.kind,
        }
    }

    /// Its guid; 0 for a hole.
    #[must_use]
    pub fn guid(&self) -> Guid {
        match self {
            Self::Hole => Guid::new(0),
            Self::Indirect(removed) => removed.config().guid,
            Self::Leaf(leaf) => leaf.guid(),
            Self::Group(group) => group.config.guid,
        }
    }

    /// The nodes right below it, in the order of the configuration.
    #[must_use]
    pub fn children(&self) -> &[Self] {
        match self {
            Self::Hole | Self::Indirect(_) | Self::Leaf(_) => &[],
            Self::Group(group) => &group.children,
        }
    }

    /// All leaves of it, in the order of the configuration.
    #[must_use]
    pub fn leaves(&self) -> Vec<Arc<Leaf>> {
        match self {
            Self::Hole | Self::Indirect(_) => Vec::new(),
            Self::Leaf(leaf) => vec![Arc::clone(leaf)],
            Self::Group(group) => group.children.iter().flat_map(Self::leaves).collect(),
        }
    }

    /// Sum of the guids of it and all below it, modulo 2^64.
    #[must_use]
    pub fn guid_sum(&self) -> u64 {
        let below = self.children().iter().map(Self::guid_sum);
        below.fold(self.guid().get(), u64::wrapping_add)
    }

    /// Whether it has that guid, or a node below it.
    #[must_use]
    pub fn has(&self, guid: Guid) -> bool {
        self.guid() == guid || self.children().iter().any(|child| child.has(guid))
    }

    /// Over how many children its blocks are spread.
    #[must_use]
    pub fn spread(&self) -> Spread {
        match self {
            Self::Group(group) => {
                group.spread().expect("a group's children are counted when it is made or found")
            }
            _ => Spread::PLAIN,
        }
    }

    /// How the blocks that were written in a txg are spread: a raidz may have been widened since.
    #[must_use]
    pub fn spread_at(&self, born: Txg) -> Spread {
        match self {
            Self::Group(group) => {
                group.spread_at(born).expect("a group's children are counted when it is made or found")
            }
            _ => Spread::PLAIN,
        }
    }

    /// Which child of a draid takes which part of it.
    pub(crate) fn permutations(&self) -> Option<&Permutations> {
        match self {
            Self::Group(group) => group.permutations.as_deref(),
            _ => None,
        }
    }

    /// How many children it can do without.
    fn spare_children(&self) -> usize {
        match self.kind() {
            NodeKind::Raidz { parity } => parity.into(),
            NodeKind::Draid(shape) => shape.parity(),
            _ => self.children().len().saturating_sub(1),
        }
    }

    /// Whether it can do without the leaves that `is_lost` tells: whether I/O can be done without them, or
    /// all there is be read.
    pub(crate) fn survives(&self, is_lost: &dyn Fn(&Leaf) -> bool) -> bool {
        match self {
            Self::Hole => false,
            // What was there is elsewhere, and that is asked.
            Self::Indirect(_) => true,
            Self::Leaf(leaf) => !is_lost(leaf),
            Self::Group(group) => {
                let lost = group.children.iter().filter(|child| !child.survives(is_lost)).count();
                lost <= self.spare_children()
            }
        }
    }

    /// The txgs that are not whole here, if the leaves are lost that `is_lost` tells.
    pub(crate) fn lacks(&self, is_lost: &dyn Fn(&Leaf) -> bool) -> Dtl {
        match self {
            Self::Hole => Dtl::everything(),
            Self::Indirect(_) => Dtl::default(),
            Self::Leaf(leaf) if is_lost(leaf) => Dtl::everything(),
            Self::Leaf(leaf) => leaf.lacks(),
            Self::Group(group) => {
                let dtls: Vec<_> = group.children.iter().map(|child| child.lacks(is_lost)).collect();
                Dtl::in_more_than(self.spare_children(), &dtls)
            }
        }
    }

    /// Whether this leaf alone has some txg: one that is not whole here without the leaf, and is with it, or would
    /// be if the leaf came back.
    pub(crate) fn requires(&self, leaf: &Leaf) -> bool {
        let is_it = |other: &Leaf| std::ptr::eq(other, leaf);
        let with = self.lacks(&|other| !is_it(other) && !other.is_usable());
        let without = self.lacks(&|other| is_it(other) || !other.is_usable());
        with != without
    }

    /// Whether a leaf that is lost may be made up for by others: whether it makes sense to note what it
    /// misses.
    pub(crate) fn is_redundant(&self) -> bool {
        self.leaves().len() > 1
    }

    /// Its health: that of its children taken together.
    #[must_use]
    pub fn state(&self) -> (VdevState, VdevAux) {
        match self {
            Self::Hole | Self::Indirect(_) => (VdevState::Online, VdevAux::None),
            Self::Leaf(leaf) => leaf.state(),
            Self::Group(group) => {
                let is_whole = group.children.iter().all(|child| child.state().0 == VdevState::Online);
                match self.survives(&|leaf| !leaf.is_usable()) {
                    false => (VdevState::Unavail, VdevAux::NoReplicas),
                    true if is_whole => (VdevState::Online, VdevAux::None),
                    true => (VdevState::Degraded, VdevAux::None),
                }
            }
        }
    }
}
