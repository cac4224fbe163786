//! The request that tells what is different between states of a file system.

use crate::call::{Call, calls};
use crate::{Failure, FailureKind};
use serde::{Deserialize, Serialize};

calls! {
    /// Writes what changed in a file system since a snapshot, a line for each change: they come before the answer.
    change DatasetDiff at "/v1/dataset/diff" to "diff" dataset as Stream gives () {
        /// The file system whose later state is looked at.
        dataset: String,
        /// Full name of the snapshot.
        from: String,
        /// Full name of a later one; none for what the file system is now.
        to: Option<String>,
        /// With the kind of each object.
        kinds: bool,
        /// With the time at which each was last changed.
        times: bool,
        /// Tabs instead of arrows.
        scripted: bool,
        /// Names as they are.
        unescaped: bool,
        /// Names the snapshot that is made for the time being.
        process: u64,
    }
}
