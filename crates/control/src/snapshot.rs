//! Requests about snapshots and what holds them.

use crate::call::{Call, calls};
use crate::{Failure, FailureKind, NameValue};
use serde::{Deserialize, Serialize};

calls! {
    /// Makes snapshots: all of them in one transaction group, or none.
    change SnapshotCreate at "/v1/snapshot/create" of pool to "create snapshots in" pool may Snapshot gives () {
        /// Pool that all are in.
        pool: String,
        /// Full names.
        names: Vec<String>,
        /// And one of the same name of every dataset below.
        recursive: bool,
        /// User properties that each gets.
        props: Vec<NameValue>,
    }

    /// Destroys snapshots of a dataset, all of them or none; with clones, as many as can be.
    change SnapshotDestroy at "/v1/snapshot/destroy" of dataset unless dry_run to "destroy snapshots of" dataset may DestroySnapshots
       gives SnapshotsGoing {
        /// A file system or volume.
        dataset: String,
        /// Which: `a`, `a%b` with all between (open at either end), and lists of such with `,`.
        snapshots: String,
        /// And those of all datasets below.
        recursive: bool,
        /// And all clones of them with what is below these.
        clones: bool,
        /// What is held or cloned goes when nobody needs it any more, instead of being refused.
        defer: bool,
        /// Unmount clones by force.
        force: bool,
        /// Tell what would go, and change nothing.
        dry_run: bool,
    }

    /// Keeps a snapshot from being destroyed.
    change SnapshotHold at "/v1/snapshot/hold" of name to "hold snapshot" name may Hold gives () {
        /// Full name.
        name: String,
        /// What the hold is called.
        tag: String,
        /// And those of the same name of all datasets below.
        recursive: bool,
    }

    /// Takes a hold back.
    change SnapshotRelease at "/v1/snapshot/release" of name to "release hold from snapshot" name may Release gives () {
        /// Full name.
        name: String,
        /// What the hold is called.
        tag: String,
        /// And on those of the same name of all datasets below.
        recursive: bool,
    }

    /// What holds a snapshot.
    show SnapshotHolds at "/v1/snapshot/holds" gives Vec<HeldSnapshot> {
        /// Full name.
        name: String,
        /// And those of the same name of all datasets below; it need not be there itself.
        recursive: bool,
    }
}

/// Snapshots that are, or would be, destroyed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotsGoing {
    /// Full names: dataset by dataset, the oldest first.
    pub snapshots: Vec<String>,
    /// Clones that go before them, with what is below these; in the order in which they go.
    pub clones: Vec<String>,
    /// Of a dry run: bytes that nobody else has.
    pub reclaimed_bytes: u64,
}

/// A snapshot and what holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeldSnapshot {
    /// Full name.
    pub name: String,
    /// Holds; there may be none.
    pub holds: Vec<HoldInfo>,
}

/// A hold on a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HoldInfo {
    /// What it is called.
    pub tag: String,
    /// Since when, in seconds since 1970.
    pub since_secs: u64,
}
