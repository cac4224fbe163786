//! Who is told what befalls the leaves of a pool: the pool, which makes events of it.
//!
//! ```text
//!   Leaf: a request fails, is slow, is not answered; bytes are wrong; its state is another
//!     └──► LeafWatch::happened
//! ```
//! Nothing is told of a leaf before somebody watches it, nor of its opening at an import: who opens a pool looks at the
//! leaves himself. A leaf that comes in later is watched from then on.

use std::sync::Arc;
use std::time::Duration;

use env::BoxFuture;
use units::{Guid, LeafOffset};

use crate::config::type_name;
use crate::{IoKind, Leaf, Node, VdevState, VdevTree};

/// A request to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What was asked for.
    pub kind: IoKind,
    /// Where; 0 of a flush.
    pub offset: LeafOffset,
    /// How many bytes; 0 of a flush.
    pub len: u64,
}

/// What befell a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafEvent {
    /// It is in another state than `before`.
    State {
        /// The state that was told of last.
        before: VdevState,
    },
    /// A request failed, for good.
    Failed {
        /// Which.
        request: Request,
        /// The system's error number.
        errno: i32,
    },
    /// What was read is not what was written.
    WrongBytes(Request),
    /// A request took longer than 30 seconds.
    Slow {
        /// Which.
        request: Request,
        /// How long.
        took: Duration,
    },
    /// A request was not answered in time, and the device is given up.
    Unanswered {
        /// For how long it has been waited for.
        waited: Duration,
    },
}

/// Is told what befalls leaves. It is called wherever that happens, and no lock of the tree's is held then; it neither
/// waits nor changes a vdev.
pub trait LeafWatch: Send + Sync {
    /// Something has happened.
    fn happened(&self, leaf: &Leaf, event: LeafEvent);

    /// Completes when the pool has recorded, where a restart finds it, which leaves lack data.
    /// `None` if that is already recorded. Until then, no write that such a leaf lacks is reported
    /// as stable.
    fn until_recorded(&self) -> Option<BoxFuture<'_, ()>> {
        None
    }
}

impl Node {
    /// The guid of the group that has this child right below, and what it is called; `None` if none here has it.
    #[must_use]
    pub fn parent_of(&self, child: Guid) -> Option<(Guid, &'static str)> {
        let children = self.children();
        match children.iter().any(|node| node.guid() == child) {
            true => Some((self.guid(), type_name(self))),
            false => children.iter().find_map(|node| node.parent_of(child)),
        }
    }
}

impl VdevTree {
    /// Has `watch` told what befalls the leaves, those too that come in later. Once it is said, it stays so.
    pub fn watch(&self, watch: Arc<dyn LeafWatch>) {
        self.keep_watch(watch);
        self.leaves().iter().for_each(|leaf| self.have_watched(leaf));
    }
}
