//! Requests that only the daemon makes, of the process that holds one of its pools.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::call::{Call, calls};
use crate::{Delegated, Failure, Mount, Peer};

calls! {
    /// Whether another user than the daemon's own may have something done.
    change ProcessPermit at "/v1/process/permit" gives bool {
        /// The user who asks.
        peer: Peer,
        /// What the user asks for. Nothing is permitted without it.
        delegated: Option<Delegated>,
    }

    /// A user has changed a pool. One line of the user's may be added to the history of the pool.
    change ProcessLetNote at "/v1/process/let-note" gives () {
        /// The user.
        uid: u32,
        /// The pool, or a dataset of the pool.
        subject: String,
    }

    /// Lists the mounts that are to be made, in the order of the mount points: the mounts that the
    /// properties ask for, and the mounts whose server was killed.
    change ProcessDueMounts at "/v1/process/due-mounts" gives DueMounts {
        /// The pool.
        pool: String,
        /// As the command was given. The dataset is ignored.
        mount: Mount,
    }

    /// Lists what the pools of the process hold.
    change ProcessHoldings at "/v1/process/holdings" gives Vec<Holdings> {}

    /// Says what the pools of other processes hold, in place of what was said before.
    change ProcessSiblings at "/v1/process/siblings" gives () {
        /// The pools.
        siblings: Vec<Holdings>,
    }

    /// Lists the devices that have labels of pools, and reads nothing else of the devices.
    change ProcessFind at "/v1/process/find" gives Vec<FoundDevice> {
        /// Directories or devices to search; where empty, `/dev`.
        search: Vec<String>,
    }

    /// Stops background work of the pool for a while, or lets the work go on.
    change ProcessHold at "/v1/process/hold" gives () {
        /// Scrubs, error scrubs and resilvers.
        scans: bool,
        /// Removals of vdevs.
        removals: bool,
    }

    /// Sets the memory that the process takes for its pool.
    change ProcessMemory at "/v1/process/memory" gives () {
        /// The memory in bytes.
        bytes: u64,
    }
}

/// A device with the label of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FoundDevice {
    /// Its path.
    pub path: String,
    /// The name and the guid of the pool. Labels of hot spares and of cache devices name no pool.
    pub pool: Option<(String, u64)>,
}

/// What an open pool holds that no other pool may have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Holdings {
    /// The name of the pool.
    pub pool: String,
    /// Its guid.
    pub guid: u64,
    /// The paths of its devices, without those of [`Self::absent`].
    pub devices: Vec<String>,
    /// The paths of devices that the pool cannot open, or whose labels are of another pool now.
    pub absent: Vec<String>,
    /// The paths of its hot spares.
    pub spares: Vec<String>,
}

/// Datasets that are to be mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DueMounts {
    /// The mounts.
    pub mounts: Vec<DueMount>,
    /// The first dataset that cannot be mounted, and why.
    pub failure: Option<Failure>,
}

/// A mount that is to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DueMount {
    /// The mount point.
    pub place: String,
    /// The request that makes the mount.
    pub mount: Mount,
}

impl DueMount {
    /// Returns the key by which due mounts are sorted. The file system with the mount point comes
    /// before the file system that is mounted there.
    #[must_use]
    pub fn order(&self) -> (&Path, Option<&str>) {
        (Path::new(&self.place), self.mount.dataset.as_deref())
    }
}
