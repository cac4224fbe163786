//! Holes: what a pointer says where no block is.
//!
//! ```text
//!   never written           all zero
//!   freed, or zeros written size, type, level, birth = the txg that did it   (feature `hole_birth`)
//!   below such a hole       the same, one level down, when a block is written beside it
//! ```
//! The birth tells an incremental send that something was here that the older snapshot still has.
//! Without the feature all holes are zero; with it one that was punched earlier keeps its birth.
//!
//! Invariants
//! - A place that once held a block since the feature was enabled never becomes all zero again
//!   while its object lives (test: `a_hole_that_was_punched_tells_when`).

use ondisk::{Blkptr, ObjectType};
use units::{Level, Lsize, SECTOR_BYTES, Txg};

/// A place for a pointer, and what would stand there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub object_type: ObjectType,
    pub level: u8,
    /// Size of a block at this level.
    pub bytes: u64,
}

impl Place {
    /// The hole here that came to be in `birth`; for no birth, one that always was.
    fn hole(self, birth: Txg) -> Blkptr {
        if birth == Txg::ZERO {
            return Blkptr::HOLE;
        }
        let bytes = self.bytes.next_multiple_of(SECTOR_BYTES).max(SECTOR_BYTES);
        Blkptr::hole_with(Lsize::new(bytes), self.object_type, Level::new(self.level), birth)
    }

    /// What stands here after `old` was freed in `txg`. A hole stays the hole it was.
    pub fn freed(self, old: &Blkptr, txg: Txg, births: bool) -> Blkptr {
        match (old.is_hole(), births) {
            (true, _) => *old,
            (false, true) => Self { bytes: old.lsize().get(), ..self }.hole(txg),
            (false, false) => Blkptr::HOLE,
        }
    }

    /// What stands here after zeros, or nothing but holes, were written over `old` in `txg`.
    pub fn emptied(self, old: &Blkptr, txg: Txg, births: bool) -> Blkptr {
        self.hole(if births && old.birth() != Txg::ZERO { txg } else { Txg::ZERO })
    }

    /// What stands here, below the hole `above`.
    pub fn below(self, above: &Blkptr) -> Blkptr {
        self.hole(above.birth())
    }
}
