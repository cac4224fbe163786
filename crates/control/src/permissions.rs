//! Requests about permissions that are delegated, and those that may be made by whom they are delegated to.

use crate::call::{Call, calls};
use crate::*;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

calls! {
    /// Permissions that were delegated on a dataset and those above it, the nearest first.
    show DatasetPermissions at "/v1/dataset/permissions" gives Vec<Delegations> {
        /// A file system or volume.
        name: String,
    }

    /// Delegates permissions, or takes them back.
    change DatasetAllow at "/v1/dataset/allow" of name to "set permissions on" name may Allow gives () {
        /// A file system or volume.
        name: String,
        /// Take them back.
        take_back: bool,
        /// And from all below it.
        recursive: bool,
        /// Permissions by key, as the format has them; none: all of that key.
        changes: BTreeMap<String, Option<BTreeSet<String>>>,
    }
}

/// What was delegated on one dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Delegations {
    /// Its name.
    pub dataset: String,
    /// Permissions by key, as the format has them: `ul$1000`, `s-$@set`.
    pub granted: BTreeMap<String, BTreeSet<String>>,
}

/// A user other than the daemon's own, who asks for something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Peer {
    /// User.
    pub uid: u32,
    /// All groups, the first one too.
    pub gids: Vec<u32>,
}

impl From<&Peer> for u32 {
    fn from(peer: &Peer) -> Self {
        peer.uid
    }
}

impl From<&Peer> for Peer {
    fn from(peer: &Peer) -> Self {
        peer.clone()
    }
}

/// What other users than the daemon's own may ask for, if that was delegated to them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each is the request of its name")]
pub enum Delegated {
    AbortReceive(DatasetReceiveAbort),
    Accounts(DatasetAccounts),
    Allow(DatasetAllow),
    Bookmark(BookmarkCreate),
    Clone(DatasetClone),
    Create(DatasetCreate),
    Destroy(DatasetDestroy),
    DestroyBookmark(BookmarkDestroy),
    DestroySnapshots(SnapshotDestroy),
    Hold(SnapshotHold),
    Inherit(DatasetInherit),
    Note(PoolNote),
    Promote(DatasetPromote),
    Receive(DatasetReceive),
    Release(SnapshotRelease),
    Rename(DatasetRename),
    RollBack(DatasetRollback),
    Send(DatasetSend),
    Set(DatasetSet),
    Snapshot(SnapshotCreate),
}

impl Delegated {
    /// Returns the pool that the request is about.
    #[must_use]
    pub fn pool(&self) -> &str {
        pool_of(match self {
            Self::AbortReceive(call) => &call.name,
            Self::Accounts(call) => &call.name,
            Self::Allow(call) => &call.name,
            Self::Bookmark(call) => &call.name,
            Self::Clone(call) => &call.name,
            Self::Create(call) => &call.name,
            Self::Destroy(call) => &call.name,
            Self::DestroyBookmark(call) => &call.name,
            Self::DestroySnapshots(call) => &call.dataset,
            Self::Hold(call) => &call.name,
            Self::Inherit(call) => &call.name,
            Self::Note(call) => &call.pool,
            Self::Promote(call) => &call.name,
            Self::Receive(call) => &call.target,
            Self::Release(call) => &call.name,
            Self::Rename(call) => &call.name,
            Self::RollBack(call) => &call.snapshot,
            Self::Send(call) => &call.snapshot,
            Self::Set(call) => &call.name,
            Self::Snapshot(call) => &call.pool,
        })
    }
}
