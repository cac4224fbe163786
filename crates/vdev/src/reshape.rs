//! Changes of a top-level vdev's tree while it is in use.
//!
//! ```text
//!   put_beside(b, n, Replacing)    b  ──►  replacing: b n      n misses everything up to the open txg
//!   put_beside(a, b, Mirror)       a  ──►  mirror: a b         likewise
//!   take_out(b)        replacing: b n ──►  n                   a group of one child is that child
//! ```
//! A change makes new groups around the leaves that stay, with their counters, DTLs and queues, and puts
//! a new [`Top`] in place of the old one with the same ledger. I/O that is under way goes on in the shape
//! that it began in.
//!
//! A leaf that comes in holds nothing: its DTL has every txg up to the one that is open once the
//! leaf is in the tree, for a write may have begun before that and go to the others only. It is known to
//! the pool's next configuration; before that is stable a crash leaves the vdev as it was.
//!
//! A leaf is only taken out when the others have all that it has. Its device is still open then: it
//! has a label that says it is part of the pool, which the caller wipes ([`crate::retire_label`])
//! when a configuration without the leaf is stable, and not before.
//!
//! When a top-level group has one child left, that child takes its place and its guid, as it does in
//! OpenZFS: blocks, and uberblocks that devices without it have, still mean this vdev. Until its labels are written anew
//! they have its own guid, and the vdev's as that of its top-level vdev: by that, and by its path, it is known
//! ([`crate::Candidate::paths_in`]).
//!
//! Invariants
//! - A change names every leaf of the old tree or of the change, each once.
//!   (test: `a_change_keeps_every_other_leaf_and_its_notes`)
//! - What was whole before a leaf is taken out is whole after it.
//!   (test: `a_leaf_that_is_required_is_not_taken_out`)
//! - What is left of a mirror is found whichever labels it has, and nothing else is taken for it.
//!   (tests: `what_is_left_of_a_mirror_is_known_by_its_older_labels`,
//!   `the_side_that_was_taken_out_of_a_mirror_is_not_taken_for_what_is_left`)

use std::collections::BTreeSet;
use std::sync::Arc;

use units::{Guid, Txg, VdevId};

use crate::node::GroupConfig;
use crate::spec::draw_guid;
use crate::{Leaf, Node, NodeKind, Top, VdevError, VdevTree};

/// The first txg of any pool's life that a leaf could have missed.
const FIRST_TXG: Txg = Txg::new(1);

#[cfg(test)]
mod tests;

impl VdevTree {
    /// Puts a new leaf beside the node `beside`, in a group of `kind`; beside a child of such a group it is one
    /// more child of that, the last. `open` tells the txg that is open.
    ///
    /// # Errors
    /// [`VdevError::NoSuchLeaf`] when no node has that guid.
    ///
    /// # Panics
    /// When `kind` is no group of copies.
    pub fn put_beside(
        &self,
        beside: Guid,
        new: &Arc<Leaf>,
        kind: NodeKind,
        open: impl Fn() -> Txg,
    ) -> Result<Arc<Top>, VdevError> {
        assert!(kind.holds_copies() && kind != NodeKind::Leaf, "no new leaf is put into a {kind:?}");
        new.add_to_dtl(FIRST_TXG..=open());
        self.have_watched(new);
        let config = GroupConfig {
            guid: draw_guid(self.env()),
            create_txg: new.config().create_txg,
            whole_disk: Some(0),
        };
        let top = self.reshape(new.vdev(), |node| {
            let with = node.with_beside(beside, &Node::Leaf(Arc::clone(new)), kind, config);
            with.ok_or(VdevError::NoSuchLeaf { guid: beside })
        })?;
        new.add_to_dtl(FIRST_TXG..=open());
        Ok(top)
    }

    /// Takes a leaf out of its mirror, replacing or spare, which becomes its only child when one is left.
    ///
    /// # Errors
    /// [`VdevError::NoSuchLeaf`]; [`VdevError::NoReplica`] when the leaf is in no such group, or the others
    /// have not all that it has, or would have if its device came back.
    pub fn take_out(&self, guid: Guid) -> Result<Arc<Leaf>, VdevError> {
        let leaf = self.leaf(guid)?;
        self.reshape(leaf.vdev(), |node| {
            let refused = VdevError::NoReplica { vdev: leaf.vdev(), guid };
            if node.requires(&leaf) {
                return Err(refused);
            }
            let rest = node.without(guid).ok_or(refused)?;
            Ok(rest.in_place_of(node))
        })?;
        Ok(leaf)
    }

