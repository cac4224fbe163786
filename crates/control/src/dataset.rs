//! A dataset as commands see it.

use crate::{Props, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a dataset is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatasetKind {
    /// Files and directories.
    Filesystem,
    /// A block device.
    Volume,
    /// A frozen state of either.
    Snapshot,
    /// A note of where a snapshot was.
    Bookmark,
}

impl DatasetKind {
    /// The word users see.
    pub fn word(self) -> &'static str {
        match self {
            Self::Filesystem => "filesystem",
            Self::Volume => "volume",
            Self::Snapshot => "snapshot",
            Self::Bookmark => "bookmark",
        }
    }
}

/// A dataset and all its properties.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetInfo {
    /// Full name, from the pool on.
    pub name: String,
    /// What it is.
    pub kind: DatasetKind,
    /// Transaction group that created it.
    pub createtxg: u64,
    /// Properties, with where each value comes from.
    pub props: Props,
    /// The values that came with a stream, if the request asked for them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub received: BTreeMap<String, Value>,
}

/// What making a dataset came to, or would come to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetMade {
    /// There was one already, and that was to do.
    pub existed: bool,
    /// What was set on it, as it was typed, or as exact numbers.
    pub props: Vec<(String, String)>,
    /// What whoever asked for it may want to think about.
    pub warnings: Vec<String>,
}

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountInfo {
    /// Dataset.
    pub dataset: String,
    /// Directory.
    pub mountpoint: String,
}

/// The pool a dataset is in.
pub fn pool_of(dataset: &str) -> &str {
    dataset.split(['/', '@', '#']).next().unwrap_or(dataset)
}
