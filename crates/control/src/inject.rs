//! Requests about faults on order (`zinject`).

use crate::call::{Call, calls};
use serde::{Deserialize, Serialize};

calls! {
    /// All faults that are on order.
    show InjectList at "/v1/inject/list" gives Vec<InjectHandler> {}

    /// Has all open pools forget the blocks that were read.
    change InjectFlush at "/v1/inject/flush" gives () {}

    /// Puts one on order; gives its number.
    change InjectAdd at "/v1/inject/add" gives u64 {
        /// Pool.
        pool: String,
        /// Guid of the device; 0 for blocks.
        vdev: u64,
        /// The blocks, if it is not for a device.
        blocks: Option<InjectBlocks>,
        /// What is to go wrong.
        order: InjectOrder,
    }

    /// Takes one back, or all.
    change InjectCancel at "/v1/inject/cancel" gives () {
        /// Its number; none means all.
        id: Option<u64>,
    }

    /// Declares a device degraded, or faulted.
    change InjectAction at "/v1/inject/action" gives () {
        /// Pool.
        pool: String,
        /// Guid of the device.
        vdev: u64,
        /// Faulted.
        fault: bool,
    }
}

/// The blocks of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InjectBlocks {
    /// File system or snapshot.
    pub dataset: String,
    /// Number of its objset. The answer has it, a request need not.
    pub objset: u64,
    /// Number of the object; with `is_dnode`, the object whose dnode is meant.
    pub object: u64,
    /// The block of the dnode of the object, and not blocks of the object.
    pub is_dnode: bool,
    /// Height in the tree of blocks; 0 is data.
    pub level: u8,
    /// First and last byte of the range; without it, all blocks of the level.
    pub range: Option<(u64, u64)>,
}

/// What is to go wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InjectOrder {
    /// How.
    pub fault: InjectFault,
    /// With which requests.
    pub requests: InjectRequests,
    /// With how many of 2^32-1 of them.
    pub frequency: u32,
    /// A request that is made once more is spared.
    pub spares_retries: bool,
}

/// How it is to go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InjectFault {
    /// The device is gone.
    #[default]
    Nxio,
    /// An error after the request was done.
    Io,
    /// An error, and the request is not done.
    IoPrefail,
    /// No error, and the request is not done.
    Noop,
    /// A bit of what was read is flipped.
    Corrupt,
    /// Of blocks: no copy has the right checksum.
    Checksum,
    /// It takes longer.
    Delay {
        /// So long at least.
        latency_millis: u64,
        /// So many requests at a time.
        lanes: u64,
    },
}

/// Which requests go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InjectRequests {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes.
    Flush,
    /// Discards.
    Trim,
    /// All.
    #[default]
    All,
}

/// A fault on order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InjectHandler {
    /// Its number.
    pub id: u64,
    /// Pool.
    pub pool: String,
    /// Guid of the device; 0 for blocks.
    pub vdev: u64,
    /// The blocks, if it is not for a device.
    pub blocks: Option<InjectBlocks>,
    /// What goes wrong.
    pub order: InjectOrder,
    /// How many requests it was for.
    pub matched: u64,
    /// With how many it went wrong.
    pub injected: u64,
}
