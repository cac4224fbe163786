//! Which blocks of data a chain's records name, as long as nothing else came between.
//!
//! A block that is named holds what its file held when the record went into the log: what later records
//! say of it, too. So a second record may leave it at that, but only while no other record has come in between:
//!
//! ```text
//!   write A, in place   write B, 100 bytes of it   write C, in place, over both
//!   names the block,    holds its bytes            "they are there already" would be wrong: replay puts
//!   which has C                                     B over the block. It holds, or names, C again
//! ```
//! (tests: `a_record_between_two_of_one_block_has_the_second_hold_its_data`,
//! `a_small_write_between_two_large_ones_does_not_outlast_them`)

use std::collections::HashSet;

use ondisk::Dva;
use units::Txg;

/// See the module.
#[derive(Debug, Default)]
pub struct Named {
    chain: u64,
    txg: Txg,
    places: HashSet<Dva>,
}

impl Named {
    /// A record of `txg` in `chain` names the block at `place`.
    pub fn add(&mut self, chain: u64, txg: Txg, place: Dva) {
        if (self.chain, self.txg) != (chain, txg) {
            *self = Self { chain, txg, ..Self::default() };
        }
        self.places.insert(place);
    }

    /// Whether one does, and none came since that did not name a block.
    pub fn has(&self, chain: u64, txg: Txg, place: Dva) -> bool {
        (self.chain, self.txg) == (chain, txg) && self.places.contains(&place)
    }

    /// A record came that names no block.
    pub fn forget(&mut self) {
        self.places.clear();
    }
}