    /// A leaf whose work is done, and that can be [taken out](Self::take_out): an old device whose
    /// replacement has everything, or a spare whose device is back and whole again.
    #[must_use]
    pub fn finished(&self) -> Option<Arc<Leaf>> {
        self.tops().iter().find_map(|top| {
            let mut finished = Vec::new();
            top.node().add_finished(&mut finished);
            finished.into_iter().find(|leaf| !top.node().requires(leaf))
        })
    }

    /// Puts what `change` makes of a top-level vdev's node in its place.
    fn reshape(
        &self,
        id: VdevId,
        change: impl FnOnce(&Node) -> Result<Node, VdevError>,
    ) -> Result<Arc<Top>, VdevError> {
        self.replace_top(id, |top| {
            let node = change(top.node())?;
            let guids: BTreeSet<_> = node.leaves().iter().map(|leaf| leaf.guid()).collect();
            assert_eq!(guids.len(), node.leaves().len(), "a leaf stands twice in vdev {id}");
            let reshaped = top.reshaped(node);
            reshaped.mark_changed();
            Ok(reshaped)
        })
    }
}

impl Node {
    /// This tree with `new` beside the node of a guid; `None` when there is no such node.
    fn with_beside(&self, beside: Guid, new: &Self, kind: NodeKind, config: GroupConfig) -> Option<Self> {
        if self.guid() == beside {
            return Some(match self {
                Self::Group(group) if self.kind() == kind => {
                    let mut children = self.children().to_vec();
                    children.push(new.clone());
                    Self::Group(Arc::new(group.with_children(children)))
                }
                _ => Self::group(kind, config, vec![self.clone(), new.clone()]),
            });
        }
        let Self::Group(group) = self else { return None };
        let mut children = self.children().to_vec();
        match children.iter().any(|child| child.guid() == beside) {
            true if kind == self.kind() => children.push(new.clone()),
            _ => {
                let mut changed = children.iter().map(|child| child.with_beside(beside, new, kind, config));
                let (at, child) = changed.by_ref().enumerate().find_map(|(at, child)| Some((at, child?)))?;
                drop(changed);
                children[at] = child;
            }
        }
        Some(Self::Group(Arc::new(group.with_children(children))))
    }

    /// This tree without a leaf, groups of copies with one child made that child; `None` when the leaf is in
    /// no group of copies.
    fn without(&self, guid: Guid) -> Option<Self> {
        let Self::Group(group) = self else { return None };
        let mut children = self.children().to_vec();
        let is_it = |child: &Self| matches!(child, Self::Leaf(leaf) if leaf.guid() == guid);
        match children.iter().position(is_it) {
            Some(at) if self.kind().holds_copies() => _ = children.remove(at),
            Some(_) => return None,
            None => {
                let without = |(at, child): (usize, &Self)| Some((at, child.without(guid)?));
                let (at, child) = children.iter().enumerate().find_map(without)?;
                children[at] = child;
            }
        }
        match (self.kind().holds_copies(), children.len()) {
            (true, 0) => None,
            (true, 1) => children.pop(),
            _ => Some(Self::Group(Arc::new(group.with_children(children)))),
        }
    }

    /// The same node with the guid of the top-level vdev whose place it takes.
    fn in_place_of(self, old: &Self) -> Self {
        if self.guid() == old.guid() {
            return self;
        }
        match &self {
            Self::Leaf(leaf) => leaf.take_guid(old.guid()),
            Self::Group(group) => {
                let config = GroupConfig { guid: old.guid(), ..group.config() };
                return Self::group(self.kind(), config, self.children().to_vec());
            }
            Self::Hole | Self::Indirect(_) => {}
        }
        self
    }

    fn add_finished(&self, out: &mut Vec<Arc<Leaf>>) {
        self.children().iter().for_each(|child| child.add_finished(out));
        let is_whole = |node: &Self| node.lacks(&|leaf| !leaf.is_usable()).is_empty();
        match (self.kind(), self.children()) {
            (NodeKind::Replacing, [old, .., new]) if is_whole(new) => out.extend(old.leaves()),
            (NodeKind::Spare, [Self::Leaf(back), .., Self::Leaf(spare)])
                if back.config().unspare && back.is_usable() && back.lacks().is_empty() =>
            {
                out.push(Arc::clone(spare));
            }
            _ => {}
        }
    }
}
