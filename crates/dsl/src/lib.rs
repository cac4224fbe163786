//! Datasets, the tree they form, the space they take and their properties.
//!
//! ```text
//!  MOS object 1 ─ "root_dataset" ─► Dir "tank" ─ head ─► Dataset ─ bp ─► objset
//!  (directory)                        │ child map            │ prev snap
//!                                     ▼                      ▼
//!                                   Dir "tank/fs"          Dataset "$ORIGIN@$ORIGIN"
//! ```
//! A dir has a name, children, properties, quota and reservation; it lives as long as its
//! head dataset, which has contents. All of it lies in the MOS: dirs and datasets in bonus
//! buffers, everything that has names in ZAPs. What is in memory is a copy, written through.
//!
//! Invariants
//! - Changes are made in syncing context, by one caller at a time; reads at any time.
//! - A dir's space is the sum of its breakdown, and its parent's share of it is what it uses or
//!   has reserved, whichever is more.
//!   (test: `space_adds_up_from_every_dataset_to_the_root`)
//! - What was created and destroyed again leaves no object behind.
//!   (test: `a_destroyed_dataset_leaves_nothing_in_the_mos`)
#![forbid(unsafe_code)]

mod bookmark;
mod bpobj;
mod bptree;
mod counts;
mod create;
mod dataset;
mod destroy;
mod dir;
mod encryption;
mod errlog;
mod error;
mod exchange;
pub mod features;
mod format;
mod history;
mod known;
mod names;
mod permissions;
mod promote;
pub mod props;
mod redaction;
mod rename;
mod resume;
mod snapshot;
mod space;
mod tree;

pub use bookmark::BookmarkInfo;
pub use bpobj::Bpobj;
pub use counts::{COUNTED, CountLimit, Counted};
pub use create::Birth;
pub use dataset::livelist::SUBLIST_ENTRIES;
pub use encryption::Encryption;
pub use errlog::{BlockError, ErrorLog};
pub use error::DslError;
pub use exchange::RECEIVING;
pub use features::{FEATURES, Feature};
pub use format::NEW_POOL_FEATURES;
pub use names::{DatasetName, check_dataset_name, check_snapshot_name};
pub use permissions::{Asker, Permissions, is_granted};
pub use props::{PropValue, Property, check_new_prop};
pub use redaction::{REDACT_SNAPS_MAX, RedactionList};
pub use snapshot::{Abandoned, TemporaryHold};
pub use space::available::PoolSpace;
pub use space::head_room::HeadRoom;
pub use tree::Dsl;

#[cfg(test)]
mod tests;
