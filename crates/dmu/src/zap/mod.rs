//! ZAP objects: names to arrays of integers. Directories, property lists, feature tables and
//! the pool's own directory are all ZAPs.
//!
//! ```text
//!  micro: one block                        fat: blocks of one size (16 KiB unless told otherwise)
//!  ┌────────────┬────────────┬─────        ┌──────────────┐  top bits   ┌────────────────────┐
//!  │ header 64B │ entry 64B  │ …           │ header       │  of the     │ leaf: header,      │
//!  │ salt       │ value, cd, │             │ pointer table├──hash──────►│ hash chains,       │
//!  └────────────┴─name <50 B─┴─────        └──────────────┘             │ 24-byte chunks     │
//!                                           (outgrown: its own blocks)  └────────────────────┘
//! ```
//! A ZAP begins as micro: the single block grows by 512 bytes up to 128 KiB. A longer name, a
//! value that is not one `u64`, or more entries turn it fat, for good. A fat ZAP is an
//! extendible hash table: a leaf that is full splits in two by the next bit of the hash, and
//! the pointer table doubles when it has no bit left to tell the halves apart.
//!
//! Entries of one hash are told apart by their collision differentiator (`cd`). `(hash, cd)`
//! is an entry's place in iteration order and never changes while the entry lives, through
//! growth, splits and micro to fat: a [`Cursor`] kept by a client stays good meanwhile.
//!
//! Invariants
//! - A ZAP holds what a plain map would hold after the same operations.
//!   (tests: `a_zap_behaves_as_a_map_of_names`, `a_hundred_thousand_names_are_all_found_again`)
//! - A cursor passes every entry that lives through the whole iteration exactly once.
//!   (test: `iteration_meets_every_lasting_entry_once_while_others_come_and_go`)
//! - Bytes from a disk give entries or [`ZapError`], never a panic, and no endless chain.
//!   (test: `arbitrary_blocks_give_errors_and_never_panic`)
//! - All handles of one object share one lock: readers together, a writer alone. The lock and
//!   the index of a micro ZAP live in the dnode ([`Shared`]). A plan that changes a ZAP keeps it
//!   locked until the plan has ended ([`Guard`]).
//!
//! The layout is that of OpenZFS (`zap_impl.h`, `zap_leaf.h`); integers in blocks are
//! little-endian, integers inside leaf arrays big-endian.

mod blocks;
mod bytes;
mod create;
mod cursor;
mod error;
mod fat;
mod guard;
mod handle;
mod header;
mod key;
mod leaf;
mod leaf_edit;
mod micro;
mod value;

pub use blocks::Blocks;
pub use create::ZapSpec;
pub use cursor::{Cursor, ZapEntry};
pub use error::ZapError;
pub use guard::{Guard, Shared};
pub use handle::Zap;
pub use header::{ZAP_FLAG_HASH64, ZAP_FLAG_PRE_HASHED_KEY, ZAP_FLAG_UINT64_KEY};
pub use key::{NORM_TOUPPER, int_name};
pub use value::ZapValue;

#[cfg(test)]
mod tests;
