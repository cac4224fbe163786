//! Where a leaf stands in its vdev: what may be done to a device depends on it.
//!
//! ```text
//!   raidz1-0                     leaf   parent      place
//!   ├ a                          a      raidz       0
//!   └ replacing-1                b      replacing   0
//!       ├ b                      n      replacing   1
//!       └ n                      c      none        0     (a top-level vdev)
//!   c
//! ```

use std::sync::Arc;

use units::Guid;

use crate::{Leaf, Node, NodeKind, VdevError, VdevTree};

/// A leaf, and the group that it is a child of.
pub struct Standing {
    /// The leaf.
    pub leaf: Arc<Leaf>,
    /// What the group is; `None` when the leaf is a top-level vdev.
    pub parent: Option<NodeKind>,
    /// The children of the group, the leaf among them.
    pub children: Vec<Node>,
    /// Which of them the leaf is.
    pub place: usize,
}

impl Standing {
    /// Whether it is in a group that can be without it, as far as kinds tell.
    #[must_use]
    pub fn is_a_copy(&self) -> bool {
        self.parent.is_some_and(NodeKind::holds_copies)
    }

    /// The leaves right beside it.
    pub fn siblings(&self) -> impl Iterator<Item = &Arc<Leaf>> {
        let others = self.children.iter().enumerate().filter(|(place, _)| *place != self.place);
        others.filter_map(|(_, child)| match child {
            Node::Leaf(leaf) => Some(leaf),
            _ => None,
        })
    }
}

impl VdevTree {
    /// Where the leaf of a guid stands.
    ///
    /// # Errors
    /// [`VdevError::NoSuchLeaf`].
    pub fn standing(&self, guid: Guid) -> Result<Standing, VdevError> {
        let found = self.tops().iter().find_map(|top| match top.node() {
            Node::Leaf(leaf) if leaf.guid() == guid => Some(Standing {
                leaf: Arc::clone(leaf),
                parent: None,
                children: vec![top.node().clone()],
                place: 0,
            }),
            node => below(node, guid),
        });
        found.ok_or(VdevError::NoSuchLeaf { guid })
    }
}

fn below(node: &Node, guid: Guid) -> Option<Standing> {
    let children = node.children();
    let own = children.iter().enumerate().find_map(|(place, child)| match child {
        Node::Leaf(leaf) if leaf.guid() == guid => Some((place, Arc::clone(leaf))),
        _ => None,
    });
    match own {
        Some((place, leaf)) => {
            Some(Standing { leaf, parent: Some(node.kind()), children: children.to_vec(), place })
        }
        None => children.iter().find_map(|child| below(child, guid)),
    }
}
