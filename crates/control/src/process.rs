//! Requests that only the daemon makes, of the process that holds one of its pools.

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

    /// Lists the datasets that are to be mounted, as pairs of a mount point and a dataset, in the order of
    /// the mount points.
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
    /// The paths of its devices.
    pub devices: Vec<String>,
    /// The paths of its hot spares.
    pub spares: Vec<String>,
}

/// Datasets that are to be mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DueMounts {
    /// Pairs of a mount point and a dataset.
    pub mounts: Vec<(String, String)>,
    /// The first dataset that cannot be mounted, and why.
    pub failure: Option<Failure>,
}
