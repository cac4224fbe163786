//! Labels and uberblocks: how a pool is found again, whatever moment its host went down.
//!
//! ```text
//!   1 flush data     every block of the txg is stable
//!   2 even labels    L0 and L2 of every vdev whose configuration changed, flush
//!   3 uberblocks     one slot of the ring, in all labels, flush    ◄── here the txg happens
//!   4 odd labels     L1 and L3 of the same vdevs, flush
//! ```
//! Power lost in 1 or 2: the last uberblock counts, and the odd labels fit it. In 3: if the new
//! uberblock is anywhere, the even labels fit it; if not, the odd ones fit the old. In 4: the
//! even labels fit. A label *fits* an uberblock when it is not younger.
//!
//! A leaf has completed steps 2 and 4 when one of the two labels of that half is written and
//! flushed, and step 3 when the uberblock in one of its four labels is. So a device that cannot
//! write to one end remains usable. A vdev has completed a step when it can do without the leaves
//! that have not completed it. Those leaves have older labels than their siblings, and count as
//! having missed the txg.
//!
//! Invariants
//! - At every moment some leaf has an uberblock no older than the last one reported stable, and a
//!   label that fits it. (tests: `every_crash_leaves_an_uberblock_and_a_label_that_fits`,
//!   `every_crash_with_labels_that_cannot_be_written_leaves_an_uberblock_and_a_label_that_fits`)
//! - No txg is reported stable unless its uberblock, and each half of the labels of every data
//!   vdev, is written somewhere.
//!   (test: `one_label_of_each_half_is_enough_and_none_is_not`)
//! - An uberblock is reported stable only after everything before it was. (same test)
//! - A leaf that misses writes has older labels than its siblings until the configuration says
//!   what it missed, or it is whole again, over any number of imports.
//!   (tests: `a_leaf_that_was_away_stays_stale_until_it_is_whole`, `a_leaf_gets_labels_once_what_it_missed_is_recorded`)
//! - Parts that were torn, or belong elsewhere on the device, do not verify.
//!   (test: `a_part_of_another_place_or_with_a_flipped_bit_does_not_verify`)

mod choose;
mod clear;
mod heartbeat;
mod init;
mod part;
mod read;
mod sync;
#[cfg(test)]
mod tests;

pub use choose::{best_config, best_uberblock};
pub use clear::clear_labels;
pub use heartbeat::Newest;
pub(crate) use init::{Waiting, init_auxiliary, shared_spare};
pub use init::{init_label, init_labels, retire_label};
pub use part::{seal_part, verify_part};
pub(crate) use read::NameBelow;
pub use read::{FoundUberblock, LeafLabels};
pub use sync::LabelSync;
