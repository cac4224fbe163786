//! Why space cannot be had, or was not as somebody said it was.

use units::{Asize, Psize, VdevId, VdevOffset};

use crate::{MetaslabId, allocator::Class};

/// A request for new space that cannot be met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocError {
    /// No vdev of the class has a run of free bytes that long, or not as many as copies were asked for.
    #[error("no {class:?} vdev has room for {copies} x {psize} bytes (free {free}, longest run {longest})")]
    NoSpace {
        /// Where it was looked for.
        class: Class,
        /// Size of one copy.
        psize: Psize,
        /// Copies asked for.
        copies: usize,
        /// Free bytes in the class all the same: scattered, on avoided vdevs, or needed twice.
        free: Asize,
        /// Longest free run in the class: smaller requests (gang blocks) may succeed.
        longest: Asize,
    },
    /// The pool has no such vdevs at all.
    #[error("the pool has no {0:?} vdevs")]
    NoVdev(Class),
}

impl AllocError {
    /// Whether there is as much room as was asked for, though not in one piece.
    #[must_use]
    pub fn may_fit_in_pieces(&self) -> bool {
        match self {
            Self::NoSpace { psize, copies, free, .. } => {
                psize.get().saturating_mul(*copies as u64) <= free.get()
            }
            Self::NoVdev(_) => false,
        }
    }
}

/// Space named by a block pointer or a space map that cannot be what it is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// No such vdev.
    #[error("vdev {0} does not exist")]
    NoSuchVdev(VdevId),
    /// The vdev has no such metaslab.
    #[error("vdev {vdev} has no metaslab {metaslab}")]
    NoSuchMetaslab {
        /// The vdev.
        vdev: VdevId,
        /// The missing metaslab.
        metaslab: MetaslabId,
    },
    /// Beyond the vdev's or metaslab's end, over a border between metaslabs, empty, or not
    /// made of whole sectors.
    #[error("vdev {vdev}: {len} bytes at {offset} are no allocation of this vdev")]
    Misplaced {
        /// The vdev.
        vdev: VdevId,
        /// Where.
        offset: VdevOffset,
        /// How much.
        len: Asize,
    },
    /// To be claimed or allocated, but some of it is in use, or still resting after a free.
    #[error("vdev {vdev}: {len} bytes at {offset} are not free")]
    NotFree {
        /// The vdev.
        vdev: VdevId,
        /// Where.
        offset: VdevOffset,
        /// How much.
        len: Asize,
    },
    /// To be freed, but some of it is free already, or is only allocated by a later txg.
    #[error("vdev {vdev}: {len} bytes at {offset} are not allocated")]
    NotAllocated {
        /// The vdev.
        vdev: VdevId,
        /// Where.
        offset: VdevOffset,
        /// How much.
        len: Asize,
    },
    /// To be given up with a checkpoint, but some of it is not kept for one.
    #[error("vdev {vdev}: {len} bytes at {offset} are not kept for a checkpoint")]
    NotKept {
        /// The vdev.
        vdev: VdevId,
        /// Where.
        offset: VdevOffset,
        /// How much.
        len: Asize,
    },
    /// A space map arrives for a metaslab that has already been allocated from.
    #[error("vdev {vdev}: metaslab {metaslab} is in use, a space map comes too late")]
    InUse {
        /// The vdev.
        vdev: VdevId,
        /// The metaslab.
        metaslab: MetaslabId,
    },
}

/// A vdev that cannot be added, grown or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VdevConfigError {
    /// There is one of that number.
    #[error("vdev {0} exists already")]
    Exists(VdevId),
    /// There is none of that number.
    #[error("vdev {0} does not exist")]
    NoSuchVdev(VdevId),
    /// Ashift, metaslab shift or size out of the format's range, or more metaslabs than can be.
    #[error("vdev {vdev}: ashift {ashift}, metaslab shift {ms_shift}, {asize} bytes: not a vdev")]
    Geometry {
        /// The vdev.
        vdev: VdevId,
        /// Its ashift.
        ashift: u8,
        /// Its metaslab shift.
        ms_shift: u8,
        /// Its size in bytes.
        asize: Asize,
    },
    /// Blocks are still allocated on it, or its changes have not all been written.
    #[error("vdev {vdev} still holds {allocated} bytes")]
    InUse {
        /// The vdev.
        vdev: VdevId,
        /// Bytes allocated; 0 if only its unwritten changes stand in the way.
        allocated: Asize,
    },
}
