//! System attributes: mode, size, times, ACL, extended attributes of a file, packed into
//! its dnode's bonus and, when that is full, a spill block.
//!
//! ```text
//!  master node ─ SA_ATTRS ─► REGISTRY: name → number, length, byte order class
//!                        └─► LAYOUTS:  number → [attribute, attribute, …]
//!  bonus:  header (magic, layout number, lengths of variable ones) then the values, each
//!          from a multiple of 8, in the layout's order
//! ```
//! Numbers are each dataset's own, allotted on first use; only the names are fixed. The
//! bytes of a bonus mean something only together with the two tables.
//!
//! Invariants
//! - A layout's number is stable on disk no later than the first object that uses it:
//!   it is made in a transaction that ends before the user's begins.
//!   (test: `a_crash_at_any_time_leaves_a_sound_tree`, whose objects bring many layouts)
//! - Values that this code does not know are kept as they are.
//!   (test: `foreign_attributes_survive_a_rebuild`)

mod build;
mod image;
mod old;
mod store;
mod tables;

pub use build::{Built, SaAttrs};
pub use image::SaImage;
pub(crate) use old::is_inline;
pub use ondisk::sa::ZplAttr;
pub(crate) use store::new_zap;
pub use store::{Form, SaStore};
pub use tables::SaTables;

#[cfg(test)]
mod tests;
