//! In which class of vdevs a block is at home.
//!
//! ```text
//!  metadata, indirect blocks ────────────────────► special ─┐ none there, or full
//!  files' data of up to `special_small_bytes` ─► special,   ├─────────────────► normal
//!     while a quarter of it is left for metadata ───────────┘
//!  other data ───────────────────────────────────────────────────────────────► normal
//! ```
//! Where a block went is in its pointer; nobody has to know the rule to read it.
//! (test: `special_vdevs_take_metadata_and_small_blocks_until_they_are_full`)

use metaslab::{Allocator, Class};
use ondisk::ObjectType;
use units::Psize;

use crate::WritePolicy;

/// Part of the special vdevs, in percent, that small blocks of data leave to metadata.
const METADATA_RESERVE_PERCENT: u64 = 25;

/// Where a block of so many bytes should go.
pub(crate) fn home(allocator: &Allocator, policy: &WritePolicy, psize: Psize) -> Class {
    if allocator.vdevs(Class::Special).is_empty() {
        return Class::Normal;
    }
    let is_metadata = policy.level.get() > 0 || policy.object_type.is_metadata();
    // Whoever sets the property means files: volumes below inherit it, and OpenZFS does not heed it there.
    let is_small = psize.get() <= policy.special_small_bytes && policy.object_type != ObjectType::ZVOL;
    if is_metadata || (is_small && small_blocks_fit(allocator)) { Class::Special } else { Class::Normal }
}

fn small_blocks_fit(allocator: &Allocator) -> bool {
    let space = allocator.space(Class::Special);
    space.allocated.get() < space.capacity.get() / 100 * (100 - METADATA_RESERVE_PERCENT)
}
