//! Requests about what devices have free, and how far they are swept.

use crate::call::{Call, calls};
use crate::{Failure, FailureKind};
use serde::{Deserialize, Serialize};

calls! {
    /// Writes a pattern where a device has nothing, or stops that.
    change PoolInitialize at "/v1/pool/initialize" of pool to "initialize" pool gives () {
        /// Pool.
        pool: String,
        /// Devices: guid, and what it was called.
        devices: Vec<(u64, String)>,
        /// What to do.
        order: SweepOrder,
    }

    /// Tells devices to forget what they have free, or stops that.
    change PoolTrim at "/v1/pool/trim" of pool to "trim" pool gives () {
        /// Pool.
        pool: String,
        /// Devices: guid, and what it was called.
        devices: Vec<(u64, String)>,
        /// They are all of the pool's: those that cannot forget are passed over.
        whole_pool: bool,
        /// What to do.
        order: SweepOrder,
        /// Bytes a second at most; 0 for what was said before, or as many as can be.
        rate: u64,
        /// What is forgotten is to be gone for good.
        secure: bool,
    }
}

/// What to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SweepOrder {
    /// Begin, or go on.
    #[default]
    Start,
    /// Wait until it is started again.
    Suspend,
    /// End.
    Cancel,
    /// Be as if it had never been.
    Forget,
}

/// How a device stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SweepState {
    /// Never swept.
    #[default]
    None,
    /// Being swept.
    Active,
    /// Not to its end.
    Canceled,
    /// Until somebody says so.
    Suspended,
    /// To its end.
    Complete,
}

/// How far a device is swept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SweepInfo {
    /// How it stands.
    pub state: SweepState,
    /// Bytes that are free and done.
    pub done_bytes: u64,
    /// Bytes that are free.
    pub total_bytes: u64,
    /// When it began, or ended: seconds since 1970.
    pub changed_secs: u64,
    /// What the device did not do.
    pub errors: u64,
}

impl SweepInfo {
    /// How much of it is done, in percent.
    pub fn percent(&self) -> u64 {
        match self.state {
            SweepState::Complete => 100,
            _ => (u128::from(self.done_bytes) * 100 / (u128::from(self.total_bytes) + 1)) as u64,
        }
    }
}
