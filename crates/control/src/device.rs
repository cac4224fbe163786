//! The requests about one device of a pool.

use crate::call::{Call, NameValue, calls};
use crate::{Failure, FailureKind, VdevState};
use serde::{Deserialize, Serialize};

calls! {
    /// Puts a device beside another, as its mirror or in its place.
    change PoolAttach at "/v1/pool/attach" of pool to "attach to" pool gives () {
        /// Pool.
        pool: String,
        /// The device that is there, as it was called.
        device: String,
        /// Which vdev that is, spares and caches too; none of the pool's when it is absent.
        vdev: Option<u64>,
        /// The new device, as it was called.
        new_device: String,
        /// Its full path.
        path: String,
        /// It takes the place of the other.
        replace: bool,
        /// Properties: only `ashift`.
        props: Vec<NameValue>,
        /// Take a device that only looks used.
        force: bool,
        /// Write to it in order of place, where that can be done.
        sequential: bool,
    }

    /// Lets go of a device that others are copies of.
    change PoolDetach at "/v1/pool/detach" of pool to "detach from" pool gives () {
        /// Pool.
        pool: String,
        /// The device, as it was called.
        device: String,
        /// Which vdev that is, spares and caches too; none of the pool's when it is absent.
        vdev: Option<u64>,
    }

    /// Takes a device out of use.
    change PoolOffline at "/v1/pool/offline" of pool to "offline a device of" pool gives () {
        /// Pool.
        pool: String,
        /// The device, as it was called.
        device: String,
        /// Which vdev that is, spares and caches too; none of the pool's when it is absent.
        vdev: Option<u64>,
        /// As if it had failed.
        fault: bool,
        /// Until the next import at most.
        temporary: bool,
    }

    /// Brings a device back into use; says how it is then.
    change PoolOnline at "/v1/pool/online" of pool to "online a device of" pool gives DeviceState {
        /// Pool.
        pool: String,
        /// The device, as it was called.
        device: String,
        /// Which vdev that is, spares and caches too; none of the pool's when it is absent.
        vdev: Option<u64>,
        /// Use all of it, if it has become larger.
        expand: bool,
    }

    /// Gives a pool another guid.
    change PoolReguid at "/v1/pool/reguid" of pool to "reguid" pool gives () {
        /// Pool.
        pool: String,
        /// Which; one is drawn when it is absent.
        guid: Option<u64>,
    }

    /// Splits a pool: a device of each mirror leaves for a pool of its own, which is exported.
    change PoolSplit at "/v1/pool/split" of pool unless dry_run to "split" pool gives SplitOff {
        /// Pool.
        pool: String,
        /// What the new one is called.
        new_name: String,
        /// Who leaves, of some of the mirrors; of others it is the last.
        vdevs: Vec<u64>,
        /// Properties of the new pool.
        props: Vec<NameValue>,
        /// Only say who would leave.
        dry_run: bool,
    }

    /// Reads tables of shared blocks ahead, so that they are in memory.
    change PoolPrefetch at "/v1/pool/prefetch" of pool to "prefetch" pool gives () {
        /// Pool.
        pool: String,
        /// Which tables.
        table: SharedTable,
    }

    /// Looks for all devices of a pool again.
    change PoolReopen at "/v1/pool/reopen" of pool to "reopen" pool gives () {
        /// Pool.
        pool: String,
    }
}

/// Tables that count the references of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedTable {
    /// Of deduplicated blocks (DDT).
    #[default]
    Ddt,
    /// Of cloned blocks (BRT).
    Brt,
}

/// What was split off a pool, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitOff {
    /// Its guid; 0 if it was not made.
    pub guid: u64,
    /// Its devices, in the order of its vdevs.
    pub vdevs: Vec<u64>,
    /// Where they are.
    pub paths: Vec<String>,
}

/// How a device is after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceState {
    /// Its state.
    pub state: VdevState,
}
