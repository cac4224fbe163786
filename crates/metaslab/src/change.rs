//! What a space map is told.

use units::{Asize, VdevOffset};

use crate::segment::Segment;

/// Which of its vdev's metaslabs, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetaslabId(u32);

impl MetaslabId {
    /// Gives a raw index its type.
    #[must_use]
    pub const fn new(raw: u32) -> Self {
        Self(raw)
    }

    /// The raw index: where in the vdev's metaslab array its space map's object number stands.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for MetaslabId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Which way space went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangeKind {
    /// From free to allocated.
    Alloc,
    /// From allocated to free.
    Free,
}

/// One entry of a space map: that many bytes from there were allocated, or freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Change {
    /// Allocated or freed.
    pub kind: ChangeKind,
    /// Where on the vdev (not relative to the metaslab).
    pub offset: VdevOffset,
    /// How much: a positive multiple of the vdev's smallest allocation.
    pub len: Asize,
}

impl Change {
    pub(crate) fn new(kind: ChangeKind, segment: Segment) -> Self {
        Self { kind, offset: VdevOffset::new(segment.start), len: Asize::new(segment.len()) }
    }
}
