//! Files and directories over an objset, as OpenZFS's ZPL version 5 has them, every change
//! logged and replayable.
//!
//! ```text
//!  Zfs ──► lookup, list, read        ─► Znode (cache) ─► Dnode, Zap
//!      ──► create, rename, write, …  ─► lock ─► plan: Dnode, Zap, attributes ─► applied, log record
//!      ◄── replay                    ◄─ log
//! ```
//! A handle on a file system is used on somebody's behalf ([`Asker`]): its operations ask the rules of permission
//! ([`access`](Zfs::check_access)) about a user, and nothing about those whom a front's kernel has checked.
//!
//! Invariants
//! - An operation that fails, or whose future is dropped, has happened whole or not at all. What is too much for
//!   one change (a write of more than 4 MiB, a shorter file, a large extended attribute) is cut into several.
//!   (tests: `whole_or_not`)
#![forbid(unsafe_code)]

mod access;
mod acl;
mod allocation;
mod cache;
mod capability;
mod clone;
mod create;
mod delete_queue;
mod dirent;
mod error;
mod file_io;
mod glimpse;
mod handle;
mod lookup;
mod mode;
mod new_object;
mod options;
mod path;
mod posix_acl;
mod quota;
mod rename;
mod replay;
mod rewrite;
mod sa;
mod setattr;
mod time;
mod unlink;
mod unnamed;
mod version;
mod xattr;
mod xattr_dir;
mod xvattr;
mod zfs;
mod znode;

pub use access::{Asker, Powers, User, Want};
pub use allocation::Allocate;
pub use clone::FilePlace;
pub use create::NewNode;
pub use dmu::SeekTo;
pub use error::{Result, ZplError};
pub use file_io::WriteFlags;
pub use glimpse::{Glimpse, ObjectPath};
pub use journal::{IMMEDIATE_WRITE_BYTES, LogBias, SyncPolicy};
pub use lookup::ListEntry;
pub use mode::{DeviceNumber, FileKind};
pub use ondisk::znode::flags;
pub use options::{AtimePolicy, Cred, XattrPolicy, ZfsOptions};
pub use posix_acl::is_acl;
pub use quota::{QUOTA_KINDS, QuotaFor, QuotaKind, QuotaOf, SpaceSeen};
pub use rename::{Place, RenameMode};
pub use sa::{SaAttrs, SaImage, SaTables, ZplAttr};
pub use setattr::{SetAttributes, SetTime};
pub use time::Timestamp;
pub use xattr::XattrMode;
pub use xvattr::SETTABLE_FLAGS;
pub use zfs::{
    FormatSpec, FreedListener, MASTER_NODE, Settled, Space, SpaceReport, ZPL_VERSION, Zfs, ZfsParts,
};
pub use znode::Attributes;

#[cfg(test)]
mod tests;
