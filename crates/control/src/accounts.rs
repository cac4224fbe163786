//! Requests about who uses how much of a file system.

use crate::call::{Call, calls};
use crate::{Failure, FailureKind};
use serde::{Deserialize, Serialize};

calls! {
    /// What owners use of a file system or snapshot, as of its last synced transaction group, and what they may.
    change DatasetAccounts at "/v1/dataset/accounts" to "get used/quota for" name may Accounts gives Vec<Account> {
        /// Full name.
        name: String,
        /// Whose accounts.
        of: Vec<Owner>,
        /// Only that of this number, which is told even where it uses nothing.
        id: Option<u64>,
    }
}

calls! {
    /// How many files without a name a mounted file system has still to free, or programs still have open.
    show DatasetDeleting at "/v1/dataset/deleting" gives u64 {
        /// Full name.
        name: String,
    }
}

/// To whom space is charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// The owner of files.
    #[default]
    User,
    /// Their group.
    Group,
    /// The project that they are part of.
    Project,
}

/// What somebody uses and may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Account {
    /// What the number is of.
    pub owner: Owner,
    /// Number.
    pub id: u64,
    /// Space in bytes, where that is counted.
    pub space: Option<Used>,
    /// Objects, where they are counted.
    pub objects: Option<Used>,
}

/// What is used of something, and its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Used {
    /// Used.
    pub used: u64,
    /// Limit; 0 is none.
    pub quota: u64,
}
