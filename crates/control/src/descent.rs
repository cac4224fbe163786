//! Requests about what becomes of a snapshot: its dataset as it was, a clone, a clone in its origin's place, a bookmark.

use crate::call::{Call, calls};
use crate::{Failure, FailureKind, NameValue, Peer};
use serde::{Deserialize, Serialize};

calls! {
    /// Makes a dataset what it was when a snapshot of it was made.
    change DatasetRollback at "/v1/dataset/rollback" of snapshot to "rollback to" snapshot may RollBack gives () {
        /// Full name of the snapshot.
        snapshot: String,
        /// Destroy snapshots and bookmarks that are newer.
        newer: bool,
        /// Destroy clones of those, too.
        clones: bool,
        /// Unmount by force.
        force: bool,
    }

    /// Makes a dataset of a snapshot.
    change DatasetClone at "/v1/dataset/clone" of name to "create" name may Clone by maker gives () {
        /// Full name of the snapshot.
        snapshot: String,
        /// Full name of the clone.
        name: String,
        /// Properties.
        props: Vec<NameValue>,
        /// Make missing parents, and do not mind that it exists.
        parents: bool,
        /// Who makes it, where that is not the daemon's own user.
        maker: Option<Peer>,
    }

    /// Has a clone change places with what it is a clone of.
    change DatasetPromote at "/v1/dataset/promote" of name to "promote" name may Promote gives () {
        /// Full name.
        name: String,
    }

    /// Notes where a snapshot was, so that it can go.
    change BookmarkCreate at "/v1/bookmark/create" of name to "create bookmark" name may Bookmark gives () {
        /// Full name of a snapshot, or of another bookmark.
        source: String,
        /// Full name of the bookmark.
        name: String,
    }

    /// Makes a bookmark that tells what of a snapshot some of its clones have all changed.
    change BookmarkRedact at "/v1/bookmark/redact" of snapshot to "redact" snapshot gives () {
        /// Full name of the snapshot.
        snapshot: String,
        /// What follows the `#` in the bookmark's name.
        bookmark: String,
        /// Full names of snapshots of clones.
        by: Vec<String>,
    }

    /// Destroys a bookmark.
    change BookmarkDestroy at "/v1/bookmark/destroy" of name to "destroy bookmark" name may DestroyBookmark gives () {
        /// Full name.
        name: String,
    }
}
